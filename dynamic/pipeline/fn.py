"""DALI's `fn`, for functions of pipelines: a function for each operator, random operator and reader.

Only functions under `pipeline_def` and graphs call them. Their results are Batches; arithmetic, comparison and plain
Python between them work as they do elsewhere, for all is evaluated at once. In a graph their results are nodes.

Families are modules: ``from dynamic.pipeline.fn import readers`` and ``import dynamic.pipeline.fn.readers`` work.

>>> from dynamic.pipeline import fn
>>> fn.random.uniform.__name__, fn.rotate is fn.rotate
('uniform', True)
"""

from __future__ import annotations

from typing import Any

from . import _functions, _names

_functions.add_families(__name__)


def __getattr__(name: str) -> Any:
    return _functions.found(name, __name__)


def __dir__() -> list[str]:
    return _names.members("")
