"""The tables of `docs/pipelines.md` on sources of one's own: each row is run as it stands there."""

from __future__ import annotations

import functools
import importlib
import itertools
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from counting import by_batch, by_index, by_sample

import dynamic
from dynamic import StateWarning
from dynamic.pipeline import fn, pipeline_def

PAGE = (Path(__file__).parent.parent / "docs" / "pipelines.md").read_text()
EXACTLY, ANY_SIZE = "exactly", "exactly, with any batch size"
FROM_START, FROM_THERE = (f"from {where}, with a `StateWarning`" for where in ("its start", "where it is"))


def table(first):
    """The rows of the table whose head begins so, as lists of cells."""
    text = PAGE.split(f"| {first} |", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines()[2:]]


ROWS = table("source")
GIVEN = table("a source gives")


def scaled_by_index(number, factor):
    return np.array(by_index(number)[0]) * [[factor]] * [[1], [2]]


def names():
    """What the arguments in the table refer to, made anew."""
    batches = [[[i], [i, i]] for i in range(4)]
    counter, other = itertools.count(), itertools.count()

    class Numbered:
        def __call__(self, info):
            return by_sample(info)

    def generator_function():
        yield from batches

    return {
        "by_sample": by_sample, "by_batch": by_batch, "by_index": by_index, "Numbered": Numbered,
        "pair_by_sample": lambda info: (by_sample(info), info.idx_in_epoch),
        "pair_by_batch": lambda info: (by_batch(info), [0] * 3), "pair_by_index": lambda i: (by_index(i), [i, i]),
        "scaled_by_index": scaled_by_index, "functools": functools, "batches": batches,
        "no_argument": lambda: [next(counter)] * 2, "no_argument_sample": lambda: next(other),
        "samples": list(range(9)), "generator_function": generator_function, "iterator": iter(batches),
    }  # fmt: skip


@pipeline_def(batch_size=3, seed=5, num_threads=1)
def pipeline(arguments):
    outputs = fn.external_source(name="source", **arguments)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def made(cell, known):
    return eval(f"dict({cell.strip('`')})", known)


def following(pipe, count):
    """So many batches, of the next epochs too; "end" where one ends."""
    found = []
    for _ in range(count):
        try:
            found.append([[sample.tolist() for sample in output.samples] for output in pipe.run()])
        except StopIteration:
            found.append("end")
            pipe.reset()
    return found


@pytest.mark.parametrize("row", ROWS, ids=[row[1].strip("`") for row in ROWS])
def test_each_row_of_the_table_of_sources(row):
    _, arguments, outcome = row
    with pipeline(made(arguments, names())) as pipe:
        whole = following(pipe, 9)
    assert whole[0] != whole[1] != "end"
    for stop in range(1, 5):
        known = names()
        with pipeline(made(arguments, known)) as pipe:
            assert following(pipe, stop) == whole[:stop]
            text = pipe.checkpoint()
        if outcome in (EXACTLY, ANY_SIZE):
            with pipeline(made(arguments, names()), checkpoint=text) as pipe:
                assert following(pipe, 9 - stop) == whole[stop:]
        if outcome == ANY_SIZE:
            counted = len([sample for batch in whole[:stop] if batch != "end" for sample in batch[0]])
            with pipeline(made(arguments, names()), checkpoint=text, batch_size=2) as pipe:
                rest = [sample for batch in following(pipe, 12) if batch != "end" for sample in batch[0]]
            expected = [sample for batch in whole if batch != "end" for sample in batch[0]]
            assert rest[: len(expected) - counted] == expected[counted:][: len(rest)]
        elif outcome in (FROM_START, FROM_THERE):
            # a source of which pipelines made ahead is further than what was taken: without that it is where it was
            known = known if outcome == FROM_START else names()
            with pipeline(made(arguments, known), prefetch_queue_depth=0) as pipe:
                following(pipe, stop if outcome == FROM_THERE else 0)
                text = pipe.checkpoint() if outcome == FROM_THERE else text
            with pipeline(made(arguments, known), checkpoint=text, prefetch_queue_depth=0) as pipe:
                with pytest.warns(StateWarning, match="no telling where its source was"):
                    first = following(pipe, 1)
                assert first == (whole[stop : stop + 1] if outcome == FROM_THERE else whole[:1])
    assert outcome in (EXACTLY, ANY_SIZE, FROM_START, FROM_THERE)


def test_the_table_has_every_kind_of_source():
    text = " ".join(row[1] for row in ROWS)
    kinds = {"by_sample", "by_batch", "by_index", "no_argument", "batches", "samples", "generator_function", "iterator"}
    assert kinds <= set(re.findall(r"\w+", text))
    assert {"batch", "batch_info", "num_outputs", "cycle", "layout"} <= set(re.findall(r"(\w+)=", text))
    assert {row[2] for row in ROWS} == {EXACTLY, ANY_SIZE, FROM_START, FROM_THERE}


@pytest.mark.parametrize("row", GIVEN, ids=[row[0].strip("`") for row in GIVEN])
def test_what_a_source_may_give(row):
    given, dtype, shapes = (cell.strip("`") for cell in row)
    known = {"numpy": np, "dynamic": dynamic}
    for library in ("torch", "jax", "tensorflow"):
        if library in given:
            known[library] = pytest.importorskip(library, reason=f"{library} is not installed")
    for name in [name for name in known if name == "jax"]:
        importlib.import_module(f"{name}.numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = eval(given, known)
        with pipeline({"source": lambda i: value}) as pipe:
            (output,) = pipe.run()
    assert (str(output.dtype), str(output.shape)) == (dtype, shapes)


def test_arguments_of_dalis_that_mean_nothing_here_are_taken():
    without_effect = {"blocking": True, "prefetch_queue_depth": 2,
                      "use_copy_kernel": False, "cuda_stream": None, "bytes_per_sample_hint": 100}  # fmt: skip
    with pipeline({"source": by_index, **without_effect}) as pipe:
        assert following(pipe, 1) == [[[[0], [0, 1]]]]
    with pipeline({"source": by_index, "bacth": True}) as pipe, pytest.raises(dynamic.ArgumentError, match="'batch'"):
        pipe.run()
