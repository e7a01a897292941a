"""Files, as DALI's `io` has them."""

from . import file

__all__ = ["file"]
