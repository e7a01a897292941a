"""The native library is of the present sources, and is chosen as the environment says."""

from __future__ import annotations

import contextvars
import ctypes
import importlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynamic as ndd
from dynamic import _core
from dynamic._base import pool
from dynamic.errors import ArgumentError

ROOT = Path(__file__).parent.parent
compiled = pytest.mark.skipif(not _core.in_use(), reason="the native library is not compiled, or DYNAMIC_CORE=0")


def chosen(value: str) -> subprocess.CompletedProcess[str]:
    """Python with another choice of the library, which tells it."""
    code = "from dynamic import _core; print(_core.info()['native library'])"
    environment = {**os.environ, "DYNAMIC_CORE": value}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that compiles the library."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("hatch_build")


@compiled
def test_the_library_is_of_the_sources(hook: Any) -> None:
    """Else `make` compiles it anew."""
    assert _core.function("core_digest", result=ctypes.c_char_p)().decode() == hook.digest()


@compiled
@pytest.mark.slow
def test_the_environment_chooses() -> None:
    """None, the variant of any processor, or the best."""
    assert chosen("0").stdout.strip() == "none: DYNAMIC_CORE=0"
    assert chosen("baseline").stdout.strip().startswith("dynamic-core-baseline")
    assert chosen("1").stdout.strip() == _core.info()["native library"]
    refused = chosen("2")
    assert refused.returncode
    assert "DYNAMIC_CORE" in refused.stderr
    assert ArgumentError.__name__ in refused.stderr


def test_without_a_compiler_there_is_no_library(hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is compiled, and nothing fails."""
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hook.compiler() is None
    assert hook.build(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_sources_that_do_not_compile_leave_nothing(hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The hook warns then, and the wheel is one of pure Python."""
    if hook.compiler() is None:
        pytest.skip("no compiler: there is nothing that could fail")
    (tmp_path / "wrong.c").write_text("this is no C")
    monkeypatch.setattr(hook, "FOLDER", tmp_path)
    with pytest.raises(subprocess.CalledProcessError):
        hook.build(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.c"]


def drawn(seed: int) -> Any:
    """Numbers enough for several pieces, drawn natively."""
    return ndd.random.uniform(shape=[20_000], batch_size=4, rng=ndd.random.RNG(seed)).numpy()


@compiled
def test_callers_and_children_share_the_threads() -> None:
    """Sixteen callers at once get their own numbers, and so does a forked child."""
    with _core.left_out():
        expected = [drawn(seed) for seed in range(16)]
    with pool.sharing_all(), ndd.EvalContext(num_threads=4):
        with ThreadPoolExecutor(16) as callers:
            context = contextvars.copy_context()
            found = list(callers.map(lambda seed: context.copy().run(drawn, seed), list(range(16)) * 4))
        assert all(np.array_equal(a, b) for a, b in zip(found, expected * 4, strict=True))
        if hasattr(os, "fork"):
            child = os.fork()
            if not child:
                os._exit(not np.array_equal(drawn(3), expected[3]))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@compiled
def test_left_out() -> None:
    """Tests compare both ways in one process."""
    with _core.left_out():
        assert not _core.in_use()
    assert _core.in_use()


def test_show_config(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints its result."""
    sections = ndd.show_config("dicts")
    ndd.show_config()
    printed = capsys.readouterr().out
    assert all(f"  {name}: {value}\n" in printed for values in sections.values() for name, value in values.items())
    assert sections["dynamic"]["native library"] == _core.info()["native library"]
    with pytest.raises(ArgumentError, match="mode"):
        ndd.show_config("html")
