"""Fixtures shared by all tests: hypothesis profiles, and the names that doctests may use."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import numpy
import pytest
import twin

if importlib.util.find_spec("tensorflow"):  # triton, which torch's optimizers import, crashes if it comes second
    with contextlib.suppress(ImportError):
        import triton  # noqa: F401

#: What a machine under load, or an operator that takes few of the calls that are drawn for it, may come by.
BY_CHANCE = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much]
hypothesis.settings.register_profile(
    "default", max_examples=40, deadline=None, derandomize=True, print_blob=True, suppress_health_check=BY_CHANCE
)
hypothesis.settings.register_profile(
    "quick",
    hypothesis.settings.get_profile("default"),
    max_examples=5,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
hypothesis.settings.register_profile("deep", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """What helps the tests has no examples, may need what is not installed, and is imported under one name only."""
    is_help = collection_path.suffix == ".py" and collection_path.is_relative_to(Path(__file__).parent)
    return True if is_help and not collection_path.name.startswith("test_") else None


class Doctests:
    """What examples may use. A plugin, since fixtures of this file are for the tests beside it alone."""

    @pytest.fixture(autouse=True)
    def _names(self, request: pytest.FixtureRequest, doctest_namespace: dict[str, object]) -> None:
        """Docstrings have the imports of the pages in `docs/operators/`, and pages only their own."""
        if not isinstance(request.node, pytest.DoctestItem):
            return
        doctest_namespace.clear()  # it is one for all examples
        request.node.dtest.globs = {"__name__": "__main__"}  # not the names of the module: a reader lacks them
        folder = str(request.getfixturevalue("tmp_path"))  # where pytest removes the files of examples
        request.getfixturevalue("monkeypatch").setattr(tempfile, "tempdir", folder)
        doctest_namespace["getfixture"] = None  # pytest's own, which a reader cannot type either
        if request.path.suffix == ".md":
            return
        import dynamic

        doctest_namespace |= {"numpy": numpy, "ndd": dynamic}


def pytest_configure(config: pytest.Config) -> None:
    """Register what is for all folders."""
    config.pluginmanager.register(Doctests())


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what was collected to the end: a collection of garbage that looks at it takes a quarter of a second."""
    hypothesis.given(hypothesis.strategies.none())(lambda _: None)()  # it asks once who refers to its generator
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """For a test that is marked `gpu`: the GPU of this machine, else what stands in for one."""
    if request.node.get_closest_marker("gpu") is None:
        yield
        return
    with twin.with_gpu():
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once for each reason how many tests were skipped, and in which files."""
    reasons = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", []):
        *_, reason = report.longrepr
        reasons[reason.removeprefix("Skipped: ")].append(Path(report.nodeid.partition("::")[0]).name)
    if reasons:
        terminalreporter.section("skipped, by reason")
    for reason, files in sorted(reasons.items(), key=lambda item: -len(item[1])):
        terminalreporter.write_line(f"{len(files):5}  {reason} ({', '.join(sorted(set(files)))})")
