"""The shape of the code: floors and what importing it costs, read from the files."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "dynamic"

#: A module imports from lower floors only; a family (`ops.*`) is one floor, and its modules may use each other.
FLOORS = [
    ["errors", "types"],
    ["_base.*", "dtypes"],
    ["devices"],
    ["_arrays.*"],
    ["kernels.*"],
    ["data.*"],
    ["_argument"],
    ["_call", "_frames"],
    ["_operator"],
    ["random.*"],
    ["io.*"],
    [
        "ops.*",
        "noise",
        "decoders.*",
        "math",
        "reductions",
        "transforms",
        "segmentation",
        "readers.*",
        "checkpoint.*",
    ],
    ["capture", "context", "experimental", "testing"],
    [""],
    ["auto_aug.*"],
    ["pipeline.*"],
    ["pytorch.*", "jax", "tensorflow"],
]
LIFT = 350


def modules() -> dict[str, Path]:
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in ROOT.rglob("*.py")}
    return {"" if n == "__init__" else n.removesuffix(".__init__"): path for path, n in names.items()}


MODULES = modules()
every = pytest.mark.parametrize("name", MODULES)


def floor(name: str) -> int:
    for number, patterns in enumerate(FLOORS):
        for pattern in patterns:
            if name == pattern or (pattern.endswith(".*") and (name + ".").startswith(pattern[:-1])):
                return number
    raise AssertionError(f"{name} is on no floor: add it to FLOORS")


def family(name: str) -> str:
    return name.split(".")[0]


def imports(name: str):
    """Every module of ours that a module imports, wherever in it and for whatever purpose."""
    path = MODULES[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = [p for p in package if p][: len([p for p in package if p]) - node.level + 1]
            elif (node.module or "").split(".")[0] == "dynamic":
                base = []
            else:
                continue
            inner = (node.module or "").split(".") if node.level else (node.module or "").split(".")[1:]
            source = [*base, *(part for part in inner if part)]
            for alias in node.names:
                full = ".".join([*source, alias.name])
                yield node.lineno, full if full in MODULES else ".".join(source)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "dynamic":
                    yield node.lineno, alias.name.removeprefix("dynamic").removeprefix(".")


@every
def test_modules_import_only_from_below(name):
    for line, target in imports(name):
        below = floor(target) < floor(name)
        same = family(name) == family(target) and name != ""
        assert below or same, f"{MODULES[name]}:{line}: {name} imports {target}, which is not below it"


def test_no_import_cycle():
    graph = {name: {target for _, target in imports(name)} - {name} for name in MODULES}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path, name])
        if name not in done:
            for target in graph[name]:
                if target != ".".join(name.split(".")[:-1]) or target == "":
                    visit(target, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@every
def test_locks_are_open_in_a_forked_child(name):
    """Only `_base.locks` makes any."""
    tree = ast.walk(ast.parse(MODULES[name].read_text()))
    words = {node.attr if isinstance(node, ast.Attribute) else node.name for node in tree
             if isinstance(node, (ast.Attribute, ast.alias))}  # fmt: skip
    assert name == "_base.locks" or not words & {"Lock", "RLock", "Semaphore", "BoundedSemaphore"}


def test_the_lift_is_short_and_knows_no_operator():
    from dynamic._operator import registry

    text = MODULES["_operator"].read_text()
    assert len(text.splitlines()) <= LIFT
    words = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    words |= {n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    assert not words & (set(registry) - {"copy", "slice"})


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_takes_no_optional_library_and_little_time():
    loaded = run("import sys, dynamic; print(*sys.modules)").split()
    assert not {"cupy", "torch", "jax", "tensorflow", "scipy", "PIL"} & set(loaded)
    later = ["auto_aug", "jax", "pipeline", "pytorch", "tensorflow", "testing"]
    assert not {f"dynamic.{name}" for name in later} & set(loaded)
    found = run(f"import dynamic; print(*(getattr(dynamic, name).__name__ for name in {later}))").split()
    assert found == [f"dynamic.{name}" for name in later]  # each when it is asked for
    seconds = float(
        run("import numpy, cv2, time\ntry:\n import simplejpeg\nexcept ImportError: pass\n"
            "t = time.process_time(); import dynamic; print(time.process_time() - t)")
    )  # fmt: skip
    assert seconds < 3, f"import dynamic took {seconds} s of CPU"  # a tenth of it on an idle machine


def test_nothing_is_printed_and_the_global_random_state_is_left_alone():
    assert run(
        "import random, numpy; random.seed(1); numpy.random.seed(1)\n"
        "a = random.getstate(), str(numpy.random.get_state())\n"
        "import dynamic; dynamic.random.uniform(batch_size=3)\n"
        "assert a == (random.getstate(), str(numpy.random.get_state()))"
    ) == ""  # fmt: skip
