"""Fixtures shared by all tests: hypothesis profiles, and the names that doctests may use."""

from __future__ import annotations

import os

import hypothesis
import numpy
import pytest

hypothesis.settings.register_profile("default", max_examples=40, deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("deep", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True)
def _names_for_doctests(doctest_namespace: dict[str, object]) -> None:
    import dynamic

    doctest_namespace["numpy"] = doctest_namespace["np"] = numpy
    doctest_namespace["dynamic"] = doctest_namespace["ndd"] = dynamic
    doctest_namespace.update({name: getattr(dynamic, name) for name in dynamic.__all__})
