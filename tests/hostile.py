"""What becomes of hostile files: the goals G1 to G4, and a table of other decoders on the same files.

python tests/hostile.py                  every file that this library gets wrong, and the counts
python tests/hostile.py --peers          DALI, OpenCV and Pillow beside it, in a Python that has them:
                                         DYNAMIC_DALI_PYTHON names it, by default it is this one
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

import corpus
import fuzzing
import hostile_files
import numpy as np
from goals import goal
from hostile_files import File

from dynamic import Batch, DecodeError, decoders
from dynamic._base.origin import Origin

HERE = Path(__file__).parent
SECONDS, MEMORY = 0.5, 64 << 20  #: what refusing a file may take
PEERS = ("dali", "opencv", "pillow")


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a decoder made of a file: pixels, only their shape where they are too many, or an error."""

    pixels: np.ndarray | None = None
    shape: tuple[int, ...] | None = None
    error: str = ""
    kind: str = ""  #: the class of the error; "crash" and "hang" where there was no answer
    seconds: float = 0
    memory: int = 0
    printed: int = 0


def fault(file: File, answer: Answer, *, ours: bool = True) -> str:
    """What is wrong with an answer; nothing where it is right."""
    if answer.kind in ("crash", "hang"):
        return answer.kind
    if file.own and not ours:
        return ""
    if answer.shape is None:
        if file.must == "decode":
            return "refused"
        costly = answer.seconds > SECONDS or answer.memory > MEMORY
        return "costly" if costly and file.must in ("refuse", "limit") else ""
    if file.must == "limit":
        return "bomb"
    if file.must == "refuse" or file.pixels is None or answer.pixels is None:
        return "garbage"
    if answer.pixels.shape != file.pixels.shape:
        return "garbage"
    off = np.abs(answer.pixels.astype(int) - file.pixels).mean()
    return "" if off <= file.within else "garbage"


class Child:
    """A decoder in a process of its own, which is started anew after a crash or a hang."""

    def __init__(self, decoder: str, python: str = sys.executable, seconds: float = 60) -> None:
        self._command = [python, str(HERE / "decoding_child.py"), decoder]
        self._seconds, self._process = seconds, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.kill()
        with contextlib.suppress(OSError):  # what it did not read
            process.stdin.close()
        process.stdout.close()
        return process.wait()

    def decode(self, data: bytes) -> Answer:
        if self._process is None:
            pipe = subprocess.PIPE
            path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
            self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": path}
            )
        try:
            self._process.stdin.write(len(data).to_bytes(8, "little") + data)
            self._process.stdin.flush()
            head, received = self._received(b"\n")
            told = json.loads(head)
            while len(received) < told["bytes"]:
                received += self._some()
        except TimeoutError:
            self._end()
            return Answer(kind="hang", error=f"no answer in {self._seconds} s")
        except (OSError, EOFError):
            time.sleep(0.05)
            return Answer(kind="crash", error=f"ended with {self._end()}")
        shape = tuple(told["shape"]) if "shape" in told else None
        pixels = np.frombuffer(received, np.uint8).reshape(shape) if told["bytes"] else None
        return Answer(pixels, shape, told.get("error", ""), told.get("kind", ""), told["seconds"], told["memory"],
                      told["printed"])  # fmt: skip

    def _received(self, end: bytes) -> tuple[bytes, bytes]:
        received = b""
        while end not in received:
            received += self._some()
        head, _, rest = received.partition(end)
        return head, rest

    def _some(self) -> bytes:
        ready, _, _ = select.select([self._process.stdout], [], [], self._seconds)
        if not ready:
            raise TimeoutError
        if not (some := os.read(self._process.stdout.fileno(), 1 << 20)):
            raise EOFError
        return some


def answers(decoder: str, python: str = sys.executable) -> Iterator[tuple[File, Answer]]:
    """What a decoder makes of each file."""
    return in_child(hostile_files.files().values(), decoder, python)


def in_child(files: Iterable[File], decoder: str, python: str = sys.executable) -> Iterator[tuple[File, Answer]]:
    """What a decoder makes of some files. What it loads at the first of a kind does not count as cost."""
    with Child(decoder, python) as child:
        for file in hostile_files.files().values():
            if file.must == "decode":
                child.decode(file.data)
        for file in files:
            answer = child.decode(file.data)
            if fault(file, answer) == "costly":  # the machine may have been busy
                answer = child.decode(file.data)
            yield file, answer


@goal(
    "G1", "No hostile file crashes, gives wrong pixels or costs 0.5 s or 64 MB when refused; all good ones are decoded"
)
def hostile(sample: bool) -> tuple[str, bool]:
    """All files in a child process."""
    found = [*answers("ours"), *in_child(hostile_files.large(1 << 18 if sample else 1 << 23), "ours")]
    wrong = collections.Counter(word for file, answer in found if (word := fault(file, answer)))
    refused = [answer for _, answer in found if answer.shape is None]
    good = sum(file.must == "decode" for file, _ in found)
    figure = (f"{len(found) - wrong.total()} of {len(found)} files right, {good} of which must decode; refusing one "
              f"takes at most {1000 * max(answer.seconds for answer in refused):.0f} ms and "
              f"{max(answer.memory for answer in refused) / 2**20:.0f} MB")  # fmt: skip
    return figure + "".join(f"; {count} {word}" for word, count in wrong.items()), not wrong


#: One file of each format and kind of compression, of which every byte is needed.
CUT = (
    "JPEG: 444", "JPEG: 420 progressive", "JPEG: gray", "JPEG: CMYK", "PNG: filter 4", "PNG: type 2, 16 bit, True",
    "GIF: plain", "WebP: lossless", "WebP: lossy", "BMP: 5-6-5", "TIFF: color", "TIFF: LZW color",
    "TIFF: deflate color", "PNM: color", "JPEG 2000: color",
)  # fmt: skip


@goal("G2", "All cut files are refused")
def cut(sample: bool) -> tuple[str, bool]:
    random, files = np.random.default_rng(2), hostile_files.files()
    count = refused = 0
    for name in CUT:
        data = files[name].data
        for end in random.integers(len(data), size=20 if sample else 200).tolist():
            count += 1
            try:
                decoders.image(np.frombuffer(data[:end], np.uint8))
            except DecodeError:
                refused += 1
    return f"{refused} of {count} cuts of {len(CUT)} kinds of files refused", refused == count


@goal("G3", "Fuzzed bytes raise documented exceptions alone", sampled=False)
def fuzzed(sample: bool) -> tuple[str, bool]:
    count = sum(fuzzing.mutate(name, 500 if sample else 100_000) for name in fuzzing.TARGETS)
    return (
        f"{count} inputs for {len(fuzzing.TARGETS)} targets ({', '.join(fuzzing.TARGETS)}): nothing else raised",
        True,
    )


@contextlib.contextmanager
def printed() -> Iterator[list[int]]:
    """How many bytes come out at the descriptors 1 and 2; the list has the number afterwards."""
    sizes: list[int] = []
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as file:
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            yield sizes
        finally:
            for number, old in enumerate(kept, 1):
                os.dup2(old, number)
                os.close(old)
            sizes.append(os.fstat(file.fileno()).st_size)


@goal("G4", "Every error names sample, file, format and reason, and nothing is printed")
def told(sample: bool) -> tuple[str, bool]:
    bad = [file for file in hostile_files.files().values() if file.must in ("refuse", "limit")]
    names = [f"{i}/{file.name}" for i, file in enumerate(bad)]
    good = corpus.small_files()["PNG"]
    data = [np.frombuffer(part, np.uint8) for file in bad for part in (good, file.data)]
    origin = Origin(0, np.zeros(len(data), np.uint64), [part for name in names for part in ("good", name)])
    with printed() as sizes:
        try:
            decoders.image(Batch(data, None, origin))
            failures = ()
        except DecodeError as error:
            failures = error.failures
    told = sum(
        failure.index == 2 * i + 1 and failure.source == names[i] and bool(failure.reason)
        and (failure.format is not None or bad[i].format == "none" or len(bad[i].data) < 12)
        for i, failure in enumerate(failures)
    )  # fmt: skip
    return (f"{told} of {len(bad)} bad files of one batch told with all four; {sizes[0]} bytes printed",
            told == len(bad) and sizes[0] == 0)  # fmt: skip


# -- beside others


def table(python: str) -> None:
    """Print what every decoder gets wrong, and how many files of each format it gets right."""
    found = {name: dict(_by_name(name, python)) for name in ("ours", *PEERS)}
    files = hostile_files.files()
    print("| file | must |", " | ".join(found), "|")
    print("|---|---|" + "---|" * len(found))
    for name, file in files.items():
        words = [fault(file, column[name], ours=decoder == "ours") or "ok" for decoder, column in found.items()]
        if set(words) != {"ok"}:
            print(f"| {name} | {file.must} |", " | ".join(words), "|")
    print("\n| format | files |", " | ".join(found), "|")
    print("|---|---|" + "---|" * len(found))
    for format in (*hostile_files.FORMATS, "all"):
        of_it = [name for name, file in files.items() if format in (file.format, "all")]
        right = [
            sum(not fault(files[name], column[name], ours=decoder == "ours") for name in of_it)
            for decoder, column in found.items()
        ]
        print(f"| {format} | {len(of_it)} |", " | ".join(map(str, right)), "|")


def _by_name(decoder: str, python: str) -> Iterator[tuple[str, Answer]]:
    for file, answer in answers(decoder, sys.executable if decoder == "ours" else python):
        yield file.name, answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="store_true", help="the others as well")
    if parser.parse_args().peers:
        table(os.environ.get("DYNAMIC_DALI_PYTHON", sys.executable))
        return 0
    missed = 0
    for file, answer in [*answers("ours"), *in_child(hostile_files.large(1 << 23), "ours")]:
        if word := fault(file, answer):
            missed += 1
            print(f"{file.name} (must {file.must}): {word} {answer.shape} {answer.error}")
    for row in (hostile, cut, told):
        figure, holds = row.measure(False)
        missed += not holds
        print(f"{row.name}: {figure}{'' if holds else ' - missed'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
