"""The native library is of the present sources, and is chosen as the environment says."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dynamic as ndd
from dynamic import _core
from dynamic.errors import ArgumentError

ROOT = Path(__file__).parent.parent
compiled = pytest.mark.skipif(not _core.in_use(), reason="the native library is not compiled, or DYNAMIC_CORE=0")


def chosen(value: str) -> subprocess.CompletedProcess[str]:
    """Python with another choice of the library, which tells it."""
    code = "from dynamic import _core; print(_core.info()['native library'])"
    environment = {**os.environ, "DYNAMIC_CORE": value}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@compiled
def test_the_library_is_of_the_sources() -> None:
    """Else `make` compiles it anew."""
    sys.path.insert(0, str(ROOT))
    try:
        import hatch_build
    finally:
        sys.path.remove(str(ROOT))
    assert _core.function("core_digest", result=ctypes.c_char_p)().decode() == hatch_build.digest()


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


@compiled
def test_left_out() -> None:
    """Tests compare both ways in one process."""
    with _core.left_out():
        assert not _core.in_use()
    assert _core.in_use()


def test_show_config(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints what it returns."""
    sections = ndd.show_config("dicts")
    ndd.show_config()
    printed = capsys.readouterr().out
    assert all(f"  {name}: {value}\n" in printed for values in sections.values() for name, value in values.items())
    assert sections["dynamic"]["native library"] == _core.info()["native library"]
    with pytest.raises(ArgumentError, match="mode"):
        ndd.show_config("html")
