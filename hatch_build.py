"""Compiles the native library as a wheel is made, or an editable installation; without a compiler there is none.

Run as a script, it compiles the library in the tree: `python hatch_build.py [--sanitize] [--output FOLDER]`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
FOLDER = ROOT / "dynamic" / "_core"
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
#: Contracted multiply-adds round once where NumPy rounds twice.
FLAGS = [
    *("-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno"),
    *("-fvisibility=hidden", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra"),
]
SANITIZED = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
X86 = {"baseline": ["-march=x86-64"], "v3": ["-march=x86-64-v3"]}


def sources() -> list[Path]:
    """The C files, and the headers they share."""
    return sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h")])


def digest() -> str:
    """A digest of the sources, which the library tells: a test finds one that is older than they."""
    found = hashlib.sha256()
    for path in sources():
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def compiler() -> list[str] | None:
    """The command of a compiler that speaks GNU C; None where there is none."""
    named = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    for command in (named, ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command[:1]
    return None


def build(folder: Path, extra: tuple[str, ...] = ()) -> list[Path]:
    """Compile every variant into a folder, or raise CalledProcessError. Nothing is there until all are."""
    variants = X86 if platform.machine() in ("x86_64", "AMD64") else {"baseline": []}
    there = [folder / f"dynamic-core-{variant}{SUFFIX}" for variant in variants]
    if not extra and all(path.exists() and digest().encode() in path.read_bytes() for path in there):
        return there
    command = compiler()
    if command is None or sys.platform == "win32":
        return []
    files = [str(path) for path in sources() if path.suffix == ".c"]
    made = []
    with tempfile.TemporaryDirectory(dir=folder) as hidden:
        for variant, flags in variants.items():
            path = Path(hidden) / f"dynamic-core-{variant}{SUFFIX}"
            told = [f'-DCORE_DIGEST="{digest()}"', *FLAGS, *flags, *extra]
            subprocess.run([*command, *told, "-o", str(path), *files, "-lm"], check=True)
            made.append(path)
        return [path.replace(folder / path.name) for path in made]


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # as a script
    BuildHookInterface = object


class CoreHook(BuildHookInterface):  # type: ignore[type-arg, misc]
    """Adds the library to a wheel, which is then for this platform and any Python."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the platform of the wheel."""
        try:
            made = build(FOLDER)
        except (OSError, subprocess.CalledProcessError) as error:
            made = []
            self.app.display_warning(
                f"dynamic is installed without its native library, which does not compile: {error}"
            )
        if not made:
            return
        build_data["artifacts"] += [f"/dynamic/_core/{path.name}" for path in made]
        if version != "editable":
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def main() -> None:
    """Compile as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer and UndefinedBehaviorSanitizer")
    parser.add_argument("--output", type=Path, default=FOLDER)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    made = build(options.output, tuple(SANITIZED if options.sanitize else ()))
    print("\n".join(map(str, made)) or "no compiler: the Python path is used")


if __name__ == "__main__":
    main()
