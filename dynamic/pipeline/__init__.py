"""DALI's pipeline mode: a function that is run ahead of its consumer, with one checkpoint for all that it uses.

`from dynamic.pipeline import fn, pipeline_def, types` is the migration.
"""

from dynamic.data._index import NewAxis

from . import fn as fn
from . import math as math
from . import ops as ops
from . import tensors as tensors
from . import types as types
from ._definition import do_not_convert, pipeline_def
from ._nodes import DataNode
from ._pipeline import Pipeline

__all__ = ["DataNode", "Pipeline", "do_not_convert", "fn", "math", "newaxis", "ops", "pipeline_def", "tensors", "types"]

#: In an index, a new dimension of extent 1; ``newaxis("C")`` has a letter in the layout.
newaxis = NewAxis()
