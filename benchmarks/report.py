"""Measures everything and writes the tables and plots of `docs/performance.md`.

    python benchmarks/report.py [--only training cores] [--rounds 9]

Run it on a machine that does nothing else, in an environment with DALI and the other rivals, and matplotlib. Each
script stands in the page between two comments; its output replaces the text between them.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
PICTURES = ROOT / "docs" / "pictures"
#: The command of each place of the page, and the part of the rounds that it gets.
COMMANDS: dict[str, tuple[str, float]] = {
    "training": ("training.py", 1.0),
    "job": ("job.py", 1.0),
    "cores": ("cores.py", 0.4),
    "cores without": ("cores.py --without-core --threads 1 4 16 64", 0.4),
    "overhead": ("overhead.py", 1.0),
    "operators": ("operators.py", 0.6),
    "operators 64x64": ("operators.py --size 64x64", 0.4),
    "operators 224x224 float32": ("operators.py --size 224x224 --dtype float32", 0.4),
    "operators sound": ("operators.py --sound", 1.0),
    "videos": ("videos.py", 0.5),
    "readers": ("readers.py", 1.0),
    "rows": ("rows.py", 0.6),
    "buckets": ("buckets.py", 0.6),
    "scale": ("scale.py", 0.1),
    "pipeline": ("pipeline.py", 1.0),
    "augmentation": ("augmentation.py", 1.0),
}

_LONG = 0.1  # the part of the rounds of a script of which one may be enough


def measured(command: str, rounds: int) -> str:
    """The output of a command."""
    script, *arguments = command.split()
    whole = [sys.executable, str(ROOT / "benchmarks" / script), *arguments, "--rounds", str(rounds)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(whole, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout.strip()


def written(page: str, name: str, text: str) -> str:
    """A page with another text between the comments of a name."""
    found = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    new, count = found.subn(lambda match: f"{match[1]}{text}\n{match[2]}", page)
    if count != 1:
        raise ValueError(f"{PAGE.name} has {count} places for {name}; it needs one.")
    return new


def rows(table: str) -> list[list[str]]:
    """The cells of the first table in Markdown of a text, without its two first lines."""
    lines = table[table.index("|") :].split("\n\n", 1)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def behind(text: str) -> str:
    """A sentence that names the rows of operators in which DALI is faster, with and without the native library."""
    found = []
    for column, how in ((3, "With the native library"), (5, "Without it")):
        slower = [f"`{row[0]}` {row[column]}" for row in rows(text)[2:] if row[column] and float(row[column]) > 1]
        found.append(f"{how}, DALI is faster in {len(slower)} rows{': ' if slower else ''}{', '.join(slower)}.")
    return "\n\n".join(found)


def draw_training(text: str) -> None:
    """Bars of images a second."""
    import matplotlib.pyplot as plt

    found = [(cells[0], float(cells[1].replace(",", ""))) for cells in rows(text)[2:]][::-1]
    figure, axes = plt.subplots(figsize=(8, 0.34 * len(found) + 0.8), layout="constrained")
    colours = [
        "#d9822b" if name.startswith("dynamic") else "#bbbbbb" if "alone" in name else "#5c7cab" for name, _ in found
    ]
    bars = axes.barh([name for name, _ in found], [rate for _, rate in found], color=colours)
    axes.bar_label(bars, fmt="{:,.0f}", padding=3)
    axes.set_xlabel("images a second, two threads or workers")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURES / "training.svg", metadata={"Date": None})


def draw_cores(text: str) -> None:
    """Lines of images a second over threads."""
    import matplotlib.pyplot as plt

    second = text[text.index("| images/s") :]
    titles, _, *found = rows(second)
    threads = [int(cell) for cell in titles[1:]]
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for name, *cells in found:
        axes.plot(threads, [float(cell.split()[0].replace(",", "")) for cell in cells], marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(threads, [str(count) for count in threads])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("threads, each with a core (virtual)")
    axes.set_ylabel("images a second")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURES / "cores.svg", metadata={"Date": None})


def draw_scale(text: str) -> None:
    """Lines of seconds and of memory over samples, and a line of n log n."""
    import matplotlib.pyplot as plt

    lines: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for reader, library, samples, first, memory, *_ in rows(text)[2:]:
        count, seconds, size = (float(cell.replace(",", "")) for cell in (samples, first, memory))
        lines.setdefault((reader, library), []).append((count, max(seconds, 1e-3), max(size, 0.5)))
    readers = list(dict.fromkeys(reader for reader, _ in lines))
    counts = sorted({point[0] for points in lines.values() for point in points})
    figure, panels = plt.subplots(1, 2, figsize=(8, 4.6), layout="constrained")
    for column, (axes, title) in enumerate(zip(panels, ("seconds of CPU to the first batch", "MB"), strict=True), 1):
        for (reader, library), points in lines.items():
            dash = "-" if library == "dynamic" else "--"
            values = [point[column] for point in points]
            label, colour = f"{reader} ({library})", f"C{readers.index(reader)}"
            axes.plot([point[0] for point in points], values, dash, color=colour, marker=".", label=label)
        top = 2 * max(point[column] for points in lines.values() for point in points)
        growth = [top * n * math.log(n) / (counts[-1] * math.log(counts[-1])) for n in counts]
        axes.plot(counts, growth, color="#bbbbbb", label="n log n")
        axes.set(xscale="log", yscale="log", xlabel="samples", title=title)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=3)
    figure.savefig(PICTURES / "scale.svg", metadata={"Date": None})


def machine() -> str:
    """A sentence on the machine and the versions."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    packages = {"NumPy": "numpy", "OpenCV": "opencv-python-headless", "Pillow": "pillow", "DALI": "nvidia-dali-cuda120"}
    found = ", ".join(f"{name} {version(package)}" for name, package in packages.items())
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {found}."


DRAWN = {"training": draw_training, "cores": draw_cores, "scale": draw_scale}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", nargs="*", default=list(COMMANDS), choices=list(COMMANDS))
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    for name in options.only:
        command, part = COMMANDS[name]
        text = measured(command, max(3 if part > _LONG else 1, round(options.rounds * part)))
        if name in DRAWN:
            DRAWN[name](text)
        if name.startswith("operators"):
            text = f"{text}\n\n{behind(text)}"
        PAGE.write_text(written(written(PAGE.read_text(), "machine", machine()), name, text))
        print(f"{name}\n{text}\n", flush=True)


if __name__ == "__main__":
    main()
