"""The simulated kernel: descriptors, timers, connections, datagrams, disks and the event loop on it."""

import asyncio
import errno
import os
import select
import socket
from collections.abc import Iterator

import pytest

from hopring.daemon.loop.event_loop import Loop
from hopring.sim.deployment.daemons import open_socket
from hopring.sim.deployment.disk import MachineDisk
from hopring.sim.deployment.event_loop import SimEventLoop
from hopring.sim.deployment.kernel import Machine, SimKernel, SimPoller, SimProcess, SimTimer
from hopring.sim.deployment.streams import StreamSocket
from hopring.sim.deployment.udp import UdpSocket
from hopring.sim.engine import SimEngine, generator
from hopring.sim.network import SimNetwork
from hopring.sim.path import Quality
from hopring.system.kernel import kernel as kernel_in_force
from hopring.system.kernel import simulated

DELAY_US = 1_000


class Lab:
    """Two machines with a process on each."""

    def __init__(self) -> None:
        self.engine = SimEngine()
        self.network = SimNetwork(self.engine, 1, Quality(delay_us=DELAY_US))
        self.kernel = SimKernel(self.network, 1, open_socket)
        self.machines = [self._machine(name, f"10.0.0.{at}") for at, name in enumerate("ab", 1)]
        self.one, self.other = (SimProcess(self.kernel, machine, machine.name) for machine in self.machines)

    def _machine(self, name: str, address: str) -> Machine:
        return self.kernel.machine(name, address, MachineDisk(generator(1, name)))

    def run(self, milliseconds: float = 100) -> None:
        self.engine.run_for(int(milliseconds * 1_000))

    def connected(self) -> tuple[StreamSocket, StreamSocket]:
        listener = StreamSocket(self.other, socket.AF_INET)
        listener.bind(("10.0.0.2", 4803))
        listener.listen()
        near = StreamSocket(self.one, socket.AF_INET)
        assert near.connect_ex(("10.0.0.2", 4803)) == errno.EINPROGRESS
        self.run()
        far, address = listener.accept()
        assert address[0] == "10.0.0.1"
        return near, far


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    with simulated(lab.kernel):
        yield lab


def write(lab: Lab, process: SimProcess, path: str, content: bytes, *, sync: bool) -> None:
    with lab.kernel.running(process):
        files = kernel_in_force().files
        file = files.open(path, os.O_WRONLY | os.O_CREAT)
        files.write(file, content)
        if sync:
            files.fsync(file)
            directory = files.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
            files.fsync(directory)
            files.close(directory)
        files.close(file)


def test_bytes_arrive_in_their_order_and_a_full_connection_takes_no_more(lab: Lab) -> None:
    near, far = lab.connected()
    sent = b""
    while near.readiness() & select.EPOLLOUT:
        piece = bytes([len(sent) % 251]) * 1_000
        sent += piece[: near.send(piece)]
    with pytest.raises(BlockingIOError):
        near.send(b"x")
    assert not near.readiness() & select.EPOLLOUT
    assert len(sent) == lab.kernel.stream_bytes

    got = b""
    while len(got) < len(sent):
        lab.run()
        got += far.recv(700)
    assert got == sent
    assert near.readiness() & select.EPOLLOUT
    with pytest.raises(BlockingIOError):
        far.recv(1)


def test_an_end_comes_behind_all_bytes_and_who_writes_to_nobody_is_told(lab: Lab) -> None:
    near, far = lab.connected()
    near.send(b"last words")
    near.close()
    lab.run()
    assert (far.recv(100), far.recv(100)) == (b"last words", b"")

    far.send(b"too late")
    lab.run()
    with pytest.raises(ConnectionResetError):
        far.recv(100)


def test_what_a_killed_process_sent_arrives_and_then_its_end(lab: Lab) -> None:
    near, far = lab.connected()
    near.send(b"x")
    lab.one.kill()
    lab.run()
    assert (far.recv(100), far.recv(100)) == (b"x", b"")


def test_a_machine_without_power_says_nothing(lab: Lab) -> None:
    near, far = lab.connected()
    lab.machines[1].crash()
    near.send(b"x")
    lab.run(1_000)
    with pytest.raises(BlockingIOError):
        near.recv(1)
    assert far.process.alive is False


def test_bytes_wait_for_the_end_of_a_cut(lab: Lab) -> None:
    near, far = lab.connected()
    lab.network.cut_both("a", "b")
    near.send(b"x")
    lab.run(1_000)
    with pytest.raises(BlockingIOError):
        far.recv(1)
    lab.network.heal()
    lab.run(4_000)
    assert far.recv(1) == b"x"


def test_a_connection_to_nobody_is_refused_and_one_to_nowhere_fails_at_once(lab: Lab) -> None:
    near = StreamSocket(lab.one, socket.AF_INET)
    near.connect_ex(("10.0.0.2", 9))
    lab.run()
    assert near.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    assert StreamSocket(lab.one, socket.AF_INET).connect_ex(("10.9.9.9", 9)) == errno.EHOSTUNREACH


def test_a_train_leaves_as_its_datagrams(lab: Lab) -> None:
    near, far = UdpSocket(lab.one, socket.AF_INET), UdpSocket(lab.other, socket.AF_INET)
    near.bind(("10.0.0.1", 4892))
    far.bind(("10.0.0.2", 4892))
    near.sendmsg([b"aaabbbc"], [(17, 103, (3).to_bytes(2, "little"))], 0, ("10.0.0.2", 4892))
    lab.run()

    buffer = memoryview(bytearray(100))
    got = []
    while far.readiness() & select.EPOLLIN:
        size, _, _, source = far.recvmsg_into([buffer], 100)
        got.append(bytes(buffer[:size]))
        assert source == ("10.0.0.1", 4892)
    assert got == [b"aaa", b"bbb", b"c"]
    with pytest.raises(OSError, match="in use"):
        UdpSocket(lab.other, socket.AF_INET).bind(("10.0.0.2", 4892))


def test_a_process_runs_when_its_timer_rings_and_not_while_its_machine_is_paused(lab: Lab) -> None:
    poller, timer = SimPoller(lab.one), SimTimer(lab.one)
    poller.register(timer.fileno(), select.EPOLLIN | select.EPOLLET)
    ran: list[int] = []

    def step() -> bool:
        ran.extend([lab.engine.now_us] * len(poller.poll(0, 8)))
        return False

    lab.one.step = step
    timer.set(5_000)
    lab.run(10)
    assert ran == [5_000]
    timer.set(15_000)
    lab.network.pause("a", 20_000)
    lab.run(40)
    assert ran == [5_000, 30_000]


def test_a_loop_within_another_one_was_asleep_and_not_stopped(lab: Lab) -> None:
    """It once counted the sleep of the loop around it as a stop of the process."""
    told: list[int] = []
    rang: list[int] = []
    loops: list[Loop] = []

    def start() -> bool:
        loop = Loop()
        loop.on_stall.append(told.append)
        loop.alarm(lambda: rang.append(lab.engine.now_us)).set(1_000_000)
        loop.alarm(lambda: rang.append(lab.engine.now_us)).set(3_000_000)
        loops.append(loop)
        lab.one.step = loop.serve
        return True

    lab.one.step = start
    lab.one.wake()
    lab.run(2_000)
    assert len(rang) == 1
    assert told == []

    lab.network.pause("a", 1_500_000)
    lab.run(2_000)
    assert len(rang) == 2
    assert [for_us >= 400_000 for for_us in told] == [True]


def test_a_loss_of_power_takes_what_was_not_synced(lab: Lab) -> None:
    kept = 0
    for number in range(20):
        machine = lab.kernel.machine(f"c{number}", f"10.1.0.{number}", MachineDisk(generator(number, "disk")))
        process = SimProcess(lab.kernel, machine, "writer")
        with lab.kernel.running(process):
            kernel_in_force().files.mkdir("/d")
        write(lab, process, "/d/synced", b"synced", sync=True)
        write(lab, process, "/d/new", b"0123456789", sync=False)
        write(lab, process, "/d/synced", b"synced and more", sync=False)
        machine.crash()
        assert machine.disk.content_of("/d/synced").startswith(b"synced")
        assert b"0123456789".startswith(machine.disk.content_of("/d/new"))
        kept += machine.disk.content_of("/d/new") == b"0123456789"
    assert kept < 20


def test_a_full_disk_and_one_that_fails_say_so(lab: Lab) -> None:
    disk = lab.machines[0].disk
    disk.full = True
    with pytest.raises(OSError, match="No space"):
        write(lab, lab.one, "/x", b"x", sync=False)
    disk.full, disk.fails = False, True
    with pytest.raises(OSError, match="Input/output"):
        write(lab, lab.one, "/x", b"x", sync=True)


def test_tasks_and_timers_of_asyncio_run_in_virtual_time(lab: Lab) -> None:
    loop = SimEventLoop(lab.one)
    told: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        told.append((name, asyncio.get_running_loop().time()))

    async def both() -> None:
        await asyncio.gather(sleeper("late", 3.0), sleeper("early", 1.0))
        raise RuntimeError("nobody waits for this")

    with lab.kernel.running(lab.one):
        task = loop.create_task(both())
    lab.run(5_000)
    assert [name for name, _ in told] == ["early", "late"]
    assert told[1][1] == pytest.approx(3.0, abs=0.001)
    assert isinstance(task.exception(), RuntimeError)
