"""Writes the table of floors in `design.md` from the imports of the package.

    python docs/make_floors.py

A room is a module or a folder of `dynamic/`. It stands one floor above the highest room that it imports. A test
compares the page with this table, and refuses imports that run in a circle.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "dynamic"
PAGE = Path(__file__).parent / "design.md"
BEGIN, END = "<!-- floors: python docs/make_floors.py -->\n", "<!-- end of floors -->\n"

#: The files of all modules by their names within the package, which is itself "".
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix("."): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def imports(name: str) -> Iterator[tuple[int, str]]:
    """The line and the name of each module of the package that a module imports, wherever in it."""
    path = MODULES[name]
    package = [part for part in name.split(".") if part]
    if path.name != "__init__.py":
        package.pop()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            source = (node.module or "").split(".") if node.module else []
            if node.level:
                source = [*package[: len(package) - node.level + 1], *source]
            elif source.pop(0) != PACKAGE.name:
                continue
            for alias in node.names:
                full = ".".join([*source, alias.name])
                yield node.lineno, full if full in MODULES else ".".join(source)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == PACKAGE.name:
                    yield node.lineno, alias.name.removeprefix(PACKAGE.name).removeprefix(".")


def room(name: str) -> str:
    """The room of a module."""
    return name.split(".", maxsplit=1)[0]


@functools.cache
def imported_modules() -> dict[str, set[str]]:
    """The modules that each module imports; a package's own modules import it only by its face."""
    graph = {}
    for name in MODULES:
        own = {name, name.rpartition(".")[0]} if name.count(".") else {name}
        graph[name] = {target for _, target in imports(name)} - own
    return graph


@functools.cache
def imported_rooms() -> dict[str, set[str]]:
    """The other rooms that each room imports."""
    graph: dict[str, set[str]] = {}
    for name, targets in imported_modules().items():
        graph.setdefault(room(name), set()).update(room(target) for target in targets)
    return {name: targets - {name} for name, targets in graph.items()}


def floors(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """The floor of each node of a graph; those that import nothing are on the first.

    Raises:
        ValueError: Imports run in a circle.
    """
    found: dict[str, int] = {}

    def visit(name: str, path: tuple[str, ...]) -> int:
        if name in path:
            raise ValueError("imports run in a circle: " + " -> ".join([*path[path.index(name) :], name]))
        if name not in found:
            found[name] = 1 + max((visit(target, (*path, name)) for target in sorted(graph[name])), default=0)
        return found[name]

    for name in sorted(graph):
        visit(name, ())
    return found


def purpose(name: str) -> str:
    """The first sentence of the docstring of a room."""
    text = ast.get_docstring(ast.parse(MODULES[name].read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".:")


def table() -> str:
    """The table, from the top floor down."""
    found = floors(imported_rooms())
    lines = ["| floor | room | purpose |", "|---|---|---|"]
    for name in sorted(found, key=lambda name: (-found[name], name)):
        label = name + "/" * (MODULES[name].name == "__init__.py") if name else "__init__"
        lines.append(f"| {found[name]} | `{label}` | {purpose(name)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the table of today."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
