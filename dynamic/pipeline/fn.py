"""What the function of a pipeline calls: DALI's `fn`, a name for each operator, random operator and reader.

Only a function under `pipeline_def` calls them. Their results are Batches; arithmetic, comparison and plain Python
between them work as they do elsewhere, for all is evaluated at once.

>>> from dynamic.pipeline import fn
>>> fn.random.uniform
<fn.random.uniform>
"""

from __future__ import annotations

from typing import Any

import dynamic

from ._added import ADDED, FORMER
from ._names import has, members
from ._run import Name

__all__ = ["external_source", "readers"]

#: The readers, in DALI's spelling: ``fn.readers.file(...)``.
readers = Name("readers")
#: `dynamic.ExternalSource`, whose source makes batches unless ``batch=False`` is given.
external_source = Name("external_source")


def __getattr__(name: str) -> Any:
    """An operator, or a family of them such as `random`."""
    if has(dynamic, name) or name in ADDED or name in FORMER:
        return Name(name)
    raise AttributeError(f"fn has no {name!r}: dynamic has none")


def __dir__() -> list[str]:
    return members("")
