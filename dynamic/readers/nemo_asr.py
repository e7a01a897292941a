"""The reader of speech and its transcripts, which NeMo's manifests list."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Unpack

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty
from dynamic._base.origin import Origin, sample_ids
from dynamic._base.pool import run
from dynamic._lift.argument import Between, DTypeArgument, argument
from dynamic.data import Batch
from dynamic.dtypes import numpy_dtype
from dynamic.errors import ArgumentError, DataError, DecodeError, Failure, displayed, shown
from dynamic.io._store import Store
from dynamic.kernels.cpu.recordings import Sound, opened

from ._checks import flag
from ._listing import Listing, _Namer, _Once, unlisted
from ._names import normal
from ._stored import Common, PathLike, Stored, called_with, paths_of

__all__ = ["NemoAsr"]

_OPERATOR = "readers.NemoAsr"
_MOST = 2**28  # values of a sound
_BYTE = numpy.dtype(numpy.uint8)


class _Entry(NamedTuple):
    """A line of a manifest."""

    path: str
    offset: float
    duration: float | None
    text: bytes


class NemoAsr(Stored["_Manifest", tuple[Batch, ...]]):
    """Reads speech and its transcripts: the entries of NeMo's manifests, JSON objects one after the other.

    An entry has an ``audio_filepath``, relative to the folder of its manifest, and may have an ``offset`` and a
    ``duration`` in seconds, which are the part that is read, and a ``text``.

    Each batch is the sound (float32, or `dtype`), and where they are asked for the sample rate of each (float32), the
    text as bytes of UTF-8 (uint8) and the number of the entry (int64, shape (1,)). Formats are those of
    `decoders.audio`.

    Args:
        max_batch_size: Default of the batch size, and the largest that is allowed.
        name: A name to show.
        device: "cpu", where files are read and decoded.
        num_inputs: 0; readers have none.
        manifest_filepaths: A path, or several.
        downmix: Make one channel of all, by their mean: sound of shape (values,), otherwise (values, channels).
        dtype: Element type of the sound, as for `decoders.audio`.
        max_duration: Entries with a longer duration are no samples; 0 allows any.
        min_duration: The same for shorter ones, and for those without a duration.
        quality: Of the resampling, as for `audio_resample`.
        read_idxs: Give the numbers of the entries.
        read_sample_rate: Give the sample rates.
        read_text: Give the texts.
        sample_rate: The rate to resample to, in hertz; 0 or less leaves that of the file.

    Raises:
        ArgumentError: An argument is wrong, or no entry is left.
        DataError: A manifest cannot be read, or an entry is none.

    >>> import json, pathlib, tempfile, wave
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> with wave.open(str(root / "yes.wav"), "wb") as file:
    ...     file.setparams((1, 2, 8000, 0, "NONE", ""))
    ...     file.writeframes(bytes(1600))
    >>> _ = (root / "all.json").write_text(json.dumps({"audio_filepath": "yes.wav", "duration": 0.1, "text": "yes"}))
    >>> reader = ndd.readers.NemoAsr(manifest_filepaths=root / "all.json")
    >>> for sounds, rates, texts in reader.next_epoch(batch_size=2):
    ...     print(sounds.shape, rates.tolist(), [bytes(text.array) for text in texts])
    [(800,)] [8000.0] [b'yes']
    """

    _operator: ClassVar[str] = _OPERATOR

    @called_with("manifest_filepaths")
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = "cpu",
        num_inputs: int | None = None,
        *,
        manifest_filepaths: PathLike | Sequence[PathLike],
        downmix: bool | None = True,
        dtype: Any = "float32",
        max_duration: float | None = 0.0,
        min_duration: float | None = 0.0,
        quality: float | None = 50.0,
        read_idxs: bool | None = False,
        read_sample_rate: bool | None = True,
        read_text: bool | None = True,
        sample_rate: float | None = -1.0,
        **common: Unpack[Common],
    ) -> None:
        self._downmix = flag(_OPERATOR, "downmix", downmix, default=True)
        self._dtype = numpy_dtype(_checked("dtype", DTypeArgument, "float32" if dtype is None else dtype))
        self._quality = _checked("quality", Annotated[float, Between(0, 100)], 50.0 if quality is None else quality)
        self._rate = max(0.0, _checked("sample_rate", float, sample_rate or 0.0))
        self._wanted = tuple(
            flag(_OPERATOR, argument, value, default=default)
            for argument, value, default in (
                ("read_sample_rate", read_sample_rate, True),
                ("read_text", read_text, True),
                ("read_idxs", read_idxs, False),
            )
        )
        least, most = (
            _checked(argument, Annotated[float, Between(0)], value or 0.0)
            for argument, value in (("min_duration", min_duration), ("max_duration", max_duration))
        )
        paths = paths_of(_OPERATOR, "manifest_filepaths", manifest_filepaths)
        list_samples = functools.partial(_listed, paths, least, most)
        super().__init__(max_batch_size, name, device, num_inputs, list_samples, **common)

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, ...]:
        sounds = self._opened(indices, self._files(indices))
        outs = [empty(sound.shape, self._dtype) for sound in sounds]
        self._tried(indices, lambda i: sounds[i].decode(outs[i]), 8 * sum(out.nbytes for out in outs))
        listing, ndim = self._listing, 1 if self._downmix else 2
        values = Batch(outs, None, origin, dtype=self._dtype, ndim=ndim)
        rates = Batch(numpy.array([sound.rate for sound in sounds], numpy.float32), origin=origin)
        texts = [numpy.frombuffer(listing.entries[i].text, _BYTE) for i in indices]
        numbers = Batch(numpy.array(listing.numbers[indices], numpy.int64).reshape(-1, 1), origin=origin)
        others = (rates, Batch(texts, origin=origin, dtype=_BYTE, ndim=1), numbers)
        return (values, *(batch for batch, wanted in zip(others, self._wanted, strict=True) if wanted))

    def _opened(self, indices: list[int], files: list[Array]) -> list[Sound]:
        """The headers of files, and the parts of them that are samples."""
        found = list[Any](files)

        def one(i: int) -> None:
            entry = self._listing.entries[indices[i]]
            recording = opened(numpy.ascontiguousarray(files[i]).data)
            if entry.offset:
                recording = recording.part(entry.offset, entry.duration)
            found[i] = Sound.of(recording, self._rate, _MOST, self._quality, downmix=self._downmix)

        self._tried(indices, one, 0)
        return found

    def _tried(self, indices: list[int], function: Any, work: float) -> None:
        """Call a function for the place of each sample; one error names all that it refuses."""
        failures: dict[int, Failure] = {}

        def one(i: int) -> None:
            try:
                function(i)
            except DecodeError as error:
                failure = error.failures[0]
                failures[i] = Failure(i, failure.reason, failure.format, self._listing.source(indices[i]))

        run(one, len(indices), work)
        if failures:
            raise DecodeError(_OPERATOR, [failures[i] for i in sorted(failures)], len(indices))


@dataclass(frozen=True)
class _Manifest(Listing):
    """The entries of manifests by the paths of their files.

    Attributes:
        entries: Their content.
        numbers: Their places in the manifests.
    """

    entries: Sequence[_Entry]
    numbers: Array

    @_Once
    def ids(self) -> Any:
        """The sample ids: hashes of the paths and offsets."""
        pairs = zip(self.names, self.entries, strict=True)
        return sample_ids([os.fsencode(normal(n) + (f"#{e.offset}" if e.offset else "")) for n, e in pairs])

    def ids_of(self, indices: Any) -> Any:
        """The ids of some samples."""
        return self.ids[indices]

    def labels_of(self, indices: Any) -> Any:
        """Hashes of all that entries say but their paths: int32 of shape (N, 2)."""
        found = [hashlib.blake2b(repr(self.entries[i][1:]).encode(), digest_size=8).digest() for i in indices]
        return numpy.frombuffer(b"".join(found), "<i4").reshape(-1, 2)


def _checked(name: str, annotation: Any, value: Any) -> Any:
    """An argument, checked as those of operators are."""
    return argument(_OPERATOR, Parameter(name, Parameter.KEYWORD_ONLY, default=None), annotation).one(value)


def _listed(paths: Sequence[str], least: float, most: float, store: Store) -> _Manifest:
    """The samples of manifests."""
    named = _Namer(_OPERATOR, "manifest_filepaths", _folder(store.plain(paths[0])), store)
    found = list[tuple[int, _Entry, str]]()
    number = 0
    for path in map(store.plain, paths):
        try:
            data = store.contents(path).tobytes()
        except OSError as error:
            raise unlisted(_OPERATOR, path, str(error.strerror)) from error
        for entry in _entries(path, data):
            if (entry.duration or 0.0) >= least and not (0 < most < (entry.duration or 0.0)):
                below = "://" not in entry.path and not Path(entry.path).is_absolute()
                name = named(f"{_folder(path)}/{entry.path}" if below else entry.path)
                found.append((number, entry, name.removeprefix(f"{named.root}/")))
            number += 1
    if not found:
        expected = "manifests with an entry of an allowed duration"
        raise ArgumentError(_OPERATOR, "manifest_filepaths", expected, ", ".join(map(displayed, paths)))
    names = [name for _, _, name in found]
    none = numpy.zeros((len(found), 0), numpy.int32)
    entries, numbers = [entry for _, entry, _ in found], numpy.array([number for number, _, _ in found])
    return _Manifest(named.root, names, none, entries, numbers, store=named.store)


def _folder(path: str) -> str:
    """The folder of a file, or of an object."""
    return path.replace(os.sep, "/").rpartition("/")[0]


def _entries(path: str, data: bytes) -> list[_Entry]:
    """The entries of a manifest."""
    found, place = list[_Entry](), 0

    def fault(reason: str) -> DataError:
        return unlisted(_OPERATOR, path, f"entry {len(found)} {reason}")

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fault(f"or a later one is no UTF-8, at byte {error.start}") from None
    decoder = json.JSONDecoder()
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            raise fault(f"is no JSON: {error}") from None
        if not isinstance(value, dict) or not isinstance(value.get("audio_filepath"), str):
            raise fault(f"has no audio_filepath: {displayed(shown(value))}")
        offset, duration, words = value.get("offset") or 0.0, value.get("duration"), value.get("text") or ""
        for name, each in (("offset", offset), ("duration", duration or 0.0)):
            if isinstance(each, bool) or not isinstance(each, (int, float)) or not 0 <= each < float("inf"):
                raise fault(f"has a wrong {name}: {shown(each)}")
        if not isinstance(words, str):
            raise fault(f"has a wrong text: {shown(words)}")
        if not value["audio_filepath"] or "\0" in value["audio_filepath"]:
            raise fault(f"has a wrong audio_filepath: {shown(value['audio_filepath'])}")
        text_of = words.encode(errors="surrogatepass")
        found.append(_Entry(value["audio_filepath"], float(offset), duration and float(duration), text_of))
    return found
