"""Files: `io.file`, as DALI has it, bytes that are checked as they are read, and the parser of ``.npy`` files."""

from . import file

__all__ = ["file"]
