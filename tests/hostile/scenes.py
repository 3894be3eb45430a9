"""The scenes of hostile input: daemons on real sockets in this process, and daemons as processes.

Every scene is made with a planted bug or without: attacks are the same functions in both cases.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.hopd.granted_daemon import GrantedDaemon, granted_daemon
from tests.hostile.hopd_with_bug import BUG_VARIABLE, RUNS_VARIABLE
from tests.support.free_ports import free_base_port
from tests.support.keys import DAYS
from tests.unit.daemon.membership_hosts import Watched, patient
from tests.unit.daemon.waiting import run_until

from hopring.config import Config, LinkProtocol, SecurityTuning, cluster_hash, dump_toml, local_config
from hopring.credentials.daemon_tls import DaemonTls, load_daemon_tls
from hopring.credentials.directory import KeyDirectory
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.udp import Address, UdpEndpoint
from hopring.errors import Drop
from hopring.ids import Generation, Incarnation, Process
from hopring.links.events import Tick
from hopring.membership.membership import Membership
from hopring.membership.messages import DaemonMessage, encode_membership_message
from hopring.sealing.keys import ClusterKey, KeyRing
from hopring.sealing.packet import SealedHead, decode_head
from hopring.sealing.sealing import Sealing
from hopring.services import Service
from hopring.stack import Stack
from hopring.stack_events import Input as StackInput
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.train import MEMBERSHIP_DATAGRAM_BYTES_MAX, MembershipFrame, Train, encode

KEY, OTHER_KEY = ClusterKey(b"1" * 32), ClusterKey(b"2" * 32)
KEYS = KeyRing([KEY], KEY.id)
FENCE = b"?"  # Too short for a datagram of anybody: its count shows that all before it were read.
HOPD = "tests.hostile.hopd_with_bug"


class Wire:
    """The path to one daemon: the others send to this socket, and it passes their packets on.

    So an attacker sits on the path: it reads every packet, may hold packets back, and sends its own.
    """

    def __init__(self, loop: Loop, to: Address) -> None:
        self.seen: list[Train] = []
        self.held: list[Train] = []
        self.holds = False
        self.holds_from: Callable[[Train], bool] = lambda _train: False
        """Holds everything back from the first packet on for which it is true."""
        self._to = to
        self._endpoint = UdpEndpoint(loop, ("127.0.0.1", 0), self._receive)
        self.address = self._endpoint.address

    def datagrams(self) -> list[bytes]:
        """All datagrams that were seen so far, one by one."""
        return [bytes(one) for train in self.seen for one in train.datagrams()]

    def send(self, train: Train) -> None:
        """Sends to the daemon, from the attacker's own address."""
        self._endpoint.send(train, self._to)

    def release(self, singly: bool = False) -> None:
        """Passes on what was held; `singly`: every datagram of a train by itself."""
        self.holds, self.holds_from = False, lambda _train: False
        held, self.held = self.held, []
        for train in held:
            for one in [Train(bytes(one), len(one)) for one in train.datagrams()] if singly else [train]:
                self.send(one)

    def close(self) -> None:
        self._endpoint.close()

    def _receive(self, buffer: memoryview, segment_bytes: int, _address: Address) -> None:
        train = Train(bytes(buffer), segment_bytes)
        self.seen.append(train)
        self.holds = self.holds or self.holds_from(train)
        if self.holds:
            self.held.append(train)
        else:
            self.send(train)


class AttackedCluster:
    """Daemons on real sockets in one loop, each behind a wire of the attacker."""

    def __init__(self, config: Config, keys: KeyRing | None, tls: dict[str, DaemonTls]) -> None:
        self.loop = Loop()
        self.config = config
        self.hash = cluster_hash(config)
        self.daemons: dict[str, Watched] = {}
        self._keys = keys
        self._tls = tls
        self._starts = 0
        self.wires = {one.name: Wire(self.loop, (one.address, one.port)) for one in config.daemons}

    def close(self) -> None:
        for one in self.daemons.values():
            one.member.close()
        for wire in self.wires.values():
            wire.close()
        self.loop.close()

    def start(self, *names: str) -> None:
        """Starts daemons, each time with another incarnation."""
        for name in names:
            self._starts += 1
            made = Watched(
                self.loop, self.config, name, self._keys, Incarnation(1_000 + self._starts), self._tls.get(name)
            )
            sockets = made.member.sockets
            if sockets._streams is not None:
                sockets._streams._addresses = dict(sockets._streams._addresses)  # The wire has datagrams only.
            addresses = sockets.datagrams.addresses
            for other, wire in self.wires.items():
                if other != name:
                    addresses[self.config.daemon_id(other)] = wire.address
            self.daemons[name] = made

    def stop(self, name: str) -> None:
        """A daemon leaves and ends; the others hear of it at once."""
        gone = self.daemons.pop(name)
        gone.member.leave()
        gone.member.close()

    def together(self, *names: str) -> None:
        """Waits until these daemons are in one whole view of their own."""

        def whole(name: str) -> bool:
            return self.membership(name).state().settled and self.daemons[name].size() == len(names)

        run_until(self.loop, lambda: all(whole(name) for name in names))

    def say(self, name: str, payload: bytes) -> None:
        """A daemon sends a message, and all daemons that run deliver it, once."""
        self.daemons[name].member.submit(Service.AGREED, payload)
        run_until(self.loop, lambda: all(payload in one.payloads() for one in self.daemons.values()))
        assert [one.payloads().count(payload) for one in self.daemons.values()] == [1] * len(self.daemons)

    # What one daemon has.

    def process(self, name: str) -> Process:
        return self.membership(name).local.me

    def membership(self, name: str) -> Membership:
        return self.daemons[name].member.membership

    def stack(self, name: str) -> Stack:
        stack = self.membership(name).stack
        assert stack is not None, "it is in a network"
        return stack

    def sealing(self, name: str) -> Sealing:
        sealing = self.daemons[name].member.sockets.datagrams.sealing
        assert sealing is not None, "it has keys"
        return sealing

    def dropped(self, name: str) -> Counter[Drop]:
        """What its sockets have refused."""
        return Counter(self.daemons[name].member.socket_report().decoding.dropped)

    def head(self, datagram: bytes) -> SealedHead:
        return decode_head(datagram, self.hash)

    # The attacker.

    def attack(self, name: str, datagrams: Sequence[bytes]) -> Counter[Drop]:
        """Sends datagrams to a daemon; what its sockets refused when it has read all of them."""
        before = self.dropped(name)
        for datagram in (*datagrams, FENCE):
            self.wires[name].send(Train(datagram, len(datagram)))
        run_until(self.loop, lambda: self.dropped(name)[Drop.TRUNCATED] > before[Drop.TRUNCATED])
        return self.dropped(name) - before - Counter({Drop.TRUNCATED: 1})

    def in_clear(self, sender: Process, message: DaemonMessage) -> bytes:
        """A message of membership in the name of a process, without encryption."""
        header = Header(Family.MEMBERSHIP, self.hash, sender.daemon, sender.incarnation, Generation(0))
        frames = (MembershipFrame(encode_membership_message(message)),)
        (train,) = encode(encode_header(header), frames, MEMBERSHIP_DATAGRAM_BYTES_MAX)
        return train.buffer

    def lie(self, name: str, event: StackInput) -> None:
        """A daemon's stack sends something that the layer above never would."""
        self.membership(name)._step_stack(event, self.loop.now_us())
        self.tick(name)

    def tick(self, name: str) -> None:
        """Lets a daemon send what waits for the end of a step."""
        self.daemons[name].member._driver.give(Tick())

    def turns(self, count: int) -> None:
        """Turns the loop without waiting for anything."""
        for _ in range(count):
            self.loop.call_soon(lambda: None)
            self.loop.turn()


class Scenes:
    """Makes scenes for attacks; daemons with a planted bug if one is named."""

    def __init__(self, directory: Path, bug: str = "") -> None:
        self.directory = directory
        self._bug = bug
        self._runs = directory / "runs"
        self._made = 0
        self._stack = ExitStack()
        self._granted: GrantedDaemon | None = None

    def __enter__(self) -> "Scenes":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def place(self) -> Path:
        """A new directory."""
        self._made += 1
        place = self.directory / str(self._made)
        place.mkdir()
        return place

    @property
    def environment(self) -> dict[str, str]:
        """The environment of daemons as processes, which says the bug to plant."""
        planted = {BUG_VARIABLE: self._bug, RUNS_VARIABLE: str(self._runs), "HOPRING_PURE": "1"}
        return {**os.environ, **(planted if self._bug else {})}

    @property
    def runs_elsewhere(self) -> int:
        """How often the bug ran in the daemon that was a process of its own and ended last."""
        return int(self._runs.read_text()) if self._runs.exists() else 0

    @contextmanager
    def cluster(
        self,
        sites: dict[str, int],
        *,
        sealed: bool = True,
        protocol: LinkProtocol = LinkProtocol.HOP,
        tls: dict[str, DaemonTls] | None = None,
    ) -> Iterator[AttackedCluster]:
        """Daemons in this process, none of them started."""
        config = patient(
            local_config(sites, base_port=free_base_port(2 * sum(sites.values())), protocol=protocol)
        )
        made = AttackedCluster(config, KEYS if sealed else None, tls or {})
        try:
            yield made
        finally:
            made.close()

    @contextmanager
    def whole(self, sites: dict[str, int], **options: Any) -> Iterator[AttackedCluster]:
        """Daemons in this process, all started and in one view."""
        with self.cluster(sites, **options) as cluster:
            names = [one.name for one in cluster.config.daemons]
            cluster.start(*names)
            cluster.together(*names)
            yield cluster

    @property
    def granted(self) -> GrantedDaemon:
        """One daemon as a process with users and grants, the same for all attacks."""
        if self._granted is None:
            self._granted = self._stack.enter_context(
                granted_daemon(self.place(), module=HOPD, environment=self.environment)
            )
        return self._granted

    def certificates(self, *names: str) -> dict[str, DaemonTls]:
        """Certificates of one authority for these daemons."""
        directory = KeyDirectory(self.place() / "keys")
        now = datetime.now(UTC)
        directory.create("local", list(names), now, DAYS, DAYS)
        return {name: load_daemon_tls(directory.root, "local", name, now) for name in names}

    def keyed_config(self, directory: Path) -> Config:
        """A configuration of one daemon whose keys are in the directory."""
        return replace(
            local_config({"eu": 1}, base_port=free_base_port(2)), security=SecurityTuning(str(directory))
        )

    def start_and_end(self, config: Config) -> subprocess.CompletedProcess[str]:
        """Starts a daemon that ends at once if it starts at all."""
        place = self.place()
        file = place / "hop.toml"
        file.write_text(dump_toml(config))
        words = [sys.executable, "-m", HOPD, str(file), "--name", "eu1", "--state", str(place)]
        return subprocess.run(
            [*words, "--end-with-stdin"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env=self.environment,
        )
