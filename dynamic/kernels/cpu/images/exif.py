"""The one EXIF entry that decoding needs: the orientation. Anything odd in the block means "upright"."""

from __future__ import annotations

import struct

from ._common import Buffer

__all__ = ["orientation"]

_TAG, _SHORT = 0x0112, 3


def orientation(block: Buffer) -> int:
    """The orientation, 1 to 8, that an EXIF block gives (a TIFF header and its first directory); 1 if it gives none."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(bytes(block[:4]))
    if order is None or len(block) < 10:
        return 1
    (start,) = struct.unpack_from(order + "I", block, 4)
    if start + 2 > len(block):
        return 1
    (count,) = struct.unpack_from(order + "H", block, start)
    entry, last = start + 2, len(block) - 12
    for _ in range(count):
        if entry > last:
            return 1
        tag, kind, values, value = struct.unpack_from(order + "HHIH", block, entry)
        if tag == _TAG:
            return value if kind == _SHORT and values == 1 and 1 <= value <= 8 else 1
        entry += 12
    return 1
