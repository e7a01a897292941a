"""The packets of JPEG 2000: every header of one is read as its decoder would, and all bytes must belong to some.

OpenJPEG takes packets that are not there for empty ones, and leaves bytes that follow unread: of a codestream that is
cut, or of none at all, it makes an image. Its memory for precincts and blocks is bounded here as well.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from ._common import corrupt, truncated, unsupported

__all__ = ["Coding", "Tile", "Walk", "coding"]

_FORMAT = "JPEG 2000"
_MOST_LEVELS, _MOST_BANDS = 32, 97
_MOST_PRECINCTS, _MOST_PACKETS, _MOST_BLOCKS = 1 << 17, 1 << 18, 1 << 19
_VISITS = 1 << 17  # to blocks, in packets that are not empty, beside two for each byte
_MARKED, _ENDED = 2, 4  # coding style: packets may begin with a marker, their headers end with one
_BYPASS, _EACH_PASS_ENDS = 1, 4  # styles of blocks
_LEAST_PASSES_RAW = 10  # of a block with `_BYPASS`, before it changes
_TOGETHER, _MOST_PASSES = 109, 218  # over a block: OpenJPEG takes so many to be of one length, which real files do too
_FAR = 1 << 30


class Tile(NamedTuple):
    """Where a tile lies."""

    top: int
    left: int
    bottom: int
    right: int


class Coding(NamedTuple):
    """How a component is coded."""

    levels: int
    block: tuple[int, int]  #: rows and columns, as powers of 2
    style: int
    reversible: bool
    precincts: bytes  #: of each resolution, as powers of 2: rows in the upper four bits, columns in the lower
    planes: tuple[int, ...]  #: the most bit planes of each band


@functools.lru_cache(maxsize=256)
def coding(style: bytes, steps: bytes) -> Coding:
    """Read how a component is coded.

    Args:
        style: A flag, whether there are sizes of precincts, and then the parameters of a component.
        steps: The quantisation.
    """
    if len(style) < 6:
        raise corrupt(_FORMAT, "there is no coding style, or it is too short")
    levels, width, height, flags, transform = style[1:6]
    if levels > _MOST_LEVELS or width > 8 or height > 8 or width + height > 8 or transform > 1:
        raise corrupt(_FORMAT, f"{levels} levels, blocks of 4 << {width} x 4 << {height}, transform {transform}")
    if flags & 0xC0:
        raise unsupported(_FORMAT, "high-throughput coding")
    precincts = style[6:] if style[0] & 1 else b"\xff" * (levels + 1)
    if len(precincts) != levels + 1 or any(not size & 15 or not size >> 4 for size in precincts[1:]):
        raise corrupt(_FORMAT, f"precincts {precincts.hex()} for {levels + 1} resolutions")
    if not steps or steps[0] & 31 > 2:
        raise corrupt(_FORMAT, "there is no quantisation, or an unknown one")
    kind, guard, bands = steps[0] & 31, steps[0] >> 5, 3 * levels + 1
    size = 1 if kind == 0 else 2
    count, rest = divmod(len(steps) - 1, size)
    if rest or count > _MOST_BANDS or (count != 1 if kind == 1 else count < bands):
        raise corrupt(_FORMAT, f"{len(steps)} bytes of quantisation for {bands} bands")
    exponents = [step >> 3 for step in steps[1::size]]
    if kind == 1:  # the others follow from the first
        exponents = [max(0, exponents[0] - max(0, band - 1) // 3) for band in range(bands)]
    planes = tuple(exponent + guard - 1 for exponent in exponents[:bands])
    return Coding(levels, (height + 2, width + 2), flags, transform == 1, precincts, planes)


class _Tree:
    """A tag tree: for each of a grid of blocks, how far its number is known to be at least or exactly."""

    __slots__ = ("_least", "_up", "_value")

    def __init__(self, height: int, width: int) -> None:
        self._up = _parents(height, width)
        self._least = [0] * len(self._up)
        self._value = [_FAR] * len(self._up)

    def is_below(self, bits: _Bits, block: int, bound: int) -> bool:
        """Whether the number of a block is less than a bound, for which bits are read as far as needed."""
        least, value = self._least, self._value
        path, low = self._open_path(block)
        for node in reversed(path):
            low = max(low, least[node])
            while low < bound and value[node] == _FAR:
                if bits.read():
                    value[node] = low
                else:
                    low += 1
            least[node] = low
            if low >= bound:
                break
        return value[block] < bound

    def number(self, bits: _Bits, block: int, most: int) -> int:
        """The number of a block, or one that is more than `most`."""
        path, low = self._open_path(block)
        for node in reversed(path):
            while not bits.read():
                low += 1
                if low > most:
                    return low
            self._value[node] = low
        return low

    def _open_path(self, block: int) -> tuple[list[int], int]:
        """The nodes from a block upwards whose numbers are not known yet, and the number above them."""
        value, up, path = self._value, self._up, []
        while block >= 0 and value[block] == _FAR:
            path.append(block)
            block = up[block]
        return path, value[block] if block >= 0 else 0


@functools.lru_cache(maxsize=16)
def _parents(height: int, width: int) -> list[int]:
    """For each node of a tag tree the one above it, -1 for the root; blocks come first, row by row."""
    up: list[int] = []
    while height * width > 1:
        after = len(up) + height * width
        across = -(-width // 2)
        up += [after + row // 2 * across + column // 2 for row in range(height) for column in range(width)]
        height, width = -(-height // 2), across
    return [*up, -1]


class _Bits:
    """The bits of a packet's header: after a byte of ones comes one with seven bits."""

    __slots__ = ("_data", "_left", "_value", "position")

    def __init__(self, data: bytes, position: int) -> None:
        self._data, self.position, self._left, self._value = data, position, 0, 0

    def read(self) -> int:
        """The next bit."""
        if not self._left:
            self._next()
        self._left -= 1
        return self._value >> self._left & 1

    def number(self, size: int) -> int:
        """A number of so many bits."""
        found = 0
        while size > self._left:
            found = found << self._left | self._value & (1 << self._left) - 1
            size -= self._left
            self._next()
        self._left -= size
        return found << size | self._value >> self._left & (1 << size) - 1

    def _next(self) -> None:
        if self.position >= len(self._data):
            raise truncated(_FORMAT, "the bytes end within the header of a packet")
        before, self._value = self._value, self._data[self.position]
        self._left = 7 if before == 0xFF else 8
        self.position += 1
        if self._left == 7 and self._value > 0x7F:
            raise corrupt(_FORMAT, "a marker lies in the header of a packet")

    def end(self) -> int:
        """Where the header ends."""
        return self.position + (self._value == 0xFF)


class _Band:
    """The blocks that a precinct has of a band."""

    __slots__ = ("count", "inclusion", "length_bits", "passes", "planes", "style", "zeros")

    def __init__(self, height: int, width: int, planes: int, style: int) -> None:
        self.count, self.planes, self.style = height * width, planes, style
        self.inclusion, self.zeros = _Tree(height, width), _Tree(height, width)
        self.passes = [0] * self.count
        self.length_bits = [3] * self.count

    def read(self, bits: _Bits, layer: int) -> int:
        """Read from a packet's header the number of bytes of these blocks in its body."""
        size = 0
        for block in range(self.count):
            if self.passes[block]:
                if bits.read():
                    size += self._more(bits, block)
            elif self.inclusion.is_below(bits, block, layer + 1):
                if self.zeros.number(bits, block, self.planes) > self.planes:
                    raise corrupt(_FORMAT, f"a block leaves out more than its {self.planes} bit planes")
                size += self._more(bits, block)
        return size

    def _more(self, bits: _Bits, block: int) -> int:
        """The bytes of passes that are added to a block."""
        done, new = self.passes[block], _count_of_passes(bits)
        self.passes[block] = done + new
        if done + new > _MOST_PASSES:
            raise corrupt(_FORMAT, f"{done + new} passes over a block")
        while bits.read():
            self.length_bits[block] += 1
        size = 0
        while new:
            together = min(new, self._until_end(done))
            length_bits = self.length_bits[block] + together.bit_length() - 1
            if length_bits > 31:
                raise corrupt(_FORMAT, f"a length of {length_bits} bits in the header of a packet")
            size += bits.number(length_bits)
            done, new = done + together, new - together
        return size

    def _until_end(self, done: int) -> int:
        """How many passes there may be after some until their bytes end, and a length of its own follows."""
        if self.style & _EACH_PASS_ENDS:
            return 1
        if not self.style & _BYPASS:
            return _TOGETHER - done % _TOGETHER
        return _LEAST_PASSES_RAW - done if done < _LEAST_PASSES_RAW else (2, 1, 1)[(done - _LEAST_PASSES_RAW) % 3]


def _count_of_passes(bits: _Bits) -> int:
    """How many passes are added, by a code of 1 to 16 bits."""
    for size, before in ((1, 1), (1, 2), (2, 3), (5, 6)):
        more = bits.number(size)
        if more < (1 << size) - 1:
            return before + more
    return 37 + bits.number(7)


class _Resolution:
    """A resolution of a component of a tile, and its precincts."""

    def __init__(self, tile: Tile, coding: Coding, level: int) -> None:
        self.coding, self.level, self.down = coding, level, coding.levels - level
        self.rows, self.columns = coding.precincts[level] >> 4, coding.precincts[level] & 15
        top, left, bottom, right = (-(-edge >> self.down) for edge in tile)
        self.first = top >> self.rows, left >> self.columns
        some = top < bottom and left < right
        self.high = -(-bottom >> self.rows) - self.first[0] if some else 0
        self.wide = -(-right >> self.columns) - self.first[1] if some else 0
        self.count = self.high * self.wide
        self._bands = list(self._edges(tile))

    def _edges(self, tile: Tile) -> Iterator[tuple[Tile, int]]:
        """Where the bands lie, of those that are not empty, and how many bit planes they have."""
        planes = self.coding.planes
        if not self.level:
            bands = [(0, 0, self.down, planes[0])]
        else:
            at = 3 * self.level - 2
            bands = [
                (0, 1, self.down + 1, planes[at]),
                (1, 0, self.down + 1, planes[at + 1]),
                (1, 1, self.down + 1, planes[at + 2]),
            ]
        for low, across, down, most in bands:
            half = 1 << down >> 1
            shifts = (half * low, half * across) * 2
            edges = Tile(*(-(-(edge - shift) >> down) for edge, shift in zip(tile, shifts, strict=True)))
            if edges.top < edges.bottom and edges.left < edges.right:
                yield edges, most

    def grids(self, precinct: int) -> Iterator[tuple[int, int, int]]:
        """Of each band of a precinct how many blocks there are down and across, and its bit planes."""
        row, column = divmod(precinct, self.wide)
        rows, columns = self.rows - (self.level > 0), self.columns - (self.level > 0)
        row, column = self.first[0] + row, self.first[1] + column
        high, wide = min(self.coding.block[0], rows), min(self.coding.block[1], columns)
        for edges, planes in self._bands:
            top, bottom = max(edges.top, row << rows), min(edges.bottom, row + 1 << rows)
            left, right = max(edges.left, column << columns), min(edges.right, column + 1 << columns)
            if top < bottom and left < right:
                yield -(-bottom >> high) - (top >> high), -(-right >> wide) - (left >> wide), planes

    def most_blocks(self) -> int:
        """How many blocks there are at most."""
        rows, columns = self.rows - (self.level > 0), self.columns - (self.level > 0)
        high, wide = min(self.coding.block[0], rows), min(self.coding.block[1], columns)
        return sum(
            ((edges.bottom - edges.top >> high) + 1 + self.high) * ((edges.right - edges.left >> wide) + 1 + self.wide)
            for edges, _ in self._bands
        )

    def places(self, tile: Tile) -> Iterator[tuple[int, int]]:
        """The row and column at which each precinct comes in an order by places."""
        for row, column in itertools.product(range(self.high), range(self.wide)):
            y, x = self.first[0] + row << self.rows + self.down, self.first[1] + column << self.columns + self.down
            yield max(tile.top, y), max(tile.left, x)


_Precinct: TypeAlias = tuple[int, int, int]  # component, resolution, number


class Walk:
    """A walk over the packets of all tiles of a codestream."""

    def __init__(self) -> None:
        self._precincts = self._packets = self._blocks = 0
        self._visits: int | None = None

    def tile(self, tile: Tile, general: bytes, codings: list[Coding], data: bytes) -> bool:
        """Refuse a tile whose bytes are not those of its packets, or that has too many of them.

        Args:
            tile: Where it lies.
            general: Its coding style: flags, the progression, the number of layers, and more.
            codings: How its components are coded.
            data: The bytes.

        Returns:
            Whether there is anything in the packets.
        """
        flags, order, layers = general[0], general[1], int.from_bytes(general[2:4], "big")
        grid = [[_Resolution(tile, coding, level) for level in range(coding.levels + 1)] for coding in codings]
        precincts = sum(resolution.count for component in grid for resolution in component)
        if precincts * layers > len(data):
            raise truncated(_FORMAT, f"{len(data)} bytes cannot hold {precincts * layers} packets of a tile")
        self._precincts += precincts
        self._packets += precincts * layers
        self._blocks += sum(resolution.most_blocks() for component in grid for resolution in component)
        if self._precincts > _MOST_PRECINCTS or self._packets > _MOST_PACKETS or self._blocks > _MOST_BLOCKS:
            raise unsupported(
                _FORMAT, f"more than {_MOST_PRECINCTS} precincts, {_MOST_PACKETS} packets or {_MOST_BLOCKS} blocks"
            )
        self._visits = (self._visits or _VISITS) + 2 * len(data)
        bands: dict[_Precinct, list[_Band]] = {}
        position = 0
        for layer, precinct in _ordered(tile, grid, order, layers):
            position = self._packet(data, position, flags, layer, precinct, grid, bands)
        if position < len(data):
            raise corrupt(_FORMAT, f"{len(data) - position} bytes of a tile belong to no packet")
        return bool(bands)

    def _packet(
        self,
        data: bytes,
        position: int,
        flags: int,
        layer: int,
        precinct: _Precinct,
        grid: list[list[_Resolution]],
        bands: dict[_Precinct, list[_Band]],
    ) -> int:
        """Where a packet ends that begins at a position."""
        if flags & _MARKED and data[position : position + 2] == b"\xff\x91":
            position += 6
        bits, size = _Bits(data, position), 0
        if bits.read():
            if precinct not in bands:
                resolution = grid[precinct[0]][precinct[1]]
                bands[precinct] = [
                    _Band(high, wide, planes, resolution.coding.style)
                    for high, wide, planes in resolution.grids(precinct[2])
                ]
            assert self._visits is not None
            self._visits -= sum(band.count for band in bands[precinct])
            if self._visits < 0:
                raise unsupported(_FORMAT, "more blocks and layers than there are bytes for")
            size = sum([band.read(bits, layer) for band in bands[precinct]])
        position = bits.end()
        if flags & _ENDED:
            if data[position : position + 2] != b"\xff\x92":
                raise corrupt(_FORMAT, "the header of a packet does not end with its marker")
            position += 2
        if position + size > len(data):
            raise truncated(_FORMAT, "the bytes end within a packet")
        return position + size


def _ordered(tile: Tile, grid: list[list[_Resolution]], order: int, layers: int) -> Iterator[tuple[int, _Precinct]]:
    """The layer and precinct of each packet of a tile, in the order of a progression."""
    if order < 2:  # by layer and resolution, or by resolution and layer
        deepest = max(map(len, grid))
        levels, each = range(deepest), range(layers)
        for one, other in itertools.product(*((each, levels) if order == 0 else (levels, each))):
            layer, level = (one, other) if order == 0 else (other, one)
            for component, resolutions in enumerate(grid):
                if level < len(resolutions):
                    for number in range(resolutions[level].count):
                        yield layer, (component, level, number)
        return
    placed = []
    for component, resolutions in enumerate(grid):
        for level, resolution in enumerate(resolutions):
            for number, place in enumerate(resolution.places(tile)):
                before = ((level, *place, component), (*place, component, level), (component, *place, level))[order - 2]
                placed.append((before, (component, level, number)))
    for _, precinct in sorted(placed):
        for layer in range(layers):
            yield layer, precinct
