"""Object stores: the readers of a bucket give the samples of a folder, whatever its server does."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import tarfile
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import fsspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores import serving
from test_dalis_scripts import EXCHANGED, dalis_python, run
from test_stored import HELD, KINDS, MOST, columns, moved

import dynamic
from dynamic import readers
from dynamic.errors import ArgumentError, DataError, StateMismatch
from dynamic.io import _remote
from dynamic.io._cache import Cache, _digest
from dynamic.io._remote import Remote
from dynamic.io._s3 import signed
from dynamic.pipeline import fn, pipeline_def
from dynamic.testing import assert_resumable

pytest.importorskip("s3fs")
KEYS = {"key": "AKIDNOBODY", "secret": "not-to-be-told"}
FAR = [kind for kind in KINDS if kind.name not in ("Map", "Caffe", "Caffe2")]  # LMDB is mapped
kinds = pytest.mark.parametrize("kind", FAR, ids=lambda kind: kind.name)


@pytest.fixture
def server():
    with serving() as found:
        yield found


def options(server):
    return {**KEYS, "client_kwargs": {"region_name": "us-east-1"}, "endpoint_url": server.url}


class There:
    """A folder of a bucket, for the functions of a `Kind`."""

    def __init__(self, address):
        self.address = address

    def __truediv__(self, name):
        return There(f"{self.address}/{name}")


def given_as(value):
    """Arguments of a reader with addresses."""
    return value.address if isinstance(value, There) else value


def reader_of(kind, root, server=None, **more):
    """A reader of a folder, or of the bucket that has the same files."""
    if server is None:
        return kind.made(root, **more)
    arguments = {name: given_as(value) for name, value in kind.arguments(There("s3://bucket/data")).items()}
    return getattr(readers, kind.name)(**arguments, storage_options=options(server), **more)


@pytest.fixture
def data(tmp_path, server):
    """Writes the files of a kind to a folder and a bucket."""

    def write(kind, count=MOST):
        root = tmp_path / kind.name
        root.mkdir(exist_ok=True)
        kind.write(root, range(count))
        server.put(root, "bucket/data")
        return root

    return write


@kinds
def test_a_bucket_is_a_folder(kind, server, data):
    root = data(kind)
    for more in ({}, {"random_shuffle": True, "seed": 3, "num_shards": 2, "shard_id": 1}):
        near, far = reader_of(kind, root, **more), reader_of(kind, root, server, **more)
        assert far.get_state() == near.get_state()
        for here, there in zip(near.next_epoch(4), far.next_epoch(4), strict=True):
            for mine, other in zip(columns(here), columns(there), strict=True):
                assert mine.origin.names == other.origin.names
                for a, b in zip(mine.samples, other.samples, strict=True):
                    np.testing.assert_array_equal(a, b)
        assert far.get_state() == near.get_state()


@pytest.mark.slow
@kinds
def test_a_run_may_go_from_a_disk_to_a_bucket_and_back(kind, server, data):
    """Each stop changes the place, with other shards and batches."""
    root, made = data(kind, 4), []

    def job(batch_size, shard_id, num_shards):
        made.append(shard_id)
        far = server if len(made) % 2 else None
        shard = {"shard_id": shard_id, "num_shards": num_shards}
        reader = reader_of(kind, root, far, random_shuffle=True, seed=4, **shard)

        def epoch():
            for outputs in reader.next_epoch(batch_size):
                yield columns(outputs)

        return {"reader": reader}, epoch

    assert assert_resumable(job, batch_sizes=(1, 3)).samples == 4


def test_keyed_draws_are_the_same_from_a_bucket(server, data):
    kind = FAR[0]
    root = data(kind)
    drawn = []
    for far in (None, server):
        reader, rng = reader_of(kind, root, far, random_shuffle=True), dynamic.random.RNG(7)
        keys = [rng.keyed(reader(5)[0])["angle"] for _ in range(3)]
        drawn.append([dynamic.random.uniform(rng=key).tolist() for key in keys])
    assert drawn[0] == drawn[1]


def addresses(server, count=8, data=b"object"):
    """A list of objects of a server of HTTP."""
    for i in range(count):
        server.objects[f"photos/{i}.jpg"] = data * (i + 1)
    return [f"{server.url}/photos/{i}.jpg" for i in range(count)]


PASSING = {503: "503 Service Unavailable", 500: "500 Internal Server Error", 429: "429 Too Many Requests",
           "cut": "the answer was cut off", "reset": "", "stall": "no answer in 0.5 s"}  # fmt: skip


@pytest.fixture
def hasty(monkeypatch):
    """Pauses that take no time."""
    monkeypatch.setattr("dynamic.io._remote._PAUSE", 0.001)


@pytest.mark.parametrize("store", ["http", "s3"])
@pytest.mark.parametrize("fault", PASSING, ids=str)
def test_a_fault_that_passes_is_tried_again(fault, store, server, hasty):
    files = addresses(server)
    files = files if store == "http" else [f"s3://photos/{i}.jpg" for i in range(8)]
    more = {} if store == "http" else {"storage_options": options(server)}
    before = readers.File(files=files, on_error="skip", **more).get_state()  # a client takes its time to begin
    more |= {"timeout": 0.5 if fault == "stall" else 60, "retries": 2, "on_error": "skip"}
    reader = readers.File(files=files, **more)
    server.faults["photos/3.jpg"] = [fault, fault]
    jpegs, _ = reader(8)
    assert [len(jpeg.array) for jpeg in jpegs] == [6 * (i + 1) for i in range(8)]
    reader = readers.File(files=files, **more)
    server.always["photos/3.jpg"] = fault
    server.requests.clear()
    reason = re.escape(PASSING[fault])
    with pytest.raises(
        DataError, match=rf"(?s)1 of 8 .*{re.escape(files[3])}\): could not be .* 3 attempts; .*{reason}"
    ):
        reader(8)
    assert server.asked().count("photos/3.jpg") == 3 or fault == "reset"  # aiohttp itself tries again then
    assert not reader.skipped
    server.always.clear()
    assert reader.get_state() == before
    assert len(reader(8)[0]) == 8  # the fault is over


@pytest.mark.parametrize(("status", "reason"), [(403, "refused by its store: the answer 403 Forbidden"),
                                                (401, "refused by its store: the answer 401")])  # fmt: skip
def test_a_refusal_is_not_tried_again_and_no_sample_is_skipped(status, reason, server):
    files = addresses(server)
    server.always["photos/3.jpg"] = status
    reader = readers.File(files=files, on_error="replace")
    with pytest.raises(DataError, match=rf"3\.jpg\): is {reason}"):
        reader(8)
    assert server.asked().count("photos/3.jpg") == 1


def test_a_missing_object_is_a_missing_file(server):
    files = addresses(server)
    del server.objects["photos/3.jpg"]
    with pytest.raises(DataError, match=r"sample 3 \(.*/photos/3\.jpg\): No such file or directory"):
        readers.File(files=files)(8)
    reader = readers.File(files=files, on_error="skip")
    assert len(reader(8)[0]) == 7
    assert [failure.reason for failure in reader.skipped] == ["No such file or directory"]


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize(
    ("change", "told"),
    [(b"OBJECT", "replaced by another"), (b"more than that", "14 bytes instead"), (b"", "0 bytes instead")],
)
def test_an_object_that_changed_since_it_was_listed_is_told(change, told, on_error, server):
    for i in range(4):
        server.objects[f"photos/c/{i}.jpg"] = b"object"
    reader = readers.File(file_root="s3://photos", storage_options=options(server), on_error=on_error)
    server.objects["photos/c/2.jpg"] = change
    with pytest.raises(DataError, match=rf"c/2\.jpg\): is no more the object that was listed: .*{told}"):
        reader(4)
    assert not server.asked("HEAD")


@pytest.mark.parametrize("kind", [kind for kind in FAR if kind.packed], ids=lambda kind: kind.name)
def test_an_archive_that_changed_is_told(kind, server, data):
    data(kind)
    reader = reader_of(kind, None, server, on_error="skip")
    for name in server.objects:
        server.objects[name] = bytes(reversed(server.objects[name]))
    with pytest.raises(DataError, match=r"is no more the object that was listed: it was replaced by another"):
        list(reader.next_epoch(8))


@kinds
def test_a_state_of_a_changed_bucket_is_a_mismatch(kind, server, data):
    state = moved(reader_of(kind, data(kind, 7), server).get_state())
    data(kind, 9)
    with pytest.raises(StateMismatch):
        reader_of(kind, None, server).set_state(state)


def test_sizes_come_from_listings(server, data):
    data(FAR[0])
    reader = reader_of(FAR[0], None, server)
    reader.get_state()
    assert not server.asked("HEAD")
    assert not server.asked()
    names = [f"s3://bucket/data/c/{i:02}.jpg" for i in range(MOST)] * 2
    assert readers.File(files=names, storage_options=options(server)).get_state()["samples"] == 2 * MOST
    assert len(server.asked("HEAD")) == MOST  # fewer than a listing is worth


def test_reads_overlap_within_and_between_steps(server):
    files = addresses(server, 400)
    server.held, server.expected = 27, 400
    reader = readers.File(files=files, random_shuffle=True)
    for jpegs, _ in reader.next_epoch(32):
        assert len(jpegs) in (32, 16)
    assert sorted(server.asked()) == sorted(f"photos/{i}.jpg" for i in range(400))
    assert not server.starved
    assert np.mean(server.flights) >= 25
    assert max(server.flights) <= 32


def test_steps_of_a_few_samples_are_asked_for_ahead(server):
    files = addresses(server, 200)
    server.held, server.expected = 27, 200
    reader = readers.File(files=files)
    given = [len(jpeg.array) for jpegs, _ in reader.next_epoch(4) for jpeg in jpegs]
    assert given == [6 * (i + 1) for i in range(200)]
    assert len(server.asked()) == 200
    assert not server.starved
    assert np.mean(server.flights) >= 25


def test_a_state_does_not_know_what_was_asked_for_ahead(server, data):
    root = data(FAR[0])
    near, far = (reader_of(FAR[0], root, there, random_shuffle=True) for there in (None, server))
    for size in (1, 5, 2):
        near(size), far(size)
        assert near.get_state() == far.get_state()
        far.peek(3)
    far.seek(2), near.seek(2)
    assert [FAR[0].numbers(batch) for batch in far.next_epoch(3)] == [
        FAR[0].numbers(batch) for batch in near.next_epoch(3)
    ]


# Lists of addresses


def test_names_of_a_list_are_below_its_root(server, tmp_path):
    addresses(server, 3)
    (tmp_path / "photos").mkdir()
    for i in range(3):
        (tmp_path / "photos" / f"{i}.jpg").write_bytes(server.objects[f"photos/{i}.jpg"])
    names = [f"photos/{i}.jpg" for i in range(3)]
    (tmp_path / "list.txt").write_text("".join(f"{server.url}/{name} {i}\n" for i, name in enumerate(names)))
    here = readers.File(file_root=tmp_path, files=names)
    state = here.get_state()
    for there in (
        readers.File(file_root=server.url, files=names),
        readers.File(file_root=server.url.replace("http", "HTTP"), files=names),
        readers.File(file_root=f"{server.url}/", files=[f"{server.url}/{name}" for name in names]),
        readers.File(file_root=server.url, file_list=tmp_path / "list.txt"),
    ):
        assert there.get_state() == state
        assert there(3)[0].origin.names == names


def test_a_folder_of_a_server_without_listings_is_refused(server):
    with pytest.raises(
        ArgumentError, match=r"'file_root' must be .*https:// have no listings: give files= or file_list="
    ):
        readers.File(file_root=f"{server.url}/photos")


def test_of_an_archive_parts_are_read(server, data):
    kind = next(kind for kind in FAR if kind.name == "Webdataset")
    data(kind)
    reader = reader_of(kind, None, server, random_shuffle=True)
    server.requests.clear(), server.parts.clear()
    given = [i for batch in reader.next_epoch(4) for i in kind.numbers(batch)]
    assert sorted(given) == list(range(MOST))
    assert MOST // 2 < len(server.parts) == len(server.asked()) <= MOST  # neighbours come by one request


def test_a_server_that_gives_no_parts_is_told(server, data):
    kind = next(kind for kind in FAR if kind.name == "TFRecord")
    root = data(kind)
    server.ranges = False
    features = kind.arguments(root)["features"]
    with pytest.raises(DataError, match=r"a\.tfrecord: record \d+\): cannot be read from its store: .*no parts"):
        path = f"{server.url}/bucket/data/a.tfrecord"
        list(readers.TFRecord(path=path, features=features, random_shuffle=True).next_epoch(2))


def test_queries_that_tell_objects_apart_do(server):
    server.objects["get"] = b"one of all"
    for queries in (["id=1", "id=2"], ["token=a&id=1", "token=a&id=2"], ["token=a", "token=a"]):
        reader = readers.File(files=[f"{server.url}/get?{query}" for query in queries])
        server.queries.clear()
        assert len(reader(2)[0]) == 2
        assert sorted(set(server.queries)) == sorted(set(queries))
        assert len(set(reader._ids.tolist())) == 2


@given(
    size=st.integers(0, 3000), reads=st.lists(st.tuples(st.integers(0, 3200), st.integers(0, 900)), max_size=12),
    near=st.booleans(), kept=st.booleans(),
)  # fmt: skip
def test_an_object_is_gone_through_as_a_file(size, reads, near, kept, tmp_path_factory):
    content = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    fsspec.filesystem("memory").pipe("/through/a.tar", content)
    cache = Cache(str(tmp_path_factory.mktemp("cache")), 1 << 20) if kept else None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_remote, "_BLOCK", 256)
        patched.setattr(_remote, "_NEAR", 64)
        for _ in range(1 + kept):
            with Remote(cache=cache).file("memory://through/a.tar") as file:
                for at, count in sorted(reads) if near else reads:
                    assert file.seek(at) == at
                    assert file.read(count) == content[at : at + count]


# Schemes, credentials


def test_a_store_that_cannot_be_read_is_refused_by_name(monkeypatch):
    for call in (lambda address: readers.File(file_root=address, lazy_init=True), dynamic.io.file.read):
        with pytest.raises(ArgumentError, match=r"must be a path, or an address of a store that fsspec knows.*'s4://b"):
            call("s4://bucket/train")
        with pytest.raises(ArgumentError, match=r"a package is missing for gs://.*'gs://b.*pip install gcsfs"):
            call("gs://bucket/train")
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, "fsspec", None)
            with pytest.raises(ArgumentError, match=r"'s3://bucket/train'.* pip install 'dynamic-batch\[remote\]'"):
                call("s3://bucket/train")


SECRET = "swordfish"


@pytest.mark.parametrize("query", ["", f"?X-Amz-Signature={SECRET}&X-Amz-Expires=6", f"?sig={SECRET}", f"?id={SECRET}"])
def test_credentials_are_in_no_error_state_or_repr(query, server, hasty, caplog):
    caplog.set_level("INFO")
    server.objects["photos/1.jpg"] = b"object"
    url = server.url.replace("//", f"//user:{SECRET}@")
    texts = []
    reader = readers.File(files=[f"{url}/photos/1.jpg{query}"], retries=1, storage_options={"client_kwargs": {}})
    (jpegs, _) = reader(1)
    assert bytes(jpegs[0].array) == b"object"
    assert any(SECRET in text for text in server.queries) == (SECRET in query)
    assert server.users
    (name,) = jpegs.origin.names
    texts += [repr(reader), repr(reader.get_state()), name, repr(jpegs), str(reader.explain(name))]
    for fault in (503, 403, 404, "cut"):
        server.always["photos/1.jpg"] = fault
        with pytest.raises(DataError) as caught:
            reader(1)
        error = caught.value
        while error is not None:
            texts += [str(error), repr(error), repr(error.__dict__)]
            error = error.__cause__ or error.__context__
    with pytest.raises(ArgumentError) as caught:
        readers.File(file_root=f"{url}/photos{query}")
    with pytest.raises(ArgumentError) as refused:
        readers.File(file_root=f"s4://user:{SECRET}@host/photos{query}")
    texts += [str(caught.value), str(refused.value), caplog.text, repr(reader._listing)]
    for text in texts:
        assert SECRET not in text


def test_keys_of_options_are_in_no_error_state_or_repr(server, hasty):
    for i in range(3):
        server.objects[f"photos/c/{i}.jpg"] = b"object"
    more = {**options(server), "secret": SECRET, "key": f"AKID{SECRET}", "token": f"more-{SECRET}"}
    reader = readers.File(file_root="s3://photos", storage_options=more, retries=0)
    texts = [repr(reader), str(reader.get_state()), repr(reader._listing), repr(reader._store)]
    for fault in (503, 403, "cut"):
        server.always["photos/c/1.jpg"] = fault
        with pytest.raises(DataError) as caught:
            reader(3)
        texts += [str(caught.value), repr(caught.value.failures), repr(caught.value.__context__)]
    assert not [text for text in texts if SECRET in text]
    assert pickle.loads(pickle.dumps(reader)).get_state() == reader.get_state()


@given(
    key=st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0\r\n"), min_size=1, max_size=40),
    secret=st.text("abcXYZ/+09", min_size=1, max_size=40), token=st.none() | st.text("abc/+=", min_size=1, max_size=30),
    region=st.sampled_from(["us-east-1", "eu-central-1"]),
)  # fmt: skip
def test_requests_of_s3_are_signed_as_its_client_signs_them(key, secret, token, region):
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    url = f"https://bucket.s3.{region}.amazonaws.com/" + quote(key, safe="/~")
    found = signed(url, "AKID", secret, token, region, datetime(2026, 5, 24, 12, 0, 3, tzinfo=UTC))
    request = AWSRequest("GET", url, headers={"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"})
    signer = S3SigV4Auth(Credentials("AKID", secret, token), "s3", region)
    request.context = {"timestamp": "20260524T120003Z", "payload_signing_enabled": False}
    signer._modify_request_before_signing(request)
    request.headers.replace_header("X-Amz-Content-SHA256", "UNSIGNED-PAYLOAD")
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert found["Authorization"].endswith(f"Signature={signer.signature(text, request)}")


# Processes, threads, the end


def child(connection, reader):
    """Read the rest in another process."""
    connection.send([FAR[0].numbers(batch) for batch in reader.next_epoch(3)])
    connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_process_reads_on(method, server, data):
    data(FAR[0])
    reader = reader_of(FAR[0], None, server)
    given = FAR[0].numbers(reader(2))  # the parent has asked ahead
    context = multiprocessing.get_context(method)
    for _ in range(2):
        mine, other = context.Pipe()
        process = context.Process(target=child, args=(other, reader))
        process.start()
        assert mine.poll(60)
        assert given + [i for batch in mine.recv() for i in batch] == list(range(MOST))
        process.join(20)
        assert process.exitcode == 0
    assert FAR[0].numbers(reader(3)) == [2, 3, 4]


SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what runs in the background ignore it
from dynamic import readers
reader = readers.File(files=[sys.argv[1] + f"/photos/{i}.jpg" for i in range(8)], timeout=60)
print("ready", flush=True)
%s
"""


@pytest.mark.slow
@pytest.mark.parametrize(("rest", "code"), [("reader._expect(list(range(8)))", 0), ("reader(8)", 1), ("""
from dynamic.pipeline import Pipeline, fn
@__import__("dynamic").pipeline.pipeline_def(batch_size=2)
def made():
    return tuple(fn.readers.file(files=[sys.argv[1] + f"/photos/{i}.jpg" for i in range(8)]))
pipe = made()
pipe.build()
pipe.run()
""", 1)], ids=["ahead", "plain", "pipeline"])  # fmt: skip
def test_neither_the_end_nor_an_interruption_waits_for_a_store(rest, code, server):
    addresses(server)
    server.always.update(dict.fromkeys(server.objects, "stall"))
    command = [sys.executable, "-c", SCRIPT % rest, server.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            if code:
                while not server.asked():
                    time.sleep(0.02)
                process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()  # a failure leaves no process to other tests
    assert ("KeyboardInterrupt" in errors) == bool(code), errors
    assert process.returncode != 0 if code else process.returncode == 0, errors
    assert "Unclosed" not in errors


def test_after_an_interruption_the_same_samples_come(server):
    files = addresses(server)
    reader = readers.File(files=files)
    server.faults["photos/2.jpg"] = ["stall"]

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            reader(4)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert reader.position == 0
    assert [len(jpeg.array) for jpeg in reader(4)[0]] == [6, 12, 18, 24]


@kinds
def test_a_pipeline_reads_a_bucket(kind, server, data):
    data(kind)

    @pipeline_def(batch_size=4, seed=1)
    def made():
        arguments = {name: given_as(value) for name, value in kind.arguments(There("s3://bucket/data")).items()}
        return columns(getattr(fn.readers, kind.function)(name="r", storage_options=options(server), **arguments))

    pipe = made()
    assert [i for outputs in pipe.next_epoch() for i in kind.numbers(outputs)] == list(range(MOST))
    assert KEYS["secret"] not in repr(pipe) + str(pipe.checkpoint())
    pipe.close()


# The cache


def test_a_cache_is_for_the_next_epoch_and_the_next_run(server, data, tmp_path):
    for kind in FAR:
        data(kind)
        for _ in range(2):
            reader = reader_of(kind, None, server, random_shuffle=True, cache_dir=tmp_path / "cache")
            given = [i for batch in reader.next_epoch(4) for i in kind.numbers(batch)]
            assert sorted(given) == list(range(MOST))
            asked = [name for name in server.asked() if not name.endswith(".json")]
            server.requests.clear()
        assert not asked
        server.objects.clear()


def test_a_cache_of_a_list_asks_for_its_versions_once(server, tmp_path):
    files = addresses(server)
    for expected in (8, 0):
        reader = readers.File(files=files, cache_dir=tmp_path)
        server.requests.clear()
        for _ in range(2):
            assert [len(jpeg.array) for jpeg in reader(8)[0]] == [6 * (i + 1) for i in range(8)]
        assert len(server.asked()) == expected
        assert len(server.asked("HEAD")) == 8
    server.objects["photos/3.jpg"] = b"another"
    assert bytes(readers.File(files=files, cache_dir=tmp_path)(8)[0][3].array) == b"another"


def test_without_a_version_nothing_is_kept(server, tmp_path):
    files, server.tags = addresses(server), False
    for _ in range(2):
        readers.File(files=files, cache_dir=tmp_path)(8)
    assert len(server.asked()) == 16


def kept(folder):
    return [path for path in Path(folder).glob("*/*") if path.is_file()]


@given(sizes=st.lists(st.integers(0, 300), max_size=40), most=st.integers(1, 2000))
def test_a_cache_is_bounded(sizes, most, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    for k in range(2):
        cache = Cache(str(folder), most)
        for path in kept(folder):
            os.utime(path, (1, 1))  # of an earlier run
        for i, size in enumerate(sizes):
            cache.put(f"{k}/{i}", bytes([i]) * size)
            assert sum(path.stat().st_size for path in kept(folder)) <= most
            assert cache.get(f"{k}/{i}") in (None, bytes([i]) * size)
    fitting = [i for i, size in enumerate(sizes) if size + 16 <= most]
    if fitting:  # the earlier run gave way
        assert cache.get(f"1/{fitting[0]}") is not None


@given(at=st.integers(0, 1000), how=st.sampled_from(["cut", "flip", "empty", "grow"]))
def test_a_damaged_file_of_a_cache_is_not_there(at, how, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    cache = Cache(str(folder), 1 << 20)
    cache.put("a", b"content" * 20)
    assert cache.get("a") == b"content" * 20
    (path,) = kept(folder)
    data = bytearray(path.read_bytes())
    at %= len(data)
    data[at] ^= how == "flip"
    path.write_bytes({"cut": data[:at], "flip": data, "empty": b"", "grow": data + b"x"}[how])
    assert cache.get("a") is None
    cache.put("a", b"content" * 20)
    assert cache.get("a") == b"content" * 20


def fill(folder, seed):
    """Put and get without an end."""
    cache, numbers = Cache(folder, 60_000), np.random.default_rng(seed)
    while True:
        i = int(numbers.integers(0, 40))
        found = cache.get(str(i))
        assert found in (None, bytes([i]) * (1000 * i))
        cache.put(str(i), bytes([i]) * (1000 * i))


@pytest.mark.slow
def test_processes_that_are_killed_leave_whole_contents(tmp_path):
    """Two at a time, killed at random."""
    context, numbers = multiprocessing.get_context("fork"), np.random.default_rng(5)
    for turn in range(12):
        processes = [context.Process(target=fill, args=(str(tmp_path), 2 * turn + k)) for k in range(2)]
        for process in processes:
            process.start()
        time.sleep(float(numbers.uniform(0.02, 0.2)))
        for process in processes:
            assert process.is_alive()
            process.kill()
            process.join()
        whole = [path for path in kept(tmp_path) if not path.name.endswith(".part")]
        assert sum(path.stat().st_size for path in whole) <= 60_000
        cache = Cache(str(tmp_path), 60_000)
        for path in whole:
            assert path.read_bytes()[-16:] == _digest(path.read_bytes()[:-16])
        assert all(cache.get(str(i)) in (None, bytes([i]) * (1000 * i)) for i in range(40))
        cache.put("new", b"new")  # nobody holds the lock


def test_a_cache_that_cannot_be_written_to_is_told(server, tmp_path):
    files = addresses(server)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ArgumentError, match="'cache_dir' must be a folder that can be written to"):
        readers.File(files=files, cache_dir=tmp_path / "file")
    reader = readers.File(files=files, cache_dir=tmp_path / "cache")
    for name in range(256):
        (tmp_path / "cache" / f"{name:02x}").write_bytes(b"")
    with pytest.warns(RuntimeWarning, match="cache .* cannot be written to"):
        assert len(reader(8)[0]) == 8


# Real stores and libraries

DALIS = """
import json, os, sys

import numpy as np
IMPORTS

url, index, annotations = sys.argv[1:]
os.environ.update(AWS_ENDPOINT_URL=url, AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
os.environ.update(AWS_DEFAULT_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true")
names = [f"c/{i:02}.jpg" for i in range(6)]


@pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=1)
def made():
    files = fn.readers.file(file_root="s3://bucket/data", files=names, name="files")
    listed = fn.readers.file(files=["s3://bucket/data/" + name for name in names], labels=[5, 4, 3, 2, 1, 0])
    folders = fn.readers.file(file_root="s3://bucket/data", file_filters=["*.jpg"], dir_filters=["c"])
    arrays = fn.readers.numpy(file_root="s3://bucket/data", file_filter="*.npy")
    regions = fn.readers.numpy(file_root="s3://bucket/data", files=["02.npy", "05.npy"] * 3, roi_start=[1], roi_end=[3])
    archived = fn.readers.webdataset(paths=["s3://bucket/data/a.tar"], ext=["bin", "n"])
    indexed = fn.readers.webdataset(paths=["s3://bucket/data/a.tar"], index_paths=[index], ext=["bin", "n"])
    _, boxes, labels = fn.readers.coco(file_root="s3://bucket/data/images", annotations_file=annotations)
    whole = fn.io.file.read(np.frombuffer(b"s3://bucket/data/c/01.jpg", np.uint8))
    return (*files, *listed, *folders, arrays, regions, *archived, *indexed, boxes, labels, whole)


pipe = made()
pipe.build()
for _ in range(2):
    print(json.dumps([[np.array(output.at(i)).tolist() for i in range(3)] for output in pipe.run()]))
"""


@pytest.mark.slow
def test_scripts_of_dali_read_buckets_as_dali_does(server, tmp_path):
    writers = {kind.name: kind.write for kind in KINDS}
    for name in ("File", "Numpy", "Webdataset", "COCO"):
        writers[name](tmp_path, range(6))
    server.put(tmp_path, "bucket/data")
    with tarfile.open(tmp_path / "a.tar") as archive:
        members = [(*member.name.split("."), member.offset_data, member.size, member.name) for member in archive]
    rows = [" ".join(f"{ext} {start} {size} {name}" for key, ext, start, size, name in members if key == f"{i:02}")
            for i in range(6)]  # fmt: skip
    (tmp_path / "a.idx").write_text("v1.2 6\n" + "".join(f"{row}\n" for row in rows))
    arguments = [server.url, tmp_path / "a.idx", tmp_path / "annotations.json"]
    imports = "from dynamic.pipeline import fn, pipeline_def"
    printed = run(DALIS.replace("IMPORTS", imports), tmp_path, *map(str, arguments))
    first = json.loads(printed.splitlines()[0])
    assert [bytes(file) for file in first[0]] == [HELD[i] for i in range(3)]
    assert first[2] == first[0]
    python = dalis_python()
    assert printed == run(DALIS.replace("IMPORTS", EXCHANGED[imports]), tmp_path, *map(str, arguments), python=python)


@pytest.fixture(scope="module")
def moto():
    """A server of moto, and a client of it."""
    pytest.importorskip("moto.server", exc_type=ImportError)
    from moto.server import ThreadedMotoServer

    served = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    served.start()
    host, port = served.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        served.stop()


@pytest.mark.slow
@kinds
def test_a_bucket_of_moto_is_a_folder(kind, moto, tmp_path):
    import s3fs

    more = {**KEYS, "endpoint_url": moto, "client_kwargs": {"region_name": "us-east-1"}}
    kind.write(tmp_path, range(MOST))
    store = s3fs.S3FileSystem(**more)
    bucket = f"bucket-{kind.name.lower()}"
    store.call_s3("create_bucket", Bucket=bucket)
    store.touch(f"{bucket}/data/c/")  # consoles make folders so
    for path in tmp_path.rglob("*"):
        if path.is_file():
            store.pipe(f"{bucket}/data/{path.relative_to(tmp_path).as_posix()}", path.read_bytes())
    names = kind.arguments(There(f"s3://{bucket}/data"))
    arguments = {name: given_as(value) for name, value in names.items()}
    near = kind.made(tmp_path, random_shuffle=True)
    far = getattr(readers, kind.name)(**arguments, storage_options=more, random_shuffle=True)
    assert far.get_state() == near.get_state()
    for here, there in zip(near.next_epoch(4), far.next_epoch(4), strict=True):
        assert kind.numbers(here) == kind.numbers(there)
