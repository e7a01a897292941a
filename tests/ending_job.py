"""Runs after the end of sources, with and without a reset: run here, and under DALI with the imports exchanged."""

import json

import numpy as np

from dynamic.pipeline import fn, pipeline_def, types


class Rewound:
    """Begins again whenever it is asked for an iterator."""

    def __iter__(self):
        self.number = 0
        return self

    def __next__(self):
        self.number += 1
        if self.number > 3:
            raise StopIteration
        return [np.int32(self.number)] * 2


class Restarting(Rewound):
    """Begins again by itself."""

    def __init__(self):
        self.number = 0

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return super().__next__()
        except StopIteration:
            self.number = 0
            raise


def by_number(number):
    if number == 3:
        raise StopIteration
    return [np.int32(number + 1)] * 2


def generated():
    for number in (1, 2, 3):
        yield [np.int32(number)] * 2


SOURCES = {
    "rewound": Rewound,
    "restarting": Restarting,
    "function": lambda: Restarting().__next__,
    "list": lambda: [*generated()],
    "iterator": lambda: iter([*generated()]),
    "by number": lambda: by_number,
    "generators": lambda: generated,
}


def runs(make, cycle, resets):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def numbers():
        return fn.cast(fn.external_source(make(), cycle=cycle), dtype=types.INT64)

    pipe, found = numbers(), []
    pipe.build()
    for _ in range(11):
        try:
            found.append(int(np.asarray(pipe.run()[0].as_cpu().at(0))))
        except StopIteration:
            found.append(None)
            if resets:
                pipe.reset()
    return found


for name, make in SOURCES.items():
    for cycle in (None, "raise", "quiet"):
        if cycle is None or name in ("rewound", "restarting", "list", "generators"):
            print(json.dumps([name, cycle, *(runs(make, cycle, resets) for resets in (False, True))]))
