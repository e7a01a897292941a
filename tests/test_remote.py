"""Object stores: the readers of a bucket give the samples of a folder, whatever its server does."""

from __future__ import annotations

import numpy as np
import pytest
from stores import serving
from test_stored import KINDS, MOST, columns

from dynamic import readers

pytest.importorskip("s3fs")
KEYS = {"key": "AKIDNOBODY", "secret": "not-to-be-told"}
FAR = [kind for kind in KINDS if kind.name != "Map"]
kinds = pytest.mark.parametrize("kind", FAR, ids=lambda kind: kind.name)


@pytest.fixture
def server():
    with serving() as found:
        yield found


def options(server):
    return {**KEYS, "client_kwargs": {"region_name": "us-east-1"}, "endpoint_url": server.url}


class There:
    """A folder of a bucket, for the functions of a `Kind`."""

    def __init__(self, address):
        self.address = address

    def __truediv__(self, name):
        return There(f"{self.address}/{name}")


def given(value):
    """Arguments of a reader with addresses."""
    return value.address if isinstance(value, There) else value


def reader_of(kind, root, server=None, **more):
    """A reader of a folder, or of the bucket that has the same files."""
    if server is None:
        return kind.made(root, **more)
    arguments = {name: given(value) for name, value in kind.arguments(There("s3://bucket/data")).items()}
    return getattr(readers, kind.name)(**arguments, storage_options=options(server), **more)


@pytest.fixture
def data(tmp_path, server):
    """Writes the files of a kind to a folder and a bucket."""

    def write(kind, count=MOST):
        root = tmp_path / kind.name
        root.mkdir(exist_ok=True)
        kind.write(root, range(count))
        server.put(root, "bucket/data")
        return root

    return write


@kinds
def test_a_bucket_is_a_folder(kind, server, data):
    root = data(kind)
    for more in ({}, {"random_shuffle": True, "seed": 3, "num_shards": 2, "shard_id": 1}):
        near, far = reader_of(kind, root, **more), reader_of(kind, root, server, **more)
        assert far.get_state() == near.get_state()
        for here, there in zip(near.next_epoch(4), far.next_epoch(4), strict=True):
            for mine, other in zip(columns(here), columns(there), strict=True):
                assert mine.origin.names == other.origin.names
                for a, b in zip(mine.samples, other.samples, strict=True):
                    np.testing.assert_array_equal(a, b)
        assert far.get_state() == near.get_state()
