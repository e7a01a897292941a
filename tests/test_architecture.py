"""The shape of the code: floors and what importing it costs, read from the files."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import make_floors
import pytest
from make_floors import MODULES, floors, imported_modules, imported_rooms

#: What a user calls; these rooms never import each other.
FAMILIES = ("checkpoint", "decoders", "math", "noise", "ops", "readers", "reductions", "segmentation", "transforms")
MOST_FLOORS = 14


def test_the_page_has_the_floors():
    hint = "run `python docs/make_floors.py`"
    assert make_floors.PAGE.read_text() == make_floors.page(), hint


def test_no_imports_run_in_a_circle():
    """Neither of modules nor of rooms: then no room imports one above it."""
    floors(imported_modules())
    assert max(floors(imported_rooms()).values()) <= MOST_FLOORS


def test_families_never_import_each_other():
    assert not {(name, other) for name in FAMILIES for other in imported_rooms()[name].intersection(FAMILIES)}


def test_a_circle_is_told():
    with pytest.raises(ValueError, match="in a circle: b -> c -> b"):
        floors({"a": {"b"}, "b": {"c"}, "c": {"b"}})
    assert floors({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": 3, "b": 2, "c": 1}


def test_locks_are_open_in_a_forked_child():
    """Only `_base.locks` makes any."""
    locks = {"Lock", "RLock", "Semaphore", "BoundedSemaphore"}
    for name in MODULES.keys() - {"_base.locks"}:
        nodes = list(ast.walk(ast.parse(MODULES[name].read_text())))
        named = [node for node in nodes if isinstance(node, ast.Attribute)]
        words = {node.attr for node in named if getattr(node.value, "id", "") != "asyncio"}  # of one thread's loop
        words |= {node.name for node in nodes if isinstance(node, ast.alias)}
        assert not words & locks, name


def test_the_lift_is_small_and_knows_no_operator():
    """To declare an operator takes few words, and the lift has none for a single one."""
    from dynamic._lift.operator import operator, registry

    assert len(inspect.signature(operator).parameters) <= 6
    for name, path in MODULES.items():
        if name.startswith("_lift."):
            nodes = list(ast.walk(ast.parse(path.read_text())))
            words = {node.id for node in nodes if isinstance(node, ast.Name)}
            words |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
            assert not words & (set(registry) - {"copy", "slice", "filter"}), name


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_takes_no_optional_library_and_little_time():
    loaded = run("import sys, dynamic; print(*sys.modules)").split()
    assert not {"cupy", "torch", "jax", "ray", "tensorflow", "scipy", "PIL"} & set(loaded)
    later = ["auto_aug", "jax", "pipeline", "pytorch", "ray", "tensorflow", "testing"]
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
