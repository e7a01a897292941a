"""The names that users see."""

from __future__ import annotations

import builtins
import importlib
import re
from operator import attrgetter
from pathlib import Path

import public_surface
import pytest

import dynamic
from dynamic import errors
from dynamic._lift.operator import registry

ROOT = Path(__file__).parent.parent


def test_every_operator_is_public_under_its_own_name():
    for name, operator in registry.items():
        module = importlib.import_module(operator.__module__)
        assert getattr(module, operator.__name__) is operator
        assert operator.__name__ in module.__all__
        assert name.split(".")[-1] == operator.__name__
        if module.__name__.startswith("dynamic.ops."):
            assert attrgetter(name)(dynamic) is operator


def test_star_import_shadows_nothing_of_pythons():
    assert not set(dynamic.__all__) & set(dir(builtins))
    assert all(hasattr(dynamic, name) for name in dynamic.__all__)
    assert dynamic.bool is dynamic.dtypes.bool_


def test_public_names_are_meant_to_be():
    visible = {name for name in vars(dynamic) if not name.startswith("_")}
    modules = {name for name in visible if type(getattr(dynamic, name)).__name__ == "module"}
    assert visible - modules == set(dynamic.__all__) | {"bool", "copy", "filter", "slice"}


def test_names_and_parameters_that_users_see_change_on_purpose():
    """`python tests/public_surface.py` records an intended change; docs/stability.md has the rules."""
    recorded = public_surface.RECORD.read_text(encoding="utf-8").splitlines()
    found = public_surface.surface().splitlines()
    gone, new = [line for line in recorded if line not in found], [line for line in found if line not in recorded]
    assert (gone, new) == ([], [])
    assert found == recorded


def test_a_surface_tells_parameters_defaults_and_attributes():
    lines = public_surface.surface().splitlines()
    assert "dynamic.checkpoint.Checkpoint.save(self, filename, *, keep=None)" in lines
    assert not [line for line in lines if " at 0x" in line]

    class Shape:
        size = 3

        def area(self, *, scale: float = 1.0) -> float:
            return scale

        def _hidden(self):
            pass

    Shape.__module__ = "dynamic.shapes"
    assert list(public_surface.described("Shape", Shape)) == [
        "class Shape() = ()", "Shape.area(self, *, scale=1.0)", "Shape.size",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [n for n in dynamic.__all__ if callable(getattr(dynamic, n))])
def test_everything_public_is_documented(name):
    assert (getattr(dynamic, name).__doc__ or "").strip()


def test_errors_are_what_python_programs_expect():
    assert issubclass(errors.ArgumentError, (TypeError, ValueError))
    assert issubclass(errors.ArgumentError, TypeError)
    assert issubclass(errors.DeviceError, RuntimeError)
    assert issubclass(errors.DecodeError, errors.DataError)
    assert issubclass(errors.DataError, ValueError)
    assert issubclass(errors.StateError, ValueError)
    for name in errors.__all__:
        error = getattr(errors, name)
        assert name == "Failure" or issubclass(error, (errors.DynamicError, UserWarning))


def test_errors_pickle_whole():
    import pickle

    failure = errors.Failure(3, "it ends", "JPEG", "a.jpg")
    for error in (
        errors.ArgumentError("f", "x", "a number", "None", "Do."),
        errors.TruncatedImage("f", [failure], 8),
        errors.StateMismatch("other", ["seed: 1 in the state, 2 here"]),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("name", sorted({*errors.__all__} - {"Failure"}))
def test_errors_are_made_of_their_message_alone(name):
    """As by PyTorch, of an error in a worker."""
    import pickle

    error = getattr(errors, name)("It is\n gone.")
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert (type(each), str(each), vars(each)) == (getattr(errors, name), "It is\n gone.", vars(error))
        assert not any(vars(each).values())


def test_a_broken_repr_does_not_hide_an_error():
    class Broken:
        def __repr__(self):
            raise RuntimeError("no")

    assert errors.shown(Broken()) == "Broken (whose repr raises RuntimeError)"
    assert len(errors.shown("x" * 1000)) < 80


def test_version_is_in_the_changelog_or_unreleased():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert "dev" in dynamic.__version__ or f"## [{dynamic.__version__}]" in text


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_decision_is_listed_and_short():
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\(([a-z-]+\.md)\)", (folder / "README.md").read_text()))
    pages = {path.name: path for path in folder.glob("*.md") if path.name != "README.md"}
    assert listed == pages.keys()
    assert [name for name, path in pages.items() if not 100 <= len(path.read_text().split()) <= 450] == []


@pytest.mark.parametrize("module", ["random", "decoders", "noise", "reductions", "math", "transforms", "segmentation",
                                    "experimental"])  # fmt: skip
def test_completion_offers_what_is_public(module):
    assert dir(getattr(dynamic, module)) == sorted(getattr(dynamic, module).__all__)


def test_completion_offers_no_rooms_behind_the_door():
    offered = set(dir(dynamic))
    assert {*dynamic.__all__, "pipeline", "pytorch", "auto_aug", "bool", "copy", "random"} <= offered
    assert not {"kernels", "ops", "data", "context"} & offered


@pytest.mark.parametrize(("name", "told"), [
    ("fn", "from dynamic.pipeline import fn"), ("pipeline_def", "from dynamic.pipeline import pipeline_def"),
    ("Pipeline", "from dynamic.pipeline import Pipeline"), ("plugin", "dynamic.pytorch"),
    ("optical_flow", "NVIDIA's hardware"),
    ("external_source", "ExternalSource"), ("ops.RandomResizedCrop", "dynamic.random_resized_crop"),
])  # fmt: skip
def test_names_that_dali_has_elsewhere_are_told(name, told):
    with pytest.raises(AttributeError, match=f"has no attribute '{name.removeprefix('ops.')}'; .*{told}"):
        attrgetter(name)(dynamic)
    for module in (dynamic, dynamic.ops):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'$"):
            _ = module.nothing
