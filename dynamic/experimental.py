"""Operators that DALI has in its module of this name."""

from __future__ import annotations

from .ops.warps import remap, warp_perspective

__all__ = ["remap", "warp_perspective"]
