"""Tries an installed wheel outside the checkout: `python tests/installed.py`, with a Python that has the wheel.

It runs the code of the README on small photos that it makes, in a temporary folder.
"""

from __future__ import annotations

import doctest
import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def make_photos(folder: Path) -> None:
    """Twenty photos in two folders of classes."""
    import numpy
    from PIL import Image

    for number in range(20):
        path = folder / ("cats", "dogs")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = numpy.random.default_rng(number).integers(0, 256, (6, 8, 3), numpy.uint8)
        Image.fromarray(pixels).resize((160, 120)).save(path, quality=90)


def run_readme() -> int:
    """Run its doctests, and its first loop twice, as one that goes on; the number of batches that were trained on."""
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    sessions = "\n".join(block for block in blocks if ">>>" in block)
    test = doctest.DocTestParser().get_doctest(sessions, {}, "README.md", "README.md", 0)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert test.examples
    assert doctest.DocTestRunner(optionflags=flags).run(test).failed == 0
    loop = next(block for block in blocks if "ndd.checkpoint.save" in block)
    trained = []
    names = {"train": lambda images, labels: trained.append((len(images), len(labels)))}
    if "import dynamic" not in loop:
        loop = f"import dynamic as ndd\n{loop}"
    for _ in range(2):  # the second start has nothing left to do
        exec(compile(loop, "README.md", "exec"), names)
    return len(trained)


def main() -> None:
    """Check the place of the package, its native library and the README."""
    sys.path[:] = [path for path in sys.path if not path or Path(path).resolve() not in (ROOT, ROOT / "tests")]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        import dynamic

        assert ROOT not in Path(dynamic.__file__).resolve().parents, f"{dynamic.__file__} is in the checkout"
        make_photos(Path("photos"))
        batches = run_readme()
        assert batches > 0
        assert Path("run.json").stat().st_size < 1 << 16
        dynamic.show_config()
        print(f"dynamic {dynamic.__version__}, Python {sys.version.split()[0]}: {batches} batches as the README says")
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
