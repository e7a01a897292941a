"""Sound in the bytes of files, as `decoders.audio` gives it."""

from __future__ import annotations

from typing import Any

import numpy

from dynamic._arrays.array import Array
from dynamic._lift.call import Call, Plan
from dynamic.kernels.cpu.recordings import Sound, opened

from ._files import buffer

__all__ = ["Sound", "plan_sound"]


@numpy.errstate(over="ignore")
def plan_sound(call: Call) -> Plan:
    """The lengths, channels and sample rates of files, by their headers."""
    sounds = call.each(_wanted, of_values=True)
    rates = Plan((), numpy.dtype("float32"), None, ndim=0)
    values = Plan([each.shape for each in sounds], call.asked, None, ndim=1 if call.fixed["downmix"] else 2)
    return Plan(outputs=(values, rates), data=sounds, weight=8.0)


def _wanted(
    encoded: Array, /, *, sample_rate: float, downmix: bool, quality: float, max_values: int, **_: Any
) -> Sound:
    return Sound.of(opened(buffer(encoded, "decoders.audio")), sample_rate, max_values, quality, downmix=downmix)
