"""`dynamic.math`, whose functions take the nodes of a graph as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamic import math

from ._nodes import recorded

if TYPE_CHECKING:
    from dynamic.math import *  # noqa: F403
else:
    globals().update({name: recorded(getattr(math, name)) for name in math.__all__})

__all__ = math.__all__
