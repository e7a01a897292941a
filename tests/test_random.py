"""Random numbers: the words, the stream, the keyed draws, and the distributions.

What DALI 2.4 draws is recorded in data/random_dali_2_4.json, so that most of this needs no DALI; with one
(``DYNAMIC_DALI_PYTHON=... python tests/test_random.py``) the record is made anew.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import json
import math
import os
import pickle
import random
import subprocess
import sys
import threading
import types
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dali_oracle import Oracle, Samples, connect, dali_fixture  # noqa: F401
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import dynamic
from dynamic import ArgumentError, StateError
from dynamic._base.origin import Origin
from dynamic.data import Batch, Tensor
from dynamic.random import (
    RNG,
    _distributions,
    _drawing,
    _philox,
    beta,
    choice,
    coin_flip,
    get_default_rng,
    normal,
    set_seed,
    uniform,
)

FILE = Path(__file__).with_name("data") / "random_dali_2_4.json"
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
FLOATS = ("float32", "float64")
TWIN = types.ModuleType("twin")  # stands for cupy: an array library that is not numpy
TWIN.__dict__.update(np.__dict__)

seeds = st.integers(0, 2**64 - 1)
words_of_64 = st.integers(0, 2**64 - 1)
places = st.builds(lambda high, low, word: 4 * (high << 64 | low) + word, words_of_64, words_of_64, st.integers(0, 3))


def samples_of(data: Tensor | Batch) -> list[np.ndarray]:
    return data.samples if isinstance(data, Batch) else [data.array]


def same(a: Any, b: Any) -> bool:
    pairs = list(zip(samples_of(a), samples_of(b), strict=True))
    return all(x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in pairs)


def at(seed: int, place: int) -> RNG:
    rng = RNG(seed)
    rng.advance(place)
    return rng


# -- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # published with the Random123 library
        (0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (2**128 - 1, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (0x03707344_13198A2E_85A308D3_243F6A88, 0x299F31D0_A4093822, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_published_vectors(counter, key, expected):
    assert " ".join(f"{w:08x}" for w in _philox.words(key, 4 * counter, 4)) == expected
    low, high = (np.array([c], np.uint64) for c in (counter & 2**64 - 1, counter >> 64))
    assert " ".join(f"{int(w[0]):08x}" for w in _philox.blocks(TWIN, key, low, high)) == expected


@given(
    seeds, st.lists(st.tuples(words_of_64, words_of_64), min_size=1, max_size=20), st.integers(0, 4), st.integers(1, 4)
)
def test_long_integers_and_arrays_make_the_same_words(key, counters, first, count):
    low, high = np.array(counters, np.uint64).T.copy()
    wanted = range(4)[first : first + count]
    few, many = (_philox.blocks(xp, key, low, high, wanted) for xp in (np, TWIN))
    assert len(few) == len(wanted)
    assert all(np.array_equal(a, b) for a, b in zip(few, many, strict=True))
    few, many = (_philox.blocks(xp, key, int(low[0]), high, wanted) for xp in (np, TWIN))
    assert all(np.array_equal(a, b) for a, b in zip(few, many, strict=True))


@given(seeds, places, st.integers(0, 50), st.integers(0, 50))
@example(1, 4 * 2**128 - 3, 2, 7)
@example(1, 4 * 2**64 - 3, 2, 7)
def test_words_are_one_endless_stream(key, start, skip, count):
    everything = _philox.words(key, start, skip + count)
    assert everything[skip:] == _philox.words(key, (start + skip) % 2**130, count)


@given(
    seeds, words_of_64, st.lists(words_of_64, min_size=1, max_size=5), st.integers(0, 3), st.integers(1, 5),
    st.lists(st.integers(0, 2**40), min_size=1, max_size=5),
)  # fmt: skip
@example(1, 2**64 - 1, [2**64 - 1], 3, 4, [0, 1, 2])
def test_words_of_elements_are_those_of_their_streams(key, low, high, phase, count, elements):
    draw = _philox.Draw(key, low, np.array(high, np.uint64), phase)
    numbers = np.array(elements, np.uint64)
    for xp in (np, TWIN):
        for sample in range(len(high)):
            found = draw.words(xp, np.full(len(numbers), sample), numbers, count)
            expected = [list(islice(draw.stream(sample, e), count)) for e in elements]
            assert np.transpose(found).tolist() == expected
        first = draw.words(xp, slice(0, len(high)), None, count)
        assert np.transpose(first).tolist() == [list(islice(draw.stream(s), count)) for s in range(len(high))]


@given(
    seeds, st.sampled_from((2**32, 2**64)).flatmap(lambda end: st.integers(end - 4000, end - 1)) | words_of_64,
    words_of_64, st.integers(0, 3), st.integers(1, 9),
    st.integers(1, 5) | st.integers(0, 10**6), st.integers(0, 2**40), st.integers(1, 300),
)  # fmt: skip
@example(1, 2**64 - 1, 2**64 - 1, 3, 4, 257, 0, 5)
@example(1, 2**32 - 258, 0, 3, 4, 257, 0, 5)
def test_words_of_elements_that_follow_each_other(key, low, high, phase, count, stride, first, n):
    draw = _philox.Draw(key, low, np.array([7, high, high + 5 & 2**64 - 1], np.uint64), phase)
    samples, elements = (part.reshape(-1) for part in np.mgrid[1:3, first : first + n])
    expected = draw.words(np, samples, elements.astype(np.uint64), count, stride)
    found = draw.words(np, slice(1, 3), range(first, first + n), count, stride)
    assert np.array_equal(found, expected)


def test_keys_do_not_share_words():
    keys = [*range(50_000), *(k << 32 for k in range(1, 25_000)), *(2**64 - 1 - k for k in range(25_000))]
    one = np.zeros(1, np.uint64)
    first = {tuple(int(w[0]) for w in _philox.blocks(np, key, 0, one, (0, 1))) for key in keys}
    assert len(first) == len(keys)


# -- the stream -------------------------------------------------------------------------------------------------------


def test_words_of_a_seed():
    rng = RNG(0)
    assert [rng() for _ in range(4)] == [1713891541, 3781805453, 3159862348, 2600524760]
    rng = RNG(1234)
    assert rng.state == "Philox_00000000000004D2_0000000000000000:0000000000000000_0"
    for _ in range(5):
        rng()
    assert rng.state == "Philox_00000000000004D2_0000000000000000:0000000000000001_1"
    assert repr(rng) == f"RNG(state='{rng.state}')"


@given(seeds, places, st.integers(0, 2**130), st.integers(0, 2**70), st.integers(0, 300))
@example(5, 0, 2**130, 2**64, 300)
def test_advance(seed, place, a, b, n):
    whole, parts = at(seed, place), at(seed, place)
    whole.advance(a + b)
    parts.advance(a)
    parts.advance(b)
    assert whole.state == parts.state
    drawn = [whole() for _ in range(n)]
    parts.advance(n)
    assert whole.state == parts.state
    assert drawn == _philox.words(seed, (place + a + b) % 2**130, n)


@given(seeds, st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_any_split_of_the_draws(seed, n, k, before):
    one, many = at(seed, before), at(seed, before)
    drawn = [one() for _ in range(n * k)]
    assert [many() for _ in range(n) for _ in range(k)] == drawn
    assert one.state == many.state


COPIES = {
    "clone": lambda rng, used: rng.clone(),
    "copy": lambda rng, used: copy.copy(rng),
    "deepcopy": lambda rng, used: copy.deepcopy(rng),
    "pickle": lambda rng, used: pickle.loads(pickle.dumps(rng)),
    "state": lambda rng, used: RNG(state=rng.state),
    "JSON": lambda rng, used: RNG(state=json.loads(json.dumps(rng.get_state()))),
    "set_state": lambda rng, used: used.set_state(rng.get_state()) or used,
    "DALI's text": lambda rng, used: used.set_state(rng.state) or used,
    "text of a dict": lambda rng, used: used.set_state(str(rng.get_state())) or used,
    "text of JSON": lambda rng, used: used.set_state(json.dumps(rng.get_state())) or used,
    "assignment": lambda rng, used: setattr(used, "state", rng.state) or used,
    "state_dict": lambda rng, used: used.load_state_dict(rng.state_dict()) or used,
}


@pytest.mark.parametrize("how", COPIES)
@given(seeds, places, seeds, st.integers(0, 300), st.booleans())
def test_copies_go_on_alike_and_apart(how, seed, place, other, use, near):
    rng, used = at(seed, place), at(seed if near else other, place + use)
    used()  # words of its own are computed ahead now
    rng()
    twin = COPIES[how](rng, used)
    assert twin.state == rng.state
    assert twin.seed == rng.seed == seed
    assert [twin() for _ in range(9)] == [rng() for _ in range(9)]
    rng()
    assert twin.state != rng.state
    assert same(uniform(shape=3, rng=RNG(state=twin.state)), uniform(shape=3, rng=twin))


@given(seeds, places)
def test_states_are_small_and_of_one_size(seed, place):
    state = at(seed, place).get_state()
    assert len(json.dumps(state)) == len(json.dumps(RNG(0).get_state()))
    assert state["state"] == state["state"].upper().replace("PHILOX", "Philox")


GOOD = "Philox_0000000000000005_0000000000000000:0000000000000001_2"


@pytest.mark.parametrize(
    "state",
    [
        "", "Philox", GOOD + " ", GOOD[:-1] + "4", GOOD.replace("Philox", "Threefry"), GOOD.replace(":", "_"),
        GOOD[:-2],
        GOOD.replace("5", "g"), GOOD + "\n", 5, b"Philox", [GOOD], {}, {"state": GOOD},
        {"algorithm": "philox4x32-10"},
        {"algorithm": "pcg64", "state": GOOD}, {"algorithm": "philox4x32-10", "state": 5},
        {"algorithm": "philox4x32-10", "state": GOOD, "more": 1}, {"algorithm": ["philox4x32-10"], "state": GOOD},
    ],
)  # fmt: skip
def test_bad_states_are_refused_and_change_nothing(state):
    rng = at(7, 9)
    before = rng.state
    with pytest.raises(StateError, match="RNG"):
        rng.set_state(state)
    assert rng.state == before
    with pytest.raises(StateError):
        RNG(state=state)


def test_a_state_in_lower_case_is_accepted():
    assert RNG(state="Philox_00000000000004d2_000000000000000a:0000000000000001_2").seed == 1234


@pytest.mark.parametrize("seed", [-1, 2**64, 10**30, 1.0, "5", True, [5], b"5", np.float32(3)])
def test_bad_seeds(seed):
    for function in (RNG, set_seed, lambda s: setattr(RNG(0), "seed", s)):
        with pytest.raises(ArgumentError, match=r"'seed' must be an integer in \[0, 2\*\*64\)"):
            function(seed)


def test_the_error_for_a_negative_seed_names_dalis():
    with pytest.raises(ArgumentError, match="18446744073709551615"):
        RNG(-1)


def test_seed_and_state_exclude_each_other():
    with pytest.raises(ArgumentError, match="'seed' must be None"):
        RNG(5, GOOD)


@given(seeds)
def test_seeds_are_exact_and_readable(seed):
    assert RNG(seed).seed == seed
    assert RNG(np.uint64(seed)).state == RNG(seed).state
    rng = at(5, 77)
    rng()
    rng.seed = seed
    assert rng.state == RNG(seed).state
    assert rng() == RNG(seed)()


@pytest.mark.parametrize("n", [-1, 1.5, "1", None, True])
def test_bad_advance(n):
    rng = RNG(5)
    with pytest.raises(ArgumentError, match="'n' must be an integer of 0 or more"):
        rng.advance(n)
    assert rng.state == RNG(5).state


def test_unseeded_streams_differ_and_leave_global_ones_alone():
    before = random.getstate(), np.random.get_state()[1].tobytes()
    assert len({RNG().seed for _ in range(20)}) == 20
    uniform()
    assert (random.getstate(), np.random.get_state()[1].tobytes()) == before
    random.seed(1)
    first = RNG().seed
    random.seed(1)
    assert RNG().seed != first
    random.setstate(before[0])


def test_streams_are_compared_by_identity():
    assert RNG(5) != RNG(5)
    assert len({RNG(5), RNG(5)}) == 2


def test_threads_share_a_stream_without_loss():
    rng, drawn = RNG(11), [[] for _ in range(8)]

    def work(mine):
        for i in range(300):
            mine.append(rng() if i % 2 else uniform(rng=rng).array.item())

    threads = [threading.Thread(target=work, args=(mine,)) for mine in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rng.state == at(11, 8 * (150 + 150 * 7)).state
    everything = [x for mine in drawn for x in mine]
    assert len(set(everything)) > 0.999 * len(everything)


def test_default_streams_belong_to_threads():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(get_default_rng()))
    thread.start()
    thread.join()
    default = get_default_rng()
    assert default is get_default_rng()
    assert seen[0] is not default
    before = seen[0].state
    set_seed(17)
    assert get_default_rng() is default
    assert default.state == RNG(17).state
    assert seen[0].state == before
    assert same(uniform(batch_size=3), uniform(batch_size=3, rng=RNG(17)))
    assert default.state == at(17, 7).state


def drawn_in_children(family):
    """What a process draws and what its children do, each of which forks as many as declared, in turn."""
    found = [uniform(shape=4).array.tobytes()]
    for grandchildren in family:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.write(write, b"".join(drawn_in_children(grandchildren)))
            os._exit(0)
        os.waitpid(child, 0)
        data = os.read(read, 65536)
        found += [data[i : i + 16] for i in range(0, len(data), 16)]
        os.close(read)
        os.close(write)
    return found


families = st.recursive(st.just([]), lambda children: st.lists(children, max_size=3), max_leaves=4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@given(families, st.integers(0, 2**64 - 1), st.booleans())
@settings(max_examples=10)
def test_forked_children_draw_what_no_other_process_draws(family, seed, seeded):
    """Nor the same again in the next epoch; but a seed says all of it."""
    runs = []

    def in_a_thread_of_its_own():
        for _ in range(2):
            if seeded:
                set_seed(seed)
            runs.append(drawn_in_children(family))

    thread = threading.Thread(target=in_a_thread_of_its_own)
    thread.start()
    thread.join()
    first, second = runs
    assert len(set(first)) == len(first)
    assert (first == second) == seeded


PROGRAM = """
import multiprocessing

from dynamic.random import set_seed, uniform

set_seed(5)


def drawn(results):
    results.put(uniform(shape=4).tolist())


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    for _ in range(3):
        process = context.Process(target=drawn, args=(results,))
        process.start()
        process.join()
        print(results.get())
    print(uniform(shape=4).tolist())
"""


@pytest.mark.slow
def test_spawned_children_of_a_program_with_a_seed_draw_what_no_other_does(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    runs = [
        subprocess.run([sys.executable, tmp_path / "program.py"], check=True, text=True, stdout=subprocess.PIPE).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0].splitlines())) == 4


# -- distributions: arithmetic ----------------------------------------------------------------------------------------

floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**60), max_value=2.0**60)
normal_floats = floats32.filter(lambda x: x == 0 or abs(x) > 1e-30)


@given(st.integers(0, 2**32 - 1), normal_floats, normal_floats)
@example(2**24 + 1, 2.0**-24, 2.0**-60)
@example(3, 0.5, 2.0**24)
@example(2**23 + 1, (2**23 - 1) * 2.0**-46, 2.0**24 + 2)  # a hair less than half way between two numbers
def test_float32_multiply_and_add_rounds_once(word, b, c):
    a = np.float32(word)
    exact = Fraction(float(a)) * Fraction(b) + Fraction(c)
    assume(exact == 0 or abs(exact) > 1e-30)
    for factor, term in ((np.float32(b), np.float32(c)), (np.full(1, b, np.float32), np.full(1, c, np.float32))):
        found = float(_distributions._fused_float32(np, np.array([a]), factor, term)[0])
        below, above = (float(np.nextafter(np.float32(found), np.float32(s * np.inf))) for s in (-1, 1))
        assert all(abs(Fraction(found) - exact) <= abs(Fraction(x) - exact) for x in (below, above))


@given(st.integers(0, 2**64 - 1), st.floats(2.0**-90, 2.0**90), st.floats(-(2.0**90), 2.0**90))
@example(2**63 + 2**10, 1 + 2.0**-52, -(2.0**62))
@example(2**52 + 1, (1 - 2.0**-52) * 2.0**-105, 1 + 2.0**-52)  # a hair less than half way between two numbers
def test_float64_multiply_and_add_rounds_once(word, b, c):
    assume(c == 0 or abs(c) > 2.0**-90)
    a = np.float64(word)
    exact = Fraction(float(a)) * Fraction(b) + Fraction(c)
    (found,) = _distributions._fused_float64(np, np.array([a]), np.float64(b), np.float64(c)).tolist()
    assert found == exact.numerator / exact.denominator  # Python's division of integers rounds once


@given(st.floats(-1e6, 1e6, width=32), st.floats(-1e6, 1e6, width=32))
@example(-30.0, 30.0)
@example(0.1, 0.9)
def test_ranges_that_are_called_exact_are(low, high):
    assume(low < high)
    fine, limits = _distributions.uniform_limits(np.float64(low), np.float64(high), np.dtype("float32"))
    assert fine
    words = [np.array([0, 1, 3, 2**24 + 1, 2**31 + 129, 2**32 - 1], np.uint32)]
    if _distributions.sums_are_exact(limits):
        quick = _distributions.uniform(np, words, limits, exact=True)
        assert quick.tobytes() == _distributions.uniform(np, words, limits).tobytes()


def test_nice_ranges_are_exact():
    for low, high in ((-30, 30), (0, 1), (-1, 1)):
        _, limits = _distributions.uniform_limits(np.float64(low), np.float64(high), np.dtype("float32"))
        assert _distributions.sums_are_exact(limits)


def test_logarithm_and_cosine():
    x = np.concatenate([np.linspace(2.0**-32, 1, 5001), 2.0 ** -np.arange(64), 1 - 2.0 ** -np.arange(2, 53)])
    exact = np.array([math.log(v) for v in x])
    assert np.abs(_distributions._log(np, x, 11) - exact).max() < 3e-15
    tiny = exact != 0
    assert (np.abs(_distributions._log(np, x, 11) - exact)[tiny] / np.abs(exact[tiny])).max() < 5e-16
    assert (np.abs(_distributions._log(np, x, 7) - exact)[tiny] / np.abs(exact[tiny])).max() < 1e-12
    x = np.linspace(0, 2 * np.pi, 5001)
    exact = np.array([math.cos(v) for v in x])
    assert np.abs(_distributions._cos(np, x, 11) - exact).max() < 1e-15
    assert np.abs(_distributions._cos(np, x, 7) - exact).max() < 1e-11


def test_normal_numbers_of_words_of_zero_are_finite():
    zero, some = np.zeros(1, np.uint32), np.array([5], np.uint32)
    for words in ([zero, zero], [zero, some], [some, zero], [zero] * 4, [zero, zero, some, zero]):
        assert np.isfinite(_distributions.normal(np, words)).all()
    for words, other in (([zero, some], 5 * 2.0**-32), ([zero, zero, some, zero], 5 * 2.0**-64)):
        (found,) = _distributions.normal(np, words).tolist()
        assert found == pytest.approx(math.sqrt(-2 * math.log(other)))


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=50).filter(lambda p: sum(p) > 1e-3))
@example([1.0, 1.0, 2.0**-52, 0.5, 0.0])  # whose sums go beyond 1 before the last
def test_the_last_item_is_chosen_where_no_other_is(p):
    p = np.array(p) / sum(p)
    sums = dynamic.random._operators._sums("p", tuple(p.tolist()), len(p))
    assert sums[-1] == 1
    assert (np.diff(sums) >= 0).all()


@given(st.integers(1, 2**64), st.lists(st.integers(0, 2**32 - 1), min_size=1))
def test_numbers_below_a_bound(n, words):
    assert 0 <= _distributions.below(iter([*words, *_philox.words(5, 0, 200)]), n) < n


@pytest.mark.parametrize("n", [3, 3 * 2**30, 2**32, 2**32 + 1, 2**33 + 5, 2**63])
def test_numbers_below_a_bound_are_equally_likely(n):
    stream = _philox.Draw(9, 0, np.zeros(1, np.uint64), 0).stream(0)
    found = np.array([_distributions.below(stream, n) / n for _ in range(3000)])
    assert_uniform(found if n > 3 else found + np.random.default_rng(1).random(3000) / 3)


# -- distributions: what they promise ---------------------------------------------------------------------------------

ALIKE = math.sqrt(-math.log(1e-6 / 2) / 2)  # Kolmogorov and Smirnov: the chance to differ more is 1e-6


def assert_uniform(x: np.ndarray) -> None:
    x = np.sort(x.astype(np.float64).reshape(-1))
    steps = np.arange(len(x) + 1) / len(x)
    assert max(np.abs(x - steps[1:]).max(), np.abs(x - steps[:-1]).max()) * math.sqrt(len(x)) < ALIKE


def assert_counts(x: np.ndarray, probabilities: list[float]) -> None:
    counts = np.array([np.sum(x == i) for i in range(len(probabilities))])
    assert counts.sum() == x.size
    expected = np.array(probabilities) * x.size
    assert (counts[expected == 0] == 0).all()
    possible = expected > 0
    chi = (((counts - expected)[possible]) ** 2 / expected[possible]).sum()
    k = max(1, possible.sum() - 1)
    assert ((chi / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k)) < 4.9  # Wilson and Hilferty, p = 5e-7


def normal_share(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(v / math.sqrt(2)) / 2 + 0.5 for v in x.astype(np.float64).reshape(-1).tolist()])


@pytest.mark.parametrize("source", ["stream", "keyed", "samples", "draws"])
@pytest.mark.parametrize("dtype", ["float16", *FLOATS])
def test_distributions(source, dtype):
    rng = RNG(2024)

    def numbers(function, **arguments):
        if source == "stream":
            return function(shape=20_000, rng=rng, **arguments).array
        if source == "keyed":
            return function(shape=20, rng=rng.keyed(range(1000)), **arguments).dense()
        if source == "samples":
            return function(batch_size=20_000, rng=rng, **arguments).dense()
        return np.array([function(batch_size=10, rng=rng, **arguments).dense() for _ in range(500)])

    assert_uniform(numbers(uniform, range=(0, 1), dtype=dtype))
    assert_uniform((numbers(uniform, range=(-30, 30), dtype=dtype).astype(np.float64) + 30) / 60)
    assert_uniform(normal_share(numbers(normal, dtype=dtype)))
    assert_uniform(normal_share((numbers(normal, mean=3, stddev=2, dtype=dtype).astype(np.float64) - 3) / 2))
    if dtype == "float32":
        assert_counts(numbers(coin_flip, probability=0.3), [0.7, 0.3])
        assert_counts(numbers(uniform, range=(0, 5), dtype="int32"), [0.1, 0.2, 0.2, 0.2, 0.2, 0.1])
        assert_counts(numbers(uniform, values=[0, 1, 2, 3], dtype="uint8"), [0.25] * 4)


def test_rows_are_drawn_in_turn():
    rows, n = np.arange(3 << 20, dtype=np.int32)[:, None], 3 << 20
    found = choice(rows, batch_size=2, shape=6000, rng=RNG(3))
    draw = RNG(3).draw(2)
    for sample in range(2):
        stream = draw.stream(sample)
        assert found[sample].array[:, 0].tolist() == [_distributions.below(stream, n) for _ in range(6000)]


def test_a_single_item_has_one_probability():
    assert choice([7], p=1.0).item() == 7
    assert choice(1, p=1, shape=3).tolist() == [0, 0, 0]
    with pytest.raises(ArgumentError, match="'p'"):
        choice([7, 8], p=1.0)


def test_choices_are_as_likely_as_they_should_be():
    rng = RNG(7)
    for items in (5, np.arange(5), np.arange(5)[:, None]):
        assert_counts(choice(items, shape=20_000, rng=rng).array.reshape(-1), [0.2] * 5)
        p = [0.1, 0.0, 0.4, 0.5, 0.0]
        assert_counts(choice(items, p=p, shape=20_000, rng=rng).array.reshape(-1), p)


def test_consecutive_draws_and_neighbours_are_uncorrelated():
    rng = RNG(3)
    table = np.array([uniform(batch_size=64, shape=4, rng=rng).dense().reshape(-1) for _ in range(300)])
    for a, b in ((table[1:], table[:-1]), (table[:, 4:], table[:, :-4]), (table[:, 1:], table[:, :-1])):
        assert abs(np.corrcoef(a.reshape(-1), b.reshape(-1))[0, 1]) < 5 / math.sqrt(a.size)


@given(st.data(), seeds, st.sampled_from(["float16", *FLOATS]))
def test_uniform_floats_stay_inside(data, seed, dtype):
    width = {"float16": 16, "float32": 32, "float64": 32}[dtype]
    bound = st.floats(width=width, allow_nan=False, allow_infinity=False, min_value=-(2.0**14), max_value=2.0**14)
    low, high = sorted((data.draw(bound), data.draw(bound)))
    assume(low < high)
    found = uniform(range=(low, high), shape=200, dtype=dtype, rng=RNG(seed)).array
    assert found.dtype == dtype
    assert (found >= low).all()
    assert (found < high).all()


@given(st.data(), st.sampled_from(INTEGERS))
def test_uniform_integers_stay_inside(data, dtype):
    limits = np.iinfo(dtype)
    bounds = st.integers(max(limits.min, -(2**53)), min(limits.max, 2**53))
    low, high = data.draw(bounds), data.draw(bounds)
    assume(low < high)
    found = uniform(range=(low, high), shape=300, dtype=dtype, rng=RNG(1)).array
    assert found.dtype == dtype
    assert (found >= low).all()
    assert (found <= high).all()
    assert len(np.unique(found)) > min(high - low, 20) / 2


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_largest_words_stay_inside(dtype):
    most = [np.full(1, 2**32 - 1, np.uint32)] * (2 if dtype == "float64" else 1)
    for low, high in ((0, 1), (-30, 30), (0.1, 0.9), (1e6, 1e6 + 1), (-1e-3, 3e-20)):
        _, limits = _distributions.uniform_limits(np.float64(low), np.float64(high), np.dtype(dtype))
        assert _distributions.uniform(np, most, limits)[0] < np.float32(high)


def test_integer_ranges_beyond_the_type_are_saturated():
    assert set(uniform(dtype="uint8", shape=200, rng=RNG(1)).tolist()) == {0, 1}
    found = uniform(range=(-1e9, 1e9), dtype="int8", shape=5000, rng=RNG(1)).array
    assert (found.min(), found.max()) == (-128, 127)
    assert uniform(range=(0, 2**31 - 1), dtype="int32", shape=500, rng=RNG(1)).array.min() >= 0
    assert uniform(range=(0, 2**64 - 1), dtype="uint64", shape=500, rng=RNG(1)).array.max() > 2**63


def test_values_of_integers_are_exact():
    assert set(uniform(values=[16777217, 2**31 - 1], dtype="int32", shape=50, rng=RNG(1)).tolist()) == {
        16777217,
        2**31 - 1,
    }


@given(seeds, st.sampled_from(["float16", *FLOATS]))
def test_normal_floats_are_finite(seed, dtype):
    assert np.isfinite(normal(shape=500, dtype=dtype, rng=RNG(seed)).array).all()


def test_certain_coins():
    for p in (0, 1):
        for dtype in ("bool", "uint8", "int32", "float16", "float64"):
            found = coin_flip(probability=p, shape=5000, dtype=dtype, rng=RNG(1)).array
            assert found.dtype == dtype
            assert (found == p).all()
    most = [np.full(1, 2**32 - 1, np.uint32)]
    assert (most[0] < np.floor(np.float64(1.0) * 2.0**32)).all()


# -- calls ------------------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "uniform": lambda **k: uniform(range=(-30, 30), **k),
    "integers": lambda **k: uniform(range=(0, 9), dtype="int64", **k),
    "values": lambda **k: uniform(values=[1, 2.5, -3], **k),
    "normal": lambda **k: normal(mean=1, stddev=3, **k),
    "normal64": lambda **k: normal(dtype="float64", **k),
    "coin_flip": lambda **k: coin_flip(probability=0.3, **k),
    "choice": lambda **k: choice(1000, **k),
    "weighted": lambda **k: choice([5, 6, 7], p=[0.2, 0.3, 0.5], **k),
    "wide": lambda **k: choice(np.int64(2**40), **k),
    "rejecting": lambda **k: choice(np.int64(3 * 2**30), **k),
    "rows": lambda **k: choice([[1, 2], [3, 4]], **k),
    "weighted rows": lambda **k: choice([[1, 2], [3, 4]], p=[0.3, 0.7], **k),
}
every = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@every
@given(seeds, st.integers(0, 9), st.integers(0, 9), shapes)
def test_a_small_batch_begins_a_large_one(function, seed, n, more, shape):
    small, large = (function(batch_size=b, shape=shape, rng=RNG(seed)) for b in (n, n + more))
    assert len(small) == n
    assert same(small, large[:n])
    one = function(shape=shape, rng=RNG(seed))
    assert isinstance(one, Tensor)
    assert not len(large) or same(one, large[0])


@every
@given(seeds, places, st.integers(0, 40), shapes)
def test_every_call_takes_seven_words(function, seed, place, n, shape):
    rng = at(seed, place)
    function(batch_size=n, shape=shape, rng=rng)
    assert rng.state == at(seed, place + 7).state


@every
@given(seeds, st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=2), max_size=5))
def test_samples_of_their_own_shapes(function, seed, extents):
    shape = dynamic.as_batch([np.array(e, np.int32) for e in extents], dtype="int32")
    found = function(shape=shape, rng=RNG(seed))
    assert isinstance(found, Batch)
    assert len(found) == len(extents)
    for i, extent in enumerate(extents):
        alike = function(batch_size=len(extents), shape=extent, rng=RNG(seed))
        assert same(found[i], alike[i])
    like = dynamic.as_batch([np.zeros(e) for e in extents], dtype="uint8") if extents else shape
    if function is FUNCTIONS["uniform"] and extents:
        assert same(found, uniform(like, range=(-30, 30), rng=RNG(seed)))


@every
def test_large_draws_are_made_in_parts(function, monkeypatch):
    def made():
        shapes = dynamic.as_batch([900, 5, 0, 1200])
        return [function(rng=RNG(5), **arguments) for arguments in (
            {"shape": (3, 700)}, {"batch_size": 2100}, {"shape": 700, "batch_size": 3}, {"shape": shapes})]  # fmt: skip

    whole = made()
    monkeypatch.setattr(_drawing, "_PART", 100)
    for large in (1, 500, 10**6):  # each sample by itself, some, none
        monkeypatch.setattr(_drawing, "_LARGE", large)
        assert all(map(same, made(), whole))


@pytest.mark.parametrize(("part", "large"), [(100, 1), (200, 1), (100, 500), (100, 10**6)])
@pytest.mark.parametrize("shape", [60, 250, 1])
def test_arguments_for_each_sample_in_parts(shape, part, large, monkeypatch):
    each = dynamic.as_batch(np.arange(9) / 8)

    def made():
        return [
            uniform(range=dynamic.as_batch(np.arange(18.0).reshape(9, 2)), shape=shape, rng=RNG(5)),
            normal(mean=each, stddev=each, shape=shape, rng=RNG(5)),
            coin_flip(probability=each, shape=shape, rng=RNG(5)),
        ]

    whole = made()
    assert all(2 * i <= number <= 2 * i + 1 for i, row in enumerate(whole[0].tolist()) for number in np.ravel(row))
    monkeypatch.setattr(_drawing, "_PART", part)
    monkeypatch.setattr(_drawing, "_LARGE", large)
    assert all(map(same, made(), whole))


@pytest.mark.parametrize("function", [f for name, f in FUNCTIONS.items() if name not in {"wide", "rejecting"}])
def test_another_array_library_makes_the_same_bits(function, monkeypatch):
    expected = function(shape=(5, 90), batch_size=2, rng=RNG(5)), function(batch_size=50, rng=RNG(5))
    real = _drawing._part
    monkeypatch.setattr(_drawing, "_part", lambda xp, *rest: real(TWIN, *rest))
    assert same(function(shape=(5, 90), batch_size=2, rng=RNG(5)), expected[0])
    assert same(function(batch_size=50, rng=RNG(5)), expected[1])


def test_arguments_for_each_sample():
    ranges = dynamic.as_batch([[0.0, 1.0], [10.0, 20.0], [-5.0, -4.0]])
    for shape in ((), (4,)):
        together = uniform(range=ranges, shape=shape, rng=RNG(3))
        for i, pair in enumerate(ranges.tolist()):
            assert same(together[i], uniform(range=pair, batch_size=3, shape=shape, rng=RNG(3))[i])
    rows = [[1.0, 2.0, 3.0], [7.0], [8.0, 9.0]]
    together = uniform(values=dynamic.as_batch(rows), shape=5, rng=RNG(3))
    for i, row in enumerate(rows):
        assert same(together[i], uniform(values=row, batch_size=3, shape=5, rng=RNG(3))[i])
    together = normal(mean=dynamic.as_batch([0.0, 100.0]), stddev=dynamic.as_batch([1.0, 0.5]), rng=RNG(3))
    assert same(together[1], normal(mean=100, stddev=0.5, batch_size=2, rng=RNG(3))[1])
    together = coin_flip(probability=dynamic.as_batch([0.0, 1.0, 0.5]), shape=20, rng=RNG(3))
    assert together[0].tolist() == [0] * 20
    assert together[1].tolist() == [1] * 20
    together = choice(dynamic.as_batch([3, 300]), shape=4, rng=RNG(3))
    assert same(together[1], choice(300, batch_size=2, shape=4, rng=RNG(3))[1])
    together = choice(dynamic.as_batch([[1, 2], [3, 4, 5]]), shape=4, rng=RNG(3))
    assert same(together[1], choice([3, 4, 5], batch_size=2, shape=4, rng=RNG(3))[1])
    p = dynamic.as_batch([[0.2, 0.8], [0.1, 0.4, 0.5]])
    together = choice(dynamic.as_batch([2, 3]), p=p, shape=4, rng=RNG(3))
    assert same(together[1], choice(3, p=[0.1, 0.4, 0.5], batch_size=2, shape=4, rng=RNG(3))[1])


def test_shapes_and_types():
    assert uniform().shape == ()
    assert uniform(shape=3).shape == (3,)
    assert uniform(shape=(2, 0, 3)).shape == (2, 0, 3)
    assert uniform(np.zeros((2, 3), np.uint8)).shape == (2, 3)
    assert uniform(shape=np.array([2, 1])).shape == (2, 1)
    assert uniform().dtype == normal().dtype == "float32"
    assert coin_flip().dtype == choice(5).dtype == "int32"
    assert coin_flip(dtype="bool").dtype == "bool"
    assert choice(np.uint8(5)).dtype == choice(np.arange(5, dtype=np.uint8)).dtype == "uint8"
    assert uniform(dtype=np.float16).dtype == uniform(dtype=dynamic.float16).dtype == "float16"
    assert len(uniform(batch_size=np.int64(2))) == 2
    assert len(uniform(dynamic.as_batch([[1, 2], [3]]))) == 2
    assert uniform(device="cpu").device == "cpu"
    images = dynamic.as_tensor(np.zeros((4, 2, 3)), layout="HWC")
    assert choice(images).layout == "WC"
    assert choice(images, shape=5).layout == "HWC"
    assert choice(images, shape=(1, 2)).layout is None


def test_empty_batches():
    assert uniform(batch_size=0, shape=(2, 3)).ndim == 2
    assert uniform(batch_size=0, dtype="int16").dtype == "int16"
    assert len(choice([[1, 2]], batch_size=0)) == 0
    empty = dynamic.as_batch([], dtype="float32")
    for found in (uniform(empty), normal(mean=empty), coin_flip(probability=empty), uniform(rng=RNG(5).keyed([]))):
        assert len(found) == 0


def test_inputs_are_left_as_they_are():
    items = np.arange(6.0).reshape(3, 2)
    items.flags.writeable = False
    p = np.array([0.2, 0.3, 0.5])
    p.flags.writeable = False
    found = choice(items, p=p, shape=4).array
    found[:] = 0
    assert items[1, 1] == 3


BAD = [
    (uniform, (), {"range": (3, 3)}, "range"),
    (uniform, (), {"range": (10, 0)}, "range"),
    (uniform, (), {"range": (1e9, 1e9 + 1)}, "range"),
    (uniform, (), {"range": (5, 5), "dtype": "int32"}, "range"),
    (uniform, (), {"range": (0, float("nan"))}, "range"),
    (uniform, (), {"range": (0, float("inf"))}, "range"),
    (uniform, (), {"range": (0, 1e300)}, "range"),
    (uniform, (), {"range": (-3e38, 3e38)}, "range"),
    (uniform, (), {"range": (0, 1e5), "dtype": "float16"}, "range"),
    (uniform, (), {"range": (0, 1, 2)}, "range"),
    (uniform, (), {"range": 3}, "range"),
    (uniform, (), {"range": "01"}, "range"),
    (uniform, (), {"range": dynamic.as_batch([[0, 1], [1, 1]])}, r"range\[1\]"),
    (uniform, (), {"values": []}, "values"),
    (uniform, (), {"values": [1, float("nan")]}, "values"),
    (uniform, (), {"values": dynamic.as_batch([[1.0], []], dtype="float32")}, r"values\[1\]"),
    (uniform, (), {"dtype": "bool"}, "dtype"),
    (uniform, (), {"dtype": "complex64"}, "dtype"),
    (uniform, (), {"shape": -1}, "shape"),
    (uniform, (), {"shape": (2, -1)}, "shape"),
    (uniform, (), {"shape": 2.5}, "shape"),
    (uniform, (np.zeros(3),), {"shape": 3}, "shape"),
    (uniform, (), {"batch_size": -1}, "batch_size"),
    (uniform, (), {"batch_size": 2.0}, "batch_size"),
    (uniform, (), {"batch_size": True}, "batch_size"),
    (uniform, (), {"batch_size": 2, "range": dynamic.as_batch([[0, 1]])}, "range"),
    (uniform, (), {"shape": dynamic.as_batch([1, 2]), "range": dynamic.as_batch([[0, 1]])}, "shape|range"),
    (uniform, (dynamic.as_batch([1, 2, 3]),), {"batch_size": 2}, "shape_like"),
    (uniform, (), {"rnage": (0, 1)}, "rnage"),
    (uniform, (1, 2), {}, "inputs"),
    (uniform, ("text",), {}, "shape_like"),
    (normal, (), {"mean": float("nan")}, "mean"),
    (normal, (), {"stddev": float("inf")}, "stddev"),
    (normal, (), {"stddev": 1e39}, "stddev"),
    (normal, (), {"mean": dynamic.as_batch(np.array([1, 1e39]))}, r"mean\[1\]"),
    (normal, (), {"mean": [1, 2]}, "mean"),
    (normal, (), {"dtype": "bool"}, "dtype"),
    (coin_flip, (), {"probability": 1.5}, "probability"),
    (coin_flip, (), {"probability": -0.1}, "probability"),
    (coin_flip, (), {"probability": float("nan")}, "probability"),
    (coin_flip, (), {"probability": dynamic.as_batch([0.5, 2.0])}, r"probability\[1\]"),
    (choice, (0,), {}, "a"),
    (choice, (-3,), {}, "a"),
    (choice, (1.5,), {}, "a"),
    (choice, (True,), {}, "a"),
    (choice, ([],), {}, "a"),
    (choice, (dynamic.as_batch([1, 0]),), {}, r"a\[1\]"),
    (choice, (3,), {"p": [0.5, 0.5]}, "p"),
    (choice, (3,), {"p": [0.5, 0.5, 0.1]}, "p"),
    (choice, (3,), {"p": [-0.5, 0.5, 1.0]}, "p"),
    (choice, (3,), {"p": [0.5, 0.5, float("nan")]}, "p"),
    (choice, (2,), {"p": dynamic.as_batch([[0.5, 0.5], [0.5, 0.6]])}, r"p\[1\]"),
    (choice, (dynamic.as_batch([2, 3]),), {"p": [0.5, 0.5]}, "p"),
    (choice, (2,), {"dtype": "int64"}, "dtype"),
]


@pytest.mark.parametrize(
    ("function", "inputs", "arguments", "name"),
    BAD,
    ids=lambda v: getattr(v, "__name__", str(v)).split(" at 0x")[0][:40],
)
def test_errors_name_the_argument_and_draw_nothing(function, inputs, arguments, name):
    rng = at(5, 9)
    keyed = RNG(5).keyed([1, 2])
    known = rf"\(\): argument '({name}|batch_size)' must be"
    unknown = rf"\(\) has no argument '{name}'" if name != "inputs" else r"\(\) takes 1 positional argument"
    for source in (rng, keyed):
        with pytest.raises(ArgumentError, match=rf"^{function.__name__}({known}|{unknown})"):
            function(*inputs, rng=source, **arguments)
    assert rng.state == at(5, 9).state
    assert same(uniform(rng=keyed), uniform(rng=RNG(5).keyed([1, 2])))


@pytest.mark.parametrize("rng", [5, np.random.default_rng(1), "rng", RNG])
def test_other_generators_are_refused(rng):
    with pytest.raises(ArgumentError, match="'rng' must be an RNG"):
        uniform(rng=rng)


# -- keyed draws ------------------------------------------------------------------------------------------------------

ids_lists = st.lists(words_of_64, max_size=9, unique=True)


def from_reader(ids: list[int], epoch: int = 0) -> Batch:
    origin = Origin(epoch, np.array(ids, np.uint64), [f"{i}.jpg" for i in ids])
    return Batch(np.zeros((len(ids), 3)), None, origin)


def test_vectors_of_keyed_draws():
    page = (Path(__file__).parents[1] / "docs" / "randomness.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()]
    vectors = [row for row in rows if len(row) == 8 and row[0].isdecimal()]
    assert len(vectors) == 5
    for seed, epoch, names, number, *expected in vectors:
        keyed = RNG(int(seed)).keyed([0, 1, 2**64 - 1], int(epoch))
        for name in names.split(", ") if names else ():
            keyed = keyed[name]
        for _ in range(int(number)):
            keyed.draw(3)
        draw = keyed.draw(3)
        (first,) = draw.words(np, slice(0, 3), None, 1)
        assert [f"{n:016X}" for n in (draw.key, int(draw.high[0]), draw.low)] == expected[:3]
        assert " ".join(f"{w:08X}" for w in first.tolist()) == expected[3]
        assert draw.phase == 0


@every
@given(seeds, ids_lists, st.integers(0, 2**64 - 1), st.permutations(range(9)), st.integers(0, 9), shapes)
def test_keyed_draws_belong_to_samples(function, seed, ids, epoch, order, cut, shape):
    def draw(ids):
        return function(rng=RNG(seed).keyed(ids, epoch)["angle"], shape=shape)

    expected = dict(zip(ids, samples_of(draw(ids)), strict=True))
    shuffled = [ids[i] for i in order if i < len(ids)]
    parts = [draw(shuffled[:cut]), draw(shuffled[cut:])]
    assert all(isinstance(part, Batch) for part in parts)
    found = [sample for part in parts for sample in samples_of(part)]
    assert all(np.array_equal(x, expected[i]) for i, x in zip(shuffled, found, strict=True))
    for i in ids[:2]:
        alone = draw(i)
        assert isinstance(alone, Tensor)
        assert np.array_equal(alone.array, expected[i])


@given(seeds, st.lists(words_of_64, min_size=2, max_size=9, unique=True), st.integers(0, 99), seeds)
def test_keyed_draws_depend_on_seed_epoch_sample_name_and_number(seed, ids, epoch, other):
    assume(seed != other)
    keyed = RNG(seed).keyed(ids, epoch)
    angle = keyed["angle"]
    draws = [
        uniform(rng=r, shape=2).dense()
        for r in (
            keyed, keyed, angle, angle, keyed["scale"], keyed["angle"]["scale"], keyed["anglescale"], keyed[""],
            RNG(other).keyed(ids, epoch), RNG(seed).keyed(ids, epoch + 1),
        )
    ]  # fmt: skip
    rows = [row.tobytes() for draw in draws for row in draw]
    assert len(set(rows)) == len(rows)


@given(seeds, ids_lists, st.integers(0, 300))
def test_keyed_draws_ignore_the_place_of_the_stream(seed, ids, before):
    rng = at(seed, before)
    assert same(uniform(rng=rng.keyed(ids)), uniform(rng=RNG(seed).keyed(ids)))
    assert rng.state == at(seed, before).state


def test_inserting_a_named_draw_changes_no_other():
    def pipeline(*, mirror):
        keyed = RNG(5).keyed([3, 1, 4])
        angle = uniform(rng=keyed["angle"])
        flip = coin_flip(rng=keyed["mirror"]) if mirror else None
        return angle, flip, normal(rng=keyed["noise"], shape=3)

    a, b = pipeline(mirror=True), pipeline(mirror=False)
    assert same(a[0], b[0])
    assert same(a[2], b[2])


def test_the_same_name_means_the_same_draw():
    keyed = RNG(5).keyed([3, 1, 4])
    assert same(uniform(rng=keyed["angle"]), uniform(rng=keyed["angle"]))
    angle = keyed["angle"]
    assert not same(uniform(rng=angle), uniform(rng=angle))


def test_an_epoch_that_no_draw_can_have_is_refused_wherever_it_is_from():
    for keyed in (lambda: RNG(1).keyed([3], 2**64), lambda: RNG(1).keyed(from_reader([3], epoch=2**64))):
        with pytest.raises(ArgumentError, match=r"argument 'epoch' must be an integer in \[0, 2\*\*64\)"):
            keyed()
    uniform(rng=RNG(1).keyed(from_reader([3], epoch=2**64 - 1)))


def test_batches_of_a_reader_say_epoch_and_ids():
    rng, batch = RNG(5), from_reader([7, 3, 5], epoch=4)
    expected = uniform(rng=rng.keyed([7, 3, 5], epoch=4))
    assert same(uniform(rng=rng.keyed(batch)), expected)
    assert same(uniform(rng=rng.keyed(batch, epoch=4)), expected)
    assert not same(uniform(rng=rng.keyed(batch, epoch=0)), expected)
    assert same(uniform(rng=rng.keyed(batch[1:])), expected[1:])
    assert same(uniform(rng=rng.keyed(batch[1])), expected[1])


@pytest.mark.parametrize(
    "ids", [[1, 2**64 - 1], (1, 2**64 - 1), np.array([1, 2**64 - 1], np.uint64), iter([1, 2**64 - 1])]
)
def test_ids_of_many_kinds(ids):
    assert same(uniform(rng=RNG(5).keyed(ids)), uniform(rng=RNG(5).keyed([1, 2**64 - 1])))


def test_small_ids_of_any_integer_type():
    expected = uniform(rng=RNG(5).keyed([1, 2]))
    for ids in (range(1, 3), np.array([1, 2], np.int8), np.array([1, 2]), [np.int32(1), np.uint8(2)]):
        assert same(uniform(rng=RNG(5).keyed(ids)), expected)
    assert same(uniform(rng=RNG(5).keyed(np.int16(2))), expected[1])


@pytest.mark.parametrize(
    "ids",
    [
        [-1],
        [2**64],
        ["a"],
        "ab",
        b"ab",
        1.5,
        [1.5],
        [[1, 2]],
        -1,
        None,
        [None],
        np.array([1.0]),
        {"a": 1},
        True,
        [True],
    ],
)
def test_bad_ids(ids):
    with pytest.raises(ArgumentError, match="'samples' must be a Batch from a reader, or ids"):
        RNG(5).keyed(ids)


def test_a_batch_without_an_origin_is_refused():
    for data in (dynamic.as_batch([1, 2]), dynamic.as_tensor(1)):
        with pytest.raises(ArgumentError, match="pass their ids instead"):
            RNG(5).keyed(data)


@pytest.mark.parametrize("epoch", [-1, 2**64, 1.0, True, "0"])
def test_bad_epochs(epoch):
    with pytest.raises(ArgumentError, match="'epoch' must be an integer"):
        RNG(5).keyed([1], epoch=epoch)


def test_keys_say_the_batch_size():
    keyed = RNG(5).keyed([1, 2, 3])
    assert keyed.batch_size == len(uniform(rng=keyed, batch_size=3)) == 3
    with pytest.raises(ArgumentError, match="'batch_size' must be 3"):
        uniform(rng=keyed, batch_size=4)
    with pytest.raises(ArgumentError, match="'range' must be a Batch of 3"):
        uniform(rng=keyed, range=dynamic.as_batch([[0, 1], [0, 2]]))
    alone = RNG(5).keyed(1)
    assert alone.batch_size is None
    with pytest.raises(ArgumentError, match="one sample"):
        uniform(rng=alone, range=dynamic.as_batch([[0, 1]]))
    with pytest.raises(ArgumentError, match="'name' must be a string"):
        keyed[0]
    with pytest.raises(TypeError):
        iter(keyed)


# -- like DALI --------------------------------------------------------------------------------------------------------


def cases() -> list[dict[str, Any]]:
    """What is asked of DALI and of us; a list of lists for ``each`` is a Batch."""
    uniform = [
        *({"range": [0, 100], "dtype": d, "shape": [3]} for d in (*INTEGERS, *FLOATS)),
        *({"range": r, "dtype": d} for r in ([-30, 30], [0.1, 0.9], [-7.3, 11.9]) for d in ("int8", "int32", *FLOATS)),
        {"range": [-32000, 32767], "dtype": "int16", "shape": [2, 2]}, {"range": [0, 2**62], "dtype": "int64"},
        {}, {"range": {"each": [[0, 1], [5, 6], [-9, 100]]}}, {"values": [1.5, -2, 300], "shape": [4]},
        {"values": [1, 2, 300], "dtype": "uint8"}, {"values": [0.1, 0.2], "dtype": "float64"},
        {"values": {"each": [[1, 2], [3], [4, 5, 6]]}, "shape": [2]},
        {"shape": {"each": [[1, 2], [2, 0], [3, 1]]}},
    ]  # fmt: skip
    coins = [{"dtype": d, "shape": [4]} for d in ("bool", "uint8", "int32")] + [
        {"probability": p} for p in (0.1, 1 / 3, 0.999, {"each": [0.0, 0.5, 1.0]})
    ]
    normals = [{"dtype": d, "mean": 3, "stddev": 20, "shape": [2]} for d in (*INTEGERS, *FLOATS)]
    normals += [{}, {"mean": {"each": [1.0, 2.0, 3.0]}, "stddev": {"each": [0.1, 10.0, 0.0]}}]
    choices: list[tuple[Any, dict[str, Any]]] = [
        (10, {"shape": [5]}), (3, {"p": [0.2, 0.3, 0.5], "shape": [5]}), ([10, 20, 30], {}),
        ([[1, 2], [3, 4]], {"shape": [5]}), ([[1, 2], [3, 4]], {"shape": [5], "p": [0.25, 0.75]}),
        ({"int64": 2**40}, {"shape": [3]}), ({"int64": 3 * 2**30}, {"shape": [9]}),
        ({"int64": 2**32 + 1}, {"shape": [3]}), ({"each": [5, 50, 500]}, {}), ({"uint8": 200}, {}),
        (4, {"p": {"each": [[1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25], [0, 0.5, 0, 0.5]]}}),
    ]  # fmt: skip
    asked = [("uniform", None, k) for k in uniform] + [("coin_flip", None, k) for k in coins]
    asked += [("normal", None, k) for k in normals] + [("choice", a, k) for a, k in choices]
    odd = [0, 1, 2**64 - 1, 0xDEADBEEF12345678, 2**32]
    return [{"name": n, "a": a, "arguments": k, "seed": odd[i % 5]} for i, (n, a, k) in enumerate(asked)]


def built(value: Any, batch: Any) -> Any:
    """A value of `cases` as an argument."""
    if isinstance(value, dict):
        ((kind, inner),) = value.items()
        if kind != "each":
            return np.asarray(inner, kind)
        whole = all(isinstance(x, int) or (isinstance(x, list) and all(isinstance(y, int) for y in x)) for x in inner)
        return batch([np.asarray(x, np.int32 if whole else np.float32) for x in inner])
    return value


def asked_of_dali(dali: Oracle, case: dict[str, Any]) -> list[Any]:
    """Two calls for batches of three, and their numbers."""
    arguments = {k: built(v, Samples) for k, v in case["arguments"].items()}
    inputs = [] if case["a"] is None else [built(case["a"], Samples)]
    results = dali.call(f"random.{case['name']}", inputs, seed=case["seed"], calls=2, batch_size=3, **arguments)
    return [
        [{"dtype": s.dtype.name, "shape": list(s.shape), "numbers": s.reshape(-1).tolist()} for s in r.samples]
        for r in results
    ]


@pytest.mark.parametrize(
    "record", json.loads(FILE.read_text()) if FILE.exists() else [], ids=lambda r: json.dumps(r["case"])[:70]
)
def test_draws_are_dalis(record):
    case, rng = record["case"], RNG(record["case"]["seed"])
    arguments = {k: built(v, dynamic.as_batch) for k, v in case["arguments"].items()}
    inputs = [] if case["a"] is None else [built(case["a"], dynamic.as_batch)]
    for call in record["calls"]:
        found = getattr(dynamic.random, case["name"])(*inputs, batch_size=3, rng=rng, **arguments)
        assert len(found) == len(call)
        for ours, theirs in zip(found.samples, call, strict=True):
            expected = np.array(theirs["numbers"], theirs["dtype"]).reshape(theirs["shape"])
            assert ours.dtype == expected.dtype
            if case["name"] == "normal" and expected.dtype.kind == "f":  # its logarithms are as exact as its C library
                np.testing.assert_array_max_ulp(ours, expected, 4)
            else:
                np.testing.assert_array_equal(ours, expected)


def test_the_record_is_complete():
    assert [record["case"] for record in json.loads(FILE.read_text())] == cases()


def test_the_record_is_dalis(dali: Oracle):
    for record in json.loads(FILE.read_text()):
        assert asked_of_dali(dali, record["case"]) == record["calls"]


@pytest.mark.parametrize("seed", range(6))
def test_many_draws_are_dalis(dali: Oracle, seed):
    generator = np.random.default_rng(seed)
    for _ in range(12):
        dtype = str(generator.choice([*INTEGERS, *FLOATS]))
        limit = min(np.iinfo(dtype).max, 2**24) if dtype in INTEGERS else 1e4
        low, high = np.sort(generator.random(2) * limit).tolist()
        arguments: dict[str, Any] = {
            "dtype": dtype,
            "range": [math.floor(low), math.floor(high) + 1 if high < 100 else high],
        }
        arguments |= {"shape": generator.integers(0, 20, int(generator.integers(0, 3))).tolist()}
        key, n = int(generator.integers(0, 2**63)), int(generator.integers(1, 70))
        for expected in dali.call("random.uniform", seed=key, calls=1, batch_size=n, **arguments):
            found = uniform(batch_size=n, rng=RNG(key), **arguments)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(found.samples, expected.samples, strict=True))


def test_choices_of_rows_that_reject_words_are_dalis(dali: Oracle):
    rows = np.arange(3 << 20, dtype=np.int32)[:, None]  # one word of 4096 is rejected, and all rows after it shift
    (expected,) = dali.call("random.choice", [rows], seed=3, calls=1, batch_size=4, shape=[3000])
    found = choice(rows, batch_size=4, shape=3000, rng=RNG(3))
    assert all(np.array_equal(a, b) for a, b in zip(found.samples, expected.samples, strict=True))


@pytest.mark.parametrize(("alpha", "other"), [(3e-3, 3e-3), (1e-4, 1e-4), (1e-30, 1e-30), (1e-3, 1e-4), (1e-4, 1.0)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_beta_numbers_of_small_parameters_have_the_mean_that_they_should(alpha, other, dtype):
    """Their gamma numbers are too small for floats."""
    found = beta(alpha=alpha, beta=other, shape=4000, dtype=dtype, rng=RNG(3)).numpy()
    mean = alpha / (alpha + other)
    assert abs(found.mean() - mean) < 4 * math.sqrt(mean * (1 - mean) / len(found)) + 1e-3
    assert (found == 0.5).mean() < 0.01


@pytest.mark.parametrize(("alpha", "other", "dtype", "digest"), [
    (1.0, 1.0, "float32", "16f5f93353fe129d"),
    (0.2, 0.3, "float64", "ebe7991ea9d746d4"),
    (2.5, 0.7, "float16", "537605141da893f0"),
    (0.003, 0.0001, "float64", "56d69b0487d13225"),
    (40.0, 3.0, "float32", "af56e3f37a97c379"),
])  # fmt: skip
def test_beta_numbers_are_what_they_were(alpha, other, dtype, digest):
    found = beta(alpha=alpha, beta=other, dtype=dtype, shape=3000, batch_size=2, rng=RNG(3)).dense()
    assert hashlib.sha256(found.tobytes()).hexdigest().startswith(digest)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1e-4, 0.3, 1.0, 7.0])), max_size=6), st.integers(1, 20),
    st.sampled_from(FLOATS), seeds, st.booleans(),
)  # fmt: skip
def test_beta_numbers_are_made_by_parts_of_any_size(samples, most, dtype, seed, alike):
    """However they are cut, numbers leave the next of their sample what they have over; no part is larger."""
    sizes, alphas = ([own[i] for own in samples] for i in range(2))
    sizes = [3] * len(sizes) if alike else sizes
    arguments = {"alpha": dynamic.as_batch(np.array(alphas, np.float32)), "dtype": dtype, "beta": 0.5}
    arguments["shape"] = 3 if alike else dynamic.as_batch(np.array(sizes, np.int64))
    whole, parts = beta(rng=RNG(seed), **arguments), []
    with pytest.MonkeyPatch.context() as patched:
        original = _drawing._part
        patched.setattr(_drawing, "_part", lambda *a: parts.append(original(*a)) or parts[-1])
        patched.setattr(_drawing, "_IN_TURN", most)
        assert same(beta(rng=RNG(seed), **arguments), whole)
    assert sum(part.size for part in parts) == sum(sizes)
    assert all(part.size <= most for part in parts)
    for i, own in enumerate(samples_of(beta(rng=RNG(seed).keyed(range(len(sizes))), **arguments))):
        alone = beta(alpha=alphas[i], beta=0.5, dtype=dtype, shape=sizes[i], rng=RNG(seed).keyed(i))
        assert np.array_equal(own, alone.array)


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any), min_size=1, max_size=8),
    st.integers(0, 5), seeds, st.integers(1, 50),
)  # fmt: skip
def test_each_sample_chooses_by_its_own_probabilities(rows, size, seed, part):
    weights = [np.array(row) / sum(row) for row in rows]
    keys = range(len(rows))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_drawing, "_PART", part)
        found = choice(
            dynamic.as_batch([np.int64(len(row)) for row in rows]), p=dynamic.as_batch(weights), shape=size,
            rng=RNG(seed).keyed(keys),
        )  # fmt: skip
    for i, p in enumerate(weights):
        alone = choice(np.int64(len(p)), p=p, shape=size, rng=RNG(seed).keyed(i))
        assert found[i].tolist() == alone.tolist()


def test_choosing_for_many_samples_is_done_at_once(monkeypatch):
    """Not sample by sample, whose numbers would be looked for among all."""
    monkeypatch.setattr(np, "unique", None)
    monkeypatch.setattr(np, "searchsorted", None)
    weights = np.tile(np.float32([0, 1, 0]), (500, 1))
    assert choice([5, 6, 7], p=dynamic.as_batch(weights)).tolist() == [6] * 500


# -- calls that fail --------------------------------------------------------------------------------------------------

IMAGE, FILE_OF_ONE = np.zeros((4, 5, 3), np.uint8), b"P5 3 1 255 " + bytes([5, 6, 7])
BOXES = np.array([[0.25, 0.25, 0.5, 0.5]], np.float32)

#: Every public function that draws, with inputs and arguments for one sample.
RANDOM: dict[Any, tuple[tuple[Any, ...], dict[str, Any]]] = {
    uniform: ((), {}),
    normal: ((), {}),
    coin_flip: ((), {}),
    choice: ((7,), {}),
    beta: ((), {}),
    dynamic.random.batch_permutation: ((), {"batch_size": 2}),
    dynamic.noise.gaussian: ((IMAGE,), {}),
    dynamic.noise.shot: ((IMAGE,), {}),
    dynamic.noise.salt_and_pepper: ((IMAGE,), {}),
    dynamic.segmentation.random_mask_pixel: ((IMAGE,), {}),
    dynamic.segmentation.random_object_bbox: ((IMAGE,), {}),
    dynamic.random_bbox_crop: ((BOXES,), {}),
    dynamic.random_crop_generator: (([4, 5],), {}),
    dynamic.roi_random_crop: ((), {"crop_shape": [2], "roi_start": [1], "roi_end": [9]}),
    dynamic.random_resized_crop: ((IMAGE,), {"size": 3}),
    dynamic.jitter: ((IMAGE,), {}),
    dynamic.ssd_random_crop: ((IMAGE, BOXES, np.array([3], np.int32)), {}),
    dynamic.decoders.image_random_crop: ((FILE_OF_ONE,), {}),
}
every_random = pytest.mark.parametrize("function", RANDOM, ids=lambda f: f.__name__)


def draws(function: Any) -> bool:
    return callable(function) and not isinstance(function, type) and "rng" in inspect.signature(function).parameters


#: They draw by the functions above, and have tests of their own.
COMPOSED = {dynamic.mixup, dynamic.cutmix, dynamic.sometimes, dynamic.together}


def test_these_are_all_that_draw():
    rooms = (dynamic, dynamic.random, dynamic.noise, dynamic.segmentation, dynamic.decoders, dynamic.experimental)
    names = (getattr(room, name) for room in rooms for name in room.__all__)
    assert set(filter(draws, names)) == {*RANDOM, *COMPOSED}


def assert_stands(source: Any, before: Any) -> None:
    if isinstance(source, RNG):
        assert source.state == before.state
    else:
        assert same(uniform(rng=source), uniform(rng=before))


def sources(function: Any, count: int) -> list[tuple[Any, Any]]:
    """Streams and draws of samples, each twice."""
    keyed = [] if function is dynamic.random.batch_permutation else [[RNG(5).keyed(range(count)) for _ in range(2)]]
    return [(at(5, 9), at(5, 9)), *keyed]


@every_random
@pytest.mark.parametrize("count", [1, 2])
def test_a_call_that_fails_after_its_draw_has_drawn_nothing(function, count, monkeypatch):
    inputs, arguments = RANDOM[function]
    for source, before in sources(function, count):
        drawn = []

        def draw(self, n, *, drawn=drawn, original=type(source).draw):
            drawn.append(original(self, n))
            return drawn[-1]

        def fail(self, *_, drawn=drawn, original, **k):
            if drawn:
                raise MemoryError
            original(self, *_, **k)

        with monkeypatch.context() as patched:
            patched.setattr(type(source), "draw", draw)
            for kind in (Tensor, Batch):
                patched.setattr(kind, "__init__", functools.partialmethod(fail, original=kind.__init__))
            with pytest.raises(MemoryError):
                function(*inputs, **arguments | {"batch_size": count}, rng=source)
        assert len(drawn) == 1
        assert_stands(source, before)


@every_random
def test_no_samples_of_one_input_are_an_empty_batch(function):
    inputs, arguments = RANDOM[function]
    usual = function(*inputs, **arguments | {"batch_size": 1}, rng=RNG(5))
    for source, _ in sources(function, 0):
        none = function(*inputs, **arguments | {"batch_size": 0}, rng=source)
        results = [found if isinstance(found, tuple) else (found,) for found in (none, usual)]
        for empty, full in zip(*results, strict=True):
            assert (len(empty), empty.ndim, empty.dtype) == (0, full.ndim, full.dtype)


@every_random
def test_a_call_that_is_refused_draws_nothing(function):
    inputs, arguments = RANDOM[function]
    for wrong in ({"device": "gpu:99"}, {"device": 5}, {"batch_size": -1}, {"batch_size": 10**30}, {"nonsense": 1}):
        for source, before in sources(function, 1):
            with pytest.raises(dynamic.DynamicError):
                function(*inputs, **arguments | wrong, rng=source)
            assert_stands(source, before)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda rng: uniform(shape=(10**13,), rng=rng), MemoryError),
        (lambda rng: uniform(batch_size=10**15, rng=rng), ArgumentError),
        (lambda rng: uniform(values=dynamic.as_batch([[1.0], [2.0, 1e308]]), rng=rng), ArgumentError),
        (lambda rng: dynamic.random_resized_crop(IMAGE, size=10**7, rng=rng), MemoryError),
        (lambda rng: dynamic.decoders.image_random_crop(FILE_OF_ONE[:-1], rng=rng), dynamic.DecodeError),
        (lambda rng: dynamic.random_crop_generator([10, 10], random_area=[0, 1e308], rng=rng), ArgumentError),
    ],
)
def test_calls_that_fail_leave_the_stream_where_it_was(call, error):
    rng = at(5, 9)
    with pytest.raises(error):
        call(rng)
    assert_stands(rng, at(5, 9))


@pytest.mark.parametrize("name", ["uniform", "normal", "coin_flip", "beta"])
def test_a_lack_of_memory_names_the_operator(name):
    with pytest.raises(MemoryError) as told:
        getattr(dynamic.random, name)(shape=2**50)
    assert told.value.__notes__ == [f"This was {name}()."]


@given(
    st.lists(st.floats(0, width=32, allow_infinity=False), min_size=2, max_size=2).map(sorted),
    st.lists(st.floats(2.0**-149, width=32, allow_infinity=False), min_size=2, max_size=2).map(sorted),
    st.lists(st.integers(1, 2**31 - 1), min_size=2, max_size=2), seeds,
)  # fmt: skip
@example([0.0, 3e38], [2.0**-149, 3e38], [10, 10], 1)
@example([0.0, 3e38], [1.0, 1.0], [2**31 - 1, 2**31 - 1], 1)
def test_windows_of_any_finite_areas_and_ratios_are_inside(area, ratio, extents, seed):
    for images in (extents, dynamic.as_batch(np.tile(extents, (20, 1)))):
        anchors, shapes = dynamic.random_crop_generator(
            images, random_area=area, random_aspect_ratio=ratio, rng=RNG(seed)
        )
        for (y, x), (height, width) in zip(np.reshape(anchors, (-1, 2)), np.reshape(shapes, (-1, 2)), strict=True):
            assert 0 <= y <= y + height <= extents[0]
            assert 0 <= x <= x + width <= extents[1]
            assert height >= 1
            assert width >= 1


@every_random
def test_what_is_given_by_position_is_counted_first(function):
    inputs, arguments = RANDOM[function]
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
    least = sum(p.kind is p.POSITIONAL_ONLY and p.default is p.empty for p in parameters)
    for count in {len(names) + 1, len(names) + 2} | ({0} if least else set()):
        with pytest.raises(ArgumentError, match=f"; got {count}") as caught:
            function(*(*inputs, 3, 3, 3, 3)[:count], **arguments)
        assert caught.value.argument == "inputs"
        assert all(name in str(caught.value) for name in names)


def test_what_is_given_by_position_as_numpy_has_it_is_told_by_name():
    with pytest.raises(ArgumentError, match=r"takes 1 positional argument \(image\); got 2.*by name, such as size="):
        dynamic.random_resized_crop(IMAGE, 224)


@pytest.mark.parametrize("argument", ["random_area", "random_aspect_ratio"])
def test_areas_and_ratios_that_are_no_float32_are_refused(argument):
    for function in (dynamic.random_crop_generator, dynamic.random_resized_crop, dynamic.decoders.image_random_crop):
        inputs, arguments = RANDOM[function]
        with pytest.raises(ArgumentError, match=f"'{argument}' must be two finite float32 numbers"):
            function(*inputs, **arguments, **{argument: (1.0, 1e39)})


def test_a_draw_that_finds_no_memory_takes_nothing(monkeypatch):
    for source, before in sources(uniform, 3):
        with monkeypatch.context() as patched:
            patched.setattr(np, "empty_like", lambda *_: [].pop())
            with pytest.raises(IndexError):
                source.draw(3)
        assert_stands(source, before)


def test_what_others_have_drawn_since_is_not_drawn_again():
    """Of two draws of which the first is given back, the second stays drawn."""
    for source in (RNG(5), RNG(5).keyed([1])):
        first, _ = source.draw(1), source.draw(1)
        source.give_back(first.turn)
        known = RNG(5) if isinstance(source, RNG) else RNG(5).keyed([1])
        for _ in range(2):
            known.draw(1)
        assert_stands(source, known)


def test_a_draw_of_another_seed_is_not_given_back():
    rng = RNG(5)
    drawn = rng.draw(1)
    rng.state = RNG(6).state
    rng.draw(1)
    rng.give_back(drawn.turn)
    assert_stands(rng, at(6, 7))


def test_random_crops_of_files_are_named_in_their_errors():
    with pytest.raises(
        ArgumentError, match=r"^decoders.image_random_crop\(\): argument 'encoded' must be of dtype uint8"
    ):
        dynamic.decoders.image_random_crop(dynamic.as_batch([np.zeros(3, np.float32)]), on_error="skip")


if __name__ == "__main__":
    oracle = connect()
    assert oracle is not None, "DYNAMIC_DALI_PYTHON names no Python that has DALI"
    rows = [json.dumps({"case": case, "calls": asked_of_dali(oracle, case)}) for case in cases()]
    FILE.write_text("[\n" + ",\n".join(rows) + "\n]\n")


def test_draws_keyed_by_more_samples_than_there_are_images_say_by_which():
    images = dynamic.as_batch([np.zeros((4, 4, 3), "uint8")] * 2)
    with pytest.raises(ArgumentError, match=r"a Batch of 3, like 'rng'; .* key by the images: rng\.keyed\(images\)"):
        dynamic.random_resized_crop(images, size=(2, 2), rng=RNG(5).keyed([1, 2, 3]))
