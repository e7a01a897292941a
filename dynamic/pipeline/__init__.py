"""DALI's pipeline mode: a function that is run ahead of its consumer, with one checkpoint for all that it uses.

`from dynamic.pipeline import fn, pipeline_def, types` is the migration.
"""

from dynamic import types as types

from . import fn as fn
from ._pipeline import Pipeline, pipeline_def

__all__ = ["Pipeline", "fn", "pipeline_def", "types"]
