"""Conditions on samples, in DALI's words: run here, and under DALI with the imports exchanged."""

import json

import numpy as np

from dynamic.pipeline import fn, pipeline_def, types

N = 6


def pairs():
    return [np.array([i, i + 1], np.int32) for i in range(N)]


def numbers():
    return [np.int32(i) for i in range(N)]


@pipeline_def(batch_size=N, num_threads=1, device_id=None, enable_conditionals=True)
def nested():
    x = fn.external_source(pairs)
    i = fn.external_source(numbers)
    if i > 2:
        if i == 4:
            y = x * 10
        else:
            y = fn.cast(x, dtype=types.INT32) * 2
        y = y + 1
    elif i == 0:
        y = -x
    else:
        y = x
    if i:
        x = x[0:1]
    return x, y, fn.reductions.sum(y, axes=[0]) + i


@pipeline_def(batch_size=N, num_threads=1, device_id=None, enable_conditionals=True)
def logical():
    x = fn.external_source(pairs)
    i = fn.external_source(numbers)
    low, high = i > 1, i < 4
    if low and high:
        y = x
    else:
        y = x * 0
    if low or not high:
        z = 5
    else:
        z = 7
    if i > -1:
        x = x + 1
    return x, y, z, not low


for made in (nested, logical):
    pipe = made()
    samples = [[np.asarray(output.as_cpu().at(i)) for i in range(N)] for output in pipe.run()]
    print(json.dumps([[[str(array.dtype), array.tolist()] for array in each] for each in samples]))
