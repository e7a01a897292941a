"""Training on two hosts, which are network namespaces of this machine: only packets go from one to the other.

    DYNAMIC_TWO_HOSTS=1 python -m pytest tests/test_two_hosts.py

It needs root and the command ``ip``, and is skipped otherwise.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from counting import COUNT, FILES, laid_out, reader_of

TESTS = Path(__file__).parent
SECONDS = 600  # after which a run has failed
EPOCHS = 3
ASKED = os.environ.get("DYNAMIC_TWO_HOSTS") == "1"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ASKED, reason="DYNAMIC_TWO_HOSTS=1 lets tests make network namespaces, as root"),
]


class Host:
    """A namespace with an address."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address, self.files = name, address, Path("/etc/netns", name)

    def begin(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command of Python there."""
        of_here = {"PYTHONPATH": f"{TESTS.parent}:{TESTS}", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        of_here |= {"GLOO_SOCKET_IFNAME": "eth0", **environment}
        return subprocess.Popen(
            ["ip", "netns", "exec", self.name, sys.executable, "-W", "ignore", *command],
            env={**os.environ, **of_here},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )


def ended(*runs: subprocess.Popen[str]) -> list[tuple[int, str]]:
    """The exit status and the output of each."""
    found = []
    for run in runs:
        text = run.communicate(timeout=SECONDS)[0]
        found.append((run.returncode, text))
    return found


@pytest.fixture(scope="module")
def hosts():
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    made = [Host(f"dynamic-{os.getpid()}-{i}", f"10.213.0.{i}") for i in (1, 2)]

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    try:
        for host in made:
            ip("netns", "add", host.name)
            host.files.mkdir(parents=True)  # which lie over those of /etc there
            names = [f"{host.address} {socket.gethostname()}", "127.0.0.1 localhost"]
            (host.files / "hosts").write_text("\n".join(names) + "\n")
            (host.files / "nsswitch.conf").write_text("hosts: files\n")
        ends = [word for host in made for word in ("eth0", "netns", host.name)]
        ip("link", "add", *ends[:3], "type", "veth", "peer", "name", *ends[3:])
        for host in made:
            ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                ip("-n", host.name, "link", "set", link, "up")
        yield made
    finally:
        for host in made:
            subprocess.run(["ip", "netns", "delete", host.name])
            shutil.rmtree(host.files, ignore_errors=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return laid_out(tmp_path_factory.mktemp("numbers"))


def trained(hosts, folder, output, *arguments):
    """Run `trainers_job.py` by torchrun, a process on each host, and return what `ended` does."""
    launch = ["-m", "torch.distributed.run", "--nnodes", str(len(hosts)), "--nproc-per-node", "1", "--rdzv-backend"]
    launch += ["c10d", "--rdzv-endpoint", f"{hosts[0].address}:29400", "--rdzv-id", str(time.monotonic_ns())]
    words = [str(TESTS / "trainers_job.py"), "torchrun", str(folder), str(output), "--processes", str(len(hosts))]
    output.mkdir(exist_ok=True)
    runs = []
    for host in hosts:
        own = ["--local-addr", host.address, "--rdzv-conf", f"is_host={host is hosts[0]}"]
        runs.append(host.begin(*launch, *own, *words, *arguments))
    return ended(*runs)


def noted(output):
    """The batches of all ranks since the last call, each with its epoch."""
    lines = []
    for path in sorted(output.glob("*.jsonl")):
        lines += [json.loads(line)[:2] for line in path.read_text().splitlines()]
        path.unlink()
    return lines


@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 1), (1, 2)])
def test_torchrun_goes_on_from_the_state_of_any_rank(hosts, folder, tmp_path, before, after):
    pytest.importorskip("torch", reason="torch is not installed")
    output = tmp_path / "run"
    stopped = ["--kill-at", "4" if before > 1 else "8", "--saver", str(before - 1)]  # in the second epoch
    killed = trained(hosts[:before], folder, output, *stopped)
    assert all(status for status, _ in killed), killed
    lines = noted(output)
    assert len(lines) == 8, killed
    finished = trained(hosts[:after], folder, output)
    assert [status for status, _ in finished] == [0] * after, finished
    lines += noted(output)
    for epoch in range(EPOCHS):
        assert sorted(x for e, batch in lines if e == epoch for x in batch) == list(range(COUNT))


#: A job of one's own on a cluster of two hosts. It prints each batch, with the addresses of who made it.
ON_RAY = """
import json, socket, sys, time
from counting import reader_of
from ray_nodes import connect
from dynamic import as_batch
from dynamic.ray import Loader

def told(data, labels):
    import ray
    time.sleep(0.1)
    host = int(ray.util.get_node_ip_address().rpartition(".")[2])
    return {"data": data, "host": as_batch([host] * len(data))}

ray = connect(sys.argv[1])
loader = Loader(reader_of(sys.argv[2]), told, num_cpus=1)
if sys.argv[3]:
    loader.load_state_dict(json.loads(sys.argv[3]))
for _, batch in zip(range(int(sys.argv[4])), loader):
    values = [batch[name].numpy().ravel().tolist() for name in ("data", "host")]
    print("batch:", json.dumps([*values, loader.state_dict()]), flush=True)
"""


def test_rays_nodes_are_two_hosts(hosts, folder, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed")
    first, second = hosts
    address = f"{first.address}:6379"
    start = ["-m", "ray.scripts.scripts", "start", "--block", "--num-cpus", "1", "--object-store-memory", str(2**28)]
    place = tempfile.mkdtemp(prefix="ray")  # a short path, as sockets need
    own = {"RAY_worker_niceness": "0", "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": place}
    head = ["--head", "--port", "6379", "--include-dashboard", "false"]
    nodes = [first.begin(*start, *head, "--node-ip-address", first.address, **own)]
    try:
        script = tmp_path / "job.py"
        script.write_text(ON_RAY)
        time.sleep(10)
        nodes.append(second.begin(*start, "--address", address, "--node-ip-address", second.address, **own))
        time.sleep(10)

        def run(state, most):
            ((status, text),) = ended(first.begin(str(script), address, str(folder), state, str(most), **own))
            assert status == 0, text
            return [json.loads(line.removeprefix("batch: ")) for line in text.splitlines() if line[:7] == "batch: "]

        batches = run("", 2)
        batches += run(json.dumps(batches[-1][2]), 100)
    finally:
        for node in reversed(nodes):
            node.terminate()
            node.communicate(timeout=SECONDS)
        shutil.rmtree(place, ignore_errors=True)
    found = [x for data, _, _ in batches for x in data]
    assert found == [FILES.index(name) for data, _ in reader_of(folder).next_epoch() for name in data.origin.names]
    assert {x for _, by, _ in batches for x in by} == {1, 2}
