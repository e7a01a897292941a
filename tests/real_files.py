"""The test images of Pillow, from its source distribution: real files, and real damage."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / ".real-files"
VERSION = "13.0.0"
SHA256 = "cdcd1ba258178f7356d74170c9a81ba4eab6a5d55748bc402a5a2a6fe6be3510"


def files() -> dict[str, bytes]:
    """The images by their names; fetched once, by the package client, and kept in a folder that git ignores."""
    archive = FOLDER / f"pillow-{VERSION}.tar.gz"
    if not archive.exists():
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / "requirements.txt").write_text(f"pillow=={VERSION} --hash=sha256:{SHA256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--no-binary", "pillow", "--require-hashes", "-r", "requirements.txt", "-d", "."]  # fmt: skip
        subprocess.run(command, cwd=FOLDER, check=True)
    found = {}
    with tarfile.open(archive) as archived:
        for member in archived:
            _, _, name = member.name.partition("/Tests/images/")
            if name and member.isfile() and (content := archived.extractfile(member)):
                found[name] = content.read()
    return found
