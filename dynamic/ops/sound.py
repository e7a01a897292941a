"""Sound: spectrograms, mel filter banks, cepstral coefficients, resampling and silence."""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeAlias, cast

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described
from dynamic._lift.argument import GIVEN, Between, DTypeArgument, PerSample, Several, Word, without_effect
from dynamic._lift.call import Call, Plan, Shape
from dynamic._lift.operator import operator
from dynamic.dtypes import convert, float32
from dynamic.errors import ArgumentError, shown
from dynamic.kernels.cpu import sound
from dynamic.kernels.gpu import sound as on_gpu

__all__ = [
    "audio_resample",
    "mel_filter_bank",
    "mfcc",
    "nonsilent_region",
    "power_spectrum",
    "preemphasis_filter",
    "spectrogram",
    "to_decibels",
]

_NUMBERS = "u8 i8 u16 i16 u32 i32 u64 i64 f16 f32 f64"
_FLOAT32 = numpy.dtype("float32")
_LONGEST = 2**31 - 1
_Count: TypeAlias = Annotated[int, Between(1, _LONGEST)]
_Power: TypeAlias = Annotated[int, Between(1, 2)]
_Rate: TypeAlias = Annotated[float, Between(0)]
_Formula: TypeAlias = Annotated[str, Word({"slaney": (), "htk": ()})]
_Border: TypeAlias = Annotated[str, Word({"clamp": (), "zero": (), "reflect": ()})]


def _extent(operator: str, shape: Shape) -> int:
    """The length of a signal, which may have dimensions of 1 beside its own."""
    count = math.prod(shape)
    if not count or max(shape, default=1) != count:
        expected = "a signal: one dimension that is not empty, beside others of 1"
        raise ArgumentError(operator, "signal", expected, f"shape {shape}")
    return count


@numpy.errstate(over="ignore")
def _plan_spectrogram(call: Call) -> Plan:
    given = call.fixed
    length, step, samples = given["window_length"], given["window_step"], given["window_fn"]
    nfft = given["nfft"] or length
    if nfft < length:
        raise ArgumentError("spectrogram", "nfft", f"at least the window_length, {length}", shown(nfft))
    if samples and len(samples) != length:
        raise ArgumentError("spectrogram", "window_fn", f"{length} numbers, the window_length", str(len(samples)))
    window = numpy.array(samples, _FLOAT32) if samples else sound.hann(length)

    def shape(extents: Shape) -> Shape:
        count = _extent("spectrogram", extents)
        frames = sound.frames_of(count, length, step, centred=given["center_windows"])
        if not frames:
            raise ArgumentError("spectrogram", "signal", f"longer than {length - step} values", str(count))
        return (frames, nfft // 2 + 1) if given["layout"] == "tf" else (nfft // 2 + 1, frames)

    return Plan(call.shapes_by(shape), _FLOAT32, given["layout"], ndim=2, data=window, weight=4.0)


def _spectrogram_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    given, window = call.fixed, call.plan.data
    centred, nfft = given["center_windows"], given["nfft"] or len(window)
    shift, power = len(window) // 2 if centred else 0, given["power"]
    on_gpu.signal_spectra(
        inputs[0],
        target,
        window,
        given["window_step"],
        shift,
        nfft,
        power,
        mirror=given["reflect_padding"] and centred,
        times_first=given["layout"] == "tf",
    )


@operator(dtypes=_NUMBERS, plan=_plan_spectrogram, gpu=_spectrogram_on_gpu)
def spectrogram(
    signal: Array,
    /,
    *,
    center_windows: bool = True,
    layout: Annotated[str, Word({"ft": (), "tf": ()})] = "ft",
    nfft: _Count | None = None,
    power: _Power = 2,
    reflect_padding: bool = True,
    window_fn: Several[float] = (),
    window_length: _Count = 512,
    window_step: _Count = 256,
    plan: Array = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Find the spectra of windows of signals, each one after a step: short-time Fourier transforms.

    Args:
        center_windows: Let the middle of the windows lie at the steps, with values beyond both ends. Otherwise they lie
            inside of the signal.
        layout: "ft" or "tf": whether frequencies or times come first.
        nfft: Size of the transform; by default that of the windows, which zeros follow.
        power: 2 for squares of magnitudes, 1 for magnitudes.
        reflect_padding: Mirror the signal at its ends for values beyond, rather than zeros.
        window_fn: As many numbers as the window has, by which its values are multiplied; by default a Hann window.
        window_length: Number of values.
        window_step: From one window to the next.

    Returns:
        Spectra of nfft // 2 + 1 frequencies, of float32, with the layout that was asked for.

    Raises:
        ArgumentError: A signal is empty, has several channels, or is too short for windows inside of it; the window has
            another length than `window_fn`, or more than `nfft`.

    >>> ndd.spectrogram([1.0, 0.0, -1.0, 0.0] * 4, window_length=4, window_step=8).shape
    (3, 3)
    """
    length, turned, mirror = len(plan), out if layout == "ft" else out.T, reflect_padding and center_windows
    size, before, frames = nfft or length, length // 2 if center_windows else 0, turned.shape[1]
    after = max(0, (frames - 1) * window_step + length - before - signal.size)
    values = sound.padded(signal.reshape(-1), before, after, mirror=mirror)
    sound.spectra(sound.windowed(values, length, window_step)[:frames], plan, size, power, turned)
    return out


def _axis(call: Call, axis: int) -> int:
    """A dimension by its number, from the first or from the end."""
    if not -call.ndim <= axis < call.ndim:
        raise ArgumentError(call.name, "axis", f"a dimension of {call.ndim}", shown(axis))
    return axis % call.ndim


def _plan_power(call: Call) -> Plan:
    axis, nfft = _axis(call, call.fixed["axis"]), call.fixed["nfft"]

    def shape(extents: Shape) -> Shape:
        if not extents[axis]:
            raise ArgumentError("power_spectrum", "signal", f"not empty along dimension {axis}", f"shape {extents}")
        return (*extents[:axis], (nfft or extents[axis]) // 2 + 1, *extents[axis + 1 :])

    return Plan(call.shapes_by(shape), _FLOAT32, data=axis, weight=4.0)


def _power_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    on_gpu.vector_spectra(inputs[0], target, call.plan.data, call.fixed["nfft"], call.fixed["power"])


@operator(dtypes=_NUMBERS, plan=_plan_power, gpu=_power_on_gpu)
def power_spectrum(
    signal: Array,
    /,
    *,
    axis: int = -1,
    nfft: _Count | None = None,
    power: _Power = 2,
    plan: int = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Find the spectra of signals along a dimension.

    Args:
        axis: The dimension; a negative number counts from the last.
        nfft: Size of the transform, which more values are cut off for and zeros are added for; by default that of the
            signal.
        power: 2 for squares of magnitudes, 1 for magnitudes.

    Returns:
        Arrays of float32 with nfft // 2 + 1 frequencies in this dimension, of the same layout.

    Raises:
        ArgumentError: There is no such dimension, or nothing in it.

    >>> ndd.power_spectrum([1.0, 0.0, -1.0, 0.0]).tolist()
    [0.0, 4.0, 0.0]
    """
    size = nfft or signal.shape[plan]
    before, behind = math.prod(signal.shape[:plan]), math.prod(signal.shape[plan + 1 :])
    if not before * behind:
        return out
    parts, results = signal.reshape(before, -1, behind), out.reshape(before, -1, behind)
    if behind == 1:
        sound.spectra(parts[:, :size, 0], None, size, power, results[:, :, 0].T)
        return out
    for part, result in zip(parts, results, strict=True):
        sound.spectra(part[:size].T, None, size, power, result)
    return out


def _plan_mel(call: Call) -> Plan:
    given, layout = call.fixed, call.layout
    axis = layout.find("f") if layout else max(0, call.ndim - 2)
    if axis < 0 or not call.ndim:
        got = f"layout {layout!r}" if layout else "no dimensions"
        raise ArgumentError("mel_filter_bank", "spectrum", "laid out with f for the frequencies, or not at all", got)
    rate, low, high = given["sample_rate"], given["freq_low"], given["freq_high"] or given["sample_rate"] / 2
    if rate <= 0:
        raise ArgumentError("mel_filter_bank", "sample_rate", "more than 0", shown(rate))
    if not low < high <= rate:
        expected = f"more than freq_low, {low:g}, and at most the sample_rate, {rate:g}"
        raise ArgumentError("mel_filter_bank", "freq_high", expected, shown(high))
    count = given["nfilter"]
    shapes = call.shapes_by(lambda extents: (*extents[:axis], count, *extents[axis + 1 :]))
    return Plan(shapes, _FLOAT32, data=(axis, rate, low, high), weight=4.0)


def _mel_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    (axis, rate, low, high), given = call.plan.data, call.fixed

    def bank(bins: int, filters: int) -> sound.Bank:
        formula, normalized = given["mel_formula"], given["normalize"]
        return sound.mel_bank(bins, filters, rate, low, high, formula, normalized=normalized)

    on_gpu.filtered(inputs[0], target, axis, bank)


@operator(dtypes=_NUMBERS, plan=_plan_mel, gpu=_mel_on_gpu)
def mel_filter_bank(
    spectrum: Array,
    /,
    *,
    freq_high: _Rate = 0.0,
    freq_low: _Rate = 0.0,
    mel_formula: _Formula = "slaney",
    nfilter: _Count = 128,
    normalize: bool = True,
    sample_rate: _Rate = 44100.0,
    plan: tuple[int, float, float, float] = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Sum up the frequencies of spectra in bands, which triangular filters at equal distances on a mel scale weigh.

    Args:
        freq_high: Where the last filter ends, in hertz; 0 is half of the sample rate.
        freq_low: Where the first begins.
        mel_formula: "slaney", linear below 1000 Hz, as librosa has it, or "htk".
        nfilter: Number of filters.
        normalize: Give filters an area of 1, rather than a height of 1.
        sample_rate: Of the signal, in hertz.

    Returns:
        Arrays of float32, with filters in the place of frequencies: the dimension "f" of the layout; without a layout
        the last but one, or the only one.

    Raises:
        ArgumentError: The layout has no "f", or the frequencies are out of range or order.

    >>> ndd.mel_filter_bank([0.0, 1.0, 1.0, 1.0, 0.0], nfilter=2, sample_rate=8.0, normalize=False).tolist()
    [1.25, 1.25]
    """
    axis, rate, low, high = plan
    bank = sound.mel_bank(spectrum.shape[axis], nfilter, rate, low, high, mel_formula, normalized=normalize)
    sound.banked(bank, spectrum, axis, out)
    return out


def _plan_mfcc(call: Call) -> Plan:
    axis, kind, normalized = _axis(call, call.fixed["axis"]), call.fixed["dct_type"], call.fixed["normalize"]
    if kind == 1 and normalized:
        raise ArgumentError("mfcc", "normalize", "False for dct_type 1", "True")

    def shape(extents: Shape) -> Shape:
        if kind == 1 and extents[axis] == 1:
            raise ArgumentError("mfcc", "spectrum", "of two or more values for dct_type 1", "1")
        return (*extents[:axis], min(call.fixed["n_mfcc"], extents[axis]), *extents[axis + 1 :])

    return Plan(call.shapes_by(shape), _FLOAT32, data=axis, weight=4.0)


def _mfcc_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    kind, lifter, normalized = (call.fixed[name] for name in ("dct_type", "lifter", "normalize"))

    def bank(extent: int, count: int) -> sound.Bank:
        return sound.Bank.of(sound.cosines(extent, count, kind, lifter, normalized=normalized))

    on_gpu.filtered(inputs[0], target, call.plan.data, bank)


@operator(dtypes=_NUMBERS, plan=_plan_mfcc, gpu=_mfcc_on_gpu)
def mfcc(
    spectrum: Array,
    /,
    *,
    axis: int = 0,
    dct_type: Annotated[int, Between(1, 4)] = 2,
    lifter: float = 0.0,
    n_mfcc: _Count = 20,
    normalize: bool = False,
    plan: int = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Find mel-frequency cepstral coefficients: the first of the discrete cosine transform of mel spectra in decibels.

    Args:
        axis: The dimension of the frequencies; a negative number counts from the last.
        dct_type: Kind of the transform, 1 to 4.
        lifter: Multiply the coefficient i by 1 + lifter / 2 * sin(pi * (i + 1) / lifter); 0 leaves them as they are.
        n_mfcc: Number of coefficients; there are no more than frequencies.
        normalize: Make the transform orthonormal; not for kind 1.

    Returns:
        Arrays of float32 with the coefficients in this dimension, of the same layout.

    Raises:
        ArgumentError: There is no such dimension, or kind 1 is to be normalised or has one frequency.

    >>> ndd.mfcc([1.0, 1.0, 1.0, 1.0], n_mfcc=1, normalize=True).tolist()
    [2.0]
    """
    matrix = sound.cosines(spectrum.shape[plan], out.shape[plan], dct_type, lifter, normalized=normalize)
    sound.filtered(matrix, spectrum, plan, out)
    return out


def _plan_decibels(call: Call) -> Plan:
    if not call.fixed["multiplier"]:
        raise ArgumentError("to_decibels", "multiplier", "other than 0", "0")
    return Plan(call.shapes, _FLOAT32, weight=8.0)


def _decibels_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    on_gpu.decibels(inputs[0], target, *(call.fixed[name] for name in ("multiplier", "reference", "cutoff_db")))


@operator(dtypes=_NUMBERS, plan=_plan_decibels, gpu=_decibels_on_gpu)
def to_decibels(
    magnitudes: Array,
    /,
    *,
    cutoff_db: float = -200.0,
    multiplier: float = 10.0,
    reference: float = 0.0,
    out: Array = GIVEN,
) -> Array:
    """Convert magnitudes to decibels: multiplier * log10(magnitude / reference).

    Args:
        cutoff_db: The least result; that of 0, of negative numbers and of NaN.
        multiplier: 10 for powers, 20 for amplitudes.
        reference: The magnitude of 0 decibels; 0 stands for the largest of each sample.

    Returns:
        Arrays of float32, of the same shapes and layout.

    Raises:
        ArgumentError: The multiplier is 0.

    >>> ndd.to_decibels([1.0, 10.0, 100.0, 0.0], cutoff_db=-80.0).tolist()
    [-20.0, -10.0, 0.0, -80.0]
    """
    sound.decibels(magnitudes, multiplier, reference, cutoff_db, out)
    return out


def _plan_emphasis(call: Call) -> Plan:
    wide = any(kind.itemsize > 4 or kind.name in ("int32", "uint32") for kind in (call.dtype, call.asked))
    kind = numpy.dtype("float64") if wide and call.asked != _FLOAT32 else _FLOAT32
    return Plan(call.shapes, call.asked, data=kind, weight=2.0)


def _emphasis_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    on_gpu.emphasised(inputs[0], target, call.column("preemph_coeff"), call.fixed["border"], call.plan.data)


@operator(dtypes=_NUMBERS, plan=_plan_emphasis, gpu=_emphasis_on_gpu)
def preemphasis_filter(
    signal: Array,
    /,
    *,
    border: _Border = "clamp",
    dtype: DTypeArgument = float32,
    preemph_coeff: PerSample[float] = 0.97,
    plan: numpy.dtype[Any] = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Subtract from each value of signals a part of the one before, which makes high frequencies louder.

    Args:
        border: The value before the first: "clamp", the first; "zero"; or "reflect", the second.
        dtype: Element type of the result; values are rounded and saturated to it.
        preemph_coeff: The part.

    Returns:
        Arrays of the same shapes and layout; samples of several dimensions are filtered as their values in a row.

    >>> ndd.preemphasis_filter([4.0, 4.0, 6.0], preemph_coeff=0.5).tolist()
    [2.0, 2.0, 4.0]
    """
    result = out if out.dtype == plan else numpy.empty(out.shape, plan)
    sound.emphasised(signal, cast(float, preemph_coeff), border, result)
    if result is not out:
        convert(numpy, result, out.dtype, out)
    return out


def _plan_region(call: Call) -> Plan:
    if call.fixed["reference_power"] < 0:
        raise ArgumentError("nonsilent_region", "reference_power", "0 or more", shown(call.fixed["reference_power"]))
    for i, shape in enumerate(call.shapes):
        if math.prod(shape) != max(shape, default=1):
            expected = "a signal: one dimension, beside others of 1"
            raise call.noted(i, ArgumentError("nonsilent_region", "signal", expected, f"shape {shape}"))
    number = Plan((), numpy.dtype("int32"), None, ndim=0)
    return Plan(outputs=(number, Plan((), number.dtype, None, ndim=0)), weight=2.0)


def _region_on_gpu(call: Call, inputs: list[Described], targets: list[Described]) -> None:
    given = call.fixed
    on_gpu.loud(
        inputs[0], (targets[0], targets[1]), given["window_length"], given["cutoff_db"], given["reference_power"]
    )


@operator(dtypes=_NUMBERS, plan=_plan_region, gpu=_region_on_gpu)
@without_effect("reset_interval")
def nonsilent_region(
    signal: Array,
    /,
    *,
    cutoff_db: float = -60.0,
    reference_power: float = 0.0,
    window_length: _Count = 2048,
    out: tuple[Array, Array] = GIVEN,
) -> None:
    """Find the part of signals between silence at the beginning and at the end: its first value, and its length.

    A value is in it where a window that it lies in has a mean square of at least the cutoff.

    Args:
        cutoff_db: The power from which on there is no silence, in decibels from the reference.
        reference_power: The power of 0 decibels; 0 stands for the largest of the windows.
        window_length: Number of values that a mean is of.

    Returns:
        Two int32 for each signal: the first value, and the number of values. A length of 0 means that all is silent.

    Raises:
        ArgumentError: A signal has several channels, or the reference is negative.

    >>> begin, length = ndd.nonsilent_region([0.0, 0.0, 1.0, -1.0, 0.0], window_length=1)
    >>> begin.item(), length.item()
    (2, 2)
    """
    out[0][...], out[1][...] = sound.loud(signal.reshape(-1), window_length, cutoff_db, reference_power)


@numpy.errstate(over="ignore")
def _plan_resampling(call: Call) -> Plan:
    given = {name for name, value in call.fixed.items() if value is not None} | call.varying.keys()
    ways = [way for way in (("in_rate", "out_rate"), ("scale",), ("out_length",)) if given & {*way}]
    if len(ways) != 1 or not given.issuperset(ways[0]):
        names = sorted(given & {"in_rate", "out_rate", "scale", "out_length"})
        expected = "given alone, or out_length, or in_rate and out_rate"
        raise ArgumentError("audio_resample", "scale", expected, ", ".join(names) or "none of these")
    if call.count and not 1 <= call.ndim <= 2:
        raise ArgumentError("audio_resample", "signal", "of one dimension, or of values and channels", f"{call.ndim}")
    columns = [call.column(name) for name in ("in_rate", "out_rate", "scale", "out_length")]
    steps: list[tuple[int, float]] = []
    for i, (shape, *values) in enumerate(zip(call.shapes, *columns, strict=True)):
        try:
            steps.append(resampling("audio_resample", shape[0], *values))
        except ArgumentError as error:
            raise call.noted(i, error) from None
    shapes = [(count, *shape[1:]) for (count, _), shape in zip(steps, call.shapes, strict=True)]
    return Plan(shapes, call.asked, data=[step for _, step in steps], weight=64.0)


def resampling(
    operator: str, extent: int, in_rate: float | None, out_rate: float | None, scale: float | None, length: int | None
) -> tuple[int, float]:
    """The length of a resampled signal, and the step from one of its values to the next."""
    if length is None:
        if in_rate == 0:
            raise ArgumentError(operator, "in_rate", "more than 0", "0")
        into, per = (out_rate, in_rate) if scale is None else (float(numpy.float32(scale)), 1.0)
        length, step = _rounded_up(operator, extent * (into or 0.0) / (per or 1.0)), (per or 1.0) / (into or 1.0)
    else:
        step = extent / max(1, length)
    if length and not extent:
        raise ArgumentError(operator, "signal", f"not empty, as the result has {length} values", "no values")
    return length, min(step, float(extent))  # it is infinite where a rate has no reciprocal, and then not taken


def _rounded_up(operator: str, length: float) -> int:
    if not length <= _LONGEST:
        raise ArgumentError(
            operator, "scale", f"small enough for {_LONGEST} values of the result", f"{length:g} values"
        )
    return math.ceil(length)


def _resample_on_gpu(call: Call, inputs: list[Described], target: Described) -> None:
    kind = None if call.fixed["dtype"] is None else target.dtype
    on_gpu.resampled(inputs[0], target, call.plan.data, call.fixed["quality"], kind=kind)


@operator(dtypes=_NUMBERS, plan=_plan_resampling, gpu=_resample_on_gpu)
def audio_resample(
    signal: Array,
    /,
    *,
    dtype: DTypeArgument | None = None,
    in_rate: PerSample[_Rate | None] = None,
    out_length: PerSample[Annotated[int, Between(0, _LONGEST)] | None] = None,
    out_rate: PerSample[_Rate | None] = None,
    quality: Annotated[float, Between(0, 100)] = 50.0,
    scale: PerSample[_Rate | None] = None,
    plan: float = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Resample signals by a windowed sinc. As in DALI, nothing is filtered out before a signal becomes shorter.

    Args:
        dtype: Element type; by default that of the signal. The range of its values becomes the full range of the type,
            [-1, 1] for floats.
        in_rate: The sample rate of the signal, given together with `out_rate`; or
        out_length: the length of the result; or
        out_rate: the sample rate of the result; or
        quality: 0 to 100: 3 to 64 lobes of the sinc.
        scale: the length of the result as a part of that of the signal.

    Returns:
        Signals of the same layout, with as many channels.

    Raises:
        ArgumentError: None or several of these ways to say a length are given; a rate is 0; a signal has more than two
            dimensions, or is empty and the result is not.

    >>> ndd.audio_resample([0.0, 1.0, 2.0, 3.0], scale=0.5).tolist()
    [0.0, 2.0]
    """
    values = signal if dtype is None else sound.ranged(signal, out.dtype)
    result = out if out.dtype == _FLOAT32 else numpy.empty(out.shape, _FLOAT32)
    sound.resampled(values, plan, quality, result)
    if result is not out:
        convert(numpy, result, out.dtype, out)
    return out
