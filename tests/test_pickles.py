"""Pickles of earlier versions, recorded in data/, whose modules have other names now."""

from __future__ import annotations

import base64
import json
import pickle
import pickletools
from pathlib import Path

import numpy
import pytest

import dynamic
from dynamic.random import RNG, uniform

RECORDED = json.loads(Path(__file__).with_name("data").joinpath("pickles_1.json").read_text())


def recorded(name: str) -> object:
    return pickle.loads(base64.b64decode(RECORDED[name]))


def modules(value: object) -> set[str]:
    """The modules of ours that a pickle of a value names."""
    texts = {text for _, text, _ in pickletools.genops(pickle.dumps(value, 4)) if isinstance(text, str)}
    return {text for text in texts if text.startswith("dynamic.")}


def test_data_and_their_origins_are_as_they_were():
    batch, tensor = recorded("batch"), recorded("tensor")
    assert batch.tolist() == [[0] * 4, [1] * 4]
    assert tensor.tolist() == [1] * 4
    assert (batch.origin.epoch, batch.origin.names, tensor.origin.names) == (0, ["0.bin", "1.bin"], ["1.bin"])
    assert batch.origin.ids.tolist() == [15697449457829598721, 12873895142485143661]


def test_streams_and_keyed_draws_go_on():
    stream = RNG(5)
    stream.advance(3)
    assert recorded("rng")() == stream() == 4147765880
    assert modules(stream) == {"dynamic.random"}
    keyed, batch = recorded("keyed"), recorded("batch")
    assert numpy.array_equal(uniform(rng=keyed).tolist(), uniform(rng=RNG(5).keyed(batch)).tolist())


@pytest.mark.parametrize(("name", "value"), [
    ("uniform", dynamic.random.uniform), ("image", dynamic.decoders.image), ("imread", dynamic.imread),
    ("dtype", dynamic.float32),
])  # fmt: skip
def test_functions_are_found(name, value):
    assert recorded(name) is value
