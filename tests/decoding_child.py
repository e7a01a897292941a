"""A process that decodes what it is sent, so that a crash, a hang or gigabytes of memory are an answer like any other.

Run by any Python as ``decoding_child.py ours|films|sounds|dali|opencv|pillow``. A request is a file behind its length
in 8 bytes. An answer is a line of JSON (shape or error, CPU seconds, bytes of memory beyond those before, bytes on
standard error), and then the pixels, (H, W, 3) or frames of it, uint8, where there are at most `MOST` of their bytes.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import time

import numpy as np

MOST = 1 << 24
ADDRESS_SPACE = 6 << 30


def ours():
    from dynamic import decoders

    return lambda data: decoders.image(data).array


def films():
    from dynamic import decoders

    return lambda data: decoders.video(data, sequence_length=4, pad_mode="none").array


def sounds():
    from dynamic import decoders

    return lambda data: np.broadcast_to(np.uint8(0), decoders.audio(data)[0].shape)


def dali():
    import nvidia.dali.experimental.dynamic as ndd

    def decode(data):
        with ndd.EvalMode.sync_cpu:
            return np.array(ndd.decoders.image(ndd.as_tensor(np.frombuffer(data, np.uint8)), device="cpu"))

    return decode


def opencv():
    import cv2

    def decode(data):
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        if image is None:
            raise ValueError("imdecode gave None")
        return image[..., ::-1]

    return decode


def pillow():
    from PIL import Image, ImageOps

    def decode(data):
        return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))

    return decode


def memory(key: str) -> int:
    """What this process takes, or took at most since `forget`; 0 where the system does not say."""
    try:
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith(key))
    except (OSError, StopIteration):
        return 0


def forget() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def main() -> None:
    # Libraries print to the descriptor: it is a file here, whose length tells how much.
    answers = os.fdopen(os.dup(1), "wb")
    with tempfile.TemporaryFile() as errors:
        os.dup2(errors.fileno(), 2)
    os.dup2(2, 1)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    except (ImportError, ValueError):
        pass
    decode = {function.__name__: function for function in (ours, films, sounds, dali, opencv, pillow)}[sys.argv[1]]()
    while length := sys.stdin.buffer.read(8):
        data = sys.stdin.buffer.read(int.from_bytes(length, "little"))
        forget()
        before, printed, start = memory("VmRSS"), os.fstat(2).st_size, time.process_time()
        pixels, answer = None, {}
        try:
            pixels = decode(data)
            answer["shape"] = pixels.shape
        except Exception as error:
            answer |= {"error": str(error) or type(error).__name__, "kind": type(error).__name__}
        answer["seconds"] = time.process_time() - start
        answer["memory"] = max(0, memory("VmHWM") - before)
        answer["printed"] = os.fstat(2).st_size - printed
        blob = b"" if pixels is None or pixels.nbytes > MOST else np.ascontiguousarray(pixels, np.uint8).tobytes()
        answer["bytes"] = len(blob)
        answers.write(json.dumps(answer).encode() + b"\n" + blob)
        answers.flush()
        del pixels


if __name__ == "__main__":
    main()
