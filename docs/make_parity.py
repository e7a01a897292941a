"""Writes `parity.md`: which of DALI's names and arguments are here, by a record of them.

    python docs/make_parity.py

`tests/record_names.py` makes the record from the real DALI. Names that are not here have a line of reason in the table
"Not here" of `differences.md`; a test compares both, and the page with this text.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import dynamic
from dynamic._lift.argument import IGNORED
from dynamic.pipeline import Pipeline, types
from dynamic.pipeline._names import paths

PAGE = Path(__file__).parent / "parity.md"
DIFFERENCES = PAGE.with_name("differences.md")
RECORD = PAGE.parent.parent / "tests" / "data" / "names_dali_2_4.json"


class Kind(NamedTuple):
    """Names of DALI of one kind.

    Attributes:
        title: In the table.
        names: How many there are.
        missing: Those that are not here, as `differences.md` spells them.
        lost: How many more are missing with the operators that have them.
    """

    title: str
    names: int
    missing: list[str]
    lost: int = 0


def _taken(path: str, function: Any) -> set[str]:
    """The arguments that a function here takes."""
    former = path.removeprefix("experimental.")
    return {*inspect.signature(function).parameters, *IGNORED.get(path, ()), *IGNORED.get(former, ())}


def _called(title: str, declared: Mapping[str, list[str]]) -> Iterator[Kind]:
    """Operators or readers, and their arguments; those of a missing one are missing with it."""
    absent: list[str] = []
    unknown: list[str] = []
    lost = 0
    for path, arguments in declared.items():
        try:
            function = attrgetter(path)(dynamic)
        except AttributeError:
            absent.append(path)
            lost += len(arguments)
        else:
            taken = _taken(path, function)
            unknown += [f"{path}({name}=)" for name in arguments if name not in taken]
    yield Kind(title, len(declared), absent)
    count = sum(map(len, declared.values()))
    yield Kind(f"Arguments of {title.lower()}", count, unknown, lost)


def _of(title: str, prefix: str, names: Iterable[str], owner: Any) -> Kind:
    """Attributes of an object."""
    names = list(names)
    return Kind(title, len(names), [prefix + name for name in names if not hasattr(owner, name)])


class _First:
    """The attributes of several modules."""

    def __init__(self, *modules: Any) -> None:
        self._modules = modules

    def __getattr__(self, name: str) -> Any:
        return getattr(next((m for m in self._modules if hasattr(m, name)), self._modules[0]), name)


class _Class:
    """The members of pipelines, without asking one for its values."""

    def __getattr__(self, name: str) -> Any:
        instance = vars(Pipeline(batch_size=1, function=tuple))
        return instance[name] if name in instance else getattr(Pipeline, name)


def kinds() -> list[Kind]:
    """Every kind, with the names that are missing."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    here = set(paths())
    absent = [f"fn.{name}" for name in record["fn"] if name not in here]
    return [
        *_called("Operators", record["operators"]),
        *_called("Readers", record["readers"]),
        _of("Other names of dynamic mode", "", record["others"], dynamic),
        Kind("Functions of `fn`", len(record["fn"]), absent),
        _of("Members of `Pipeline`", "Pipeline.", record["Pipeline"], _Class()),
        _of("Names of `types`", "types.", record["types"], types),
        _of("Names of `plugin.pytorch`", "plugin.pytorch.", record["pytorch"], dynamic.pytorch),
        _of("Names of `plugin.jax`", "plugin.jax.", record["jax"], _First(dynamic.jax, dynamic.jax.fn)),
    ]


def explained() -> dict[str, str]:
    """The reason of each name in the table "Not here" of `differences.md`."""
    _, _, section = DIFFERENCES.read_text(encoding="utf-8").partition("\n## Not here\n")
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", section, re.M)
    return {name: reason for names, reason in rows for name in re.findall(r"`([^`]+)`", names)}


def page() -> str:
    """The text of the page."""
    found = kinds()
    rows = [f"| {kind.title} | {kind.names - kind.lost - len(kind.missing)} | {kind.names} |" for kind in found]
    left = "\n".join(f"- {kind.title}: {', '.join(f'`{x}`' for x in kind.missing)}" for kind in found if kind.missing)
    return f"""\
# Names of DALI

This table counts the public names of NVIDIA DALI 2.4 that `dynamic` has too. [Agreement](agreement.md) measures whether
their results are equal.

| names of DALI | here | of |
|---|---|---|
{chr(10).join(rows)}

Arguments count without `batch_size` and `device`, which every operator has. They count as here too where `dynamic`
takes them without effect, such as the sizes of buffers; the pages of [operators](operators.md) mark these.

## Missing names

[Differences](differences.md#not-here) gives the reason for each.

{left}

`python docs/make_parity.py` writes this page. It compares the declarations of `dynamic` with a record of DALI's names,
which `tests/record_names.py` asks the real DALI for.
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
