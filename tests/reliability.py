"""Measures every goal of reliability, prints them as a table, and writes that into docs/reliability.md.

    python tests/reliability.py            all of them, in full: half an hour or so
    python tests/reliability.py --sample   all of them with small counts; writes nothing
    python tests/reliability.py G14 G18    some of them; writes nothing

Ends with 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import re
import sys
import time
import traceback
from pathlib import Path

from goals import ROWS, Row

#: Modules that declare goals.
MODULES: tuple[str, ...] = ("hostile", "states", "load", "lifetimes")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "reliability.md"
BEGIN, END = "<!-- the table begins -->", "<!-- the table ends -->"


def rows() -> list[Row]:
    """All goals, in the order of their numbers."""
    for module in MODULES:
        importlib.import_module(module)
    return sorted(ROWS, key=lambda row: int(re.match(r"G(\d+)", row.name)[1]))


def measured(row: Row, sample: bool) -> tuple[str, bool]:
    """The figure of a goal, and whether it holds; an error is a goal that is missed."""
    try:
        return row.measure(sample)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}".splitlines()[0][:200], False


def line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def head(day: datetime.date) -> list[str]:
    return [f"Measured on {day.isoformat()} by `make reliability`.", "",
            line("goal", "requirement", "measured", "holds"), "|---|---|---|---|"]  # fmt: skip


def line_of(row: Row, figure: str, holds: bool) -> str:
    return line(row.name, row.asked, figure, "yes" if holds else "**no**")


def write(lines: list[str]) -> None:
    """Put a table in the place of the one in the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text("\n".join([before + BEGIN, "", *lines, "", END + after]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", action="store_true", help="small counts; writes nothing")
    parser.add_argument("goals", nargs="*", help="which, such as G14; by default all")
    asked = parser.parse_args()
    lines = head(datetime.datetime.now(datetime.UTC).date())
    print("\n".join(lines), flush=True)
    missed = 0
    for row in rows():
        if asked.goals and row.name.split()[0] not in asked.goals and row.name not in asked.goals:
            continue
        start = time.monotonic()
        figure, holds = measured(row, asked.sample)
        missed += not holds
        lines.append(line_of(row, figure, holds))
        print(lines[-1], f"  {time.monotonic() - start:.0f} s", flush=True)
    if not asked.sample and not asked.goals:
        write(lines)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
