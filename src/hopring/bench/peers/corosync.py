"""Corosync: closed process groups in agreed order, three nodes in network namespaces; needs root.

Clients are a program in C. A sender is a member and receives too, which saves a process.
"""

import os
import subprocess
import time
from typing import ClassVar

from hopring.bench.harness.workload import WorkerTask
from hopring.bench.peers.peer import BUILT, SOURCES, PeerSystem
from hopring.cli.terminal import Failure

NODES = 3
MTU_SECONDS = 7.0
"""Time for knet to find out the packet size; before that it is slow."""

BRIDGE = "hopbench"


class Corosync(PeerSystem):
    """Totem over knet, without encryption."""

    name = "corosync"
    members_send = True
    programs: ClassVar = {
        "corosync": "corosync",
        "cc": "gcc",
        "ip": "iproute2",
        "/usr/include/corosync/cpg.h": "libcpg-dev",
        "/usr/include/corosync/corotypes.h": "libcorosync-common-dev",
        "/usr/include/zlib.h": "zlib1g-dev",
    }
    promise = "Agreed, views; clients in C"

    @classmethod
    def missing(cls) -> list[str]:
        """As usual, and root for the namespaces."""
        return [*super().missing(), *([] if os.geteuid() == 0 else ["run as root, for network namespaces"])]

    def start(self) -> None:
        """Starts three nodes on a bridge."""
        self._build()
        _ip(f"link add {BRIDGE} type bridge")
        _ip(f"link set {BRIDGE} up")
        for node in range(NODES):
            space = f"{BRIDGE}{node}"
            _ip(f"netns add {space}")
            _ip(f"link add {space} type veth peer name eth0 netns {space}")
            _ip(f"link set {space} master {BRIDGE} up")
            _ip(f"-n {space} addr add 10.77.0.{node + 1}/24 dev eth0")
            _ip(f"-n {space} link set eth0 up")
            _ip(f"-n {space} link set lo up")
        for node in range(NODES):
            file = self.directory / f"corosync{node}.conf"
            file.write_text(_configuration())
            # Each has its own state and its own /run, as on hosts of their own.
            mounts = "mount -t tmpfs none /var/lib/corosync && mount -t tmpfs none /run && mkdir /run/corosync"
            inside = ["unshare", "-m", "sh", "-c", f"{mounts} && exec corosync -f -c {file}"]
            self.serve(f"corosync{node}", [*_within(node), *inside])
        time.sleep(MTU_SECONDS)

    def stop(self) -> None:
        """Removes the namespaces and the bridge."""
        for node in range(NODES):
            subprocess.run(["ip", "netns", "del", f"{BRIDGE}{node}"], capture_output=True, check=False)
            subprocess.run(["ip", "link", "del", f"{BRIDGE}{node}"], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)

    def command(self, task: WorkerTask) -> list[str]:
        """Receivers one for each node; the answering client is elsewhere than the asking one."""
        node = (task.number + (task.role == "answer")) % NODES
        words = [task.role, str(task.number), task.counters, task.group, str(task.probes)]
        return [*_within(node), str(_PROGRAM), *words]

    def _build(self) -> None:
        source = SOURCES / "cpg.c"
        if _PROGRAM.exists() and _PROGRAM.stat().st_mtime > source.stat().st_mtime:
            return
        _PROGRAM.parent.mkdir(exist_ok=True)
        command = ["cc", "-O2", "-Wall", "-Wextra", "-o", str(_PROGRAM), str(source), "-lcpg", "-lz"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(f"corosync: its client cannot be compiled:\n{done.stderr}")


_PROGRAM = BUILT / "cpg"


def _within(node: int) -> list[str]:
    return ["ip", "netns", "exec", f"{BRIDGE}{node}"]


def _ip(words: str) -> None:
    done = subprocess.run(["ip", *words.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"corosync: ip {words}: {done.stderr.strip()}")


def _configuration() -> str:
    nodes = "".join(
        [
            f"  node {{\n    nodeid: {one}\n    name: n{one}\n    ring0_addr: 10.77.0.{one}\n  }}\n"
            for one in range(1, NODES + 1)
        ]
    )
    totem = "version: 2\n  cluster_name: bench\n  transport: knet\n  crypto_cipher: none\n  crypto_hash: none"
    return (
        f"totem {{\n  {totem}\n}}\nnodelist {{\n{nodes}}}\nquorum {{\n}}\n"
        "logging {\n  to_stderr: yes\n  to_syslog: no\n}\n"
    )
