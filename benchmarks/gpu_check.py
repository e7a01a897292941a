"""All that only a GPU can show, in one go: tests, the benchmarks, and a sanitizer; writes docs/gpu_results.md.

    make gpu-wheels    # where there is a package index: what a machine with a GPU may lack, in one file
    make gpu-check     # where there is a GPU, which needs no index: nine minutes at most

The Python that runs it must have NumPy, CuPy, pytest and hypothesis; torch and JAX are compared where it has them.
Without a GPU it says so and ends with code 2; ``--stand-in`` goes through the same steps, less of each, without one.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "gpu-wheels"
ARCHIVE = FOLDER / "packages.tar.xz"
SITE = ROOT / "build" / "gpu-packages"
RESULTS = ROOT / "docs" / "gpu_results.md"
NO_GPU = 2
WHEELS = ["opencv-python-headless>=5.0", "simplejpeg>=1.9", "cykooz-resizer>=4.0", "pillow>=11",
          "nvidia-nvimgcodec-cu13", "nvidia-nvjpeg==13.0.4.44", "soundfile>=0.13"]  # fmt: skip
#: Of the wheels: for other Pythons, and formats that are decoded on the CPU.
LEFT_OUT = re.compile(r"nvimgcodec_impl\.cpython-(?!312-)|extensions/lib(opencv|nvtiff|nvjpeg2k|tiff)_ext|/include/")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


def collect() -> None:
    """Download the wheels for Python 3.12 and pack their contents into one file, half as large as they are."""
    FOLDER.mkdir(exist_ok=True)
    platforms = [part for name in PLATFORMS for part in ("--platform", name)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp", "--abi", "cp312",
                   "--abi", "abi3", "--abi", "none", *platforms, "--dest", folder, *WHEELS]  # fmt: skip
        subprocess.run(command, check=True)
        content = Path(folder) / "content"
        for wheel in sorted(Path(folder).glob("*.whl")):
            print(f"{wheel.stat().st_size / 1e6:6.1f} MB  {wheel.name}")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(content, [name for name in archive.namelist() if not LEFT_OUT.search(name)])
        with tarfile.open(ARCHIVE, "w:xz", preset=6) as archive:
            archive.add(content, ".")
    print(f"{ARCHIVE.stat().st_size / 1e6:6.1f} MB  {ARCHIVE.relative_to(ROOT)}")


@dataclass
class Step:
    """Something to run, and what became of it."""

    name: str
    command: list[str]
    seconds: float = 0.0
    outcome: str = "not run: no time was left"
    text: str = ""

    def run(self, environment: dict[str, str], limit: float) -> None:
        if limit <= 0:
            return
        print(f"-- {self.name}", flush=True)
        begun = time.perf_counter()
        try:
            done = subprocess.run(self.command, cwd=ROOT, env=environment, capture_output=True, text=True,
                                  timeout=limit, check=False)  # fmt: skip
            self.text, code = done.stdout + done.stderr, done.returncode
            self.outcome = "passed" if code == 0 else f"FAILED, code {code}"
        except subprocess.TimeoutExpired as error:
            self.text = (error.stdout or b"").decode(errors="replace") if isinstance(error.stdout, bytes) else ""
            self.outcome = f"FAILED: not done after {limit:.0f} s"
        self.seconds = time.perf_counter() - begun
        print(f"   {self.outcome}, {self.seconds:.0f} s", flush=True)
        if self.outcome != "passed":
            print("\n".join(self.text.splitlines()[-60:]), flush=True)


def installed() -> dict[str, str]:
    """An environment in which the project and what this Python lacks can be imported."""
    if ARCHIVE.exists() and not SITE.exists():
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(SITE, filter="data")
    path = os.pathsep.join([str(ROOT), str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def missing(environment: dict[str, str]) -> list[str]:
    """Which libraries the tests need that cannot be imported."""
    names = ["numpy", "pytest", "hypothesis", "cv2", "simplejpeg", "cykooz_resizer", "PIL"]
    code = f"import importlib.util; print(*[n for n in {names} if importlib.util.find_spec(n) is None])"
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


def machine(environment: dict[str, str]) -> str | None:
    """What the GPU is called; None where there is none."""
    code = ("import cupy\nfrom cupy.cuda import runtime\nif cupy.cuda.is_available():\n"
            " name = runtime.getDeviceProperties(0)['name'].decode()\n"
            " print(f'{name}; CuPy {cupy.__version__}; CUDA {runtime.runtimeGetVersion()}')")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None


def steps(*, stand_in: bool) -> list[Step]:
    """What to run, the most important first."""
    python, tests = (
        sys.executable,
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark"],
    )
    spread = ["-n", str(min(8, os.cpu_count() or 1))] if importlib.util.find_spec("xdist") else []
    on_gpu = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("test_gpu_*.py"))
    found = [Step("Tests of the GPU", [*tests, *spread, *on_gpu, "tests/test_on_devices.py"])]
    for name in ("gpu_storage.py", "gpu_kernels.py"):
        if (ROOT / "benchmarks" / name).exists():
            found.append(Step(f"benchmarks/{name}", [python, f"benchmarks/{name}", *["--stand-in"] * stand_in]))
    if not stand_in:
        sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
        if sanitizer is not None:
            checked = [
                "env",
                "HYPOTHESIS_PROFILE=quick",
                sanitizer,
                "--tool",
                "memcheck",
                "--error-exitcode",
                "9",
                *tests,
                "tests/test_gpu_storage.py",
                "tests/test_gpu_operators.py",
            ]
            found.append(Step("compute-sanitizer memcheck", checked))
    return found


def report(done: list[Step], gpu: str) -> str:
    """The page with the results."""
    lines = ["# Results on a GPU", "", f"{gpu}; {platform.machine()}, Python {platform.python_version()}.",
             "Written by `make gpu-check`.", "", "| step | outcome | seconds |", "|---|---|---:|"]  # fmt: skip
    lines += [f"| {step.name} | {step.outcome} | {step.seconds:.0f} |" for step in done]
    for step in done:
        shown = step.text.strip().splitlines()
        if shown:
            kept = shown if step.name.startswith("benchmarks") else shown[-12:]
            lines += ["", f"## {step.name}", "", "```", *kept, "```"]
    return "\n".join(lines).replace(str(ROOT), "") + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collect", action="store_true", help="download what a machine with a GPU may lack")
    parser.add_argument("--stand-in", action="store_true", help="go through the steps without a GPU")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where to write the page")
    parser.add_argument("--limit", type=float, default=9 * 60, help="seconds for all steps")
    parser.add_argument("--logs", type=Path, help="a folder for the whole output of each step")
    arguments = parser.parse_args()
    if arguments.collect:
        collect()
        return 0
    begun = time.monotonic()
    environment = installed()
    lacking = missing(environment)
    if lacking:
        print(
            f"Missing: {', '.join(lacking)}. Run `make gpu-wheels` where there is an index, and bring {FOLDER.name}/."
        )
        return 1
    gpu = machine(environment)
    if gpu is None and not arguments.stand_in:
        print("There is no GPU here that CuPy can use: nothing was checked, and no results were written.")
        return NO_GPU
    if not arguments.stand_in:
        environment["DYNAMIC_REQUIRE_GPU"] = "1"
    done = steps(stand_in=arguments.stand_in)
    for step in done:
        step.run(environment, arguments.limit - (time.monotonic() - begun))
        if arguments.logs is not None:
            (arguments.logs / f"{step.name.replace('/', '_').replace(' ', '_')}.txt").write_text(step.text)
        arguments.results.write_text(report(done, gpu or "A stand-in for a GPU, whose figures mean nothing"))
    print(f"Written: {arguments.results}")
    return int(any(step.outcome != "passed" for step in done))


if __name__ == "__main__":
    sys.exit(main())
