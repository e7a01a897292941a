"""Files that vanish, shrink, change or hang, odd names, and a process that ends while a file does not come."""

from __future__ import annotations

import os
import random as python_random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from load import interrupted_after

from dynamic import checkpoint
from dynamic.errors import ArgumentError, DataError
from dynamic.io import _bytes, _store
from dynamic.io._store import Disk
from dynamic.pipeline import fn, pipeline_def
from dynamic.readers import File

NAMES = [f"{i:02d}.jpg" for i in range(20)]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "class").mkdir()
    for name in NAMES:
        (tmp_path / "class" / name).write_bytes(name.encode() * 50)
    return tmp_path


def contents(batches):
    return [bytes(jpeg.array) for jpegs, _ in batches for jpeg in jpegs]


# Files that change


def vanish(path):
    path.unlink()


def dangle(path):
    path.unlink()
    path.symlink_to("nothing")


def loop(path):
    path.unlink()
    path.symlink_to(path.name)


def become_a_folder(path):
    path.unlink()
    path.mkdir()


def become_a_fifo(path):
    path.unlink()
    os.mkfifo(path)


def become_a_socket(path):
    path.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.getcwd()
        os.chdir(path.parent)  # the names of sockets are short
        try:
            made.bind(path.name)
        finally:
            os.chdir(folder)


def become_a_device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def be_locked(path):
    if os.geteuid() == 0:
        pytest.skip("the superuser may read anything")
    path.chmod(0)


FAULTS = [vanish, dangle, loop, become_a_folder, become_a_fifo, become_a_socket, become_a_device, be_locked]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
def test_a_file_that_is_lost_in_an_epoch_is_named_or_passed_over(root, fault, on_error):
    chance = python_random.Random(fault.__name__)
    reader = File(file_root=root, random_shuffle=True, on_error=on_error)
    rest = reader.next_epoch(3)
    received = [next(rest) for _ in range(3)]
    left = sorted(set(NAMES) - {name.split("/")[1] for jpegs, _ in received for name in jpegs.origin.names})
    lost = chance.choice(left)
    fault(root / "class" / lost)
    if on_error == "raise":
        with pytest.raises(DataError, match=lost) as caught:
            received.extend(rest)
        position, descriptors = reader.position, os.listdir("/dev/fd")
        with pytest.raises(DataError, match=lost):
            next(rest)
        assert (reader.position, len(os.listdir("/dev/fd"))) == (position, len(descriptors))
        assert [failure.source for failure in caught.value.failures] == [str(root / "class" / lost)]
        path = root / "class" / lost
        path.rmdir() if fault is become_a_folder else path.unlink(missing_ok=True)
        path.write_bytes(lost.encode() * 50)
    received.extend(rest)
    got = contents(received)
    if on_error == "raise":
        assert sorted(got) == sorted(name.encode() * 50 for name in NAMES)
    else:
        assert [failure.source for failure in reader.skipped] == [str(root / "class" / lost)]
        assert set(got) == {name.encode() * 50 for name in NAMES if name != lost}
        assert len(got) == len(NAMES) - (on_error == "skip")
    assert checkpoint.verify_epoch([reader.get_state()]).samples == len(NAMES)


@pytest.mark.parametrize(("change", "told"), [(b"", "0 bytes came of 300"), (b"x" * 10, "10 bytes came of 300"),
                                              (b"x" * 301, "more bytes came of 300")])  # fmt: skip
def test_a_file_that_changes_its_size_while_it_is_read_is_refused(root, monkeypatch, change, told):
    original = _bytes._read_into

    def read_into(data, descriptor):
        path.write_bytes(change)
        return original(data, descriptor)

    path = root / "class" / NAMES[0]
    monkeypatch.setattr(_bytes, "_read_into", read_into)
    with pytest.raises(DataError, match=f"{NAMES[0]}.*changed while it was read: {told}"):
        File(files=[path])(1)


def test_a_file_that_shrank_before_it_is_read_is_what_it_is_now(root):
    reader = File(file_root=root)
    (root / "class" / NAMES[0]).write_bytes(b"")
    assert contents([reader(2)]) == [b"", NAMES[1].encode() * 50]


def test_what_comes_in_parts_is_read_whole(root, monkeypatch):
    original = _bytes._read_into
    monkeypatch.setattr(_bytes, "_read_into", lambda data, descriptor: original(data[:7], descriptor))
    assert contents([File(file_root=root)(2)]) == [name.encode() * 50 for name in NAMES[:2]]


@pytest.mark.parametrize("fault", [become_a_fifo, become_a_socket, become_a_device])
def test_what_is_no_file_is_refused_when_files_are_listed(root, fault):
    fault(root / "class" / NAMES[3])
    with pytest.raises(DataError, match=rf"{NAMES[3]}.* is a (fifo|socket|device), not a regular file"):
        File(file_root=root)


def test_states_and_digests_of_files_that_are_none_do_not_hang(root):
    for fault, name in zip([vanish, dangle, become_a_fifo, become_a_folder], NAMES[::5], strict=True):
        fault(root / "class" / name)
    reader = File(files=[root / "class" / name for name in NAMES], fingerprint="contents")
    assert reader.get_state() == reader.get_state()


# Names


def test_any_name_is_read_and_saved(tmp_path):
    odd = [b" ", b"a b.jpg", b"line\nbreak.jpg", b".hidden.jpg", b"\xff\xfe.jpg", "ä😀.jpg".encode(), b"tab\t.jpg",
           b"'quote\".jpg", b"%s.jpg", b"-x.jpg", b"x" * 250, b"\x1b[31m.jpg", b"a\\b.jpg"]  # fmt: skip
    folder = os.fsencode(tmp_path / "class")
    os.mkdir(folder)
    for name in odd:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(name)
    reader = File(file_root=tmp_path, file_filters=["*"], random_shuffle=True)
    received = list(reader.next_epoch(4))
    assert sorted(contents(received)) == sorted(odd)
    assert sorted(os.fsencode(n) for jpegs, _ in received for n in jpegs.origin.names) == sorted(
        b"class/" + name for name in odd
    )
    checkpoint.save(tmp_path / "run.json", reader=reader)
    again = File(file_root=tmp_path, file_filters=["*"], random_shuffle=True)
    checkpoint.load(tmp_path / "run.json", reader=again)
    assert again.get_state() == reader.get_state()
    for name in odd:
        os.unlink(os.path.join(folder, name))
    with pytest.raises(DataError) as caught:
        reader(4)
    assert str(caught.value).replace("\n", "").isprintable()


def test_the_folder_may_change_while_it_is_listed(root):
    """What is there throughout is listed, each once; of what comes and goes each file is, or is not."""
    stop = threading.Event()

    def change():
        while not stop.is_set():
            for i in range(30):
                (root / "class" / f"new{i}.jpg").write_bytes(b"x")
            for i in range(30):
                (root / "class" / f"new{i}.jpg").unlink()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(30):
            names = list(File(file_root=root)._listing.names)
            assert len(set(names)) == len(names)
            assert {f"class/{name}" for name in NAMES} <= set(names)
            assert names == sorted(names)
    finally:
        stop.set()
        thread.join()


def test_folders_that_cannot_be_listed_are_told(tmp_path):
    for make in (lambda: None, lambda: (tmp_path / "data").write_text("x"), lambda: become_a_fifo(tmp_path / "data")):
        make()
        with pytest.raises(ArgumentError, match="file_root"):
            File(file_root=tmp_path / "data")


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_file_that_memory_does_not_hold_is_one_that_cannot_be_read(root, monkeypatch, on_error):
    """As one with holes may be, whose size is a word in the file system."""

    def no_memory(shape, dtype):
        raise MemoryError

    reader = File(file_root=root, on_error=on_error)
    monkeypatch.setattr(_bytes, "empty", no_memory)
    if on_error == "skip":
        assert len(reader(2)[0]) == 0
        assert len(reader.skipped) == 2
        return
    size = os.stat(reader._listing.path(0)).st_size
    with pytest.raises(DataError, match=f"has {size} bytes to be read, more than there is memory for"):
        reader(2)


# Files that take their time


@pytest.fixture
def slow(monkeypatch):
    """Files come when they are let, and it is counted how many were begun."""
    let, begun = threading.Event(), []

    def contents(path, **options):
        begun.append(path)
        let.wait()
        return _bytes.contents(path, **options)

    def together(paths):
        begun.extend(paths)
        let.wait()
        return _bytes.together(paths)

    monkeypatch.setattr(Disk, "contents", staticmethod(contents))
    monkeypatch.setattr(_store, "together", together)
    yield let, begun
    let.set()


def pipeline_over(root, depth=2):
    @pipeline_def(batch_size=2, seed=5, prefetch_queue_depth=depth)
    def made():
        return fn.readers.file(file_root=root, random_shuffle=True, name="files")

    return made()


def test_a_pipeline_can_be_closed_while_a_file_does_not_come(root, slow):
    let, begun = slow
    pipe = pipeline_over(root)
    pipe.build()
    while not begun:
        time.sleep(0.001)
    pipe.close()
    with pytest.raises(RuntimeError, match="closed"):
        pipe.run()
    assert len(begun) <= 2
    let.set()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals here")
@pytest.mark.parametrize("depth", [0, 2])
def test_ctrl_c_ends_a_wait_for_a_file_that_does_not_come(root, slow, depth):
    let, _ = slow
    with pipeline_over(root, depth) as pipe:
        received = []

        def take():
            received.append(pipe.run())

        opener = threading.Timer(1.0, let.set)
        opener.start()
        assert interrupted_after(0.1, take) is not None
        opener.join()
        received += [pipe.run() for _ in range(9)]
    assert sorted(contents(received)) == sorted(name.encode() * 50 for name in NAMES)


def test_no_more_is_made_ahead_than_is_asked_for(root, slow):
    let, begun = slow
    let.set()
    with pipeline_over(root, 3) as pipe:
        pipe.run()
        limit = time.monotonic() + 5
        while len(begun) < 8 and time.monotonic() < limit:
            time.sleep(0.005)
        time.sleep(0.1)
        assert len(begun) == 2 * (1 + 3)


HANGING = """
import signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
from dynamic import set_num_threads
from dynamic.pipeline import fn, pipeline_def
from dynamic.io._store import Disk
begun = threading.Event()
def contents(path, **options):
    begun.set()
    threading.Event().wait()
Disk.contents = staticmethod(contents)
set_num_threads(3)
@pipeline_def(batch_size=2, seed=5)
def made():
    return fn.readers.file(file_root=sys.argv[1], name="files")
pipe = made()
pipe.build()
begun.wait()
print("hanging", flush=True)
pipe.run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals here")
def test_a_process_ends_by_ctrl_c_while_a_file_does_not_come(root):
    command = [sys.executable, "-c", HANGING, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "hanging\n"
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=30)
        finally:
            process.kill()  # a failure leaves no process to other tests
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in told


AT_EXIT = """
import atexit, dynamic, numpy
dynamic.set_num_threads(3)
batch = dynamic.as_batch(numpy.zeros((9, 400, 400, 3), numpy.uint8), layout="HWC")
expected = dynamic.rotate(batch, angle=20.0)
@atexit.register
def last():
    same = all((a.array == b.array).all() for a, b in zip(dynamic.rotate(batch, angle=20.0), expected))
    print("same" if same else "different")
"""


def test_operators_work_as_the_process_ends():
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("same\n", "")


def test_a_handler_of_a_signal_may_save_at_any_moment(root, tmp_path):
    """As a run does that is told to end: the state is before or after a batch, never in its midst."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("there are no timers here")
    reader = File(file_root=root, random_shuffle=True)
    states, chance = [reader.get_state()], python_random.Random(5)

    def handle(*_):
        states.append(reader.get_state())
        if len(states) < 100:  # none comes later, when the handler is the old one
            signal.setitimer(signal.ITIMER_REAL, 1e-5 + 1e-3 * chance.random())

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-4)
        while len(states) < 100:
            for _ in reader.next_epoch(3):
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for state in states:
        samples = int(state["given"].split(":")[0])
        assert samples == state["position"] or (not state["position"] and samples in (0, len(NAMES)))
