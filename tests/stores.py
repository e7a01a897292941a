"""A server of objects over HTTP and in the words of S3, with faults, for tests of object stores."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import struct
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 40  # objects of a page of a listing


class Objects(ThreadingHTTPServer):
    """Serves ``objects``, contents by names such as "bucket/cat/1.jpg".

    Attributes:
        faults: For each name, faults of the next requests for it: a status, "cut", "stall" or "reset".
        held: How many requests must follow before one is answered, of `expected` in all.
        starved: How many answers were given without them.
        requests: Methods and names, in the order in which they came.
        parts: The names and ranges of requests for parts.
        flights: How many requests were under way as each one came.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.faults: dict[str, list[int | str]] = defaultdict(list)
        self.always: dict[str, int | str] = {}
        self.held = self.expected = self.starved = self.given = 0
        self.parts: list[tuple[str, str]] = []
        self.requests: list[tuple[str, str]] = []
        self.flights: list[int] = []
        self.under_way = 0
        self.queries: list[str] = []
        self.users = 0
        self.ranges = True
        self.tags = True
        self.lock = threading.Lock()
        self.came = threading.Condition(self.lock)
        self.released = threading.Event()  # ends what stalls

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, root: Path | str, prefix: str) -> None:
        """Serve the files of a folder."""
        for path in sorted(Path(root).rglob("*")):
            if path.is_file():
                self.objects[f"{prefix}/{path.relative_to(root).as_posix()}"] = path.read_bytes()

    def asked(self, method: str = "GET") -> list[str]:
        """The names that were asked for."""
        return [name for kind, name in self.requests if kind == method]

    def hold(self, number: int) -> None:
        """Wait with an answer until enough later requests have come, or no more will come."""
        with self.came:
            self.came.notify_all()
            enough = self.came.wait_for(lambda: len(self.flights) >= min(number + self.held, self.expected), timeout=9)
            self.starved += not enough

    def handle_error(self, request, client_address) -> None:
        """A client that went away is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Objects

    def log_message(self, *_) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        server, split = self.server, urlsplit(self.path)
        name, query = unquote(split.path).strip("/"), parse_qs(split.query, keep_blank_values=True)
        with server.lock:
            server.under_way += 1
            if "prefix" not in query:
                server.flights.append(server.under_way)
            server.queries.append(split.query)
            server.users += "Authorization" in self.headers
            server.requests.append((self.command if "prefix" not in query else "LIST", name))
            number = len(server.flights)
            fault = server.always.get(name)
            if self.command == "GET" and server.faults[name]:
                fault = server.faults[name].pop(0)
            if self.headers.get("Range"):
                server.parts.append((name, self.headers["Range"]))
        try:
            if "prefix" in query:
                self._list(name, query, fault)
                return
            if server.held:
                server.hold(number)
            self._give(name, fault)
        finally:
            with server.lock:
                server.under_way -= 1

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _give(self, name: str, fault: int | str | None) -> None:
        if fault == "reset":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            self.connection.close()
            return
        if fault == "stall":
            self.server.released.wait(30)
            self.close_connection = True
            return
        if isinstance(fault, int):
            body = f"<Error><Code>{'SlowDown' if fault == 503 else fault}</Code><Message>no</Message></Error>".encode()
            self._send(fault, body, {"Content-Type": "application/xml"})
            return
        data = self.server.objects.get(name)
        if data is None:
            self._send(404, b"<Error><Code>NoSuchKey</Code><Message>none</Message></Error>", {})
            return
        whole, status, headers = data, 200, {"Content-Type": "application/octet-stream"}
        if self.server.tags:
            headers["ETag"] = f'"{hashlib.md5(data).hexdigest()}"'
        part = self.headers.get("Range")
        if part and self.server.ranges:
            first, _, last = part.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(whole) - 1), len(whole) - 1)
            if start >= len(whole):
                self._send(416, b"", {"Content-Range": f"bytes */{len(whole)}"})
                return
            data, status = whole[start : end + 1], 206
            headers["Content-Range"] = f"bytes {start}-{end}/{len(whole)}"
        if fault == "cut":
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._send(status, data, headers)

    def _list(self, bucket: str, query: dict[str, list[str]], fault: int | str | None) -> None:
        """A page of ListObjectsV2."""
        if isinstance(fault, int):
            self._send(fault, b"<Error><Code>InternalError</Code></Error>", {})
            return
        prefix, delimiter = query["prefix"][0], query.get("delimiter", [""])[0]
        after = query.get("continuation-token", [""])[0]
        files, folders = list[str](), set[str]()
        for name in sorted(self.server.objects):
            key = name.removeprefix(f"{bucket}/")
            if name.startswith(f"{bucket}/") and key.startswith(prefix):
                rest = key[len(prefix) :]
                if delimiter and delimiter in rest:
                    folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                else:
                    files.append(key)
        if not any(name.startswith(f"{bucket}/") for name in self.server.objects):
            self._send(404, b"<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>", {})
            return
        left = [key for key in sorted([*files, *folders]) if key > after]
        page, parts = left[:PAGE], list[str]()
        for key in page:
            if key in folders:
                parts.append(f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>")
            else:
                data = self.server.objects[f"{bucket}/{key}"]
                tag = hashlib.md5(data).hexdigest()
                parts.append(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                    f"<ETag>&quot;{tag}&quot;</ETag><Size>{len(data)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
                )
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(left) > PAGE else ""
        body = (
            f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount>"
            f"<MaxKeys>{PAGE}</MaxKeys><IsTruncated>{str(bool(more)).lower()}</IsTruncated>{more}{''.join(parts)}"
            "</ListBucketResult>"
        )
        self._send(200, body.encode(), {"Content-Type": "application/xml"})


@contextlib.contextmanager
def serving():
    """A server that runs."""
    server = Objects()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
