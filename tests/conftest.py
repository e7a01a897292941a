"""Fixtures shared by all tests: hypothesis profiles, and the names that doctests may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import numpy
import pytest
import twin

#: What a machine under load, or an operator that takes few of the calls that are drawn for it, may come by.
BY_CHANCE = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much]
hypothesis.settings.register_profile(
    "default", max_examples=40, deadline=None, derandomize=True, print_blob=True, suppress_health_check=BY_CHANCE
)
hypothesis.settings.register_profile("deep", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """What helps the tests has no examples, may need what is not installed, and is imported under one name only."""
    is_help = collection_path.suffix == ".py" and collection_path.is_relative_to(Path(__file__).parent)
    return True if is_help and not collection_path.name.startswith("test_") else None


@pytest.fixture(autouse=True)
def _names_for_doctests(doctest_namespace: dict[str, object]) -> None:
    import dynamic

    doctest_namespace["numpy"] = doctest_namespace["np"] = numpy
    doctest_namespace["dynamic"] = doctest_namespace["ndd"] = dynamic
    doctest_namespace.update({name: getattr(dynamic, name) for name in dynamic.__all__})


@pytest.fixture(autouse=True)
def _gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """For a test that is marked `gpu`: the GPU of this machine, else what stands in for one."""
    if request.node.get_closest_marker("gpu") is None:
        yield
        return
    with twin.with_gpu():
        yield
