"""Where files lie: on this machine, or in a store elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import BinaryIO, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._base.pool import run

from ._bytes import Opened, Version, contents, is_of_the_system, opened, together
from ._remote import Remote, Wanted

__all__ = ["DISK", "Disk", "Store"]


class Disk:
    """The files of this machine."""

    far = False
    reach = 0
    contents = staticmethod(contents)
    opened = staticmethod(Opened)

    def together(
        self, paths: Sequence[str], versions: Sequence[Version | None] | None = None
    ) -> tuple[list[Array], dict[int, OSError]]:
        """The same as `together` of `_bytes`."""
        assert versions is None
        return together(paths)

    def plain(self, path: str) -> str:
        """The path, which holds no secret."""
        return path

    def file(self, path: str, buffered: int = 0, version: Version | None = None) -> BinaryIO:  # noqa: ARG002
        """A regular file, open for reading."""
        return opened(path, buffered)

    def versions(self, paths: Sequence[str]) -> dict[str, Version]:
        """The versions of files. Those that cannot be had are left out."""
        found = {}
        for path in paths:
            try:
                found[path] = Version.of(os.stat(path))  # noqa: PTH116
            except OSError as error:
                if not is_of_the_system(error):
                    raise
        return found

    def sizes(self, paths: Sequence[str]) -> Array:
        """The sizes of files in bytes: int64, -1 where there is no such file."""
        return numpy.fromiter(map(_size, paths), numpy.int64, len(paths))

    def expect(self, wanted: Sequence[Wanted]) -> None:
        """Nothing: the system reads ahead."""

    def each(self, function: Callable[[int], None], n: int) -> None:
        """Call a function that reads for each number below n."""
        run(function, n, 0)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError as error:
        if not is_of_the_system(error):
            raise
        return -1  # a fingerprint is no place to fail: reading will say that the file is missing


Store: TypeAlias = Disk | Remote
DISK = Disk()
