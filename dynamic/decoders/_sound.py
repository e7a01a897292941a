"""Sound in the bytes of files, as `decoders.audio` gives it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from dynamic._arrays.array import Array
from dynamic._lift.call import Call, Plan, Shape
from dynamic.dtypes import convert
from dynamic.kernels.cpu import sound
from dynamic.kernels.cpu.recordings import Recording, checked, opened, refused

from ._files import buffer

__all__ = ["decode", "plan_sound"]

_FLOAT32 = numpy.dtype("float32")
_DIRECT = frozenset(map(numpy.dtype, ("int16", "int32", "float32")))


class Sound(NamedTuple):
    """A recording, and the sound that is wanted of it."""

    recording: Recording
    shape: Shape
    rate: float
    downmix: bool
    quality: float


@numpy.errstate(over="ignore")
def plan_sound(call: Call) -> Plan:
    """The lengths, channels and sample rates of files, by their headers."""
    sounds = call.each(_opened, of_values=True)
    rates = Plan((), _FLOAT32, None, ndim=0)
    values = Plan([each.shape for each in sounds], call.asked, None, ndim=1 if call.fixed["downmix"] else 2)
    return Plan(outputs=(values, rates), data=sounds, weight=8.0)


def _opened(
    encoded: Array, /, *, sample_rate: float, downmix: bool, quality: float, max_values: int, **_: Any
) -> Sound:
    recording = opened(buffer(encoded, "decoders.audio"))
    rate = float(numpy.float32(sample_rate)) or recording.rate
    if not numpy.isfinite(rate):
        raise refused(recording.format, f"it cannot be resampled to {sample_rate:g} Hz")
    frames = recording.frames
    if rate != recording.rate:
        frames = int(min(numpy.ceil(frames * rate / recording.rate), 2.0**62))
    checked(recording, frames, max_values)
    return Sound(recording, (frames,) if downmix else (frames, recording.channels), rate, downmix, quality)


def decode(plan: Sound, out: tuple[Array, Array]) -> None:
    """Fill the memory of a sound and of its sample rate."""
    target, recording = out[0], plan.recording
    out[1][...] = plan.rate
    shape, resampled = (recording.frames, recording.channels), plan.rate != recording.rate
    mixed = plan.downmix and recording.channels > 1
    if target.dtype in _DIRECT and not mixed and not resampled:
        recording.read(target.reshape(shape))
        return
    values = numpy.empty(shape, _FLOAT32)
    recording.read(values)
    if plan.downmix:
        values = values.mean(axis=1) if mixed else values[:, 0]
    if resampled:
        source, values = values, numpy.empty(target.shape, _FLOAT32)
        sound.resampled(source, recording.rate / plan.rate, plan.quality, values)
    convert(numpy, sound.ranged(values, target.dtype), target.dtype, target)
