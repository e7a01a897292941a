"""DALI's pipeline mode: a function that is run ahead of its consumer, with one checkpoint for all that it uses.

`from dynamic.pipeline import fn, pipeline_def, types` is the migration.
"""

from dynamic import math as math
from dynamic.data._index import NewAxis

from . import fn as fn
from . import types as types
from ._pipeline import Pipeline, pipeline_def

__all__ = ["Pipeline", "fn", "math", "newaxis", "pipeline_def", "types"]

#: In an index, a new dimension of extent 1; ``newaxis("C")`` has a letter in the layout.
newaxis = NewAxis()
