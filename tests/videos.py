"""Test videos, made here, with their frames known: each frame's number is drawn into it, and its time is recorded.

``video("H.264, B frames")`` is one of `VIDEOS`, and ``made(codec="libx264", ...)`` any other. `number` reads a frame's
number back, whatever a lossy codec did to it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

import av
import numpy as np

__all__ = ["DALIS", "SMALL", "VIDEOS", "Video", "chunks", "made", "number", "picture", "video"]

os.environ.setdefault("SVT_LOG", "0")  # the encoder of AV1 is silent but for fatal errors
_ROWS, _COLUMNS = 3, 4  # cells: 12, of which 10 are the bits of a number; the others tell top and bottom
_BITS = 10


def picture(index: int, height: int, width: int) -> np.ndarray:
    """The frame of a number: a cell for each bit, dark or bright, with a red one first and a blue one last.

    Args:
        index: The number, less than 1024.
        height: Of the frame, at least 12.
        width: Of the frame, at least 16.
    """
    cells = np.full((_ROWS * _COLUMNS, 3), 48, np.uint8)
    bits = np.flatnonzero((index >> np.arange(_BITS)) & 1)
    cells[1 + bits] = (208, 200, 192)
    cells[0], cells[-1] = (208, 32, 32), (32, 48, 208)
    rows, columns = np.arange(height) * _ROWS // height, np.arange(width) * _COLUMNS // width
    return cells[rows[:, None] * _COLUMNS + columns]


def number(frame: np.ndarray) -> int:
    """The number in an upright frame of RGB, of any size.

    Raises:
        ValueError: The frame is none of ours: turned, of other colours, or damaged.
    """
    height, width = frame.shape[:2]
    ys = (2 * np.arange(_ROWS) + 1) * height // (2 * _ROWS)
    xs = (2 * np.arange(_COLUMNS) + 1) * width // (2 * _COLUMNS)
    cells = frame[np.ix_(ys, xs)].reshape(-1, 3).astype(int)
    levels = cells[1:-1].mean(axis=1)
    first, last = cells[0], cells[-1]
    if first[0] - first[2] < 80 or last[2] - last[0] < 80 or ((levels > 90) & (levels < 160)).any():
        raise ValueError(f"no frame with a number: its cells are {cells.tolist()}")
    return int(((levels > 125) << np.arange(_BITS)).sum())


@dataclasses.dataclass(frozen=True)
class Video:
    """A video file, and the truth about it."""

    name: str
    data: bytes
    numbers: tuple[int, ...]  #: those in the frames that can be decoded, in the order of presentation
    times: tuple[Fraction, ...]  #: when each is shown, in seconds, by the clock of the file
    height: int  #: as stored, before `rotation`
    width: int
    rotation: int = 0  #: how the file says that its frames are turned to be upright, counter-clockwise, in degrees
    lossless: bool = False  #: whether frames are `picture`s bit for bit
    keys: tuple[int, ...] = ()  #: positions of the frames that need no others, in the order of presentation

    def __len__(self) -> int:
        return len(self.numbers)

    def frame(self, position: int) -> np.ndarray:
        """The upright picture at a position, before a codec lost some of it."""
        return np.rot90(picture(self.numbers[position], self.height, self.width), self.rotation // 90)


#: How each codec writes a small video that is the same every time: one thread, and its colours.
_CODECS: dict[str, tuple[str, dict[str, str]]] = {
    "libx264": ("yuv420p", {"preset": "veryfast", "crf": "18", "sc_threshold": "0", "threads": "1"}),
    "libx265": ("yuv420p", {"preset": "ultrafast", "x265-params": "log-level=none:pools=1:frame-threads=1"}),
    "libsvtav1": ("yuv420p", {"preset": "12", "crf": "30", "svtav1-params": "lp=1"}),
    "mpeg4": ("yuv420p", {"qscale": "2", "threads": "1"}),
    "mpeg2video": ("yuv420p", {"qscale": "2", "threads": "1"}),
    "libvpx-vp9": ("yuv420p", {"deadline": "realtime", "cpu-used": "8", "crf": "20", "b": "0", "threads": "1"}),
    "libvpx": ("yuv420p", {"deadline": "realtime", "cpu-used": "8", "b": "2000000", "threads": "1"}),
    "mjpeg": ("yuvj420p", {"qscale": "2", "threads": "1"}),
    "ffv1": ("bgr0", {"threads": "1"}),
}


def made(
    name: str = "",
    *,
    codec: str = "libx264",
    format: str = "mp4",
    frames: int = 30,
    height: int = 48,
    width: int = 64,
    key_every: int = 12,
    b_frames: int = 0,
    options: Mapping[str, str] | None = None,
    muxer: Mapping[str, str] | None = None,
    steps: Sequence[int] = (1,),
    rate: Fraction | int = 25,
    start: int = 0,
    rotation: int = 0,
    audio: bool = False,
    others: int = 0,
    without: int = 0,
    pixels: Callable[[int], np.ndarray | av.VideoFrame] | None = None,
) -> Video:
    """A video of the numbers 0, 1, ..., written by PyAV.

    Args:
        name: What tests call it.
        codec: The encoder.
        format: The container.
        frames: Number of frames.
        height: Height of the frames.
        width: Width of the frames.
        key_every: The most frames from one key frame to the next.
        b_frames: The most B frames in a row.
        options: Of the encoder, beside those of `_CODECS`.
        muxer: Options of the container.
        steps: How many ticks a frame is shown, over and over: several make a variable frame rate.
        rate: Ticks a second.
        start: The tick of the first frame.
        rotation: That of the display matrix of a phone: 0, 90, 180 or 270, counter-clockwise. MP4 and MOV have one.
        audio: Put an audio track before the video.
        others: How many further video streams there are, smaller ones, whose numbers begin at 500.
        without: How many packets are left out at the start, so that the first key frame is missing.
        pixels: The frame of a number, instead of its `picture`, in RGB or as the encoder takes it.
    """
    colours, fixed = _CODECS[codec]
    times = [start + int(tick) for tick in np.cumsum([0, *(steps[i % len(steps)] for i in range(frames - 1))])]
    memory = io.BytesIO()
    flags = {"fflags": "+bitexact", "avoid_negative_ts": "disabled"}
    flags |= muxer or {}
    if format in ("mp4", "mov"):
        flags["use_editlist"] = "0" if start else "1"
    keys: dict[int, None] = {}
    with av.open(memory, "w", format, options=flags) as file:
        sound = file.add_stream("pcm_s16le" if format in ("mov", "avi", "nut", "matroska") else "aac", rate=8000) \
            if audio else None  # fmt: skip
        streams = [
            _stream(file, codec, colours, height >> bool(k), width >> bool(k), rate, key_every, b_frames,
                    fixed | dict(options or {}))
            for k in range(others + 1)
        ]  # fmt: skip
        if sound is not None:
            sound.layout = "mono"
        packets = []
        for k, stream in enumerate(streams):
            draw = pixels if pixels is not None and not k else functools.partial(_drawn, stream, 500 * bool(k))
            packets += [(packet, k) for packet in _packets(stream, draw, times, Fraction(1, Fraction(rate)))][without:]
        if sound is not None:
            packets += [(packet, -1) for packet in _silence(sound, float((times[-1] + 1) / Fraction(rate)))]
        packets.sort(key=lambda pair: Fraction(pair[0].dts) * pair[0].time_base)
        for packet, k in packets:
            if not k and packet.is_keyframe:
                keys[times.index(round(packet.pts * packet.time_base * Fraction(rate)))] = None
            file.mux(packet)
    data = memory.getvalue()
    if rotation:
        data = _turned(data, rotation)
    first = min(keys, default=0)
    shown = range(first, frames)
    return Video(
        name, data, tuple(shown), tuple(Fraction(times[i]) / Fraction(rate) for i in shown), height, width, rotation,
        codec == "ffv1", tuple(sorted(key - first for key in keys)),
    )  # fmt: skip


def _stream(
    file: av.container.OutputContainer, codec: str, colours: str, height: int, width: int, rate: Fraction | int,
    key_every: int, b_frames: int, options: dict[str, str],
) -> av.VideoStream:  # fmt: skip
    stream = file.add_stream(codec, rate=rate, options=options)
    stream.height, stream.width, stream.pix_fmt = height, width, colours
    context = stream.codec_context
    context.time_base, context.gop_size = Fraction(1, Fraction(rate)), key_every
    if codec != "libsvtav1":
        context.max_b_frames = b_frames
    context.flags |= av.codec.context.Flags.bitexact
    return stream


def _drawn(stream: av.VideoStream, base: int, index: int) -> np.ndarray:
    return picture(index + base, stream.height, stream.width)


def _packets(
    stream: av.VideoStream, draw: Callable[[int], np.ndarray | av.VideoFrame], times: Sequence[int], tick: Fraction
) -> list[av.Packet]:
    found = []
    with _usual_scheduling():
        for index, time in enumerate(times):
            drawn = draw(index)
            frame = drawn if isinstance(drawn, av.VideoFrame) else _frame(drawn, stream.pix_fmt)
            frame.pts, frame.time_base = time, tick
            found += stream.encode(frame)
        found += stream.encode(None)
    return [packet for packet in found if packet.dts is not None]


@contextlib.contextmanager
def _usual_scheduling() -> Iterator[None]:
    """Undo SVT-AV1's real-time priority for this thread: it outlives the encoder, and starves a whole machine."""
    if not hasattr(os, "sched_getscheduler"):
        yield
        return
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, priority)


def _frame(pixels: np.ndarray, colours: str) -> av.VideoFrame:
    """A frame for an encoder. The YUV of 8 bits is made here: libswscale's differs with the alignment of memory."""
    if colours not in ("yuv420p", "yuvj420p"):
        return av.VideoFrame.from_ndarray(pixels, format="rgb24")
    height, width = pixels.shape[:2]
    luma, (low, high) = pixels @ np.array([0.299, 0.587, 0.114]), (0, 255) if colours == "yuvj420p" else (16, 235)
    chroma = 255 if colours == "yuvj420p" else 224
    full = np.pad(
        np.stack([pixels[..., 2] - luma, pixels[..., 0] - luma]), ((0, 0), (0, height % 2), (0, width % 2)), "edge"
    )
    halves = full.reshape(2, (height + 1) // 2, 2, (width + 1) // 2, 2).mean(axis=(2, 4)) / [[[1.772]], [[1.402]]]
    frame = av.VideoFrame(width, height, colours)
    for plane, part in zip(
        frame.planes, (luma / 255 * (high - low) + low, *(halves / 255 * chroma + 128)), strict=True
    ):
        rows = np.zeros((part.shape[0], plane.line_size), np.uint8)
        rows[:, : part.shape[1]] = np.clip(np.rint(part), 0, 255)
        plane.update(rows)
    return frame


def _silence(stream: av.AudioStream, seconds: float) -> list[av.Packet]:
    count = int(seconds * 8000)
    frame = av.AudioFrame.from_ndarray(
        np.zeros((1, count), np.int16 if stream.format.name == "s16" else np.float32), stream.format.name, "mono"
    )
    frame.rate, frame.pts, frame.time_base = 8000, 0, Fraction(1, 8000)
    return [packet for packet in [*stream.encode(frame), *stream.encode(None)] if packet.dts is not None]


def chunks(data: bytes, name: bytes) -> list[int]:
    """Where the contents of MP4's boxes of a name begin, found by the name alone."""
    places, place = [], data.find(name)
    while place >= 0:
        places.append(place + 4)
        place = data.find(name, place + 4)
    return places


def _turned(data: bytes, rotation: int) -> bytes:
    """An MP4 file with the display matrix of a phone in each of its tracks' headers."""
    cos, sin = {90: (0, -1), 180: (-1, 0), 270: (0, 1)}[rotation]
    matrix = struct.pack(">9i", cos << 16, sin << 16, 0, -sin << 16, cos << 16, 0, 0, 0, 1 << 30)
    changed = bytearray(data)
    for place in chunks(data, b"tkhd"):
        changed[place + 40 : place + 76] = matrix
    return bytes(changed)


_OPEN = {"x264-params": "open-gop=1:scenecut=0:min-keyint=6:rc-lookahead=10:bframes=2:b-adapt=0"}

#: The arguments of `made` for each.
VIDEOS: dict[str, dict[str, object]] = {
    "H.264": {},
    "H.264, B frames": {"b_frames": 3, "options": {"x264-params": "b-adapt=0:b-pyramid=normal"}},
    "H.264, one long group": {"frames": 90, "key_every": 300, "b_frames": 2},
    "H.264, open groups": {"b_frames": 2, "options": _OPEN, "format": "mpegts", "frames": 40, "key_every": 6},
    "H.264, no key frame first": {"format": "mpegts", "without": 3, "frames": 40, "start": 10},
    "H.264, variable rate": {"steps": (1, 3, 2, 7), "rate": 50, "b_frames": 2},
    "H.264, 29.97 a second": {"rate": Fraction(30000, 1001), "steps": (1,)},
    "H.264, times from 1000": {"start": 1000, "format": "matroska"},
    "H.264, a transport stream": {"format": "mpegts", "b_frames": 2, "start": 90},
    "H.264, one frame": {"frames": 1},
    "H.264, sound beside it": {"audio": True},
    "H.264, fragments": {"muxer": {"movflags": "frag_keyframe+delay_moov"}, "b_frames": 2},
    "MPEG-4": {"codec": "mpeg4", "b_frames": 2},
    "MPEG-4, in AVI": {"codec": "mpeg4", "format": "avi", "audio": True},
    "MPEG-2": {"codec": "mpeg2video", "format": "mpegts", "b_frames": 2, "start": 5},
    "VP9": {"codec": "libvpx-vp9", "format": "webm"},
    "VP9, odd sizes": {"codec": "libvpx-vp9", "format": "webm", "height": 47, "width": 61},
    "VP9, in MP4": {"codec": "libvpx-vp9", "frames": 50},
    "VP8": {"codec": "libvpx", "format": "webm"},
    "MJPEG": {"codec": "mjpeg", "format": "avi"},
    "MJPEG, odd sizes": {"codec": "mjpeg", "format": "matroska", "height": 33, "width": 51, "steps": (2, 1)},
    "FFV1": {"codec": "ffv1", "format": "matroska", "key_every": 1},
    "FFV1, odd sizes": {"codec": "ffv1", "format": "matroska", "height": 35, "width": 37, "key_every": 5},
    "FFV1, three streams": {"codec": "ffv1", "format": "matroska", "others": 2, "audio": True},
    "HEVC": {"codec": "libx265", "b_frames": 2},
    "AV1": {"codec": "libsvtav1", "height": 64, "width": 80},
    "H.264, turned by 90": {"rotation": 90},
    "H.264, turned by 180": {"rotation": 180},
    "H.264, turned by 270": {"rotation": 270, "b_frames": 2},
}


#: Videos of the fewest bytes and pixels, for tests of the lift, and those that DALI decodes on the CPU.
SMALL = ("VP9", "MJPEG, odd sizes", "H.264, turned by 90")
DALIS = ("VP9", "VP9, odd sizes", "VP8", "MJPEG", "MJPEG, odd sizes")


@functools.cache
def video(name: str) -> Video:
    """One of `VIDEOS`."""
    return made(name, **VIDEOS[name])  # type: ignore[arg-type]
