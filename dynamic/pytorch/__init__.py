"""Pipelines and readers for PyTorch: `Loader` and its `Dataset`, DALI's iterators, and `nodes`.

torch is imported when a batch, `Dataset` or `Loader` is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import fn as fn
from . import nodes as nodes
from ._evaluator import LoaderEvaluator as LoaderEvaluator
from ._feed import feed_ndarray as feed_ndarray
from ._feed import to_torch_tensor as to_torch_tensor
from ._iterator import ClassificationIterator as ClassificationIterator
from ._iterator import GenericIterator as GenericIterator
from ._iterator import LastBatchPolicy as LastBatchPolicy
from ._ragged import RaggedIterator as RaggedIterator
from .fn import TorchPythonFunction as TorchPythonFunction

if TYPE_CHECKING:
    from ._dataset import Batches as Dataset
    from ._loader import Loading as Loader

__all__ = [
    "ClassificationIterator",
    "Dataset",
    "GenericIterator",
    "LastBatchPolicy",
    "Loader",
    "LoaderEvaluator",
    "RaggedIterator",
    "TorchPythonFunction",
    "feed_ndarray",
    "to_torch_tensor",
]
_EAGER = "Call dynamic's operators in the step of a Loader: they are eager."
_INSTEAD = {
    "DALIDataLoader": _EAGER,
    "DALIProxy": _EAGER,
    "DataLoader": "Loader is torch's DataLoader with an exact state.",
    "experimental": _EAGER,
}  #: replacements for DALI's names that are not here


def __getattr__(name: str) -> Any:
    """`Dataset` and `Loader`, which have base classes of torch's, are made when they are first asked for.

    DALI's longer names of its iterators, such as DALIGenericIterator, are theirs.
    """
    iterators = {"DALIClassificationIterator", "DALIGenericIterator", "DALIRaggedIterator"}
    if name in iterators:
        return globals()[name.removeprefix("DALI")]
    if name not in ("Dataset", "Loader"):
        raise AttributeError(" ".join(filter(None, [f"dynamic.pytorch has no {name!r}.", _INSTEAD.get(name)])))
    from ._loader import made

    globals()[name] = made(__name__, name)
    return globals()[name]
