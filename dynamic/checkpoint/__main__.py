"""Look at checkpoints from a shell: ``dynamic checkpoint show | diff | verify | scan FILE ...``.

Nothing that a file holds is ever run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from dynamic._base.state import JSON
from dynamic.errors import DataError, DynamicError, StateError, displayed

from ._atomic import read
from ._file import FORMAT, LARGEST, Entry, decoded
from ._verify import verify_epoch
from .legacy import recognise

ABOUT = "Look at checkpoints; run nothing."

_MISSING = "(not there)"
_PHILOX = re.compile("Philox_([0-9A-F]{16})_([0-9A-F]{16}):([0-9A-F]{16})_([0-3])")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0 if all is well, 1 if not, and 2 if a file cannot be read."""
    parser = argparse.ArgumentParser("python -m dynamic.checkpoint", description=ABOUT)
    declare(parser)
    return run(parser.parse_args(arguments))


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the commands for checkpoints to a parser."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    show = commands.add_parser("show", help="print a checkpoint")
    show.add_argument("files", nargs="+", type=Path)
    show.add_argument("--json", action="store_true", help="print all that is in the states, as JSON")
    diff = commands.add_parser("diff", help="print the differences of two checkpoints; 1 if there are any")
    diff.add_argument("files", nargs=2, type=Path)
    verify = commands.add_parser("verify", help="tell whether checkpoints are whole; 1 if one is not")
    verify.add_argument("files", nargs="+", type=Path)
    verify.add_argument(
        "--epoch",
        metavar="NAME",
        help="prove as well, from the reader of this name in the files of "
        "all ranks, that the epoch gave every sample once",
    )
    scan = commands.add_parser("scan", help="tell the kinds of files, in folders too; 1 if there are pickles or damage")
    scan.add_argument("files", nargs="+", type=Path)
    scan.add_argument("--json", action="store_true", help="print a list of objects with path, kind and more, as JSON")
    for command, function in ((show, _show), (diff, _diff), (verify, _verify), (scan, _scan)):
        command.set_defaults(function=function)


def run(chosen: argparse.Namespace) -> int:
    """Call the function of the command that was chosen; gives the exit status."""
    try:
        status: int = chosen.function(chosen)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever reads has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for output as Python ends
        return 2
    except (DynamicError, OSError) as error:
        return _unread(error)


def tell(text: str, file: TextIO | None = None) -> None:
    """Print a line: whatever is in names of files, or in the files, it does nothing else to a terminal."""
    file = file or sys.stdout
    encoding = file.encoding or "utf-8"
    print(displayed(text).encode(encoding, "backslashreplace").decode(encoding), file=file)


def _unread(error: Exception) -> int:
    """Tell why a file cannot be read; gives the exit status."""
    text = str(error)
    for line in text.split("\n") if isinstance(error, DataError) else [text]:  # one for each sample
        tell(line, sys.stderr)
    return 2


def _of_each(files: Iterable[Path], command: Callable[[Path], int]) -> int:
    """The worst exit status of a command for each file; one that cannot be read does not end it."""
    status = 0
    for path in files:
        try:
            status = max(status, command(path))
        except BrokenPipeError:
            raise
        except (StateError, OSError) as error:
            status = _unread(error)
    return status


def _entries(path: Path) -> dict[str, Entry]:
    return decoded(read(path, LARGEST), str(path))


def _lines(value: JSON, *names: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each value in a state, and the keys that lead to it."""
    if isinstance(value, dict) and value:
        for key in value:
            yield from _lines(value[key], *names, key)
    else:
        yield names, repr(value) if isinstance(value, str) else str(value)


def _flat(entries: Mapping[str, Entry]) -> dict[tuple[tuple[str, ...], bool], str]:
    """The type of each object, and the values in its state, by the keys that lead there and whether it is a type."""
    types = {((name,), True): entry.type or "of no known type" for name, entry in entries.items()}
    values = {(keys, False): text for name, entry in entries.items() for keys, text in _lines(entry.state, name)}
    return types | values


def _show(chosen: argparse.Namespace) -> int:
    found: dict[str, Any] = {}

    def show(path: Path) -> int:
        entries = _entries(path)
        if chosen.json:
            found[str(path)] = {name: {"type": entry.type, "state": entry.state} for name, entry in entries.items()}
            return 0
        tell(f"{path}:")
        for name, entry in entries.items():
            kind = f" ({entry.type})" if entry.type else ""
            words = _in_words(entry.state)
            tell(f"  {name}{kind}: {words}" if words else f"  {name}{kind}:")
            for keys, text in () if words else _lines(entry.state):
                tell(f"    {'.'.join(keys)}: {text}" if keys else f"    {text}")
        return 0

    status = _of_each(chosen.files, show)
    if chosen.json:
        tell(json.dumps(found))
    return status


def _in_words(state: JSON) -> str:
    """A state of ours as a person reads it; "" of others."""
    known: Any = state if isinstance(state, dict) else {}
    if {"position", "samples", "shuffle", "seed"} <= known.keys():
        return _of_reader(known)
    if {"iteration", "sample", "resumable"} <= known.keys():
        batches, samples = _counted(known["iteration"], "batch", "batches"), _counted(known["sample"], "sample")
        taken = batches if known["source"] != "sample" else f"{samples} in {batches}"
        return f"epoch {known['epoch']}, {taken} taken" + ("" if known["resumable"] else "; cannot go back to there")
    if {"runs", "seed", "calls"} <= known.keys():
        return f"epoch {known['epoch']}, {_counted(known['runs'], 'batch', 'batches')} in all, seed {known['seed']}"
    if known.keys() == {"algorithm", "state"} and (place := _PHILOX.fullmatch(str(known["state"]))):
        key, high, low, word = (int(part, 16) for part in place.groups())
        return f"seed {key}, {_counted(4 * (high << 64 | low) + word, 'word')} drawn"
    return ""


def _of_reader(state: dict[str, Any]) -> str:
    order = f"shuffled, seed {state['seed']}" if state["shuffle"] else "in listed order"
    if "weights" in state:
        how = "with" if state.get("replacement") else "without"
        order = f"drawn by weights {how} replacement, seed {state['seed']}"
    elif "mixture" in state:
        order = f"mixed, seed {state['seed']}"
    parts = [f"epoch {state['epoch']}", f"{state['position']} of {_counted(state['samples'], 'sample')} given", order]
    given = str(state.get("given", "")).partition(":")[0]
    if state["position"] and given.isdigit() and int(given) != state["position"]:
        parts.append(f"{given} of them by this shard")
    if "listed" in state:
        whole, listed = (str(state.get(key)).partition(":")[0] for key in ("whole", "listed"))
        parts.append(f"{whole} of {listed} samples selected")
    if state.get("skipped"):
        parts.append(f"{len(state['skipped'])} skipped that could not be read")
    return ", ".join(parts)


def _counted(number: Any, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _diff(chosen: argparse.Namespace) -> int:
    first, second = (_flat(_entries(path)) for path in chosen.files)
    different = [key for key in sorted(first | second) if first.get(key) != second.get(key)]
    for key in different:
        tell(f"{'.'.join(key[0])}: {first.get(key, _MISSING)} -> {second.get(key, _MISSING)}")
    return int(bool(different))


def _verify(chosen: argparse.Namespace) -> int:
    states: list[Any] = []  # `verify_epoch` refuses anything else

    def verify(path: Path) -> int:
        try:
            entries = _entries(path)
        except StateError as error:
            tell(str(error))
            return 1
        tell(f"{path}: whole")
        if chosen.epoch is not None:
            if chosen.epoch not in entries:
                raise StateError(f"{path} has no state {chosen.epoch!r}; it has {', '.join(map(repr, entries))}.")
            states.append(entries[chosen.epoch].state)
        return 0

    status = _of_each(chosen.files, verify)
    if chosen.epoch is None or status:
        return status
    try:
        found = verify_epoch(states)
    except StateError as error:
        tell(str(error))
        return 1
    skipped = f", {len(found.skipped)} of which could not be read" if found.skipped else ""
    counted = f"each of {found.samples} samples once"
    if "expected" in states[0]:
        counted = f"{found.samples} samples, each as often as weights and seed say"
    tell(f"epoch {found.epoch}: {counted}, on {found.shards} shards{skipped}")
    return 0


def _files(paths: Sequence[Path], failed: Callable[[OSError], None]) -> Iterator[Path]:
    """The regular files among some paths, and in those that are folders."""
    for path in paths:
        if not os.path.isdir(path):  # noqa: PTH112 - that of `Path` fails where there is no leave to look
            yield path
            continue
        for folder, folders, names in os.walk(path, onerror=failed):
            folders.sort()
            inside = (os.path.join(folder, name) for name in sorted(names))  # noqa: PTH118
            yield from (Path(file) for file in inside if os.path.isfile(file))  # noqa: PTH113


def _scan(chosen: argparse.Namespace) -> int:
    unread: list[int] = []
    found: list[dict[str, Any]] = []
    others: list[Path] = []

    def scan(path: Path) -> int:
        kind = _recognised(path)
        found.append({"path": str(path), **kind})
        if kind["kind"] == "other" and path not in chosen.files:
            others.append(path)
        elif not chosen.json:
            tell(_TOLD[kind["kind"]](path, kind))
        return int(kind["kind"] in ("pickle", "damaged"))

    status = _of_each(_files(chosen.files, lambda error: unread.append(_unread(error))), scan)
    if chosen.json:
        tell(json.dumps(found))
    elif others:
        tell(f"{_counted(len(others), 'other file')} without a checkpoint or a pickle")
    return max([status, *unread])


#: A line for each kind of file.
_TOLD: Mapping[str, Callable[[Path, Any], str]] = {
    "checkpoint": lambda path, what: f"{path}: a checkpoint of {', '.join(map(repr, what['names']))}",
    "pickle": lambda path, what: (
        f"{path}: a pickle of protocol {what['protocol']}{_referred(what['names'])}: loading it could run any code"
    ),
    "damaged": lambda _, what: str(what["reason"]),
    "other": lambda path, what: what.get("reason") or f"{path}: neither a checkpoint nor a pickle",
}


def _referred(names: Sequence[str]) -> str:
    listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return f", which refers to {listed}" if listed else ""


def _recognised(path: Path) -> dict[str, Any]:
    """The kind of a file, "checkpoint", "pickle", "damaged" or "other", and its contents."""
    try:
        data = read(path, LARGEST)
    except StateError as error:
        return {"kind": "other", "reason": str(error)}
    pickle = recognise(data)
    if pickle is not None:
        return {"kind": "pickle", "protocol": pickle.protocol, "names": list(pickle.names)}
    try:
        return {"kind": "checkpoint", "names": list(decoded(data, str(path)))}
    except StateError as error:
        return {"kind": "damaged", "reason": str(error)} if FORMAT.encode() in data else {"kind": "other"}


if __name__ == "__main__":
    raise SystemExit(main())
