"""The size and shape of the code: lines, rooms and floors, private accesses, `Any`, comments, parameters.

    python benchmarks/structure.py [CHECKOUT ...]

Read from the files of one or more checkouts, side by side.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
WHAT_CLAUSE = re.compile(r"\bwhat\b", re.IGNORECASE)


def files(root: Path, folder: str) -> list[Path]:
    """The Python files of a folder."""
    return sorted((root / folder).rglob("*.py"))


def room_of(module: str) -> str:
    """The folder, or the module of the top level, that a module is in."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def imports(root: Path) -> Iterator[tuple[str, str]]:
    """Each import inside the package, as the rooms of both modules."""
    for path in files(root, "dynamic"):
        package = path.relative_to(root).parent.parts
        name = ".".join((*package, "" if path.stem == "__init__" else path.stem)).strip(".")
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom):
                start = package[: len(package) - node.level + 1] if node.level else ()
                base = ".".join([*start, *(node.module or "").split(".")]).strip(".")
                for alias in node.names:
                    full = f"{base}.{alias.name}"
                    if base == "dynamic" or base.startswith("dynamic."):
                        target = full if base == "dynamic" else base
                        if room_of(target) != room_of(name) and name != "dynamic":
                            yield room_of(name), room_of(target)


def floors(arrows: set[tuple[str, str]]) -> tuple[int, int]:
    """The number of floors, and of imports that run in a circle."""
    below: dict[str, set[str]] = {}
    for room, other in arrows:
        below.setdefault(room, set()).add(other)
        below.setdefault(other, set())
    level: dict[str, int] = {}
    back = 0

    def climb(room: str, path: tuple[str, ...]) -> int:
        nonlocal back
        if room in path:
            back += 1
            return 0
        if room not in level:
            level[room] = 1 + max((climb(other, (*path, room)) for other in sorted(below[room])), default=0)
        return level[room]

    return max(climb(room, ()) for room in sorted(below)), back


def private_accesses(root: Path) -> int:
    """Names with one underscore that a module takes from a package that is not its own."""
    count = 0
    for path in files(root, "dynamic"):
        tree = ast.parse(path.read_text())
        own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_self(node.value)}
        own |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        own |= {name.id for name in ast.walk(tree) if isinstance(name, ast.Name)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr) and not _is_self(node.value):
                count += node.attr not in own
    return count


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}


def comments(path: Path) -> int:
    """Lines that are a comment, without those for tools."""
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    words = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return sum(not re.match(r"# (fmt|noqa|type|mypy|pragma)", word) for word in words)


def measured(root: Path) -> dict[str, str]:
    """Every figure of one checkout."""
    package, tests = files(root, "dynamic"), files(root, "tests")
    text = "\n".join(path.read_text() for path in package)
    lines = text.count("\n")
    arrows = set(imports(root))
    height, back = floors(arrows)
    lift = next(p for p in package if re.search(r"^def operator\(", p.read_text(), re.M))
    tree = ast.parse(lift.read_text())
    declared = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "operator")
    return {
        "lines of the package": str(lines),
        "lines of the tests": str(sum(path.read_text().count("\n") for path in tests)),
        "modules": str(len(package)),
        "rooms": str(len({room for pair in arrows for room in pair})),
        "floors": str(height),
        "imports that run upwards": str(back),
        "imports between rooms": str(len(arrows)),
        "parameters of operator()": str(len(declared.args.kwonlyargs) + len(declared.args.args)),
        "private accesses": str(private_accesses(root)),
        "`Any` in 1,000 lines": f"{1000 * len(re.findall(r'[^a-zA-Z_]Any[^a-zA-Z_]', text)) / lines:.0f}",
        "lines for one comment": f"{lines / sum(map(comments, package)):.0f}",
        "`what`": str(len(WHAT_CLAUSE.findall(text))),
        "`fmt: skip`": str(text.count("# fmt: skip")),
        "file-wide switches of the type checker": str(text.count("# mypy: disable")),
    }


def main() -> None:
    """Print the table."""
    roots = [Path(argument) for argument in sys.argv[1:]] or [HERE]
    columns = [measured(root) for root in roots]
    for name in columns[0]:
        print(f"{name:40}" + "".join(f"{column[name]:>12}" for column in columns))


if __name__ == "__main__":
    main()
