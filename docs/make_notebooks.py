"""Runs the notebooks of `notebooks/`, and writes their results into them.

    python docs/make_notebooks.py [FOLDER]

With a folder the notebooks are written there, and those of the repository stay as they are. Each runs in a process and
in a shell of IPython of its own. Pictures are stored as JPEG, which is small. Warnings are errors.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings
from base64 import b64encode
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parent / "notebooks"


def stored(value: str | bytes) -> list[str] | str:
    """Text, or the bytes of a picture, as notebooks store them."""
    return value.splitlines(keepends=True) if isinstance(value, str) else b64encode(value).decode()


def run(notebook: dict[str, Any]) -> None:
    """Run the cells of a notebook one after the other, in this folder, and put their results into it.

    Raises:
        Exception: A cell has failed.
    """
    from IPython.core.displayhook import DisplayHook
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shown: list[dict[str, str | bytes]] = []

    class Hook(DisplayHook):
        def __call__(self, result: object = None) -> None:
            if result is not None:
                shown.append(self.compute_format_data(result)[0])

    with tempfile.TemporaryDirectory() as folder:
        os.environ["IPYTHONDIR"] = folder
        shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}), displayhook_class=Hook)
        shell.display_formatter.formatters["image/png"].enabled = False
        for count, cell in enumerate((cell for cell in notebook["cells"] if cell["cell_type"] == "code"), 1):
            shown.clear()
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                shell.run_cell("".join(cell["source"])).raise_error()
            cell |= {"execution_count": count, "outputs": []}
            if printed.getvalue():
                output = {"name": "stdout", "output_type": "stream", "text": stored(printed.getvalue())}
                cell["outputs"].append(output)
            for found in shown:
                data = {kind: stored(value) for kind, value in sorted(found.items())}
                output = {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
                cell["outputs"].append(output)


def main(source: Path, target: Path) -> None:
    """Run a notebook in its folder, and write it."""
    warnings.simplefilter("error")
    notebook = json.loads(source.read_text(encoding="utf-8"))
    os.chdir(source.parent)
    run(notebook)
    target.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else NOTEBOOKS).resolve()
        for path in sorted(NOTEBOOKS.resolve().glob("*.ipynb")):
            subprocess.run([sys.executable, __file__, path, folder / path.name], check=True)  # noqa: S603 - our own
