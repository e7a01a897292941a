"""Objects of stores elsewhere, by fsspec: many reads at once, each tried again where its fault may pass."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import errno
import hashlib
import http
import io
import os
import random
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self, TypeAlias, TypeVar, cast

import numpy

from dynamic._arrays.array import Array
from dynamic._base.locks import new_lock

from ._address import BY_HTTP, has_query, is_address, plain, safe, scheme_of, secrets_of
from ._bytes import Changed, Opened, Piece, Span, Unavailable, Version, _inside, _room, contents, opened, together
from ._cache import Cache
from ._s3 import Bucket, bucket_of

__all__ = [
    "Edition",
    "Entry",
    "OpenedThere",
    "Ranged",
    "Remote",
    "Wanted",
    "parts",
    "wholes",
]

X = TypeVar("X")

_CHANCE = random.Random()  # noqa: S311 - not that of the program, which may be seeded
_PAUSE, _LONGEST = 0.2, 20.0  # seconds before the second attempt, and the most before a later one
_SLOWEST = 1 << 16  # bytes in a second: with less, an attempt is given up
_RUN = 1 << 20  # bytes of parts that follow each other and are read by one request
_AT_ONCE = 1 << 22  # bytes of parts in one piece of memory
_AHEAD = 1 << 28  # bytes that are asked for before they are wanted, at most
_STEPS = 2  # times as many samples as reads are in flight
_BLOCK, _BLOCKS, _NEAR = 1 << 20, 8, 1 << 16  # bytes of a block of an archive; how many come ahead; of a block alone
_FOLDER = 32  # objects of a folder: so many and more are asked for by one listing of it
_CUT = ("Payload", "ContentLength", "IncompleteRead", "ResponseStreaming")  # in the names of errors
_AGAIN = frozenset([408, 425, 429])  # with these answers, and 500 to 599, a server asks for another attempt
#: The keys by which file systems tell one content of an object from another; the first that is there counts.
_TAGS = ("ETag", "etag", "generation", "md5Hash", "LastModified", "last_modified", "Last-Modified", "mtime", "updated",
         "created")  # fmt: skip
_S3 = ("s3", "s3a")  # schemes
_UNCHECKED = frozenset(["hf"])  # schemes of which each question for a tag counts against a limit of calls


class Wanted(NamedTuple):
    """All of an object, or a part of it."""

    path: str
    start: int = 0
    size: int | None = None
    version: Version | None = None


#: The same without the version: each object is wanted in one version.
_Part: TypeAlias = tuple[str, int, int | None]


class Entry(NamedTuple):
    """An object or a folder in a folder."""

    name: str
    is_folder: bool
    version: Version


class _Got(NamedTuple):
    """The answer to a request."""

    data: bytes
    whole: int | None = None  #: how many bytes the object has, where that is told
    tag: str | None = None


class _Fault(Exception):
    """An answer that is no content."""

    def __init__(self, reason: str, *, status: int = 0, passes: bool = False) -> None:
        super().__init__(reason)
        self.status, self.passes = status, passes


class Edition(Version):
    """The version of an object, the same on any machine."""

    __slots__ = ()

    def elsewhere(self) -> Version:
        return self


class _Live:
    """All that belongs to one process: file systems, a loop, requests that are under way."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.pid, self.loop = os.getpid(), loop
        self.systems: dict[str, Any] = {}
        self.turns: asyncio.Semaphore | None = None  # made in the loop
        self.tasks: set[asyncio.Task[None]] = set()
        self.buckets: dict[str, Bucket | None] = {}
        self.ahead: dict[_Part, tuple[Future[Any], int]] = {}
        self.taken = set[_Part]()  # of these: they stay for another attempt at the step, and no longer


class Remote:
    """Reads addresses, and paths of this machine beside them.

    Args:
        options: Arguments of the file systems of fsspec.
        retries: How often a read is tried again.
        timeout: Seconds without a byte after which an attempt has failed.
        in_flight: How many reads are under way together.
        cache: Where content is kept.
    """

    far = True

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        *,
        retries: int = 4,
        timeout: float = 60.0,
        in_flight: int = 32,
        cache: Cache | None = None,
    ) -> None:
        self._options = dict(options or {})
        self._retries, self._timeout, self._in_flight = retries, timeout, in_flight
        self._cache = cache
        self._told: dict[str, Version] = {}  # of objects that were not listed, where the cache needs them
        self._typical = _AHEAD // (4 * in_flight)  # bytes of an object, as far as is known
        self._users: dict[str, str] = {}  # by host
        self._queries: dict[str, str] = {}  # by address without it
        self._process: _Live | None = None
        self._left_behind: list[Any] = []  # of a parent: closing its connections is not for a child
        self._lock = new_lock()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_process": None, "_left_behind": [], "_lock": None}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        self.__dict__.update(attributes)
        self._lock = new_lock()

    def __repr__(self) -> str:
        return "<store>"  # options hold keys

    @property
    def reach(self) -> int:
        """How many samples are asked for before they are wanted."""
        return _STEPS * self._in_flight

    # -- addresses ----------------------------------------------------------------------------------------------------

    def plain(self, address: str) -> str:
        """An address as names and errors have it; the rest is kept for requests."""
        if not is_address(address):
            return address
        known = plain(address)
        scheme, _, rest = address.partition("://")
        user, at, host = rest.partition("/")[0].rpartition("@")
        if at:
            self._users[f"{scheme}://{host.partition('?')[0]}"] = user + at
        if has_query(address):
            query = address.partition("?")[2]
            if self._queries.get(known, query) != query:  # the query tells objects apart after all
                known = f"{known}?{hashlib.blake2b(query.encode(), digest_size=8).hexdigest()}"
            self._queries[known] = query
        return known

    def _full(self, path: str) -> str:
        scheme, _, rest = path.partition("://")
        host, slash, name = rest.partition("/")
        if path in self._queries:
            name = f"{name.partition('?')[0]}?{self._queries[path]}"
        return f"{scheme}://{self._users.get(f'{scheme}://{host}', '')}{host}{slash}{name}"

    def _safe(self, error: BaseException) -> str:
        """The message of a library, without secrets."""
        return safe(str(error), [*secrets_of(self._options), *(user[:-1] for user in self._users.values())])

    # -- reads --------------------------------------------------------------------------------------------------------

    def contents(
        self,
        path: str,
        start: int = 0,
        size: int | None = None,
        most: int | None = None,
        wanted: Callable[[bytes], bool] | None = None,
        version: Version | None = None,
    ) -> Array:
        """The same as `contents` of `_bytes`."""
        if not is_address(path):
            return contents(path, start, size, most, wanted, version)
        if most is not None:
            found = self.versions([path]).get(path)
            if found is not None and found.size > most:
                data = numpy.zeros(most, numpy.uint8)
                first = self.contents(path, 0, min(most, _NEAR), version=found)
                data[: len(first)] = first
                return data
        if size is not None and version is not None:
            _inside(start, size, version.size)
        found_bytes = self.fetch([Wanted(path, start, size, version)])[0]
        if isinstance(found_bytes, OSError):
            raise found_bytes
        return _array(found_bytes)

    def together(
        self, paths: Sequence[str], versions: Sequence[Version | None] | None = None
    ) -> tuple[list[Array], dict[int, OSError]]:
        """The same as `together` of `_bytes`, all at once."""
        if not any(map(is_address, paths)):
            return together(paths)
        wanted = wholes(paths, versions)
        found: list[Array] = [numpy.empty(0, numpy.uint8)] * len(paths)
        errors: dict[int, OSError] = {}
        there = [i for i, path in enumerate(paths) if is_address(path)]
        here = [i for i, path in enumerate(paths) if not is_address(path)]
        for i, data in zip(there, self.fetch([wanted[i] for i in there]), strict=True):
            if isinstance(data, OSError):
                errors[i] = data
            else:
                found[i] = _array(data)
        if here:
            some, failed = together([paths[i] for i in here])
            errors |= {here[i]: error for i, error in failed.items()}
            for i, data in zip(here, some, strict=True):
                found[i] = data
        return found, errors

    def opened(self, versions: Mapping[str, Version]) -> OpenedThere:
        """The same as `Opened`."""
        return OpenedThere(self, versions)

    def file(self, path: str, buffered: int = 0, version: Version | None = None) -> BinaryIO:
        """A file to go through, open for reading."""
        if not is_address(path):
            return opened(path, buffered)
        version = version or self.versions([path]).get(path)
        if version is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if version.size < 0:
            raise Unavailable(errno.EIO, "has a size that its store does not tell")
        return cast("BinaryIO", Ranged(self, path, version))

    def expect(self, wanted: Sequence[Wanted]) -> None:
        """Ask for the next reads, in this order, but for those that are under way."""
        live = self._live()
        ahead: dict[_Part, tuple[Future[Any], int]] = {}
        with self._lock:
            left, new = _AHEAD, list[Wanted]()
            for one in dict.fromkeys(map(self._versioned, wanted)):
                left -= self._room_of(one)
                if left < 0 and (ahead or new):
                    break
                known = live.ahead.pop(one[:3], None)
                if known is not None and one[:3] not in live.taken and not known[0].cancelled():
                    ahead[one[:3]] = known
                elif is_address(one.path) and one[:3] not in ahead and not self.keeps(one):
                    new.append(one)
            old, live.ahead, live.taken = live.ahead, ahead, set()
            ahead.update(zip([one[:3] for one in new], self._begin(live, new), strict=True))
            kept = {id(future) for future, _ in ahead.values()}
        for future, _ in old.values():
            if id(future) not in kept:
                future.cancel()

    def fetch(self, wanted: Sequence[Wanted]) -> list[bytes | memoryview | OSError]:
        """The bytes of objects, or why they cannot be had. All are asked for at once."""
        live, found = self._live(), dict[int, bytes | memoryview | OSError]()
        wanted = list(map(self._versioned, wanted))
        runs = dict[int, tuple[Future[Any], int]]()
        with self._lock:
            for i, one in enumerate(wanted):
                known = live.ahead.get(one[:3])
                if known is not None and not known[0].cancelled():
                    runs[i] = known
                    live.taken.add(one[:3])
                elif (kept := self._kept(one)) is not None:
                    found[i] = kept
            new = [i for i in range(len(wanted)) if i not in runs and i not in found]
            runs.update(zip(new, self._begin(live, [wanted[i] for i in new]), strict=True))
        try:
            for i, (future, first) in runs.items():
                found[i] = self._taken(live, wanted[i], future.result(), first)
        except BaseException:
            for future, _ in runs.values():
                future.cancel()
            raise
        return [found[i] for i in range(len(wanted))]

    def _taken(self, live: _Live, one: Wanted, data: Any, first: int) -> bytes | memoryview | OSError:
        """The wanted part of an answer, which begins at some place."""
        if isinstance(data, OSError):
            with self._lock:
                live.ahead.pop(one[:3], None)  # the next call tries again
            return data
        if one.size is None and data is not None:
            self._typical += (len(data) - self._typical) // 8
        one = self._versioned(one)
        if data is None:  # it is kept, as was found out once its version was known
            kept = self._kept(one)
            return self._begin(live, [one])[0][0].result() if kept is None else kept
        if one.size is not None and len(data) != one.size:
            data = memoryview(data)[one.start - first : one.start - first + one.size]
        if self._cache is not None and (key := _key(one)):
            self._cache.put(key, data)
        found: bytes | memoryview = data
        return found

    def _room_of(self, one: Wanted) -> int:
        """How many bytes something has; where that is not told, as many as others had."""
        if one.size is not None:
            return one.size
        return one.version.size if one.version is not None and one.version.size >= 0 else self._typical

    def _versioned(self, one: Wanted) -> Wanted:
        """The same with the version of the object, where that is known by now."""
        if one.version is not None or one.path not in self._told:
            return one
        return one._replace(version=self._told[one.path])

    def keeps(self, one: Wanted) -> bool:
        """Whether the cache has something."""
        return self._cache is not None and (key := _key(one)) is not None and self._cache.has(key)

    def _kept(self, one: Wanted) -> bytes | None:
        if self._cache is None or (key := _key(one)) is None:
            return None
        return self._cache.get(key)

    def _begin(self, live: _Live, wanted: Sequence[Wanted]) -> list[tuple[Future[Any], int]]:
        """Ask for objects; parts that follow each other by one request. For each the answer, and where it begins."""
        runs, found = list[tuple[Wanted, Future[Any]]](), list[tuple[Future[Any], int]]()
        for one in wanted:
            before = runs[-1][0] if runs else None
            if (
                before is not None
                and before.size is not None
                and one.size is not None
                and (before.path, before.start + before.size, before.version) == (one.path, one.start, one.version)
                and before.size + one.size <= _RUN
                and (one.version is None or one.start + one.size <= one.version.size)
            ):
                runs[-1] = before._replace(size=before.size + one.size), runs[-1][1]
            else:
                runs.append((one, Future()))
            found.append((runs[-1][1], runs[-1][0].start))
        if runs:
            live.loop.call_soon_threadsafe(self._start, live, runs)
        return found

    def _start(self, live: _Live, runs: Sequence[tuple[Wanted, Future[Any]]]) -> None:
        for wanted, future in runs:
            task = live.loop.create_task(_into(future, self._read(live, wanted)))
            live.tasks.add(task)
            task.add_done_callback(live.tasks.discard)
            future.add_done_callback(_canceller(live.loop, task))

    # -- listings -----------------------------------------------------------------------------------------------------

    def entries(self, folders: Sequence[str]) -> list[list[Entry] | OSError]:
        """The entries of folders, or why they cannot be told."""
        live = self._live()
        return self._all(live, [self._entries(live, folder) for folder in folders])

    def folder(self, path: str) -> list[Entry]:
        """The entries of a folder."""
        (found,) = self.entries([path])
        if isinstance(found, OSError):
            raise found
        return found

    def versions(self, paths: Sequence[str]) -> dict[str, Version]:
        """The versions of files: objects of one folder by its listing, where they are many. Missing ones are left out.

        Raises:
            OSError: The store cannot be asked.
        """
        there, found = dict.fromkeys(path for path in paths if is_address(path)), dict[str, Version]()
        for path in paths:
            if path not in there:
                with contextlib.suppress(OSError):
                    found[path] = Version.of(os.stat(path))  # noqa: PTH116
        folders = collections.Counter(path.rpartition("/")[0] for path in there)
        listed = [name for name, n in folders.items() if n >= _FOLDER and not name.lower().startswith(BY_HTTP)]
        for folder, entries in zip(listed, self.entries(listed), strict=True):
            if isinstance(entries, list):
                names = {entry.name: entry.version for entry in entries if not entry.is_folder}
                for path in [path for path in there if path.rpartition("/")[0] == folder]:
                    if (version := names.get(path.rpartition("/")[2])) is not None:
                        found[path] = version
        alone = [path for path in there if path not in found and path.rpartition("/")[0] not in listed]
        live = self._live()
        for path, told in zip(alone, self._all(live, [self._version(live, path) for path in alone]), strict=True):
            if isinstance(told, Version):
                found[path] = told
            elif not isinstance(told, FileNotFoundError):
                raise told
        return found

    def sizes(self, paths: Sequence[str]) -> Array:
        """The sizes of files in bytes: int64, -1 where there is no such file."""
        found = self.versions(paths)
        return numpy.array([found[path].size if path in found else -1 for path in paths], numpy.int64)

    def each(self, function: Callable[[int], None], n: int) -> None:
        """Call a function that reads for each number below n, on threads that wait for their bytes."""
        todo, errors = collections.deque(range(n)), list[BaseException]()

        def work() -> None:
            while todo and not errors:
                try:
                    function(todo.popleft())
                except IndexError:
                    return
                except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
                    errors.append(error)

        # Daemons: one that waits for a store keeps no interpreter from ending.
        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(n, self._in_flight))]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            todo.clear()
        if errors:
            raise errors[0]

    def _all(self, live: _Live, coroutines: Sequence[Awaitable[X | OSError]]) -> list[X | OSError]:
        """The results of coroutines that run in the loop."""

        async def gathered() -> list[X | OSError]:
            return list(await asyncio.gather(*coroutines))

        future = asyncio.run_coroutine_threadsafe(gathered(), live.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    # -- in the loop --------------------------------------------------------------------------------------------------

    def _live(self) -> _Live:
        """The file systems and loop of this process; a forked child begins anew."""
        live = self._process
        if live is None or live.pid != os.getpid():
            from fsspec.asyn import get_loop

            with self._lock:
                if self._process is live:
                    self._left_behind.append(live)
                    self._process = _Live(get_loop())
                live = self._process
                assert live is not None
        return live

    def _system(self, live: _Live, scheme: str) -> Any:
        if scheme not in live.systems:
            import fsspec

            options = {"use_listings_cache": False, **self._options}
            if scheme in _S3:
                ours = {"max_pool_connections": self._in_flight, "retries": {"max_attempts": 0},
                        "read_timeout": self._timeout, "connect_timeout": self._timeout}  # fmt: skip
                options["config_kwargs"] = {**ours, **options.get("config_kwargs", {})}
            system = live.systems[scheme] = fsspec.filesystem(scheme, **options)
            if scheme in _S3:
                system.retries = 1  # attempts are counted here
        return live.systems[scheme]

    async def _called(self, live: _Live, path: str, method: str, *arguments: Any, **named: Any) -> Any:
        """A method of the file system of an address, called with its name there."""
        system = self._system(live, scheme_of(path))
        name = system._strip_protocol(self._full(path))
        if system.async_impl:
            return await getattr(system, f"_{method}")(name, *arguments, **named)
        return await _in_thread(live.loop, lambda: getattr(system, method)(name, *arguments, **named))

    async def _read(self, live: _Live, wanted: Wanted) -> bytes | OSError | None:
        """The bytes, an error, or None for those that the cache has."""
        if self._cache is not None and wanted.version is None:
            told = await self._version(live, wanted.path)
            if isinstance(told, OSError):
                return told
            self._told[wanted.path] = told
            wanted = wanted._replace(version=told)
            if self.keeps(wanted):
                return None
        path, start, size, version = wanted
        if version is not None and start + (size or 0) > version.size >= 0:
            return OSError(errno.EIO, f"has {version.size} bytes, where {size} from byte {start} on are wanted")

        async def once() -> bytes:
            whole = size is None and not start
            got = await self._got(live, path, start, size)
            if version is not None:
                if got.whole is not None:
                    _compare(version, got.whole, got.tag)
                expected = size if size is not None else version.size - start if version.size >= 0 else len(got.data)
                if len(got.data) != expected:
                    if whole and got.whole == len(got.data):
                        _compare(version, got.whole, got.tag)
                    raise _Fault(f"{len(got.data)} bytes came of {expected}", passes=True)
                if got.tag is None and version.number is not None:  # this way of reading tells none
                    now = _version_of(await self._called(live, path, "info"), scheme_of(path))
                    _compare(version, now.size, None, now.number)
            elif size is not None and len(got.data) != size:
                raise _Fault(f"{len(got.data)} bytes came of {size}", passes=True)
            return got.data

        size = size if size is not None or version is None or not start else version.size - start
        patience = self._timeout + max(size or (version.size if version is not None else 0), 0) / _SLOWEST
        return await self._tried(live, once, patience if size is not None or version is not None else None)

    async def _got(self, live: _Live, path: str, start: int, size: int | None) -> _Got:
        """One request for an object, or a part of it."""
        scheme = scheme_of(path)
        part = "" if size is None else f"bytes={start}-{start + size - 1}"
        if size == 0:
            return _Got(b"")
        system = self._system(live, scheme)
        if scheme in BY_HTTP:
            url = self._full(path)
            return await self._got_by_http(system, system.encode_url(url), {}, part, start, size)
        if scheme in _S3:
            bucket, key, version = system.split_path(system._strip_protocol(path))
            got = None if version else await self._got_signed(live, system, bucket, key, part, start, size)
            if got is not None:
                return got
            named = ({"VersionId": version} if version else {}) | ({"Range": part} if part else {})
            answer = await system._call_s3("get_object", Bucket=bucket, Key=key, **named)
            async with answer["Body"] as body:
                data = await body.read()
            told = answer.get("ContentRange", "").rpartition("/")[2]
            return _Got(data, int(told) if told.isdigit() else answer["ContentLength"], answer.get("ETag"))
        ends = {} if size is None else {"start": start, "end": start + size}
        return _Got(bytes(await self._called(live, path, "cat_file", **ends)))

    async def _got_signed(
        self, live: _Live, system: Any, bucket: str, key: str, part: str, start: int, size: int | None
    ) -> _Got | None:
        """The same for an object of S3; None where its client must ask."""
        import fsspec
        from yarl import URL

        if bucket not in live.buckets:
            live.buckets[bucket] = await bucket_of(system, bucket, self._options)
        known = live.buckets[bucket]
        if known is None:
            return None
        url, headers = await known.request(key)
        try:
            by_http = live.systems.get("") or live.systems.setdefault("", fsspec.filesystem("https"))
            return await self._got_by_http(by_http, URL(url, encoded=True), headers, part, start, size)
        except _Fault as fault:
            if fault.status in (404, 416) or fault.status in _AGAIN or fault.status >= 500:
                raise
            live.buckets[bucket] = None  # another region, keys that have run out: the client sees to it
            return None

    async def _got_by_http(
        self, system: Any, url: Any, more: Mapping[str, str], part: str, start: int, size: int | None
    ) -> _Got:
        import aiohttp

        session = await system.set_session()
        named = dict(system.kwargs)
        headers = {**named.pop("headers", {}), **more, "Accept-Encoding": "identity"}
        if part:
            headers["Range"] = part
        if more:
            named["allow_redirects"] = False
        named.setdefault(
            "timeout", aiohttp.ClientTimeout(total=None, sock_connect=self._timeout, sock_read=self._timeout)
        )
        async with session.get(url, headers=headers, **named) as answer:
            if answer.status not in (200, 206):
                raise _Fault("", status=answer.status)
            told = answer.headers.get("Content-Range", "").rpartition("/")[2]
            whole = int(told) if told.isdigit() else answer.content_length if answer.status == 200 else None
            if part and answer.status == 200 and (start or whole != size):
                raise _Fault("its server gives whole files only, and no parts of them")
            tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
            return _Got(await answer.read(), whole, tag)

    async def _info_by_http(self, system: Any, url: str) -> dict[str, Any]:
        """The description of an object by its server; that of fsspec takes every fault for a missing object."""
        session = await system.set_session()
        named = dict(system.kwargs)
        headers = {**named.pop("headers", {}), "Accept-Encoding": "identity"}
        first: dict[str, str] = {}
        for ask, more in ((session.head, first), (session.get, {"Range": "bytes=0-0"})):  # some sign GET alone
            async with ask(system.encode_url(url), headers=headers | more, allow_redirects=True, **named) as answer:
                if answer.status in (403, 405, 501) and not more:
                    continue
                if answer.status not in (200, 206):
                    raise _Fault("", status=answer.status)
                told = answer.headers.get("Content-Range", "").rpartition("/")[2]
                size = int(told) if told.isdigit() else answer.content_length if answer.status == 200 else None
                return {key: answer.headers.get(key) for key in ("ETag", "Last-Modified")} | {"size": size}
        raise AssertionError  # the second answer always counts

    async def _entries(self, live: _Live, folder: str) -> list[Entry] | OSError:
        scheme = scheme_of(folder)
        more = {"refresh": True} if scheme == "hf" else {}

        async def once() -> list[Entry]:
            found = await self._called(live, folder, "ls", detail=True, **more)
            entries = []
            for info in found:
                name = info["name"].rstrip("/").rpartition("/")[2]
                there = info["name"].endswith("/") or info["type"] == "directory"
                if name and not (info["type"] == "file" and info["name"].endswith("/")):  # a key that is a folder
                    entries.append(Entry(name, there, _version_of(info, scheme)))
            return entries

        return await self._tried(live, once, None)

    async def _version(self, live: _Live, path: str) -> Version | OSError:
        scheme = scheme_of(path)

        async def once() -> Version:
            if scheme in BY_HTTP:
                return _version_of(await self._info_by_http(self._system(live, scheme), self._full(path)), scheme)
            info = await self._called(live, path, "info")
            if info["type"] == "directory":
                raise FileNotFoundError
            return _version_of(info, scheme)

        return await self._tried(live, once, self._timeout)

    async def _tried(self, live: _Live, once: Callable[[], Awaitable[X]], patience: float | None) -> X | OSError:
        """The result of a coroutine that is called again where its fault may pass, or the error to raise."""
        reason = ""
        for attempt in range(self._retries + 1):
            if attempt:
                await asyncio.sleep(min(_PAUSE * 2 ** (attempt - 1), _LONGEST) * _CHANCE.uniform(0.5, 1.5))
            live.turns = live.turns or asyncio.Semaphore(self._in_flight)
            async with live.turns:
                try:
                    return await asyncio.wait_for(once(), patience)
                except Exception as error:  # noqa: BLE001 - libraries have errors of their own; each is told
                    told = self._sorted_out(error)
            if isinstance(told, OSError):
                return told
            reason = told
        many = f"{self._retries + 1} attempts" if self._retries else "1 attempt"
        return Unavailable(errno.EIO, f"could not be read from its store in {many}; the last reason: {reason}")

    def _sorted_out(self, error: BaseException) -> OSError | str:
        """The error to raise, or the reason where another attempt may do."""
        if isinstance(error, Changed):
            return Changed(errno.ESTALE, str(error.strerror))
        status = _status(error)
        if status in (404, 410) or (not status and isinstance(error, (FileNotFoundError, IsADirectoryError))):
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if status == 416:
            return Changed(errno.ESTALE, "is no more the object that was listed: it is smaller")
        answer = ""
        if status:
            words = [s.phrase for s in http.HTTPStatus if s == status]
            answer = f"the answer {' '.join([str(status), *words])}"
            if status not in _AGAIN and status < 500:
                return Unavailable(errno.EACCES, f"is refused by its store: {answer}")
        if isinstance(error, PermissionError) or type(error).__name__ in ("NoCredentialsError", "CredentialError"):
            return Unavailable(errno.EACCES, f"is refused by its store: {self._safe(error) or 'no permission'}")
        if isinstance(error, _Fault) and not status and not error.passes:
            return Unavailable(errno.EIO, f"cannot be read from its store: {error}")
        if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
            return f"no answer in {self._timeout:g} s"
        if answer:
            return answer
        if isinstance(error, _Fault):
            return str(error)
        if any(word in type(error).__name__ for word in _CUT):
            return "the answer was cut off"
        return f"{type(error).__name__}: {self._safe(error)}".removesuffix(": ")


class OpenedThere:
    """The same as `Opened`, for objects: all parts of a step are asked for at once."""

    def __init__(self, store: Remote, versions: Mapping[str, Version]) -> None:
        self._store, self._versions, self._here = store, versions, Opened(versions)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._here.__exit__(kind, error, traceback)

    def part(self, path: str, start: int, size: int) -> Array:
        """The same as `Opened.part`."""
        if not is_address(path):
            return self._here.part(path, start, size)
        return self._store.contents(path, start, size, version=self._versions.get(path))

    def pieces(self, spans: Sequence[Span]) -> Iterator[Piece]:
        """The same as `Opened.pieces`."""
        if not all(is_address(path) for path, _, _ in spans):
            yield from self._here.pieces(spans)
            return
        found = self._store.fetch(parts(spans, self._versions))
        first = 0
        while first < len(found):
            offsets, errors = [0], dict[int, OSError]()
            for _, _, size in spans[first:]:
                if offsets[-1] and offsets[-1] + size > _AT_ONCE:
                    break
                offsets.append(offsets[-1] + size)
            memory = _room(offsets[-1])
            for i, data in enumerate(found[first : first + len(offsets) - 1]):
                if isinstance(data, OSError):
                    errors[first + i] = data
                else:
                    memory[offsets[i] : offsets[i + 1]] = numpy.frombuffer(data, numpy.uint8)
            yield Piece(first, memory, offsets, errors)
            first += len(offsets) - 1


class Ranged(io.RawIOBase):
    """An object to go through. Blocks that follow each other are asked for ahead; far apart, small parts alone."""

    def __init__(self, store: Remote, path: str, version: Version) -> None:
        super().__init__()
        self.size = version.size
        self._store, self._path, self._version, self._at = store, path, version, 0
        self._begun: dict[int, tuple[Future[Any], int]] = {}  # blocks
        self._first, self._data = 0, memoryview(b"")  # the last bytes that were read, and their offset
        self._last, self._ahead = -1, 1  # the last block that was touched, and how many come with the next

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = offset + (0, self._at, self.size)[whence]
        return self._at

    def readall(self) -> bytes:
        return self.read_at(self.size - self._at, self._at)

    def read(self, size: int = -1, /) -> bytes:
        data = self.read_at(self.size if size < 0 else size, self._at)
        self._at += len(data)
        return data

    def read_at(self, size: int, at: int) -> bytes:
        """So many bytes from some place on, as far as the object has them."""
        parts, size = list[bytes](), min(size, max(self.size - at, 0))
        while size:
            here = at - self._first
            if not 0 <= here < len(self._data):
                self._go_to(at)
                here = at - self._first
            parts.append(bytes(self._data[here : here + size]))
            at, size = at + len(parts[-1]), size - len(parts[-1])
        return b"".join(parts)

    def _go_to(self, at: int) -> None:
        """Have the bytes at a place."""
        block = at // _BLOCK
        near, self._last = block - self._last in (0, 1), block
        self._ahead = min(2 * self._ahead, _BLOCKS) if near else 1
        if near or block in self._begun:
            self._first = block * _BLOCK
            last = min(-(-self.size // _BLOCK), block + self._ahead)
            live = self._store._live()
            for i in range(block, last):
                if i not in self._begun and not self._store.keeps(self._block(i)):
                    self._begun[i] = self._store._begin(live, [self._block(i)])[0]
            for i in [i for i in self._begun if i < block]:
                self._begun.pop(i)[0].cancel()
            if block in self._begun:
                future, first = self._begun.pop(block)
                data = self._store._taken(live, self._block(block), future.result(), first)
            else:
                data = self._store.fetch([self._block(block)])[0]
        else:
            self._first = at
            data = self._store.fetch([Wanted(self._path, at, min(_NEAR, self.size - at), self._version)])[0]
        if isinstance(data, OSError):
            raise data
        self._data = memoryview(data)

    def _block(self, i: int) -> Wanted:
        return Wanted(self._path, i * _BLOCK, min(_BLOCK, self.size - i * _BLOCK), self._version)

    def close(self) -> None:
        for future, _ in self._begun.values():
            future.cancel()
        self._begun.clear()
        super().close()


def wholes(paths: Sequence[str], versions: Sequence[Version | None] | None) -> list[Wanted]:
    """All of some objects."""
    return [Wanted(path, version=version) for path, version in zip(paths, versions or [None] * len(paths), strict=True)]


def parts(spans: Sequence[Span], versions: Mapping[str, Version]) -> list[Wanted]:
    """Parts of objects."""
    return [Wanted(path, start, size, versions.get(path)) for path, start, size in spans]


def _key(one: Wanted) -> str | None:
    """The key of content in the cache; None for content that may change."""
    version = one.version
    if version is None or version.number is None:
        return None
    return f"{one.path}\0{version.size}\0{version.number}\0{one.start}\0{one.size}"


def _array(data: bytes | memoryview) -> Array:
    """Bytes in memory of ours, which may be written to."""
    memory = _room(len(data))
    memory[:] = numpy.frombuffer(data, numpy.uint8)
    return memory


def _version_of(info: Mapping[str, Any], scheme: str) -> Version:
    """The version of an object of which a store tells this."""
    size = info.get("size")
    tag = None if scheme in _UNCHECKED else next((info[key] for key in _TAGS if info.get(key)), None)
    return Edition(-1 if size is None else int(size), None, _number(tag))


def _number(tag: Any) -> int | None:
    """A tag as a number of 64 bits, but 0. Stores write the same tag in more than one way."""
    if tag is None:
        return None
    if isinstance(tag, (datetime, int, float)):
        tag = f"{tag.timestamp() if isinstance(tag, datetime) else tag:.3f}"
    tag = str(tag).removeprefix("W/").strip('"')
    return int.from_bytes(hashlib.blake2b(tag.encode(), digest_size=8).digest(), "little") or 1


def _compare(version: Version, size: int, tag: str | None, number: int | None = None) -> None:
    """Raise `Changed` if an object is of another version."""
    number = _number(tag) if number is None else number
    if size >= 0 <= version.size and size != version.size:
        raise Changed(
            errno.ESTALE, f"is no more the object that was listed: it has {size} bytes instead of {version.size}"
        )
    if number is not None and version.number not in (None, number):
        raise Changed(errno.ESTALE, "is no more the object that was listed: it was replaced by another")


def _status(error: BaseException) -> int:
    """The status of an answer of HTTP that an error tells; 0 where it tells none."""
    seen: BaseException | None = error
    while seen is not None:
        if any(word in type(seen).__name__ for word in _CUT):
            return 0  # aiohttp gives these a status that no server sent
        status = getattr(seen, "status", None) or getattr(seen, "code", None)
        answer = getattr(seen, "response", None)
        if isinstance(answer, Mapping):
            status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        elif answer is not None:
            status = getattr(answer, "status_code", None)
        if isinstance(status, str) and status.isdigit():
            status = int(status)
        if isinstance(status, int) and 300 <= status < 600:
            return status
        seen = seen.__cause__
    return 0


async def _into(future: Future[Any], coroutine: Awaitable[Any]) -> None:
    """Give the result of a coroutine to who waits for it in another thread."""
    error = result = None
    try:
        result = await coroutine
    except BaseException as caught:  # noqa: BLE001 - raised where the result is taken
        error = caught
    if not future.set_running_or_notify_cancel():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _canceller(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> Callable[[Future[Any]], None]:
    def end(future: Future[Any]) -> None:
        if future.cancelled():
            with contextlib.suppress(RuntimeError):  # the loop is over
                loop.call_soon_threadsafe(task.cancel)

    return end


async def _in_thread(loop: asyncio.AbstractEventLoop, function: Callable[[], X]) -> X:
    """The result of a function that blocks, called in a thread that keeps no interpreter from ending."""
    future: asyncio.Future[X] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as caught:  # noqa: BLE001 - raised where the result is awaited
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop is over
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, daemon=True, name="dynamic store").start()
    return await future
