"""JPEGs of flat blocks, written bit by bit: kinds that libraries do not write, with pixels that are known exactly."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

SOI, EOI = b"\xff\xd8", b"\xff\xd9"
#: Codes for the sizes of differences, 0 to 11, of 4 bits each; and one code of 1 bit for the end of a block.
SIZES = tuple(range(12))


def segment(marker: int, content: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


def tables() -> bytes:
    """A quantisation table of eights, so that a coefficient is a level; and two Huffman tables."""
    first = bytes([0x00, 0, 0, 0, 12, *[0] * 12, *SIZES])
    others = bytes([0x10, 1, *[0] * 15, 0])
    return segment(0xDB, bytes([0] + [8] * 64)) + segment(0xC4, first) + segment(0xC4, others)


def adobe(transform: int) -> bytes:
    return segment(0xEE, b"Adobe\0\x64\0\0\0\0" + bytes([transform]))


def frame(height: int, width: int, factors: Sequence[tuple[int, int]], *, marker: int = 0xC0, bits: int = 8) -> bytes:
    parts = b"".join(bytes([i + 1, h * 16 + v, 0]) for i, (h, v) in enumerate(factors))
    return segment(marker, struct.pack(">BHHB", bits, height, width, len(factors)) + parts)


def scan_header(components: Sequence[int], last: int = 63) -> bytes:
    parts = b"".join(bytes([i + 1, 0]) for i in components)
    return segment(0xDA, bytes([len(components)]) + parts + bytes([0, last, 0]))


class Bits:
    """Bits on their way to bytes, FF followed by 00."""

    def __init__(self) -> None:
        self.text = ""

    def add(self, value: int, count: int) -> None:
        self.text += format(value, f"0{count}b") if count else ""

    def bytes(self) -> bytes:
        text = self.text + "1" * (-len(self.text) % 8)
        return bytes(int(text[i : i + 8], 2) for i in range(0, len(text), 8)).replace(b"\xff", b"\xff\0")


def block(bits: Bits, difference: int) -> None:
    size = abs(difference).bit_length()
    bits.add(size, 4)
    bits.add(difference if difference > 0 else difference + (1 << size) - 1, size)
    bits.add(0, 1)


def units(components: Sequence[int], factors: Sequence[tuple[int, int]], blocks: Sequence[np.ndarray]) -> list:
    """The blocks of a scan in their order: for each unit of it, which component and which value."""
    if len(components) == 1:
        return [[(components[0], value)] for value in blocks[components[0]].ravel().tolist()]
    h, v = factors[0]
    down, across = blocks[0].shape[0] // v, blocks[0].shape[1] // h
    return [
        [(c, int(blocks[c][y * factors[c][1] + j, x * factors[c][0] + i]))
         for c in components for j in range(factors[c][1]) for i in range(factors[c][0])]
        for y in range(down) for x in range(across)
    ]  # fmt: skip


def scan(components: Sequence[int], factors: Sequence[tuple[int, int]], blocks: Sequence[np.ndarray], restart: int = 0):
    """A scan of some components: its header and its bits, with a restart marker after every so many units."""
    found, bits, before = [], Bits(), dict.fromkeys(components, 128)
    for n, unit in enumerate(units(components, factors, blocks)):
        if restart and n and n % restart == 0:
            found += [bits.bytes(), bytes([0xFF, 0xD0 + (n // restart - 1) % 8])]
            bits, before = Bits(), dict.fromkeys(components, 128)
        for component, value in unit:
            block(bits, value - before[component])
            before[component] = value
    return scan_header(components) + b"".join(found) + bits.bytes()


def flat(
    blocks: Sequence[np.ndarray], factors: Sequence[tuple[int, int]], *, transform: int | None = None,
    interleaved: bool = True, restart: int = 0, scans: int = 1, size: tuple[int, int] | None = None,
) -> bytes:  # fmt: skip
    """A baseline JPEG whose blocks are each of one level.

    Args:
        blocks: For each component the levels of its blocks.
        factors: For each component its sampling factors, horizontal and vertical; the first has the largest.
        transform: What an Adobe segment says, if there is to be one.
        interleaved: Whether all components are in one scan.
        restart: After how many units there is a restart marker.
        scans: How often the scans are repeated.
        size: Height and width, where they are not those of the blocks.
    """
    height, width = size or (8 * blocks[0].shape[0], 8 * blocks[0].shape[1])
    order = [list(range(len(blocks)))] if interleaved else [[i] for i in range(len(blocks))]
    head = SOI + (b"" if transform is None else adobe(transform)) + tables() + frame(height, width, factors)
    head += segment(0xDD, struct.pack(">H", restart)) if restart else b""
    return head + b"".join(scan(part, factors, blocks, restart) for part in order) * scans + EOI


def enlarged(blocks: np.ndarray) -> np.ndarray:
    """The pixels of blocks."""
    return np.kron(blocks, np.ones((8, 8), int))
