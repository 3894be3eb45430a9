"""Builds networks of namespaces: hosts, cables, switches and wide-area links, all removed afterwards.

Every namespace carries the number of its process in its name, so that labs run side by side, and so that a lab
can remove the namespaces of a dead process. A socket stays in the namespace in which it was made: one process,
and one loop, may hold sockets of many hosts.
"""

import ctypes
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import IO

from hopring.daemon.net.shaper import Shape

_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_NAME = re.compile(r"hr(\d+)-\w+")


def why_not() -> str:
    """The reason why there can be no lab on this machine, or an empty text."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    probe = f"hr{os.getpid()}-probe"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode:
        return "this machine makes no network namespaces"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return "" if os.path.exists("/dev/net/tun") else "this machine has no /dev/net/tun"


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Sockets and files that this thread opens in the block belong to the namespace."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        _enter(there)
        yield
    finally:
        _enter(home)
        os.close(home)
        os.close(there)


def die_with_parent() -> None:
    """Has the kernel end this process when its parent ends, however that happens."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Lab:
    """Hosts have short names; `namespace` returns the kernel's name of a host."""

    def __init__(self) -> None:
        self._hosts: list[str] = []
        self._emulators: list[subprocess.Popen[str]] = []
        _sweep_up()

    def __enter__(self) -> "Lab":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    def namespace(host: str) -> str:
        """The kernel's name of a host's namespace."""
        return f"hr{os.getpid()}-{host}"

    def host(self, *names: str, forwarding: bool = False) -> None:
        """Adds hosts with loopback only; a forwarding host is a router."""
        for name in names:
            assert _NAME.fullmatch(self.namespace(name)), "a name has letters and digits only"
            _run("ip", "netns", "add", self.namespace(name))
            self._hosts.append(name)
            self.ip(name, "link", "set", "lo", "up")
            if forwarding:
                self.exec(name, "sysctl", "-qw", "net.ipv4.ip_forward=1")

    def ip(self, host: str, *arguments: str) -> None:
        """Runs an `ip` command on a host."""
        _run("ip", "-n", self.namespace(host), *arguments)

    def batch(self, host: str, lines: Sequence[str]) -> None:
        """Runs many `ip` commands on a host in one process, so that they take effect nearly at once."""
        command = ["ip", "-n", self.namespace(host), "-batch", "-"]
        text = "".join([f"{line}\n" for line in lines])
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {text}: {done.stderr.strip()}")

    def exec(self, host: str, *arguments: str) -> None:
        """Runs any command on a host."""
        _run("ip", "netns", "exec", self.namespace(host), *arguments)

    def popen(self, host: str, *arguments: str, stdout: IO[str] | int | None = None) -> subprocess.Popen[str]:
        """Starts a command on a host; the caller ends it."""
        command = ["ip", "netns", "exec", self.namespace(host), *arguments]
        # Programs run as users run them, compiled if possible; tests inspect objects, and are interpreted.
        environment = {**os.environ, "HOPRING_PURE": "0"}
        return subprocess.Popen(command, stdout=stdout, text=True, env=environment)

    @contextmanager
    def on(self, host: str) -> Iterator[None]:
        """Sockets and files that are opened in the block belong to the host."""
        with inside(self.namespace(host)):
            yield

    def cable(self, one: tuple[str, str, str], other: tuple[str, str, str], mtu: int = 1500) -> None:
        """Connects two (host, device, address with prefix length) by a cable.

        It carries single packets: a train or a large TCP segment is segmented before it enters, where a real
        network card would do so.
        """
        (host, device, _), (other_host, other_device, _) = one, other
        peer = ["peer", "name", other_device, "netns", self.namespace(other_host)]
        self.ip(host, "link", "add", device, "type", "veth", *peer)
        for host, device, address in (one, other):
            self.ip(host, "link", "set", device, "mtu", str(mtu), "gso_max_segs", "1", "up")
            if address:
                family = ["nodad"] if ":" in address else []
                self.ip(host, "addr", "add", address, "dev", device, *family)

    def switch(self, name: str, ports: dict[str, list[str]]) -> None:
        """Adds a switch, and hosts with an `eth0` on it that has these addresses."""
        self.host(name)
        self.ip(name, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        self.ip(name, "link", "set", "br0", "up")
        for number, (host, addresses) in enumerate(ports.items()):
            self.cable((name, f"p{number}", ""), (host, "eth0", ""))
            self.ip(name, "link", "set", f"p{number}", "master", "br0")
            for address in addresses:
                self.ip(host, "addr", "add", address, "dev", "eth0", *(["nodad"] if ":" in address else []))

    def wan(self, one: tuple[str, str, str], other: tuple[str, str, str], shape: Shape, back: Shape) -> "Wan":
        """Adds a wide-area link between two (host, device, address with prefix length), shaped each way."""
        arguments = [f"{self.namespace(host)}:{device}" for host, device, _ in (one, other)]
        command = [sys.executable, "-m", "tests.netns.wan_emulator", *arguments, repr(shape), repr(back)]
        emulator = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._emulators.append(emulator)
        assert emulator.stdout is not None
        assert emulator.stdout.readline() == "ready\n", "the emulator did not start"
        for host, device, address in (one, other):
            self.ip(host, "addr", "add", address, "dev", device)
            self.ip(host, "link", "set", device, "txqueuelen", "5000", "up")
        return Wan(emulator)

    def limit(self, host: str, device: str, rate_bits_per_second: int, queue_bytes: int) -> None:
        """Limits the output of a device to a rate and a queue."""
        tbf = ["tbf", "rate", f"{rate_bits_per_second}bit", "burst", "5000", "limit", str(queue_bytes)]
        _run("tc", "-n", self.namespace(host), "qdisc", "replace", "dev", device, "root", *tbf)

    def close(self) -> None:
        """Removes everything; a process that still runs on a host keeps its namespace until it ends."""
        for emulator in self._emulators:
            emulator.terminate()
        for emulator in self._emulators:
            emulator.wait(timeout=10)
        for host in self._hosts:
            _run("ip", "netns", "del", self.namespace(host))
        self._hosts.clear()
        self._emulators.clear()


class Wan:
    """An existing wide-area link, whose shape can be changed."""

    def __init__(self, emulator: subprocess.Popen[str]) -> None:
        self._emulator = emulator

    def shape(self, shape: Shape, back: Shape) -> None:
        """Changes how packets are treated; those in flight are not affected."""
        assert self._emulator.stdin is not None
        assert self._emulator.stdout is not None
        self._emulator.stdin.write(f"{shape!r}\t{back!r}\n")
        self._emulator.stdin.flush()
        assert self._emulator.stdout.readline() == "shaped\n", "the emulator has ended"


def _sweep_up() -> None:
    """Deletes the namespaces of labs whose process is dead."""
    for line in subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout.splitlines():
        name = line.split()[0]
        match = _NAME.fullmatch(name)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            # Another lab may be deleting it at the same time.
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _run(*arguments: str) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")
