"""Videos: a table of their frames, and the frames of any numbers, by FFmpeg's libraries (PyAV).

A table is made of packets, without decoding: a number names the same frame whatever was read before. Frames are decoded
from the key frame before them on. Where packets do not tell which frames there are, all are decoded once to count them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from types import TracebackType
from typing import Any, BinaryIO, Literal, NoReturn, Self, TypeAlias, cast

import numpy

from dynamic._arrays.array import Array
from dynamic._core import film
from dynamic.errors import DecodeError, Failure
from dynamic.kernels.cpu.images.convert import upright

__all__ = ["MOST_FRAMES", "SCALING", "Colours", "Damaged", "Table", "Video", "refused"]

Colours: TypeAlias = Literal["RGB", "YCbCr"]

MOST_FRAMES = 2**24  #: of a file; a day at 120 frames a second has less
_MOST_PIXELS = 2**26  # of a frame: twice those of 8K
#: Flags of libswscale: SWS_BILINEAR, SWS_FULL_CHR_H_INT and SWS_ACCURATE_RND, by which its colours are those of DALI.
SCALING = 0x2 | 0x2000 | 0x40000
_NEAR = 16  # frames that are decoded and left out rather than sought over
_BUFFER = 1 << 16  # bytes that FFmpeg asks for at once

#: Containers and decoders that are used. FFmpeg has others: playlists, which open addresses, and formats that few try.
_CONTAINERS = (
    "avi,flv,h264,hevc,ivf,matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,m4v,mpeg,mpegvideo,mpegts,nut,ogg,asf,mjpeg,obu,av1"
)
_DECODERS = (
    "av1,dnxhd,dvvideo,ffv1,ffvhuff,flv,h263,h263p,h264,hevc,huffyuv,libdav1d,libvpx,libvpx-vp9,mjpeg,mpeg1video,"
    "mpeg2video,mpeg4,msmpeg4,msmpeg4v1,msmpeg4v2,png,prores,rawvideo,theora,utvideo,vc1,vp8,vp9,wmv1,wmv2,wmv3"
)
_STRICT = {"err_detect": "explode", "max_pixels": str(_MOST_PIXELS), "codec_whitelist": _DECODERS}
#: Decoders of streams whose packets in AVI do not say when a frame is shown.
_REORDERING = frozenset(("mpeg4", "h264", "hevc", "msmpeg4v1", "msmpeg4v2", "msmpeg4", "vc1", "wmv3"))
_HOLDERS = frozenset(b"moov trak mdia minf stbl moof traf mvex edts udta meta tref".split())  # boxes of MP4 with others
_COUNTED = {b"stsz": 8, b"stz2": 8, b"trun": 4}  # boxes with a number of samples, and its place there
_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)")  # of the tags of Matroska
#: EXIF's orientations by the signs of a display matrix: the parts of x and y in the new x, and in the new y.
_TURNS = {
    (1, 0, 0, 1): 1,
    (-1, 0, 0, 1): 2,
    (-1, 0, 0, -1): 3,
    (1, 0, 0, -1): 4,
    (0, 1, 1, 0): 5,
    (0, 1, -1, 0): 6,
    (0, -1, -1, 0): 7,
    (0, -1, 1, 0): 8,
}


class Damaged(DecodeError):
    """A video that ends early, or contradicts itself."""


def refused(kind: str | None, reason: str, error: type[DecodeError] = DecodeError) -> DecodeError:
    """The error of one file."""
    return error("decoders.video", [Failure(0, reason, kind)])


@dataclasses.dataclass(frozen=True)
class Table:
    """The frames of a video, in the order in which they are shown.

    Attributes:
        format: Container and codec, as in "MP4 (h264)".
        times: When each is shown, in units of `base`: int64, rising.
        end: When the last one ends.
        base: Seconds of a unit.
        keys: Presentation and decoding time of each key frame: int64 of shape (K, 2).
        starts: The key frame that each frame is decoded from.
        counted: Whether frames were counted by decoding. Then all are decoded from the first.
        shape: Height and width, upright.
        orientation: EXIF's number, by which stored frames are turned.
    """

    format: str
    times: Array
    end: int
    base: Fraction
    keys: Array
    starts: Array
    counted: bool
    shape: tuple[int, int] = (0, 0)
    orientation: int = 1

    def __len__(self) -> int:
        return len(self.times)

    @property
    def seconds(self) -> Array:
        """When each frame is shown after the first: float64."""
        seconds: Array = (self.times - self.times[0]) * self.base.numerator / self.base.denominator
        return seconds

    @property
    def rate(self) -> float:
        """Frames a second, by the mean."""
        span = (self.end - int(self.times[0])) * self.base
        return float(len(self) / span) if span > 0 else 0.0

    @property
    def is_constant(self) -> bool:
        """Whether frames follow each other at one distance, but for the rounding of times."""
        if len(self) < 3:
            return True
        steps = numpy.diff(self.times)
        return bool(steps.max() - steps.min() <= max(1, int(steps.mean()) // 100))


class Video:
    """An open video. It is closed by ``with``.

    Args:
        source: The bytes of the file, or the file, open for reading; whoever opened it closes it.
        table: That of an earlier `Video` of the same file, which is not made again.
        adjust_orientation: Turn frames upright.
        threads: Of the decoder; results do not depend on them.

    Raises:
        DecodeError: The file is no video that can be decoded; `Damaged` if it is cut off or contradicts itself.
    """

    def __init__(
        self,
        source: bytes | memoryview | BinaryIO,
        table: Table | None = None,
        *,
        adjust_orientation: bool = True,
        threads: int = 1,
    ) -> None:
        self._file: Any = io.BytesIO(source) if isinstance(source, (bytes, memoryview)) else source
        self._upright, self._threads = adjust_orientation, threads
        self._fresh = False  # whether no packet has been read
        self._going: tuple[Iterator[tuple[int, Any]], int] | None = None  # the frames behind the one that was read last
        self._site: tuple[int, int] | tuple[()] | None = None  # of chroma: one that is known, none, or not known yet
        self._container: Any = None
        self._stream: Any = None
        self._decoder: Any = None
        if table is None:
            _check_counts(self._file)
        self._reopen()
        try:
            self.table = self._listed() if table is None else table
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the memory of the decoder."""
        self._going = None
        self._stream, self._decoder = None, None
        if self._container is not None:
            self._container.close()
            self._container = None

    def read(self, numbers: Sequence[int], out: Array | Sequence[Array], colours: Colours = "RGB") -> None:
        """Decode frames.

        Args:
            numbers: Which, in any order; some may come several times. Nothing is written in the place of -1.
            out: For each memory of uint8, of shape (height, width, 3).
            colours: "RGB", or "YCbCr": the values that are stored, in limited range.

        Raises:
            Damaged: A frame cannot be decoded.
        """
        places: dict[int, list[int]] = {}
        for place, number in enumerate(numbers):
            if number >= 0:
                places.setdefault(int(number), []).append(place)
        wanted, done = sorted(places), 0

        def take(number: int, frame: Any) -> None:
            first, *others = places[number]
            self._convert(number, frame, colours, out[first])
            for other in others:
                out[other][...] = out[first]

        while done < len(wanted):
            done += self._run(wanted[done:], take)

    # -- opening ------------------------------------------------------------------------------------------------------

    def _reopen(self) -> None:
        """Open the file anew, at its beginning."""
        try:
            import av
        except ImportError as error:
            reason = f"this needs PyAV: pip install 'dynamic-batch[video]' ({error})"
            raise refused(None, reason) from None
        if self._container is not None:
            self.close()
        self._file.seek(0)
        with _wording(None, "cannot be opened: "):
            self._container = av.open(
                self._file,
                options=_STRICT | {"err_detect": "0"},
                container_options={"format_whitelist": _CONTAINERS},
                **({"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}),
                buffer_size=_BUFFER,
                io_open=_no_other_file,
            )
        name = self._container.format.name
        streams = [s for s in self._container.streams.video if not s.disposition & 0x400]  # a picture of a cover
        best = self._container.streams.best("video") if streams else None
        if best is None:
            self.close()
            raise refused(_SHORT.get(name, name), "it has no video stream")
        self._stream = best if best in streams else streams[0]
        self._decoder = self._stream.codec_context
        codec = self._decoder.name if self._decoder is not None else "an unknown codec"
        self.format = f"{_SHORT.get(name, name)} ({codec})"
        if self._decoder is None or codec not in _DECODERS.split(","):
            self.close()
            raise refused(self.format, "its codec is not decoded here")
        self._decoder.options = dict(_STRICT)
        self._decoder.thread_count = self._threads
        self._fresh = True

    def _packets(self) -> Iterator[Any]:
        """The packets of the stream from here on."""
        self._fresh = False
        with _wording(self.format, "cannot be read: "):
            for packet in self._container.demux(self._stream):
                if packet.size:
                    yield packet

    # -- the table ----------------------------------------------------------------------------------------------------

    def _listed(self) -> Table:
        """The frames by their packets; by decoding where these do not tell."""
        base = _fraction(self._stream.time_base) or Fraction(1, 1000)
        rows, told = list[tuple[int, int, int, bool, bool]](), True
        hidden = self._decoder.name in ("vp8", "libvpx")
        for packet in self._packets():
            if packet.is_corrupt:
                self._check_end(len(rows))
                raise refused(self.format, f"it is cut off or damaged at packet {len(rows)}", Damaged)
            if hidden and not memoryview(packet)[0] & 0x10:
                continue  # it is shown nowhere
            if packet.pts is None or packet.dts is None:
                told = False
            rows.append((packet.pts or 0, packet.dts or 0, packet.duration or 0, packet.is_keyframe, packet.is_discard))
            if len(rows) > MOST_FRAMES:
                raise refused(self.format, f"it has more than {MOST_FRAMES} frames")
        self._check_end(len(rows))
        if not rows:
            raise refused(self.format, "it has no frames", Damaged)
        columns = numpy.array(rows, numpy.int64)
        table = self._by_packets(columns, base) if told and self._tells(columns) else self._by_decoding(base)
        self._check_duration(table)
        return table

    def _check_end(self, packets: int) -> None:
        """Refuse a file that says it is longer, or has more frames, than it is and has."""
        kind = self.format.partition(" ")[0]
        entries = self._stream.index_entries if kind == "MP4" else ()  # without those that an edit list leaves out
        said = sum(entry.size > 0 for entry in entries)
        if packets < said:
            raise refused(self.format, f"it ends after {packets} of {said} frames", Damaged)
        if kind in ("AVI", "Matroska"):
            place = self._file.tell()
            self._file.seek(0)
            start, size = self._file.read(128), self._file.seek(0, io.SEEK_END)
            self._file.seek(place)
            wanted = int.from_bytes(start[4:8], "little") + 8 if kind == "AVI" else _matroska_size(start)
            if size < wanted:
                raise refused(self.format, f"it ends after {size} of {wanted} bytes", Damaged)

    def _check_duration(self, table: Table) -> None:
        """Refuse a Matroska file that says it lasts longer: damage hides the frames behind it."""
        if not self.format.startswith("Matroska"):
            return
        tag, alone = self._stream.metadata.get("DURATION", ""), len(self._container.streams) == 1
        found = _CLOCK.fullmatch(tag.rstrip("\0 "))
        said = (self._container.duration or 0) / 1e6 if alone else 0.0
        if found is not None:
            said = 3600 * int(found[1]) + 60 * int(found[2]) + float(found[3])
        there = float(table.end * table.base)
        if said > there + max(1.0, 2 / (table.rate or 1.0)):
            raise refused(self.format, f"it ends after {there:.4g} of {said:.4g} seconds", Damaged)

    def _tells(self, columns: Array) -> bool:
        """Whether times of packets are those of frames: each once, and none is shown before the first key frame."""
        times, decoded, keys, hidden = columns[:, 0], columns[:, 1], columns[:, 3] > 0, columns[:, 4] > 0
        shown = times[~hidden]
        return bool(
            len(shown)
            and keys[0]
            and (numpy.diff(decoded) > 0).all()
            and (times >= decoded).all()
            and times.min() == times[0]
            and len(numpy.unique(shown)) == len(shown)
            and not (self.format.startswith("AVI") and self._decoder.name in _REORDERING)
        )

    def _by_packets(self, columns: Array, base: Fraction) -> Table:
        times, keys, hidden = columns[:, 0], columns[:, 3] > 0, columns[:, 4] > 0
        starts = numpy.cumsum(keys) - 1
        at = numpy.flatnonzero(keys)
        early = times < times[at[starts]]  # shown before the key frame: it may need the one before that
        starts = starts - early
        rows = numpy.flatnonzero(~hidden)
        rows = rows[numpy.argsort(times[rows], kind="stable")]
        last = columns[rows[-1]]
        steps = numpy.diff(times[rows])
        after = int(last[2]) or (int(steps[-1]) if len(steps) else 0)
        found = times[rows], int(last[0]) + after, base, columns[at, :2], starts[rows]
        return self._shaped(Table(self.format, *found, counted=False))

    def _by_decoding(self, base: Fraction) -> Table:
        times, before, frames = list[int](), list[Any](), 0
        for _, frame in self._counted():
            frames += 1
            before.append(frame.pts)
        if not frames:
            raise refused(self.format, "none of its frames can be decoded", Damaged)
        times = [time for time in before if time is not None]
        if len(times) < frames or any(b <= a for a, b in itertools.pairwise(times)):
            rate = _fraction(self._stream.average_rate) or _fraction(self._stream.guessed_rate) or Fraction(25)
            base, times = 1 / rate, list(range(frames))
        column = numpy.array(times, numpy.int64)
        after = int(column[-1] - column[-2]) if frames > 1 else 1
        none = numpy.zeros(frames, numpy.int64)
        first = numpy.zeros((1, 2), numpy.int64)
        return self._shaped(Table(self.format, column, times[-1] + after, base, first, none, counted=True))

    def _shaped(self, table: Table) -> Table:
        """The same, with the shape and the orientation of the first frame."""
        self.table = table
        found: list[tuple[int, int, int]] = []
        self._run([0], lambda _, frame: found.append((frame.height, frame.width, _orientation(frame))))
        height, width, orientation = found[0]
        if self._upright and orientation >= 5:
            height, width = width, height
        shape = height, width
        fields = {
            name: getattr(table, name) for name in ("format", "times", "end", "base", "keys", "starts", "counted")
        }
        return Table(**fields, shape=shape, orientation=orientation if self._upright else 1)

    # -- decoding -----------------------------------------------------------------------------------------------------

    def _run(self, wanted: Sequence[int], take: Any) -> int:
        """Decode the first of some frames in rising order, and others near it. Tell how many these are."""
        table = self.table
        key, back, why = int(table.starts[wanted[0]]), 1, ""
        (frames, last), self._going = self._going or (None, 0), None
        if last >= wanted[0] or not (table.counted or last + 1 >= self._begin(wanted[0])):
            frames = None
        while True:
            done, goes_on = 0, frames is not None
            frames = frames or (self._counted() if table.counted else self._from(key))
            try:
                for number, frame in frames:
                    if number > wanted[done]:
                        break  # it is missing
                    if number == wanted[done]:
                        if frame.is_corrupt:
                            raise refused(self.format, "it is damaged", Damaged)
                        take(number, frame)
                        done += 1
                        if done == len(wanted) or self._is_far(number, wanted[done]):
                            self._going = frames, number
                            return done
                why = "none of its packets gives it"
            except DecodeError as error:
                why = error.failures[0].reason
            if done:
                return done  # the next call tries the others, and from earlier key frames
            frames = None
            if goes_on:
                continue
            if not key:
                raise refused(self.format, f"frame {wanted[0]} of {len(table)} cannot be decoded: {why}", Damaged)
            key, back = max(0, key - back), back * 2  # not a key frame that stands alone, then

    def _is_far(self, number: int, other: int) -> bool:
        """Whether to seek to a later frame rather than to decode all up to it."""
        table = self.table
        if table.counted or table.starts[other] == table.starts[number]:
            return False
        return self._begin(other) - number > _NEAR

    def _begin(self, number: int) -> int:
        """The number of the key frame that a frame is decoded from."""
        return int(numpy.searchsorted(self.table.times, self.table.keys[self.table.starts[number], 0]))

    def _counted(self) -> Iterator[tuple[int, Any]]:
        """The frames from the beginning on, counted. Packets that cannot be decoded before the first are left out."""
        if not self._fresh:
            self._reopen()
        count = 0
        for packet in self._fed():
            try:
                frames = self._decoded(packet)
            except DecodeError:
                if count:
                    raise
                continue
            for frame in frames:
                yield count, frame
                count += 1

    def _fed(self) -> Iterator[Any]:
        yield from self._packets()
        yield None

    def _from(self, key: int) -> Iterator[tuple[int, Any]]:
        """The frames from a key frame on, numbered by their times."""
        table = self.table
        presented, decoded = table.keys[key].tolist()
        checked = not key
        for packet in self._sought(presented, decoded):
            if packet is not None and packet.pts is not None and packet.pts < presented and key:
                continue  # shown before the key frame, it needs others before that
            for frame in self._decoded(packet):
                if not checked and (frame.pts != presented or frame.pict_type != 1):
                    raise refused(self.format, "its key frame needs others before it", Damaged)
                checked = True
                number = int(numpy.searchsorted(table.times, frame.pts)) if frame.pts is not None else -1
                if not 0 <= number < len(table) or table.times[number] != frame.pts:
                    raise refused(self.format, f"a frame is shown at {frame.pts}, which no packet says", Damaged)
                yield number, frame

    def _sought(self, presented: int, decoded: int) -> Iterator[Any]:
        """The packets from a key frame on, and None at their end. Where a container does not seek, all are read."""
        begins = (presented, decoded) == tuple(self.table.keys[0].tolist())
        if not (begins and self._fresh):
            self._fresh = False
            for time in dict.fromkeys((presented, decoded)):
                found = None
                with contextlib.suppress(DecodeError):
                    with _wording(self.format, ""):
                        self._container.seek(time, stream=self._stream)
                    found = self._up_to(presented, decoded)
                if found is not None:
                    yield from found
                    return
            self._reopen()
        found = self._up_to(presented, decoded)
        if found is None:
            raise refused(self.format, "its packets are no more those that were listed", Damaged)
        yield from found

    def _up_to(self, presented: int, decoded: int) -> Iterator[Any] | None:
        """The packets from here on, without those before a key frame; None if it is none of them."""
        packets = self._packets()
        for packet in packets:
            if packet.dts == decoded and packet.pts == presented:

                def rest(first: Any) -> Iterator[Any]:
                    yield first
                    yield from packets
                    yield None

                return rest(packet)
            if packet.dts is not None and packet.dts > decoded:
                return None
        return None

    def _decoded(self, packet: Any) -> list[Any]:
        """The frames that come out for a packet, or at the end."""
        with _wording(self.format, ""):
            return cast("list[Any]", self._decoder.decode(packet))

    def _convert(self, number: int, frame: Any, colours: Colours, out: Array) -> None:
        """A decoded frame as pixels."""
        turn = self.table.orientation
        height, width = (frame.width, frame.height) if turn >= 5 else (frame.height, frame.width)
        if (height, width) != out.shape[:2]:
            reason = (
                f"frame {number} has {height} x {width} pixels, where the first has {out.shape[0]} x {out.shape[1]}"
            )
            raise refused(self.format, reason, Damaged)
        stored = out if turn == 1 else numpy.empty((frame.height, frame.width, 3), numpy.uint8)
        planar = colours == "RGB" and film.in_use() and _is_planar(frame)
        if not (planar and self._site and _rgb(frame, _planes(frame), stored, self._site)):
            self._scale(number, frame, colours, stored)
            if planar and self._site is None:
                self._site = _site_of(frame, stored)
        if turn != 1:
            upright(stored, turn, out)

    def _scale(self, number: int, frame: Any, colours: Colours, out: Array) -> None:
        """A decoded frame as pixels, as it is stored, by libswscale."""
        with _wording(self.format, f"frame {number}: "):
            made = frame.reformat(
                format="rgb24" if colours == "RGB" else "yuv444p",
                interpolation=SCALING,
                dst_color_range=None if colours == "RGB" else "MPEG",
                threads=1,
            )
        if colours == "RGB":
            (plane,) = made.planes
            rows = numpy.frombuffer(plane, numpy.uint8).reshape(plane.height, plane.line_size)
            out[...] = rows[:, : 3 * made.width].reshape(made.height, made.width, 3)
        else:
            for k, plane in enumerate(made.planes):
                rows = numpy.frombuffer(plane, numpy.uint8).reshape(plane.height, plane.line_size)
                out[..., k] = rows[:, : plane.width]


_SHORT = {
    "mov,mp4,m4a,3gp,3g2,mj2": "MP4",
    "matroska,webm": "Matroska",
    "avi": "AVI",
    "mpegts": "MPEG-TS",
    "mpeg": "MPEG-PS",
}


def _fraction(value: Any) -> Fraction | None:
    """A number of PyAV, which has a type of its own for fractions from version 19 on; None if it is none, or 0."""
    return Fraction(value.numerator, value.denominator) if value is not None and value.denominator and value else None


def _check_counts(file: BinaryIO) -> None:
    """Refuse an MP4 file that says it has more samples than bytes: FFmpeg takes memory for all of them.

    Boxes and their fields: ISO/IEC 14496-12, 4.2, 8.7.3 and 8.8.8.
    """
    whole, said = file.seek(0, io.SEEK_END), 0
    parts = [(0, whole)]
    while parts:
        place, end = parts.pop()
        if end - place < 8:
            continue
        file.seek(place)
        head = file.read(32)
        size, kind, body = int.from_bytes(head[:4]), head[4:8], 8
        if size == 1:
            size, body = int.from_bytes(head[8:16]), 16
        last = min(end, place + size) if size else end
        if last < place + body:
            continue
        parts.append((last, end))
        if kind in _HOLDERS:
            parts.append((place + body, last))
        elif kind in _COUNTED:
            at = body + _COUNTED[kind]
            said += int.from_bytes(head[at : at + 4])
            if said > whole:
                raise refused("MP4", f"it says that it has {said} samples, in {whole} bytes", Damaged)


def _matroska_size(start: bytes) -> int:
    """The bytes that a file has by its header; 0 where that does not say."""
    place = 0
    for identity in (b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"):
        place += 4
        if start[place - 4 : place] != identity or place >= len(start) or not start[place]:
            return 0
        length = 9 - start[place].bit_length()
        size = int.from_bytes(start[place : place + length]) & (1 << 7 * length) - 1
        place += length + size
    return 0 if size == (1 << 7 * length) - 1 else place


#: Formats of planes of 8 bits that are converted here, with the results of libswscale.
_PLANAR = frozenset(f"yuv{kind}{sampling}p" for kind in ("", "j") for sampling in (420, 422, 444))
_FULL = 2  # range
_ROWS = 64  # that tell the site of chroma


def _is_planar(frame: Any) -> bool:
    return frame.format.name in _PLANAR and all(plane.line_size > 0 for plane in frame.planes)


def _planes(frame: Any) -> list[Array]:
    """Luma and both chromas of a frame."""
    return [
        numpy.frombuffer(plane, numpy.uint8)[: plane.height * plane.line_size].reshape(plane.height, -1)[
            :, : plane.width
        ]
        for plane in frame.planes
    ]


def _rgb(frame: Any, planes: Sequence[Array], out: Array, site: tuple[int, int]) -> bool:
    """Fill memory with the colours of planes of a frame; False leaves that to libswscale."""
    full = frame.format.name.startswith("yuvj") or int(frame.color_range) == _FULL
    return film.rgb(planes, out, int(frame.colorspace), site, full=full)


def _site_of(frame: Any, pixels: Array) -> tuple[int, int] | tuple[()] | None:
    """The site of chroma by which a frame has these pixels: none does, or None where several do."""
    planes, found = _planes(frame), set()
    (height, width), (rows, columns) = planes[0].shape, planes[1].shape
    wanted, ends = pixels, 0
    if height % 2 == 0 and height > _ROWS:  # then a few rows of the middle tell
        top = (height - _ROWS) // 4 * 2
        planes = [plane[top * len(plane) // height :][: _ROWS * len(plane) // height] for plane in planes]
        wanted, ends = pixels[top : top + _ROWS], 2
    made = numpy.empty_like(wanted)
    for site in film.SITES:
        inner = slice(ends, len(made) - ends)  # rows at the ends have other neighbours
        if _rgb(frame, planes, made, site) and numpy.array_equal(made[inner], wanted[inner]):
            found.add((site[0] if columns < width else 128, site[1] if rows < height else 128))
    return None if len(found) > 1 else found.pop() if found else ()


def _orientation(frame: Any) -> int:
    """EXIF's number of the orientation that a frame is to be shown in."""
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return 1
    a, b, _, c, d = numpy.sign(numpy.frombuffer(bytes(matrix), numpy.int32)[:5] >> 10).tolist()
    return _TURNS.get((a, b, c, d), 1)


def _no_other_file(url: str, flags: int, options: Mapping[str, str]) -> NoReturn:  # noqa: ARG001
    """Refuse parts of a file that lie elsewhere."""
    raise refused(None, "it names other files, which are not opened")


@contextlib.contextmanager
def _wording(kind: str | None, before: str) -> Iterator[None]:
    """Turn the error of FFmpeg into that of a file. One of memory too: a file that lies asks for more than there is."""
    from av.error import FFmpegError

    try:
        yield
    except FFmpegError as error:
        reason = error.strerror or str(error)
        raise refused(kind, f"{before}{reason[:1].lower()}{reason[1:]}", Damaged) from None
