"""The parts of policies of augmentation: augmentations with a magnitude, and a choice for each sample."""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike, NDArray

from dynamic import ArgumentError, Batch, Tensor
from dynamic.data._index import deciding, in_pipeline
from dynamic.errors import shown

from ._bins import SignedMagnitudeBin, bins_of, chosen, each_of, is_range, is_whole, plain, signed_bin, sizes_of
from ._draws import Source, by_place, drawn, handed, on_samples

__all__ = ["Augmentation", "Policy", "SignedMagnitudeBin", "augmentation", "select", "signed_bin"]

Bin: TypeAlias = "int | Batch | Tensor | SignedMagnitudeBin"


_KEEP: Any = object()


class Augmentation:
    """A function of samples and a parameter, called with the number of a magnitude: made by `augmentation`."""

    def __init__(
        self,
        op: Callable[..., Any],
        mag_range: tuple[float, float] | NDArray[Any] | None = None,
        randomly_negate: bool | None = None,
        mag_to_param: Callable[[Any], ArrayLike] | None = None,
        param_device: str | None = None,
        name: str | None = None,
    ) -> None:
        self._op = op
        self._given: dict[str, Any] = {
            "mag_range": mag_range,
            "randomly_negate": randomly_negate,
            "mag_to_param": mag_to_param,
            "param_device": param_device,
            "name": name,
        }
        if by_place(op) < 2:
            expected = "a function that takes samples and a parameter"
            raise ArgumentError("augmentation", "function", expected, shown(op))
        if mag_range is not None and not is_range(mag_range):
            expected = "the first and the last magnitude, or an array of all"
            raise ArgumentError("augmentation", "mag_range", expected, shown(mag_range))
        if not callable(self.mag_to_param):
            raise ArgumentError("augmentation", "mag_to_param", "a function of a magnitude", shown(mag_to_param))
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
        """The function from a magnitude to a parameter."""
        given: Callable[[Any], ArrayLike] = self._given["mag_to_param"] or numpy.asarray
        return given

    @property
    def param_device(self) -> str:
        """Where the parameter is: "cpu", "gpu" or, with "auto", where the samples are."""
        return str(self._given["param_device"] or "cpu")

    @property
    def name(self) -> str:
        """The name in errors and policies."""
        return str(self._given["name"] or getattr(self._op, "__name__", type(self._op).__name__))

    def augmentation(
        self,
        mag_range: Any = _KEEP,
        randomly_negate: Any = _KEEP,
        mag_to_param: Any = _KEEP,
        param_device: Any = _KEEP,
        name: Any = _KEEP,
        augmentation_cls: type[Augmentation] | None = None,
    ) -> Augmentation:
        """The same function with other magnitudes: arguments that are left out stay."""
        given = {
            "mag_range": mag_range,
            "randomly_negate": randomly_negate,
            "mag_to_param": mag_to_param,
            "param_device": param_device,
            "name": name,
        }
        changed = {key: value for key, value in given.items() if value is not _KEEP}
        return (augmentation_cls or type(self))(self._op, **{**self._given, **changed})

    def __call__(
        self,
        data: Any,
        *,
        magnitude_bin: Bin | None = None,
        num_magnitude_bins: int | None = None,
        batch_size: int | None = None,
        rng: Source | None = None,
        **kwargs: Any,
    ) -> Tensor | Batch:
        """Change samples.

        Args:
            data: A Batch, or one sample, for as many as there are magnitudes.
            magnitude_bin: Which magnitude, 0 to `num_magnitude_bins` - 1: for all samples, or a Batch of one for each,
                or with signs by `signed_bin`. Where signs are needed and not given, they are drawn.
            num_magnitude_bins: How many magnitudes there are, in equal steps of `mag_range`.
            batch_size: Number of samples, where `data` is one; a Batch of magnitudes, and a keyed `rng`, say it too.
            rng: Where signs are drawn from; by default this thread's stream.
            kwargs: Further arguments of the function; unknown ones are passed over.

        Raises:
            ArgumentError: There is no such magnitude, or the function needs an argument that is not given.
        """
        bare = magnitude_bin is not None and not isinstance(magnitude_bin, SignedMagnitudeBin)
        arguments = {"magnitude_bin": magnitude_bin, "num_magnitude_bins": num_magnitude_bins, **kwargs}
        if not (bare and self.randomly_negate):
            beside = magnitude_bin._beside() if isinstance(magnitude_bin, SignedMagnitudeBin) else (magnitude_bin,)
            return on_samples(
                f"auto_aug.{self.name}",
                lambda batch: self._applied(batch, **arguments),
                data,
                *beside,
                *kwargs.values(),
                batch_size=batch_size,
            )
        own = {"rng": rng, "batch_size": batch_size}
        arguments |= {key: value for key, value in own.items() if value is not None}
        return handed(f"auto_aug.{self.name}", self._negated, (data,), arguments)

    def _negated(
        self,
        data: Any,
        *,
        rng: Source | None = None,
        batch_size: int | None = None,
        magnitude_bin: Any,
        **arguments: Any,
    ) -> Tensor | Batch:
        name = f"auto_aug.{self.name}"

        def signed(batch: Batch) -> Batch:
            with drawn(name, batch, 1, rng) as numbers:
                sign = Batch((numbers[:, 0] < 0.5).astype(numpy.int32))
                return self._applied(batch, magnitude_bin=SignedMagnitudeBin(magnitude_bin, sign), **arguments)

        return on_samples(name, signed, data, rng, magnitude_bin, *arguments.values(), batch_size=batch_size)

    def _applied(self, data: Batch, *, magnitude_bin: Any, num_magnitude_bins: Any, **kwargs: Any) -> Batch:
        if not len(data):
            return data
        own = self._accepted(kwargs)
        parameter = self._parameter(data, magnitude_bin, num_magnitude_bins)
        return contextvars.copy_context().run(self._called, data, parameter, own)

    def _called(self, data: Batch, parameter: Batch | None, own: dict[str, Any]) -> Batch:
        """The result of the function: for it indices and conditions are as in the function of a pipeline."""
        in_pipeline.set(True)
        deciding.set(self._undecided)
        found = self._op(data, parameter, **own)
        if not isinstance(found, Batch) or len(found) != len(data):
            expected = f"one that gives {len(data)} samples for as many"
            raise ArgumentError(f"auto_aug.{self.name}", "function", expected, shown(found))
        return found

    def _undecided(self, condition: Batch) -> bool:
        hint = "For one of each sample: dynamic.auto_aug.core.select."
        raise ValueError(
            f"auto_aug.{self.name}() is called for {len(condition)} samples at once, so no Batch is a "
            f"condition in it. {hint}"
        )

    @functools.cached_property
    def _takes(self) -> dict[str, bool] | None:
        """The arguments beside samples and parameter, and whether each must be given; None is any."""
        further = list(inspect.signature(self._op).parameters.values())[2:]
        if any(p.kind is p.VAR_KEYWORD for p in further):
            return None
        kinds = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        return {p.name: p.default is p.empty for p in further if p.kind in kinds}

    def _accepted(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Those arguments that the function takes."""
        takes = self._takes
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
        bins = each_of(name, "magnitude_bin", magnitude_bin.bin if signed else magnitude_bin, count)
        if (bins < 0).any() or (bins >= len(magnitudes)).any():
            wrong = bins[(bins < 0) | (bins >= len(magnitudes))][0]
            raise ArgumentError(name, "magnitude_bin", f"0 to {len(magnitudes) - 1}", str(wrong))
        negated = numpy.zeros(count, bool)
        if signed and self.randomly_negate:
            negated = each_of(name, "random_sign", magnitude_bin.random_sign, count) == 1
        kinds, which = numpy.unique(2 * bins + negated, return_inverse=True)
        values = [numpy.asarray(self.mag_to_param(-magnitudes[k // 2] if k % 2 else magnitudes[k // 2])) for k in kinds]
        if len({(value.shape, value.dtype) for value in values}) > 1:
            got = " and ".join(sorted({f"{value.dtype} of shape {value.shape}" for value in values}))
            raise ArgumentError(name, "mag_to_param", "a function whose arrays have one dtype and shape", got)
        table = numpy.stack(values)
        if table.dtype.kind not in "biuf":
            raise ArgumentError(name, "mag_to_param", "a function that gives numbers", shown(values[0]))
        narrow = {"float64": numpy.float32, "int64": numpy.int32}.get(table.dtype.name)
        parameters = Batch((table if narrow is None else table.astype(narrow))[which])
        device = data.device if self.param_device == "auto" else self.param_device
        return parameters.to_device(device)

    @property
    def _is_ours(self) -> bool:
        return bool(self._op.__module__ == "dynamic.auto_aug.augmentations")

    @functools.cached_property
    def _key(self) -> Any:
        """The same of augmentations that do the same."""
        same = self._op, self.mag_to_param, self.param_device, type(self), repr(self)
        try:
            hash(same)
        except TypeError:
            return self  # a callable of a user's that has no hash: the same as itself alone
        return same

    def __repr__(self) -> str:
        """The same in each process: it is compared with that of a checkpoint."""
        span = self.mag_range
        if isinstance(span, numpy.ndarray):
            told = f", magnitudes {span.tolist()}"
        else:
            told = "" if span is None else f", magnitudes {span[0]:g} to {span[1]:g}"
        return f"<augmentation {self.name}{told}{', negated or not' if self.randomly_negate else ''}>"


@overload
def augmentation(function: Callable[..., Any], /) -> Augmentation: ...
@overload
def augmentation(
    function: None = None,
    *,
    mag_range: tuple[float, float] | NDArray[Any] | None = None,
    randomly_negate: bool | None = None,
    mag_to_param: Callable[[Any], ArrayLike] | None = None,
    param_device: str | None = None,
    name: str | None = None,
    augmentation_cls: type[Augmentation] | None = None,
) -> Callable[[Callable[..., Any]], Augmentation]: ...
def augmentation(
    function: Callable[..., Any] | None = None,
    *,
    mag_range: tuple[float, float] | NDArray[Any] | None = None,
    randomly_negate: bool | None = None,
    mag_to_param: Callable[[Any], ArrayLike] | None = None,
    param_device: str | None = None,
    name: str | None = None,
    augmentation_cls: type[Augmentation] | None = None,
) -> Augmentation | Callable[[Callable[..., Any]], Augmentation]:
    """Make an augmentation of a function of samples and a parameter.

    The function is called with a Batch, of some of the samples, and a Batch of as many parameters. As in the function
    of a pipeline an index, ``parameter[0]``, is one of each sample, which is ``parameter.slice[0]`` elsewhere.

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
    ... def added(samples: ndd.Batch, number: ndd.Batch) -> ndd.Batch:
    ...     return samples + number
    >>> added(ndd.as_batch([1.0, 2.0]), magnitude_bin=3, num_magnitude_bins=11).tolist()
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
    """Apply one of several functions to each sample.

    Args:
        ops: The functions, of Batches of some of the samples.
        selected_op_idx: For each sample the number of its function, as a Batch or an array.
        op_args: The samples, and other arguments; of Batches each function gets the entries of its samples. Where no
            argument is a Batch the first one is each of the samples, of as many as there are numbers.
        op_kwargs: Other arguments.

    Returns:
        The results of all samples, in their order.

    Raises:
        ArgumentError: There is no such function, there are not as many samples, or the results of functions differ in
            dtype, layout, device or number of dimensions.

    >>> from dynamic.auto_aug.core import select
    >>> select([lambda x: x, lambda x: -x], ndd.as_batch([0, 1, 0]), ndd.as_batch([5, 6, 7])).tolist()
    [5, -6, 7]
    """
    name = "auto_aug.select"
    batches = [value for value in (*op_args, *op_kwargs.values()) if isinstance(value, Batch)]
    if isinstance(selected_op_idx, Batch) and not batches and op_args:
        batches = [Batch.broadcast(op_args[0], len(selected_op_idx))]
        op_args = (*batches, *op_args[1:])
    count = len(batches[0]) if batches else 1
    if any(len(batch) != count for batch in batches):
        raise ArgumentError(name, "op_kwargs", f"Batches of {count} samples", f"sizes {[len(b) for b in batches]}")
    if not count:
        return batches[0]
    which = each_of(name, "selected_op_idx", selected_op_idx, count)
    if (which < 0).any() or (which >= len(ops)).any():
        wrong = which[(which < 0) | (which >= len(ops))][0]
        raise ArgumentError(name, "selected_op_idx", f"0 to {len(ops) - 1}", str(wrong))
    kinds = numpy.unique(which)
    if len(kinds) == 1:
        alone = ops[kinds[0]](*op_args, **op_kwargs)
        if batches and (not isinstance(alone, Batch) or len(alone) != count):
            raise ArgumentError(name, f"ops[{kinds[0]}]", f"a function that gives {count} samples", shown(alone))
        return alone
    samples: list[Any] = [None] * count
    first: Batch | None = None
    for kind in kinds:
        places = numpy.flatnonzero(which == kind)
        inputs = [chosen(value, places) for value in op_args]
        found = ops[kind](*inputs, **{key: chosen(value, places) for key, value in op_kwargs.items()})
        if not isinstance(found, Batch) or len(found) != len(places):
            raise ArgumentError(name, f"ops[{kind}]", f"a function that gives {len(places)} samples", shown(found))
        first = found if first is None else first
        for attribute in ("dtype", "layout", "device", "ndim"):
            if getattr(found, attribute) != getattr(first, attribute):
                expected = f"results of {attribute} {getattr(first, attribute)}, like those of ops[{kinds[0]}]"
                raise ArgumentError(name, f"ops[{kind}]", expected, str(getattr(found, attribute)))
        for place, sample in zip(places, found.samples, strict=True):
            samples[place] = sample
    assert first is not None
    return Batch(samples, first.layout, batches[0].origin)


_checked: dict[Any, None] = {}  # combinations that passed
_MOST_CHECKED = 256


def check(name: str, augmentations: Sequence[Augmentation], data: Batch, bins: int, arguments: dict[str, Any]) -> None:
    """Refuse arguments that any augmentation would refuse, whichever will be drawn.

    Those of `augmentations` are tried with a few pixels, and the first and the last magnitude; of a user's own, which
    may do anything, only the arguments and magnitudes are looked at.

    Args:
        name: The caller, for errors.
        augmentations: All that may be drawn.
        data: The samples.
        bins: How many magnitudes there are.
        arguments: Further arguments of the augmentations.

    Raises:
        ArgumentError: None of the augmentations takes an argument, or one of them refuses one or the samples.
    """
    _check_arguments(name, augmentations, data, arguments)
    channels = (data.layout or "").find("C")
    kinds = {shape[channels] if channels >= 0 else 0: i for i, shape in enumerate(data.shape)}
    worded = [(key, _kind_of(value)) for key, value in sorted(arguments.items())]
    key = (
        *(each._key for each in augmentations),
        data.dtype,
        data.layout,
        data.ndim,
        data.device,
        bins,
        *kinds,
        *worded,
    )
    if key in _checked:
        return
    for each in augmentations:
        each.magnitudes(bins)
        each._accepted(arguments)
    for i in kinds.values():
        sample = data.samples[i][tuple(slice(_TRIED.get(letter)) for letter in data.layout or "")]
        for each in augmentations if sample.size else ():
            if each._is_ours:
                place, ends = numpy.array([i, i]), Batch(numpy.array([0, bins - 1]))
                given = {key: chosen(value, place) for key, value in arguments.items()}
                strength = SignedMagnitudeBin(ends, Batch(numpy.zeros(2, numpy.int32)))
                tried = Batch([sample, sample], data.layout)
                each(tried, magnitude_bin=strength, num_magnitude_bins=bins, **given)
    while len(_checked) >= _MOST_CHECKED:
        _checked.pop(next(iter(_checked), None), None)
    _checked[key] = None


def _check_arguments(name: str, augmentations: Any, data: Batch, arguments: dict[str, Any]) -> None:
    if not isinstance(augmentations, (list, tuple)) or not all(
        isinstance(each, Augmentation) for each in augmentations
    ):
        raise ArgumentError(name, "augmentations", "a list of augmentations", shown(augmentations), _HINT)
    for argument, value in arguments.items():
        if isinstance(value, Batch) and len(value) != len(data):
            raise ArgumentError(name, argument, f"of {len(data)} samples, like the data", f"a Batch of {len(value)}")
    takes = [each._takes for each in augmentations]
    known = sorted({argument for each in takes for argument in each or ()})
    for argument in () if None in takes else arguments:
        if argument not in known:
            raise ArgumentError.unknown(name, argument, known)
    if isinstance(shape := arguments.get("shape"), Batch) and any(
        each._is_ours and "shape" in (each._takes or ()) for each in augmentations
    ):
        sizes_of(shape, len(data))


_HINT = "Functions become augmentations by @augmentation."
_TRIED = {"H": 2, "W": 2, "F": 1}


def _kind_of(value: Any) -> Any:
    """The key of a check of an argument."""
    if isinstance(value, (Batch, Tensor)):
        return type(value).__name__, value.dtype, value.layout, value.ndim, value.device
    return repr(value)


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
        self,
        name: str,
        num_magnitude_bins: int,
        sub_policies: Sequence[Sequence[tuple[Augmentation, float, int | None]]],
    ) -> None:
        self.name, self.num_magnitude_bins = name, bins_of("Policy", num_magnitude_bins)
        if not isinstance(sub_policies, (list, tuple)) or any(not isinstance(s, (list, tuple)) for s in sub_policies):
            raise ArgumentError("Policy", "sub_policies", "lists of steps", shown(sub_policies))
        for i, steps in enumerate(sub_policies):
            for k, step in enumerate(steps):
                self._check(f"sub_policies[{i}][{k}]", step)
        self.sub_policies = tuple(tuple((each, *map(plain, numbers)) for each, *numbers in s) for s in sub_policies)

    def _check(self, place: str, step: Any) -> None:
        if not isinstance(step, (list, tuple)) or len(step) != 3 or not isinstance(step[0], Augmentation):
            expected = "an augmentation, a probability and the number of a magnitude"
            raise ArgumentError("Policy", place, expected, shown(step), _HINT)
        each, probability, magnitude = step
        if not isinstance(probability, (int, float, numpy.floating)) or not 0 <= probability <= 1:
            raise ArgumentError("Policy", place, "of a probability between 0 and 1", shown(probability))
        most = self.num_magnitude_bins - 1
        if magnitude is None and each.mag_range is not None:
            raise ArgumentError("Policy", place, f"with a magnitude of 0 to {most}, as {each.name} has those", "None")
        if magnitude is not None and (not is_whole(magnitude) or not 0 <= magnitude <= most):
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
