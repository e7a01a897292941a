"""Reading a bucket of S3 over a network with 20 ms of latency: `readers.File`, NVIDIA DALI and s3fs called directly.

    python benchmarks/buckets.py [--rounds 5] [--photos 512] [--latency 0.02]

A server of this script, in a process of its own, answers each request after 20 ms with an object of 45 kB. All read the
photos in batches of 64, in turn, each in a process of its own for each round; the clock runs from the second batch on.
Reads under way, on average over this time, are counted where they begin and end, and by the server while it waits.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

BATCH = 64
BYTES = 45_000
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_REGION": "us-east-1",
               "AWS_EC2_METADATA_DISABLED": "true"}  # fmt: skip


class Server(asyncio.Protocol):
    """A connection to a server of objects, all of which have the same bytes."""

    latency, photos = 0.0, 0
    under_way, area, count, first, last = 0, 0.0, 0, 0.0, 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport, self.data = transport, b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        while b"\r\n\r\n" in self.data:
            head, _, self.data = self.data.partition(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n")[0].decode().split()
            part = next((line for line in head.split(b"\r\n") if line.lower().startswith(b"range:")), b"")
            if target == "/counted":
                self.answer(method, json.dumps(Server.counted()).encode(), "")
                continue
            Server.moved(1)
            asyncio.get_running_loop().call_later(Server.latency, self.respond, method, target, part.decode())

    def respond(self, method: str, target: str, part: str) -> None:
        """Answer a request."""
        Server.moved(-1)
        split = urlsplit(target)
        query = parse_qs(split.query, keep_blank_values=True)
        if "prefix" in query or "list-type" in query:
            self.answer(method, listing(unquote(split.path).strip("/"), query, Server.photos), "")
            return
        self.answer(method, PHOTO, part.partition("=")[2])

    def answer(self, method: str, body: bytes, part: str) -> None:
        """Send a body, or a part of it."""
        status, more = "200 OK", ""
        if part:
            first, _, last = part.partition("-")
            whole, body = len(body), body[int(first) : int(last or len(body)) + 1]
            end = int(first) + len(body) - 1
            status, more = (
                "206 Partial Content",
                f"Content-Range: bytes {first}-{end}/{whole}\r\n",
            )
        head = f'HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nETag: "1"\r\n{more}'
        head += "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nAccept-Ranges: bytes\r\n\r\n"
        self.transport.write(head.encode() + (body if method == "GET" else b""))

    @classmethod
    def moved(cls, by: int) -> None:
        """Count a request that comes or goes."""
        now = time.perf_counter()
        cls.area += cls.under_way * (now - cls.last)
        cls.last, cls.first, cls.count = now, cls.first or now, cls.count + (by > 0)
        cls.under_way += by

    @classmethod
    def counted(cls) -> dict[str, float]:
        """The requests since the last question, and how many of them were under way on average."""
        found = {"requests": cls.count, "in flight": cls.area / max(cls.last - cls.first, 1e-9)}
        cls.area, cls.count, cls.first, cls.last = 0.0, 0, 0.0, time.perf_counter()
        return found


PHOTO = random.Random(0).randbytes(BYTES)


def listing(bucket: str, query: dict[str, list[str]], photos: int) -> bytes:
    """A whole listing: one folder of photos."""
    prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
    keys = [f"photos/0/{i:06}.jpg" for i in range(photos)]
    keys = [key for key in keys if key.startswith(prefix)]
    folders = sorted({prefix + key[len(prefix) :].partition(delimiter)[0] + delimiter for key in keys
                      if delimiter and delimiter in key[len(prefix) :]})  # fmt: skip
    files = [] if folders else keys
    parts = [f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>" for folder in folders]
    parts += [f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>\"1\"</ETag>"
              f"<Size>{BYTES}</Size><StorageClass>STANDARD</StorageClass></Contents>" for key in files]  # fmt: skip
    more = f"<KeyCount>{len(parts)}</KeyCount><MaxKeys>10000</MaxKeys><IsTruncated>false</IsTruncated>{''.join(parts)}"
    return f"<ListBucketResult><Name>{bucket}</Name><Prefix>{prefix}</Prefix>{more}</ListBucketResult>".encode()


async def served(photos: int, latency: float) -> None:
    """Run the server, and print its port."""
    Server.photos, Server.latency = photos, latency
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def serving(photos: int, latency: float) -> Iterator[str]:
    """The address of a server in another process."""
    command = [sys.executable, __file__, "--serve", "--photos", str(photos), "--latency", str(latency)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()


def counted(url: str) -> dict[str, float]:
    """What the server counted."""
    with urllib.request.urlopen(f"{url}/counted") as answer:
        found: dict[str, float] = json.load(answer)
    return found


def by_reader(module: str, url: str, _: int) -> Iterator[Any]:
    """Batches of a reader of ours or of DALI."""
    library = importlib.import_module(module)
    more = {"storage_options": {"endpoint_url": url}} if module == "dynamic" else {}
    for files, _ in library.readers.File(file_root="s3://bucket/photos", **more).next_epoch(batch_size=BATCH):
        files.evaluate()
        yield files


def by_s3fs(_: str, url: str, photos: int) -> Iterator[Any]:
    """Batches of s3fs, which asks for the objects of each together."""
    system = importlib.import_module("s3fs").S3FileSystem(endpoint_url=url)
    names = sorted(system.find("bucket/photos"))
    assert len(names) == photos
    for start in range(0, photos, BATCH):
        found = system.cat(names[start : start + BATCH])
        yield [found[name] for name in names[start : start + BATCH]]


class Flights:
    """Counts the reads of objects that are begun and not ended, over time.

    Args:
        kind: Whose method reads an object.
        name: Of the method.
    """

    def __init__(self, kind: Any, name: str) -> None:
        self.under_way, self.area, self.last = 0, 0.0, 0.0
        read = getattr(kind, name)

        async def counting(*arguments: Any, **more: Any) -> Any:
            self._moved(1)
            try:
                return await read(*arguments, **more)
            finally:
                self._moved(-1)

        setattr(kind, name, counting)

    def _moved(self, by: int) -> None:
        now = time.perf_counter()
        self.area, self.last = self.area + self.under_way * (now - (self.last or now)), now
        self.under_way += by

    def taken(self) -> float:
        """The area under their number over time, which begins again."""
        self._moved(0)
        found, self.area = self.area, 0.0
        return found


WAYS = {
    "dynamic": (by_reader, "dynamic"),
    "DALI": (by_reader, "nvidia.dali.experimental.dynamic"),
    "s3fs": (by_s3fs, ""),
}


def run(way: str, url: str, photos: int) -> None:
    """Read all batches; print the seconds from the second one on."""
    make, module = WAYS[way]
    flights = None
    if way == "dynamic":
        flights = Flights(asyncio, "wait_for")  # by which each read is limited in time
    elif way == "s3fs":
        flights = Flights(importlib.import_module("s3fs").S3FileSystem, "_cat_file")
    batches = make(module, url, photos)
    next(batches)
    counted(url)
    if flights is not None:
        flights.taken()
    start, count = (
        time.perf_counter(),
        sum(len(files) if isinstance(files, list) else files.batch_size for files in batches),
    )
    seconds = time.perf_counter() - start
    begun = flights.taken() / seconds if flights else 0.0
    print(json.dumps({"rate": count / seconds, "asked": begun, "answering": counted(url)["in flight"]}))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--photos", type=int, default=2048)
    parser.add_argument("--latency", type=float, default=0.02)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(served(options.photos, options.latency))
        return
    if options.one:
        run(*options.one, options.photos)
        return
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with serving(options.photos, options.latency) as url:
        environment = {**os.environ, **CREDENTIALS, "AWS_ENDPOINT_URL": url}
        for _ in range(options.rounds):
            for way in WAYS:
                command = [sys.executable, __file__, "--one", way, url, "--photos", str(options.photos)]
                text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
                found[way].append(json.loads(text.strip().splitlines()[-1]))
    print("| library | photos/s | dynamic is ... as fast | reads under way | of these at the server |")
    print("|---|--:|--:|--:|--:|")
    for way, runs in found.items():
        pairs = zip(found["dynamic"], runs, strict=True)
        ratio = statistics.median(ours["rate"] / theirs["rate"] for ours, theirs in pairs)
        rate, begun, there = (statistics.median(each[key] for each in runs) for key in ("rate", "asked", "answering"))
        print(f"| {way} | {rate:,.0f} | {ratio:.2f} | {f'{begun:.1f}' if begun else ''} | {there:.1f} |")


if __name__ == "__main__":
    main()
