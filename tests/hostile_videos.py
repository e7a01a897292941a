"""The videos that reading is judged by: files that lie about sizes, lengths and rates, loops, bombs, and other files.

Each is made here, and says what is right: `decode` to frames of these numbers, `refuse`, `either` (an error, or
pictures, of whatever frames there are), or `limit` (refuse, because it is too large). None may take long, or much
memory, and none may make the reader open another file.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import struct
from collections.abc import Iterator
from fractions import Fraction
from typing import Literal

import av
import corpus
import numpy as np
import videos
from hostile_files import cuts, patched
from PIL import Image

Verdict = Literal["decode", "refuse", "either", "limit"]
_MOST32, _HALF32 = b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"


@dataclasses.dataclass(frozen=True)
class File:
    """One file, and what is right."""

    name: str
    data: bytes
    must: Verdict
    numbers: tuple[int, ...] | None = None  #: of the frames, where they are known


def box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content) + 8) + name + content


def at(data: bytes, name: bytes, offset: int, content: bytes) -> bytes:
    """An MP4 file with other bytes at an offset in the content of each box of a name."""
    for place in videos.chunks(data, name):
        data = patched(data, place + offset, content)
    return data


def boxes(data: bytes) -> dict[bytes, bytes]:
    """The outermost boxes of an MP4 file, whole."""
    found, place = {}, 0
    while place < len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        found[data[place + 4 : place + 8]] = data[place : place + size]
        place += size
    return found


def index_first(data: bytes) -> bytes:
    """An MP4 file with its index before its frames, as for the web: what is cut off are frames."""
    parts = boxes(data)
    index, begin = parts[b"moov"], data.index(parts[b"mdat"])
    shift = len(parts[b"ftyp"]) + len(index) - begin
    for place in videos.chunks(index, b"stco"):
        count = int.from_bytes(index[place + 4 : place + 8], "big")
        offsets = np.frombuffer(index, ">u4", count, place + 8) + shift
        index = patched(index, place + 8, offsets.astype(">u4").tobytes())
    return parts[b"ftyp"] + index + parts[b"mdat"]


def _mp4s() -> Iterator[File]:
    good = videos.video("H.264, B frames")
    data, numbers = good.data, good.numbers
    early = index_first(data)
    yield File("MP4: index last", data, "decode", numbers)
    yield File("MP4: index first", early, "decode", numbers)
    for name, cut in cuts(data, 0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9).items():
        yield File(f"MP4: {name}, without its index", cut, "refuse")
    begin = early.index(b"mdat") + 4
    for share in (0.0, 0.1, 0.4, 0.7, 0.95):
        cut = early[: begin + int(share * (len(early) - begin))]
        yield File(f"MP4: frames cut at {share:.0%}", cut, "either")
    for name, part, offset in (
        ("time scale", b"mvhd", 12), ("time scale of the track", b"mdhd", 12), ("length", b"mvhd", 16),
        ("length of the track", b"mdhd", 16), ("length in the header", b"tkhd", 20), ("track number", b"tkhd", 12),
        ("width in the header", b"tkhd", 76), ("height in the header", b"tkhd", 80),
        ("number of times", b"stts", 4), ("frames of a time", b"stts", 8), ("duration of a frame", b"stts", 12),
        ("number of offsets of time", b"ctts", 4), ("offset of time", b"ctts", 12),
        ("number of chunks' rows", b"stsc", 4), ("first chunk", b"stsc", 8), ("frames of a chunk", b"stsc", 12),
        ("description of a chunk", b"stsc", 16), ("size of all frames", b"stsz", 4), ("number of sizes", b"stsz", 8),
        ("size of a frame", b"stsz", 12), ("number of chunks", b"stco", 4), ("place of a chunk", b"stco", 8),
        ("number of key frames", b"stss", 4), ("place of a key frame", b"stss", 8),
        ("number of edits", b"elst", 4), ("length of an edit", b"elst", 8), ("start of an edit", b"elst", 12),
        ("number of descriptions", b"stsd", 4), ("size of a description", b"stsd", 8),
    ):  # fmt: skip
        for value, content in (("0", bytes(4)), ("2**31 - 1", _HALF32), ("2**32 - 1", _MOST32)):
            yield File(f"MP4: {name} is {value}", at(early, part, offset, content), "either")
    for name, content in (("0", bytes(4)), ("65535 x 65535", b"\xff" * 4), ("1 x 32768", b"\0\1\x80\0")):
        yield File(f"MP4: size of {name} in the description", at(early, b"avc1", 24, content), "either")
    for size in (0, 1, 7, 8, 0x7FFFFFFF, 0xFFFFFFFF):
        for part in (b"moov", b"trak", b"stbl", b"mdat", b"avcC"):
            changed = patched(early, early.index(part) - 4, struct.pack(">I", size))
            yield File(f"MP4: box {part.decode()} of {size} bytes", changed, "either")
    index = boxes(early)[b"moov"]
    tracks = index[index.index(b"trak") - 4 :]
    tracks = tracks[: int.from_bytes(tracks[:4], "big")]
    head = boxes(early)[b"ftyp"]
    header = index[8 : index.index(b"trak") - 4]
    yield File("MP4: 2000 tracks", head + box(b"moov", header + tracks * 2000) + box(b"mdat", bytes(100)), "either")
    yield File("MP4: no track", head + box(b"moov", header) + boxes(early)[b"mdat"], "refuse")
    deep = b""
    for _ in range(20_000):
        deep = box(b"moov", deep)
    yield File("MP4: 20000 boxes in each other", head + deep, "refuse")
    yield File("MP4: 100000 empty boxes", head + box(b"moov", b"") * 100_000, "refuse")
    yield File("MP4: 100000 free boxes", head + box(b"free", b"") * 100_000 + early[len(head) :], "either")
    no_parameters = at(early, b"avcC", 4, bytes(30))
    yield File("MP4: no parameter sets", no_parameters, "either")
    frames = bytearray(early)
    frames[begin:] = bytes(len(early) - begin)
    yield File("MP4: frames of zeros", bytes(frames), "either")
    frames[begin:] = b"\xff" * (len(early) - begin)
    yield File("MP4: frames of ones", bytes(frames), "either")
    random = np.random.default_rng(3)
    for k in range(12):
        changed = bytearray(early)
        for place in random.integers(begin, len(early), 3 + 4 * k):
            changed[place] ^= 1 << int(random.integers(8))
        yield File(f"MP4: damaged frames, {k}", bytes(changed), "either")
    for k in range(12):
        changed = bytearray(early)
        for place in random.integers(len(head) + 8, begin, 2 + k):
            changed[place] = int(random.choice([0, 1, 127, 128, 255]))
        yield File(f"MP4: damaged index, {k}", bytes(changed), "either")
    yield File("MP4: sound alone", _sound_alone(), "refuse")


def _sound_alone() -> bytes:
    memory = io.BytesIO()
    with av.open(memory, "w", "mp4", options={"fflags": "+bitexact"}) as file:
        stream = file.add_stream("aac", rate=8000, layout="mono")
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 4000), np.float32), "fltp", "mono")
        silence.rate = 8000
        file.mux(stream.encode(silence))
        file.mux(stream.encode(None))
    return memory.getvalue()


def ebml(number: int, content: bytes, size: bytes | None = None) -> bytes:
    """An element of Matroska."""
    name = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return name + ((1 << 56 | len(content)).to_bytes(8, "big") if size is None else size) + content


_UNKNOWN, _HUGE = b"\x01" + b"\xff" * 7, b"\x01\x7f" + b"\xff" * 6


def _matroskas() -> Iterator[File]:
    vp9, ffv1 = videos.video("VP9"), videos.video("FFV1, odd sizes")
    yield File("WebM: good", vp9.data, "decode", vp9.numbers)
    yield File("Matroska: good", ffv1.data, "decode", ffv1.numbers)
    for video, kind in ((vp9, "WebM"), (ffv1, "Matroska")):
        for name, cut in cuts(video.data, 0.001, 0.02, 0.2, 0.5, 0.8, 0.99).items():
            yield File(f"{kind}: {name}", cut, "refuse" if name.endswith("at 0%") else "either")
    start = vp9.data[: vp9.data.index(b"\x18\x53\x80\x67")]
    for name, number in (("segment", 0x18538067), ("tracks", 0x1654AE6B), ("cluster", 0x1F43B675)):
        place = vp9.data.index(number.to_bytes(4, "big")) + 4
        for size, content in (
            ("unknown", _UNKNOWN),
            ("2**56 - 2", b"\x01" + b"\xff" * 6 + b"\xfe"),
            ("0", b"\x01" + bytes(7)),
        ):
            yield File(f"WebM: {name} of size {size}", patched(vp9.data, place, content), "either")

    def track(width: int, height: int, codec: bytes = b"V_VP9", private: bytes = b"", **other: bytes) -> bytes:
        extents = ebml(0xB0, width.to_bytes(8, "big")) + ebml(0xBA, height.to_bytes(8, "big"))
        return ebml(0xAE, b"".join([
            ebml(0xD7, b"\1"), ebml(0x73C5, b"\1"), ebml(0x83, b"\1"), ebml(0x86, codec), *other.values(),
            ebml(0x63A2, private) if private else b"", ebml(0xE0, extents),
        ]))  # fmt: skip

    blocks = ebml(0x1F43B675, ebml(0xE7, b"\0") + ebml(0xA3, b"\x81\0\0\x80" + bytes(40)))
    for width, height in (
        (0, 0),
        (1 << 31, 1 << 31),
        ((1 << 32) - 1, 1),
        ((1 << 63) - 1, (1 << 63) - 1),
        (65535, 65535),
    ):
        content = ebml(0x1654AE6B, track(width, height)) + blocks
        yield File(f"WebM: {width} x {height}", start + ebml(0x18538067, content), "refuse")
    for codec in (
        b"V_UNCOMPRESSED",
        b"V_MS/VFW/FOURCC",
        b"V_QUICKTIME",
        b"V_PRORES",
        b"V_THEORA",
        b"V_AV1",
        b"X" * 1000,
    ):
        content = ebml(0x1654AE6B, track(64, 48, codec, bytes(100))) + blocks
        yield File(f"Matroska: frames of zeros for {codec[:20].decode()}", start + ebml(0x18538067, content), "either")
    content = ebml(0x1654AE6B, track(64, 48) * 5000) + blocks
    yield File("WebM: 5000 tracks of one number", start + ebml(0x18538067, content), "either")
    rate = track(64, 48, duration=ebml(0x23E383, bytes(7) + b"\1"))
    yield File(
        "WebM: a thousand million frames a second", start + ebml(0x18538067, ebml(0x1654AE6B, rate) + blocks), "either"
    )
    seeks = ebml(0x114D9B74, ebml(0x4DBB, ebml(0x53AB, b"\x11\x4d\x9b\x74") + ebml(0x53AC, b"\0")))
    yield File("WebM: its index of places points to itself", start + ebml(0x18538067, seeks * 50 + blocks), "refuse")
    cues = ebml(
        0x114D9B74, ebml(0x4DBB, ebml(0x53AB, b"\x1c\x53\xbb\x6b") + ebml(0x53AC, (1 << 62).to_bytes(8, "big")))
    )
    yield File(
        "WebM: its index lies beyond the end", start + ebml(0x18538067, cues + vp9.data[len(start) + 12 :]), "either"
    )
    scale = ebml(0x1549A966, ebml(0x2AD7B1, bytes(8)))
    yield File(
        "WebM: a time scale of 0", start + ebml(0x18538067, scale + ebml(0x1654AE6B, track(64, 48)) + blocks), "either"
    )
    deep = b""
    for _ in range(2000):
        deep = ebml(0xAE, deep)
    yield File("WebM: 2000 tracks in each other", start + ebml(0x18538067, ebml(0x1654AE6B, deep)), "refuse")
    random = np.random.default_rng(4)
    for video, kind in ((vp9, "WebM"), (ffv1, "Matroska")):
        for k in range(12):
            changed = bytearray(video.data)
            for place in random.integers(40, len(changed), 3 + 5 * k):
                changed[place] ^= 1 << int(random.integers(8))
            yield File(f"{kind}: damaged, {k}", bytes(changed), "either")


def _avis() -> Iterator[File]:
    good = videos.video("MJPEG")
    data = good.data
    yield File("AVI: good", data, "decode", good.numbers)
    for name, cut in cuts(data, 0.01, 0.1, 0.4, 0.9).items():
        yield File(f"AVI: {name}", cut, "refuse" if name.endswith("at 1%") else "either")
    main, stream, form = (data.index(name) + 8 for name in (b"avih", b"strh", b"strf"))
    for name, place in (
        ("microseconds a frame", main), ("frames", main + 16), ("streams", main + 24), ("width", main + 32),
        ("scale of time", stream + 20), ("rate", stream + 24), ("start", stream + 28), ("length", stream + 32),
        ("size of a frame", stream + 44), ("width of the picture", form + 4), ("height of the picture", form + 8),
        ("size of the description", form - 4), ("size of the first list", 16),
    ):  # fmt: skip
        for value, content in (("0", bytes(4)), ("2**31 - 1", _HALF32[::-1]), ("2**32 - 1", _MOST32)):
            yield File(f"AVI: {name} is {value}", patched(data, place, content), "either")
    lists = b""
    for _ in range(5000):
        lists = b"LIST" + struct.pack("<I", len(lists) + 4) + b"hdrl" + lists
    yield File("AVI: 5000 lists in each other", b"RIFF" + struct.pack("<I", len(lists) + 4) + b"AVI " + lists, "refuse")
    index = data.index(b"idx1")
    yield File(
        "AVI: an index of places beyond the end", data[: index + 8] + b"\xff" * (len(data) - index - 8), "either"
    )


def _streams() -> Iterator[File]:
    good = videos.video("H.264, a transport stream")
    yield File("TS: good", good.data, "decode", good.numbers)
    for name, cut in cuts(good.data, 0.01, 0.3, 0.9).items():
        yield File(f"TS: {name}", cut, "either")
    random = np.random.default_rng(5)
    for k in range(8):
        packets = np.frombuffer(good.data, np.uint8).reshape(-1, 188).copy()
        packets[random.integers(len(packets), size=1 + k), 1:3] = random.integers(256, size=2)
        yield File(f"TS: packets of other streams, {k}", packets.tobytes(), "either")
    noise = random.integers(256, size=(2000, 188)).astype(np.uint8)
    noise[:, 0] = 0x47
    yield File("TS: random packets", noise.tobytes(), "refuse")
    bare = _elementary()
    yield File("H.264 without a container", bare, "either")
    yield File("H.264: one parameter set again and again", bare[:40] * 5000, "either")
    yield File("H.264: empty units", b"\0\0\1" * 100_000, "refuse")
    yield File(
        "MPEG-2: start codes alone", b"\0\0\1\xb3\x04\x00\x30\x13\xff\xff\xe0\0" + b"\0\0\1\0" * 50_000, "either"
    )


def _elementary() -> bytes:
    """The stream of an H.264 file, with start codes."""
    memory = io.BytesIO()
    with (
        av.open(io.BytesIO(videos.video("H.264, a transport stream").data)) as file,
        av.open(memory, "w", "h264") as bare,
    ):
        stream = bare.add_stream_from_template(file.streams.video[0])
        for packet in file.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                bare.mux(packet)
    return memory.getvalue()


#: Texts by which FFmpeg would open other files, and those that it would make pictures of.
_OTHER = "file:///etc/hostname"
_SDP = ("v=0", "o=- 0 0 IN IP4 127.0.0.1", "s=x", "c=IN IP4 127.0.0.1", "t=0 0", "m=video 5004 RTP/AVP 96")
_DASH = (
    '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period><AdaptationSet '
    f'mimeType="video/mp4"><Representation id="1" bandwidth="1"><BaseURL>{_OTHER}</BaseURL></Representation>'
    "</AdaptationSet></Period></MPD>"
)
_TEXTS = {
    "a playlist": f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{_OTHER}\n#EXT-X-ENDLIST\n",
    "a list of files": f"ffconcat version 1.0\nfile '{_OTHER}'\n",
    "a session": "\n".join([*_SDP, "a=rtpmap:96 H264/90000"]),
    "a presentation": _DASH,
    "subtitles": "1\n00:00:00,000 --> 00:00:01,000\nhello\n",
    "a redirection": f"[Reference]\nRef1={_OTHER}\n",
    "metadata": ";FFMETADATA1\ntitle=x\n",
}


def _others() -> Iterator[File]:
    sounds = corpus.small_sounds()
    yield File("nothing", b"", "refuse")
    yield File("one byte", b"\0", "refuse")
    yield File("a text", b"These are no frames.\n" * 20, "refuse")
    yield File("zeros", bytes(100_000), "refuse")
    yield File(
        "random bytes", np.random.default_rng(6).integers(256, size=100_000).astype(np.uint8).tobytes(), "refuse"
    )
    for name in ("PNG", "BMP"):
        yield File(f"an image, {name}", corpus.small_files()[name], "refuse")
    for name, data in list(sounds.items())[:3]:
        yield File(f"a sound, {name}", data, "refuse")
    for name, text in _TEXTS.items():
        yield File(name, text.encode() + b"\n" * 2000, "refuse")


def _bombs() -> Iterator[File]:
    """Few bytes that ask for much memory or time."""
    early = index_first(videos.video("H.264, B frames").data)
    for count in (len(early) + 1, 1 << 26, (1 << 32) - 1):
        one_size = at(early, b"stsz", 4, struct.pack(">II", 1, count))
        yield File(f"MP4: {count} frames of a byte", one_size, "refuse")
        part = box(b"moof", box(b"mfhd", bytes(8)) + box(b"traf", box(b"tfhd", struct.pack(">II", 0, 1)) + box(
            b"trun", struct.pack(">II", 0, count))))  # fmt: skip
        yield File(f"MP4: a fragment of {count} frames", early + part + box(b"mdat", bytes(8)), "refuse")
    side = 11600
    jpeg = corpus.encoded(Image.new("L", (side, side), 96), "JPEG")
    yield File(f"MJPEG: {side**2} pixels in {len(jpeg) >> 10} kB", muxed("mjpeg", side, side, [jpeg] * 3), "limit")
    small = videos.video("MJPEG").data
    place = small.index(b"\xff\xc0") + 5
    yield File("MJPEG: a header of 65500 x 65500", patched(small, place, b"\xff\xdc" * 2), "either")
    with av.open(
        io.BytesIO(videos.made(codec="libvpx", format="webm", frames=5, pixels=lambda _: _STILL).data)
    ) as file:
        packets = [bytes(packet) for packet in file.demux(video=0) if packet.dts is not None]
    yield File(
        "VP8: 50000 frames alike", muxed("vp8", 48, 64, packets + packets[-1:] * 50_000), "either", (5,) * 50_005
    )


_STILL = videos.picture(5, 48, 64)


def muxed(codec: str, height: int, width: int, packets: list[bytes]) -> bytes:
    """A Matroska file of packets as they are."""
    memory = io.BytesIO()
    with av.open(memory, "w", "matroska", options={"fflags": "+bitexact"}) as file:
        stream = file.add_stream("libvpx" if codec == "vp8" else codec, rate=25)
        stream.height, stream.width, stream.pix_fmt = height, width, "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for time, data in enumerate(packets):
            packet = av.Packet(data)
            packet.stream, packet.time_base = stream, Fraction(1, 25)
            packet.pts = packet.dts = time
            packet.is_keyframe = time == 0
            file.mux(packet)
    return memory.getvalue()


@functools.cache
def files() -> dict[str, File]:
    """All files, by their names."""
    found = [file for part in (_mp4s, _matroskas, _avis, _streams, _others, _bombs) for file in part()]
    by_name = {file.name: file for file in found}
    assert len(by_name) == len(found)
    return by_name
