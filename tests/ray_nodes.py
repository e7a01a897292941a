"""A cluster of Ray of two nodes on this machine, each with one processor.

    python tests/ray_nodes.py

prints the address, and ends the cluster at the end of its input.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def started() -> Any:
    """The cluster, a `ray.cluster_utils.Cluster`."""
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_worker_niceness", "0")  # 15 by default: no time where others work
    node = {"num_cpus": 1, "object_store_memory": 2**28}
    made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    made.add_node(**node)
    return made


def connect(address: str) -> Any:
    """Connect this process with a cluster, whose processes import as it does; the module ``ray``."""
    import ray
    import ray.data

    environment = {"env_vars": {"PYTHONPATH": ":".join(sys.path)}}
    ray.init(address=address, log_to_driver=False, runtime_env=environment)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray


@contextmanager
def apart() -> Iterator[str]:
    """The address of a cluster whose threads are those of another process, for one that forks."""
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            found = next((line for line in process.stdout if line.startswith("address: ")), None)
            assert found is not None, "the cluster has not started"
            yield found.removeprefix("address: ").strip()
        finally:
            process.stdin.close()


def main() -> None:
    """Hold the cluster."""
    cluster = started()
    print("address:", cluster.address, flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
