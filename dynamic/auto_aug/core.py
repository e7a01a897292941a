"""What policies of augmentation are made of: augmentations with a magnitude, and a choice for each sample."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike, NDArray

import dynamic
from dynamic import ArgumentError, Batch, Tensor
from dynamic.errors import shown
from dynamic.random import Keyed

from ._draws import Source, drawn, handed, on_samples

__all__ = ["Augmentation", "Policy", "SignedMagnitudeBin", "augmentation", "select", "signed_bin"]

Bin: TypeAlias = "int | Batch | Tensor | SignedMagnitudeBin"


def chosen(value: Any, places: NDArray[numpy.intp]) -> Any:
    """What concerns some of the samples."""
    return value._selected(places) if isinstance(value, (Batch, SignedMagnitudeBin)) else value


class SignedMagnitudeBin:
    """A magnitude and its sign, for each sample: made by `signed_bin`.

    Args:
        magnitude_bin: An integer, or one for each sample.
        random_sign: 1 for each sample whose magnitude is negated, and 0 for others.
    """

    __slots__ = ("_bin", "_sign")

    def __init__(self, magnitude_bin: int | Batch, random_sign: Batch) -> None:
        self._bin, self._sign = magnitude_bin, random_sign

    @property
    def bin(self) -> int | Batch:
        """The magnitude."""
        return self._bin

    @property
    def random_sign(self) -> Batch:
        """1 for each sample whose magnitude is negated, and 0 for others."""
        return self._sign

    def __getitem__(self, index: int) -> SignedMagnitudeBin:
        """The magnitude of one of several augmentations, each of which has a number in every sample."""
        own = self._bin.slice[index] if isinstance(self._bin, Batch) and self._bin.ndim else self._bin
        return SignedMagnitudeBin(own, self._sign.slice[index])

    def _selected(self, places: NDArray[numpy.intp]) -> SignedMagnitudeBin:
        return SignedMagnitudeBin(chosen(self._bin, places), chosen(self._sign, places))


def signed_bin(
    magnitude_bin: int | Batch, random_sign: Batch | None = None, seed: int | None = None,
    shape: int | Sequence[int] | None = None, *, batch_size: int | None = None, rng: Source | None = None,
) -> SignedMagnitudeBin:  # fmt: skip
    """Give magnitudes signs, so that several augmentations negate alike.

    Args:
        magnitude_bin: An integer of 0 or more, or a Batch of them.
        random_sign: A Batch of 0 and 1, which is negated; by default drawn.
        seed: In pipelines only: calls of one seed draw alike.
        shape: How many signs a sample has, for several augmentations.
        batch_size: Number of samples where the magnitude is no Batch.
        rng: A stream, or the draws of `RNG.keyed`; by default this thread's stream.

    Raises:
        ArgumentError: The magnitude is no integer; there are signs, and a shape or seed for others; or nobody knows how
            many samples there are.

    >>> from dynamic.auto_aug.core import signed_bin
    >>> signed_bin(3, batch_size=4, rng=dynamic.random.RNG(5)).random_sign.tolist()
    [0, 0, 0, 1]
    """
    name = "auto_aug.signed_bin"
    if not isinstance(magnitude_bin, Batch) and not _is_whole(magnitude_bin):
        raise ArgumentError(name, "magnitude_bin", "an integer, or a Batch of them", shown(magnitude_bin))
    if random_sign is not None:
        if seed is not None or shape is not None:
            got = "both"
            raise ArgumentError(name, "random_sign", "left out where there is a 'seed' or 'shape' to draw by", got)
        return SignedMagnitudeBin(magnitude_bin, random_sign)
    if isinstance(magnitude_bin, Batch):
        if batch_size not in (None, len(magnitude_bin)):
            raise ArgumentError(name, "batch_size", f"{len(magnitude_bin)}, like 'magnitude_bin'", shown(batch_size))
        batch_size = len(magnitude_bin)
    arguments: dict[str, Any] = {"batch_size": batch_size, "shape": shape, "rng": rng, "seed": seed}
    signs = handed(name, _signs, (), {k: value for k, value in arguments.items() if value is not None})
    return SignedMagnitudeBin(magnitude_bin, signs)


def _signs(*, batch_size: int | None = None, shape: Any = None, rng: Source | None = None) -> Batch:
    if batch_size is None and not isinstance(rng, Keyed):
        raise ArgumentError("auto_aug.signed_bin", "batch_size", "given where 'magnitude_bin' is no Batch", "nothing")
    found = dynamic.random.uniform(
        values=[0, 1], dtype="int32", shape=shape, batch_size=batch_size, device="cpu", rng=rng
    )
    return found if isinstance(found, Batch) else dynamic.as_batch([found])


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, numpy.integer)) and not isinstance(value, bool)


_KEEP: Any = object()


class Augmentation:
    """A function of samples and a parameter, called with the number of a magnitude: made by `augmentation`."""

    def __init__(
        self, op: Callable[..., Any], mag_range: tuple[float, float] | NDArray[Any] | None = None,
        randomly_negate: bool | None = None, mag_to_param: Callable[[Any], ArrayLike] | None = None,
        param_device: str | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        self._op = op
        self._given: dict[str, Any] = {
            "mag_range": mag_range, "randomly_negate": randomly_negate, "mag_to_param": mag_to_param,
            "param_device": param_device, "name": name,
        }  # fmt: skip
        by_place = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        if sum(p.kind in by_place for p in inspect.signature(op).parameters.values()) < 2:
            expected = "a function that takes samples and a parameter"
            raise ArgumentError("augmentation", "function", expected, shown(op))
        if mag_range is not None and (
            numpy.ndim(mag_range) != 1 or not (isinstance(mag_range, numpy.ndarray) or len(mag_range) == 2)
        ):
            expected = "the first and the last magnitude, or an array of all"
            raise ArgumentError("augmentation", "mag_range", expected, shown(mag_range))
        if self.param_device not in ("cpu", "gpu", "auto"):
            raise ArgumentError("augmentation", "param_device", "'cpu', 'gpu' or 'auto'", shown(param_device))

    @property
    def op(self) -> Callable[..., Any]:
        """The function."""
        return self._op

    @property
    def mag_range(self) -> tuple[float, float] | NDArray[Any] | None:
        """The first and the last magnitude, or all of them."""
        given: tuple[float, float] | NDArray[Any] | None = self._given["mag_range"]
        return given

    @property
    def randomly_negate(self) -> bool:
        """Whether a sample's magnitude is negated or not, by chance."""
        return bool(self._given["randomly_negate"])

    @property
    def mag_to_param(self) -> Callable[[Any], ArrayLike]:
        """What makes the parameter of a magnitude."""
        given: Callable[[Any], ArrayLike] = self._given["mag_to_param"] or numpy.asarray
        return given

    @property
    def param_device(self) -> str:
        """Where the parameter is: "cpu", "gpu" or, with "auto", where the samples are."""
        return str(self._given["param_device"] or "cpu")

    @property
    def name(self) -> str:
        """What errors and policies call it."""
        return str(self._given["name"] or getattr(self._op, "__name__", type(self._op).__name__))

    def augmentation(
        self, mag_range: Any = _KEEP, randomly_negate: Any = _KEEP, mag_to_param: Any = _KEEP,
        param_device: Any = _KEEP, name: Any = _KEEP, augmentation_cls: type[Augmentation] | None = None,
    ) -> Augmentation:  # fmt: skip
        """The same function with other magnitudes: what is not given stays."""
        given = {"mag_range": mag_range, "randomly_negate": randomly_negate, "mag_to_param": mag_to_param,
                 "param_device": param_device, "name": name}  # fmt: skip
        changed = {key: value for key, value in given.items() if value is not _KEEP}
        return (augmentation_cls or type(self))(self._op, **{**self._given, **changed})

    def __call__(
        self, data: Any, *, magnitude_bin: Bin | None = None, num_magnitude_bins: int | None = None,
        rng: Source | None = None, **kwargs: Any,
    ) -> Tensor | Batch:  # fmt: skip
        """Change samples.

        Args:
            data: A Batch, or one sample.
            magnitude_bin: Which magnitude, 0 to `num_magnitude_bins` - 1: for all samples, or a Batch of one for each,
                or with signs by `signed_bin`. Where signs are needed and not given, they are drawn.
            num_magnitude_bins: How many magnitudes there are, in equal steps of `mag_range`.
            rng: Where signs are drawn from; by default this thread's stream.
            kwargs: What the function takes beside samples and parameter; others are passed over.

        Raises:
            ArgumentError: There is no such magnitude, or the function needs an argument that is not given.
        """
        bare = magnitude_bin is not None and not isinstance(magnitude_bin, SignedMagnitudeBin)
        arguments = {"magnitude_bin": magnitude_bin, "num_magnitude_bins": num_magnitude_bins, **kwargs}
        if not (bare and self.randomly_negate):
            return on_samples(lambda batch: self._applied(batch, **arguments), data)
        given = arguments if rng is None else {**arguments, "rng": rng}
        return handed(f"auto_aug.{self.name}", self._negated, (data,), given)

    def _negated(self, data: Any, *, rng: Source | None = None, magnitude_bin: Any, **arguments: Any) -> Tensor | Batch:
        def signed(batch: Batch) -> Batch:
            sign = Batch((drawn(f"auto_aug.{self.name}", batch, 1, rng)[:, 0] < 0.5).astype(numpy.int32))
            return self._applied(batch, magnitude_bin=SignedMagnitudeBin(magnitude_bin, sign), **arguments)

        return on_samples(signed, data)

    def _applied(self, data: Batch, *, magnitude_bin: Any, num_magnitude_bins: Any, **kwargs: Any) -> Batch:
        if not len(data):
            return data
        own = self._accepted(kwargs)
        parameter = self._parameter(data, magnitude_bin, num_magnitude_bins)
        found: Batch = self._op(data, parameter, **own)
        return found

    def takes(self) -> dict[str, bool] | None:
        """The arguments beside samples and parameter, and whether each must be given; None is any."""
        further = list(inspect.signature(self._op).parameters.values())[2:]
        if any(p.kind is p.VAR_KEYWORD for p in further):
            return None
        kinds = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        return {p.name: p.default is p.empty for p in further if p.kind in kinds}

    def _accepted(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Those arguments that the function takes."""
        takes = self.takes()
        if takes is None:
            return arguments
        for name, needed in takes.items():
            if needed and name not in arguments:
                raise ArgumentError(f"auto_aug.{self.name}", name, "given", "nothing")
        return {name: value for name, value in arguments.items() if name in takes}

    def magnitudes(self, num_magnitude_bins: int | None) -> NDArray[Any] | None:
        """All magnitudes, or None where there are none.

        Raises:
            ArgumentError: Nobody says how many there are, or another number than there is.
        """
        name, span = f"auto_aug.{self.name}", self.mag_range
        if span is None:
            return None
        if isinstance(span, numpy.ndarray):
            if num_magnitude_bins is not None and num_magnitude_bins != len(span):
                expected = f"{len(span)}, as many as 'mag_range' has"
                raise ArgumentError(name, "num_magnitude_bins", expected, shown(num_magnitude_bins))
            return span
        return numpy.linspace(span[0], span[1], bins_of(name, num_magnitude_bins), dtype=numpy.float32)

    def _parameter(self, data: Batch, magnitude_bin: Any, num_magnitude_bins: int | None) -> Batch | None:
        """The parameter of each sample."""
        magnitudes = self.magnitudes(num_magnitude_bins)
        if magnitudes is None:
            return None
        name, count = f"auto_aug.{self.name}", len(data)
        if magnitude_bin is None:
            raise ArgumentError(name, "magnitude_bin", "given, as there is a 'mag_range'", "nothing")
        signed = isinstance(magnitude_bin, SignedMagnitudeBin)
        bins = _each(name, "magnitude_bin", magnitude_bin.bin if signed else magnitude_bin, count)
        if (bins < 0).any() or (bins >= len(magnitudes)).any():
            wrong = bins[(bins < 0) | (bins >= len(magnitudes))][0]
            raise ArgumentError(name, "magnitude_bin", f"0 to {len(magnitudes) - 1}", str(wrong))
        negated = numpy.zeros(count, bool)
        if signed and self.randomly_negate:
            negated = _each(name, "random_sign", magnitude_bin.random_sign, count) % 2 == 1
        kinds, which = numpy.unique(2 * bins + negated, return_inverse=True)
        values = [numpy.asarray(self.mag_to_param(-magnitudes[k // 2] if k % 2 else magnitudes[k // 2])) for k in kinds]
        if len({(value.shape, value.dtype) for value in values}) > 1:
            got = " and ".join(sorted({f"{value.dtype} of shape {value.shape}" for value in values}))
            raise ArgumentError(name, "mag_to_param", "a function whose arrays have one dtype and shape", got)
        table = numpy.stack(values)
        narrow = {"float64": numpy.float32, "int64": numpy.int32}.get(table.dtype.name)
        parameters = Batch((table if narrow is None else table.astype(narrow))[which])
        device = data.device if self.param_device == "auto" else self.param_device
        return parameters.to_device(device)

    def __repr__(self) -> str:
        """The same in each process: it is compared with that of a checkpoint."""
        span = self.mag_range
        if isinstance(span, numpy.ndarray):
            what = f", magnitudes {span.tolist()}"
        else:
            what = "" if span is None else f", magnitudes {span[0]:g} to {span[1]:g}"
        return f"<augmentation {self.name}{what}{', negated or not' if self.randomly_negate else ''}>"


def bins_of(name: str, value: Any) -> int:
    """A number of magnitudes."""
    if not _is_whole(value) or value < 1:
        raise ArgumentError(name, "num_magnitude_bins", "an integer of 1 or more", shown(value))
    return int(value)


def _each(name: str, argument: str, value: Any, count: int) -> NDArray[numpy.int64]:
    """An integer for each sample."""
    if isinstance(value, Batch):
        if len(value) != count or any(sample.size != 1 for sample in value.samples):
            raise ArgumentError(name, argument, f"one number for each of {count} samples", shown(value.shape))
        value = numpy.concatenate([sample.reshape(1) for sample in value.cpu().samples])
    elif isinstance(value, Tensor):
        value = value.item()
    numbers = numpy.asarray(value)
    if numbers.dtype.kind not in "iu":
        raise ArgumentError(name, argument, "an integer, or one for each sample", shown(value))
    return numpy.broadcast_to(numbers.astype(numpy.int64), (count,))


@overload
def augmentation(function: Callable[..., Any], /) -> Augmentation: ...
@overload
def augmentation(
    function: None = None, *, mag_range: tuple[float, float] | NDArray[Any] | None = None,
    randomly_negate: bool | None = None, mag_to_param: Callable[[Any], ArrayLike] | None = None,
    param_device: str | None = None, name: str | None = None, augmentation_cls: type[Augmentation] | None = None,
) -> Callable[[Callable[..., Any]], Augmentation]: ...  # fmt: skip
def augmentation(
    function: Callable[..., Any] | None = None, *, mag_range: tuple[float, float] | NDArray[Any] | None = None,
    randomly_negate: bool | None = None, mag_to_param: Callable[[Any], ArrayLike] | None = None,
    param_device: str | None = None, name: str | None = None, augmentation_cls: type[Augmentation] | None = None,
) -> Augmentation | Callable[[Callable[..., Any]], Augmentation]:  # fmt: skip
    """Make an augmentation of a function of samples and a parameter.

    The function is called with a Batch, of some of the samples, and a Batch of as many parameters.

    Args:
        function: Where it is decorated without arguments.
        mag_range: The first and the last magnitude, or an array of all magnitudes. Without, the parameter is None.
        randomly_negate: Whether a sample's magnitude is negated or not, by chance.
        mag_to_param: Makes the parameter, a number or an array, of a magnitude; by default that is the parameter.
        param_device: Where the parameter is, "cpu" (the default) or "gpu", or "auto": where the samples are.
        name: By default that of the function.
        augmentation_cls: A class of one's own, by default `Augmentation`.

    >>> from dynamic.auto_aug.core import augmentation
    >>> @augmentation(mag_range=(0, 10))
    ... def added(samples: Batch, number: Batch) -> Any:
    ...     return samples + number
    >>> added(dynamic.as_batch([1.0, 2.0]), magnitude_bin=3, num_magnitude_bins=11).tolist()
    [4.0, 5.0]
    """

    def decorated(function: Callable[..., Any]) -> Augmentation:
        if isinstance(function, Augmentation) or not callable(function):
            expected = "a function that is no augmentation yet; those have .augmentation() to change them"
            raise ArgumentError("augmentation", "function", expected, shown(function))
        return (augmentation_cls or Augmentation)(
            function, mag_range, randomly_negate, mag_to_param, param_device, name
        )

    return decorated if function is None else decorated(function)


def select(ops: Sequence[Callable[..., Any]], selected_op_idx: Any, *op_args: Any, **op_kwargs: Any) -> Any:
    """Do with each sample what one of several functions does.

    Args:
        ops: The functions, of Batches of some of the samples.
        selected_op_idx: For each sample the number of its function, as a Batch or an array.
        op_args: The samples, and other arguments; of Batches each function gets the entries of its samples.
        op_kwargs: Other arguments.

    Returns:
        The results of all samples, in their order.

    Raises:
        ArgumentError: There is no such function, there are not as many samples, or the results of functions differ in
            dtype, layout, device or number of dimensions.

    >>> from dynamic.auto_aug.core import select
    >>> select([lambda x: x, lambda x: -x], dynamic.as_batch([0, 1, 0]), dynamic.as_batch([5, 6, 7])).tolist()
    [5, -6, 7]
    """
    name = "auto_aug.select"
    batches = [value for value in (*op_args, *op_kwargs.values()) if isinstance(value, Batch)]
    count = len(batches[0]) if batches else 0
    if any(len(batch) != count for batch in batches):
        raise ArgumentError(name, "op_kwargs", f"Batches of {count} samples", f"sizes {[len(b) for b in batches]}")
    if not count:
        return batches[0] if batches else None
    if not isinstance(selected_op_idx, Batch):
        selected_op_idx = Batch(numpy.broadcast_to(numpy.asarray(selected_op_idx), (count,)))
    which = _each(name, "selected_op_idx", selected_op_idx, count)
    if (which < 0).any() or (which >= len(ops)).any():
        wrong = which[(which < 0) | (which >= len(ops))][0]
        raise ArgumentError(name, "selected_op_idx", f"0 to {len(ops) - 1}", str(wrong))
    kinds = numpy.unique(which)
    if len(kinds) == 1:
        return ops[kinds[0]](*op_args, **op_kwargs)
    samples: list[Any] = [None] * count
    first: Batch | None = None
    for kind in kinds:
        places = numpy.flatnonzero(which == kind)
        inputs = [chosen(value, places) for value in op_args]
        found = ops[kind](*inputs, **{key: chosen(value, places) for key, value in op_kwargs.items()})
        if not isinstance(found, Batch) or len(found) != len(places):
            raise ArgumentError(name, f"ops[{kind}]", f"a function that gives {len(places)} samples", shown(found))
        first = found if first is None else first
        for what in ("dtype", "layout", "device", "ndim"):
            if getattr(found, what) != getattr(first, what):
                expected = f"a function whose results have {what} {getattr(first, what)}, like those of ops[{kinds[0]}]"
                raise ArgumentError(name, f"ops[{kind}]", expected, str(getattr(found, what)))
        for place, sample in zip(places, found.samples, strict=True):
            samples[place] = sample
    assert first is not None
    return Batch(samples, first.layout, batches[0].origin)


def check_arguments(name: str, augmentations: Iterable[Augmentation], arguments: Iterable[str]) -> None:
    """Refuse arguments that none of the augmentations takes."""
    takes = [each.takes() for each in augmentations]
    if None in takes:
        return
    known = sorted({argument for each in takes for argument in each or ()})
    for argument in arguments:
        if argument not in known:
            raise ArgumentError.unknown(name, argument, known)


class Policy:
    """Sequences of augmentations, of which each sample goes through one: that of AutoAugment.

    Args:
        name: For errors and pictures.
        num_magnitude_bins: How many magnitudes each augmentation has.
        sub_policies: The sequences: for each step an augmentation, the probability that it is done, and the number of
            its magnitude, or None where it has none.

    Raises:
        ArgumentError: A step is no such triple, its probability is not between 0 and 1, or there is no such magnitude.

    >>> from dynamic.auto_aug import augmentations
    >>> from dynamic.auto_aug.core import Policy
    >>> Policy("mine", 11, [[(augmentations.rotate, 0.5, 3), (augmentations.invert, 1.0, None)]])
    Policy('mine', 11, [[(rotate, 0.5, 3), (invert, 1.0, None)]])
    """

    def __init__(
        self, name: str, num_magnitude_bins: int,
        sub_policies: Sequence[Sequence[tuple[Augmentation, float, int | None]]],
    ) -> None:  # fmt: skip
        self.name, self.num_magnitude_bins = name, bins_of("Policy", num_magnitude_bins)
        if not isinstance(sub_policies, (list, tuple)) or any(not isinstance(s, (list, tuple)) for s in sub_policies):
            raise ArgumentError("Policy", "sub_policies", "lists of steps", shown(sub_policies))
        for i, steps in enumerate(sub_policies):
            for k, step in enumerate(steps):
                self._check(f"sub_policies[{i}][{k}]", step)
        self.sub_policies = tuple(tuple((each, p, magnitude) for each, p, magnitude in s) for s in sub_policies)

    def _check(self, place: str, step: Any) -> None:
        if not isinstance(step, (list, tuple)) or len(step) != 3 or not isinstance(step[0], Augmentation):
            expected = "an augmentation, a probability and the number of a magnitude"
            hint = "Functions become augmentations by @augmentation."
            raise ArgumentError("Policy", place, expected, shown(step), hint)
        each, probability, magnitude = step
        if not isinstance(probability, (int, float)) or not 0 <= probability <= 1:
            raise ArgumentError("Policy", place, "of a probability between 0 and 1", shown(probability))
        most = self.num_magnitude_bins - 1
        if magnitude is None and each.mag_range is not None:
            raise ArgumentError("Policy", place, f"with a magnitude of 0 to {most}, as {each.name} has those", "None")
        if magnitude is not None and (not _is_whole(magnitude) or not 0 <= magnitude <= most):
            raise ArgumentError("Policy", place, f"of a magnitude of 0 to {most}", shown(magnitude))

    @property
    def augmentations(self) -> dict[str, Augmentation]:
        """The augmentations by name, in alphabetical order; a name that several have gets numbers."""
        found: dict[str, Augmentation] = {}
        every = dict.fromkeys(each for steps in self.sub_policies for each, _, _ in steps)
        names = [each.name for each in every]
        for i, each in enumerate(every):
            found[each.name if names.count(each.name) == 1 else f"{each.name} {names[:i].count(each.name) + 1}"] = each
        return dict(sorted(found.items()))

    def __repr__(self) -> str:
        steps = ", ".join(
            f"[{', '.join(f'({each.name}, {p}, {magnitude})' for each, p, magnitude in steps)}]"
            for steps in self.sub_policies
        )
        return f"Policy({self.name!r}, {self.num_magnitude_bins}, [{steps}])"
