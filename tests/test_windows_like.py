"""The library on a system without fork, `fcntl`, descriptors of folders and moves of open files."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not tell which files are open"),
]

#: What Windows lacks, and how it moves and removes files. `/proc` tells which of them are open.
SYSTEM = '''
import errno, os, sys, types, warnings
# These look at the real system.
import asyncio, cv2, importlib.metadata, multiprocessing.pool, numpy, PIL.Image, runpy, shutil, simplejpeg
import tarfile, tempfile
from multiprocessing import reduction

warnings.simplefilter("error")
for module in ("fcntl", "resource", "pwd", "grp", "termios", "pty", "syslog"):
    sys.modules[module] = None
for name in """fork forkpty register_at_fork sched_getaffinity sched_setaffinity memfd_create posix_fallocate
    posix_fadvise pread preadv readv pwrite pwritev writev mkfifo mknod getuid geteuid getgid getloadavg
    sysconf statvfs fstatvfs fchown chown lchown killpg setsid nice uname wait waitid O_DIRECTORY O_NOFOLLOW
    O_CLOEXEC O_NONBLOCK O_SYNC O_DSYNC MFD_CLOEXEC fchmod fdatasync getxattr sendfile copy_file_range""".split():
    if hasattr(os, name):
        delattr(os, name)

sys.platform = "win32"
locked = set()


def locking(descriptor, mode, count):
    key = os.path.realpath(f"/proc/self/fd/{descriptor}"), os.lseek(descriptor, 0, os.SEEK_CUR)
    if mode == 0:
        locked.remove(key)
    elif key in locked:
        raise OSError(errno.EDEADLK, "Resource deadlock avoided")
    else:
        locked.add(key)


sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_LOCK=1, LK_UNLCK=0)


def is_open(path):
    here = os.path.realpath(path)
    return any(os.path.realpath(f"/proc/self/fd/{name}") == here for name in os.listdir("/proc/self/fd"))


def as_on_windows(call, replaces):
    def moved(source, *target, **options):
        for path in (source, *target):
            if os.path.exists(path) and is_open(path):
                raise PermissionError(errno.EACCES, "The process cannot access the file", os.fspath(path))
        if target and not replaces and os.path.exists(target[0]):
            raise FileExistsError(errno.EEXIST, "That file already exists", os.fspath(target[0]))
        return call(source, *target, **options)

    return moved


for name in ("rename", "replace", "unlink", "remove"):
    setattr(os, name, as_on_windows(getattr(os, name), replaces=name == "replace"))
opened = os.open


def no_folders(path, *arguments, **options):
    if not isinstance(path, int) and os.path.isdir(path):
        raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))
    return opened(path, *arguments, **options)


os.open = no_folders
'''

CASES = {
    "checkpoints are written, replaced, swept and read": """
        import dynamic as ndd
        rng = ndd.random.RNG(seed=1)
        for _ in range(3):
            ndd.random.uniform(range=(0, 1), rng=rng)
            ndd.checkpoint.save("deep/er/run.json", rng=rng)
        assert os.listdir("deep/er") == ["run.json"]
        wanted = rng.get_state()
        for name, age in (("a", 7200), ("b", 60)):
            part = f"deep/er/.run.json.{name * 16}.part"
            open(part, "wb").close()
            os.utime(part, (os.stat(part).st_mtime - age,) * 2)
        ndd.checkpoint.save("deep/er/run.json", rng=rng)
        assert sorted(os.listdir("deep/er")) == [f".run.json.{'b' * 16}.part", "run.json"]
        other = ndd.random.RNG(seed=2)
        ndd.checkpoint.load("deep/er/run.json", rng=other)
        assert other.get_state() == wanted
        numbered = ndd.checkpoint.Checkpoint()
        numbered.register(rng, "rng")
        numbered.collect()
        for _ in range(4):
            numbered.save("runs/run-{seq}.json", keep=2)
        assert sorted(os.listdir("runs")) == ["run-2.json", "run-3.json"], os.listdir("runs")
    """,
    "a write that fails leaves nothing": """
        import dynamic as ndd
        rng = ndd.random.RNG(seed=1)
        ndd.checkpoint.save("run.json", rng=rng)
        before = open("run.json", "rb").read()
        fsync = os.fsync
        def full(descriptor):
            raise OSError(errno.ENOSPC, "No space left on device")
        os.fsync = full
        try:
            ndd.checkpoint.save("run.json", rng=ndd.random.RNG(seed=2))
        except OSError as error:
            assert error.errno == errno.ENOSPC
        else:
            raise AssertionError
        os.fsync = fsync
        assert os.listdir(".") == ["run.json"] and open("run.json", "rb").read() == before
    """,
    "readers and archives give every sample, from several threads": """
        import io, tarfile
        import numpy
        import dynamic as ndd
        os.makedirs("photos/a"), os.makedirs("photos/b")
        for i in range(12):
            pixels = numpy.full((8, 8, 3), i * 10, numpy.uint8)
            from PIL import Image
            Image.fromarray(pixels).save(f"photos/{'ab'[i % 2]}/{i}.png")
        with tarfile.open("photos.tar", "w") as archive:
            for i in range(12):
                archive.add(f"photos/{'ab'[i % 2]}/{i}.png", f"{i}.png")
        readers = (
            ndd.readers.File(file_root="photos", random_shuffle=True, seed=7),
            ndd.readers.Webdataset(paths=["photos.tar"], ext=["png"], random_shuffle=True, seed=8),
        )
        for reader in readers:
            values, state = [], None
            for batch in reader.next_epoch(batch_size=4):
                files = batch[0] if isinstance(batch, tuple) else batch
                images = ndd.decoders.image(files)
                values += [int(numpy.asarray(image)[0, 0, 0]) for image in images]
                state = ndd.checkpoint.save("run.json", reader=reader)
            assert sorted(values) == [i * 10 for i in range(12)], values
        made = ndd.prefetch(readers[0].next_epoch(batch_size=5), lambda batch: ndd.decoders.image(batch[0]))
        assert sum(len(images) for images in made) == 12
    """,
    "contents of stores are kept, dropped and read again": """
        from dynamic.io._cache import Cache
        cache = Cache("kept", 4096)
        for i in range(8):
            cache.put(str(i), bytes([i]) * 500)
        assert sum(cache.get(str(i)) == bytes([i]) * 500 for i in range(8)) == 7
        for entry in list(os.scandir("kept")):
            for inner in os.scandir(entry) if entry.is_dir() else ():
                os.utime(inner, (1, 1))
        folders = sorted(entry.path for entry in os.scandir("kept") if entry.is_dir())
        held = open(next(os.scandir(folders[0])).path)
        again = Cache("kept", 4096)
        again.put("new", b"n" * 500)
        assert again.get("new") == b"n" * 500
        assert os.path.exists(held.name)
        assert not locked
    """,
    "threads, configuration and the command line": """
        import runpy
        import numpy
        import dynamic as ndd
        ndd.show_config()
        assert ndd.get_num_threads() >= 1
        images = ndd.as_batch([numpy.zeros((600, 600, 3), numpy.uint8)] * 8, layout="HWC")
        assert ndd.rotate(images, angle=10)[0].shape[2] == 3
        import dynamic.pipeline, dynamic.pytorch, dynamic.testing, dynamic.auto_aug, dynamic.custom
        sys.argv = ["dynamic", "--help"]
        try:
            runpy.run_module("dynamic", run_name="__main__")
        except SystemExit as end:
            assert end.code == 0
    """,
}


@pytest.mark.parametrize("case", CASES)
def test_without_what_only_posix_has(case, tmp_path):
    script = SYSTEM + textwrap.dedent(CASES[case])
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
