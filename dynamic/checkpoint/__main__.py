"""Look at checkpoints from a shell: ``python -m dynamic.checkpoint show | diff | verify | scan FILE ...``.

Nothing that a file holds is ever run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dynamic._state import JSON
from dynamic.errors import StateError

from ._atomic import read
from ._file import FORMAT, LARGEST, Entry, decoded
from ._verify import verify_epoch
from .legacy import recognise

_MISSING = "(not there)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0 if all is well, 1 if not, and 2 if a file cannot be read."""
    parser = argparse.ArgumentParser("python -m dynamic.checkpoint", description="Look at checkpoints; run nothing.")
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("show", help="print what a checkpoint holds")
    show.add_argument("files", nargs="+", type=Path)
    diff = commands.add_parser("diff", help="print what differs between two checkpoints; 1 if anything does")
    diff.add_argument("files", nargs=2, type=Path)
    verify = commands.add_parser("verify", help="tell whether checkpoints are whole; 1 if one is not")
    verify.add_argument("files", nargs="+", type=Path)
    verify.add_argument("--epoch", metavar="NAME", help="prove as well, from the reader of this name in the files of "
                        "all ranks, that the epoch gave every sample once")  # fmt: skip
    scan = commands.add_parser("scan", help="tell what files are, in folders too; 1 if there are pickles or damage")
    scan.add_argument("files", nargs="+", type=Path)
    chosen = parser.parse_args(arguments)
    try:
        return {"show": _show, "diff": _diff, "verify": _verify, "scan": _scan}[chosen.command](chosen)
    except (StateError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def _entries(path: Path) -> dict[str, Entry]:
    return decoded(read(path, LARGEST), str(path))


def _lines(value: JSON, name: str) -> Iterator[tuple[str, str]]:
    """Each value in a state, and what it is called."""
    if isinstance(value, dict) and value:
        for key in value:
            yield from _lines(value[key], f"{name}.{key}")
    else:
        yield name, repr(value) if isinstance(value, str) else str(value)


def _flat(entries: Mapping[str, Entry]) -> dict[str, str]:
    return {key: text for name, entry in entries.items()
            for key, text in ((name, entry.type or "of no known type"), *_lines(entry.state, name)) if key}  # fmt: skip


def _show(chosen: argparse.Namespace) -> int:
    for path in chosen.files:
        print(f"{path}:")
        for name, entry in _entries(path).items():
            print(f"  {name} ({entry.type or 'of no known type'})")
            for key, text in _lines(entry.state, ""):
                print(f"    {key[1:]}: {text}")
    return 0


def _diff(chosen: argparse.Namespace) -> int:
    first, second = (_flat(_entries(path)) for path in chosen.files)
    different = [key for key in first | second if first.get(key) != second.get(key)]
    for key in different:
        print(f"{key}: {first.get(key, _MISSING)} -> {second.get(key, _MISSING)}")
    return int(bool(different))


def _verify(chosen: argparse.Namespace) -> int:
    whole = True
    states: list[Any] = []  # what is no state is refused by `verify_epoch`
    for path in chosen.files:
        try:
            entries = _entries(path)
        except StateError as error:
            whole = False
            print(error)
            continue
        print(f"{path}: whole")
        if chosen.epoch is not None:
            if chosen.epoch not in entries:
                raise StateError(f"{path} has no state {chosen.epoch!r}; it has {', '.join(map(repr, entries))}.")
            states.append(entries[chosen.epoch].state)
    if chosen.epoch is not None and whole:
        try:
            found = verify_epoch(states)
        except StateError as error:
            print(error)
            return 1
        skipped = f", {len(found.skipped)} of which could not be read" if found.skipped else ""
        print(f"epoch {found.epoch}: each of {found.samples} samples once, on {found.shards} shards{skipped}")
    return int(not whole)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """The regular files among some paths, and in those that are folders."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders.sort()
            yield from (file for name in sorted(names) if (file := Path(folder, name)).is_file())


def _scan(chosen: argparse.Namespace) -> int:
    bad = False
    for path in _files(chosen.files):
        try:
            data = read(path, LARGEST)
        except StateError as error:
            print(error)
            continue
        pickle = recognise(data)
        if pickle is not None:
            bad = True
            names = ", ".join(pickle.names[:5]) + (", ..." if len(pickle.names) > 5 else "")
            refers = f", which refers to {names}" if names else ""
            print(f"{path}: a pickle of protocol {pickle.protocol}{refers}: loading it could run any code")
            continue
        try:
            entries = decoded(data, str(path))
        except StateError as error:
            ours = FORMAT.encode() in data
            bad |= ours
            print(error if ours else f"{path}: neither a checkpoint nor a pickle")
        else:
            print(f"{path}: a checkpoint of {', '.join(map(repr, entries))}")
    return int(bad)


if __name__ == "__main__":
    raise SystemExit(main())
