"""The native batch path: C functions on whole batches, with the results of the Python path bit for bit.

Each module here has the functions of the C file of its name. A function returns False for a batch that it does not
take: the caller then goes the way of Python, which defines the result.
"""

from ._library import address, column, function, in_use, info, left_out, threads

__all__ = ["address", "column", "function", "in_use", "info", "left_out", "threads"]
