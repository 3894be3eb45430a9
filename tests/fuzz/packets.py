"""Fuzzes a real cluster with changed real packets: `python -m tests.fuzz.packets --seed N --packets 1000000`.

Five daemons in three sites run as processes, with rings, a Hop link, TCP links and clients; daemons are killed
and started, and the network is partitioned meanwhile. Half of the packets come from an attacker without the
cluster key (`packet_attacker`), the other half from a daemon that has it (`faulty_hopd`), in rounds by turns.

Required    no daemon ends, is silent for 2 s, or grows by 20 MB. All share one view within 20 s of the last
            packet of a round. The traces of daemons and clients are judged (`packet_judge`): an attacker breaks
            nothing, a forgery with a right seal only what is listed there. Enough forgeries are decoded, and
            every bound has refused some packets; otherwise the fuzz would prove little.
"""

import os

os.environ.setdefault("HOPRING_PURE", "1")  # The recorder of clients extends classes of the library.

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz.packet_attacker import PacketAttacker
from tests.fuzz.packet_clients import FuzzedClients
from tests.fuzz.packet_cluster import (
    GROWTH_BYTES_MAX,
    SILENT_SECONDS_MAX,
    TAPPED,
    DaemonWatch,
    FuzzedDaemons,
)
from tests.fuzz.packet_judge import TraceSlices, judge

from hopring.check.properties.property import Verdict
from hopring.local.process import ClusterError

ROUND_PACKETS: Final = 25_000
OUTSIDE_PER_SECOND: Final = 2_500
INSIDE_PER_SECOND: Final = 2_000
ORDER_SECONDS: Final = 0.5
FLOOD_SHARE: Final = 0.4
"""The share of orders with changed copies of earlier packets, which cost the faulty daemon its place in the
view. The others have a few copies that come before the packets of which they are made, and are believed."""

ALONE_SECONDS_MAX: Final = 3.0

TURN_SECONDS: Final = 0.02
FAULT_SECONDS: Final = 4.0
CUT_SECONDS: Final = 1.5
CHURN_SECONDS: Final = 0.15
START_SECONDS_MAX: Final = 60.0
SETTLE_SECONDS_MAX: Final = 20.0
REST_SECONDS_MAX: Final = 20.0
LOOK_SECONDS: Final = 0.1
SHOW_SECONDS: Final = 1.0
DATAGRAMS: Final = "datagrams"
DECODED_SHARE_MIN: Final = 0.6
KIND_SETS: Final = (
    ("Token", "Held", "Hurry", "Data", "Segment"),
    ("Ack", "Nack", "Data"),
    ("Routed", "Unreliable", "Loose"),
    ("Group",),
    ("Group",),
    ("Meta", "Update", "Ping"),
    ("Control",),
    ("Membership A", "Membership J", "Membership N", "Membership R", "Membership X", "Membership L"),
    ("Stream Routed", "Stream Group", "Stream Meta", "Stream Update", "Stream Control", "Stream Unreliable"),
)
"""Kinds of packets that a faulty daemon changes at a time."""

REFUSED_BY: Final = {
    "sockets": (
        *("magic", "version", "cluster", "truncated", "unknown_type", "foreign_sender", "inconsistent"),
        *("limit", "clear_text", "unknown_key", "wrong_seal", "replay"),
    ),
    "engine": ("foreign_sender", "stale_generation", "out_of_window", "inconsistent"),
}
"""The bounds that must have refused something, by layer."""

LONG_PACKETS: Final = 500_000
LONG_REFUSED_BY: Final = {
    "sockets": ("certificate", "tls_handshake", "stale_incarnation"),
    "engine": ("limit",),
    "groups": ("foreign_sender", "limit"),
}
"""Those that only a run of this many packets surely meets."""


class FuzzFailed(Exception):
    """A requirement is not met."""


@dataclass
class RoundResult:
    """What one round has shown."""

    inside: bool
    packets: int
    settle_seconds: float
    events: int = 0
    excused: list[Verdict] = field(default_factory=list)


class PacketFuzz:
    """One run against one cluster."""

    def __init__(self, seed: int, packets: int, directory: Path) -> None:
        self.results: list[RoundResult] = []
        self.lies: Counter[str] = Counter()
        self.lies_refused = 0  # By the sockets.
        self._packets = packets
        self._dice = Random(seed)
        self._begun = time.monotonic()
        self._daemons = FuzzedDaemons(directory)
        self._watch = DaemonWatch(self._daemons)
        self._attacker = PacketAttacker(self._daemons.config, seed)
        self._slices = TraceSlices({name: self._daemons.trace_file(name) for name in self._daemons.names})
        self._clients = FuzzedClients(self._daemons, 0, False)
        self._told: dict[str, dict[str, int]] = {}  # What each faulty daemon has reported since its start.
        self._liar = ""
        self._disturbing = False
        self._shown = 0.0
        self._changing = asyncio.Lock()  # One fault at a time.

    # The run.

    async def run(self) -> None:
        """All rounds; FuzzFailed or an assertion if something is wrong."""
        daemons = self._daemons
        try:
            await asyncio.to_thread(daemons.launch)
            await self._wait(daemons.ready, START_SECONDS_MAX, "the start of the daemons")
            self._attacker = PacketAttacker(daemons.config, self._dice.getrandbits(32))
            self._tap()
            await self._settle(START_SECONDS_MAX)
            self._watch.start()
            rounds = max(2, self._packets // ROUND_PACKETS)
            each = self._packets // rounds
            for number in range(rounds):
                await self._round(inside=number % 2 == 1, packets=each)
            self._check_whole()
        finally:
            if self._watch._thread.is_alive():
                self._watch.stop()
            self._attacker.close()
            await asyncio.to_thread(daemons.discard)

    def _tap(self) -> None:
        for name in TAPPED:
            self._daemons.order(name, tap=True)

    async def _round(self, inside: bool, packets: int) -> None:
        self._clients = FuzzedClients(self._daemons, self._dice.getrandbits(32), private=inside)
        try:
            await self._clients.connect_all()
            await asyncio.sleep(1.0)
            self._watch.warm = True
            refused = self._watch.dropped().get("sockets", Counter()).total()
            self._disturbing = True
            disturbing = asyncio.ensure_future(self._disturb())
            try:
                await (self._lie(packets) if inside else self._attack(packets))
            finally:
                self._disturbing = False
                await disturbing  # A fault is healed in any case.
            result = RoundResult(inside, packets, await self._settle(SETTLE_SECONDS_MAX))
            self.results.append(result)
            if inside:
                self.lies_refused += self._watch.dropped().get("sockets", Counter()).total() - refused
            await self._judge(result)
        finally:
            await self._clients.end()
        if inside:
            await self._cure()
        self._slices.next_piece()
        self._daemons.forget_forged()

    # Packets.

    async def _attack(self, packets: int) -> None:
        goal = self._attacker.sent.total() + packets
        due = time.monotonic()
        while self._attacker.sent.total() < goal:
            for datagram in self._daemons.tapped():
                self._attacker.see(datagram)
            if self._attacker.knows:
                for _ in range(int(OUTSIDE_PER_SECOND * TURN_SECONDS)):
                    self._attacker.send()
            self._check_now()
            due = max(due + TURN_SECONDS, time.monotonic() - 1.0)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _lie(self, packets: int) -> None:
        self._liar = self._dice.choice(TAPPED)
        goal = self.lies.total() + packets
        alone = time.monotonic()
        while (left := goal - self.lies.total()) > 0:
            if self._watch.members_of(self._liar) > 1:
                alone = time.monotonic()
            elif time.monotonic() - alone > ALONE_SECONDS_MAX:
                # The others leave it out for longer and longer; another start is another process to them.
                await self._restart_liar()
                alone = time.monotonic()
            self._daemons.order(self._liar, **self._draw_order(left))
            for _ in range(int(ORDER_SECONDS / LOOK_SECONDS)):
                await asyncio.sleep(LOOK_SECONDS)
                self._daemons.tapped()  # Read, so that the socket does not fill.
                self._daemons.order(self._liar)
                self._count_lies(self._daemons.report())
            self._check_now()
        self._daemons.order(self._liar, lies=0, per_second=0, kinds=[], ahead=0)
        await asyncio.sleep(2 * LOOK_SECONDS)
        self._count_lies(self._daemons.report())

    def _draw_order(self, left: int) -> dict[str, object]:
        """The next order for the faulty daemon: a flood, or a few lies of a member."""
        kinds = self._dice.choice(KIND_SETS)
        if self._dice.random() < FLOOD_SHARE or self._watch.members_of(self._liar) < 2:
            count = min(left, int(INSIDE_PER_SECOND * ORDER_SECONDS))
            return {"lies": count, "per_second": INSIDE_PER_SECOND, "kinds": kinds, "ahead": 0.1}
        count = min(left, self._dice.choice((1, 2, 5, 20)))
        return {"lies": count, "per_second": 0, "kinds": kinds, "ahead": self._dice.choice((0.03, 0.3, 1.0))}

    async def _restart_liar(self) -> None:
        async with self._changing:
            if self._liar in self._daemons.processes:
                await asyncio.to_thread(self._daemons.crash, self._liar)
                await self._start(self._liar)

    def _count_lies(self, report: dict[str, object] | None) -> None:
        if report is None:
            return
        sent = report["sent"]
        assert isinstance(sent, dict), "counts by kind"
        before = self._told.get(str(report["start"]), {})
        self._told[str(report["start"])] = sent
        self.lies.update(
            {kind: count - before.get(kind, 0) for kind, count in sent.items() if kind != DATAGRAMS}
        )

    # Faults.

    async def _disturb(self) -> None:
        """Joins and leaves all the time; kills and partitions now and then."""
        last = time.monotonic()
        while self._disturbing:
            await asyncio.sleep(CHURN_SECONDS)
            await self._clients.churn()
            if self._disturbing and time.monotonic() - last > FAULT_SECONDS:
                await self._fault()
                last = time.monotonic()

    async def _fault(self) -> None:
        async with self._changing:
            await self._fault_alone()

    async def _fault_alone(self) -> None:
        daemons = self._daemons
        if self._dice.random() < 0.5:
            sides = self._dice.choice([["eu"], ["us"], ["ap"], ["eu2"], ["us1"], ["eu1", "us1"]])
            await asyncio.to_thread(daemons.partition, [sides])
            await asyncio.sleep(CUT_SECONDS)
            await asyncio.to_thread(daemons.partition, [])
            return
        name = self._dice.choice([one for one in daemons.names if one != "ap1"])
        await asyncio.to_thread(daemons.crash, name)
        await asyncio.sleep(self._dice.choice((0.1, 1.0)))
        await self._start(name)

    async def _start(self, name: str) -> None:
        await asyncio.to_thread(self._daemons.start, name)
        await self._wait(lambda: self._daemons.back(name), START_SECONDS_MAX, f"the start of {name}")
        self._tap()
        await self._clients.connect(name)

    async def _cure(self) -> None:
        """Starts the faulty daemon again, as an operator would: the new view forgets forged group messages."""
        await asyncio.to_thread(self._daemons.crash, self._liar)
        await asyncio.to_thread(self._daemons.start, self._liar)
        await self._wait(
            lambda: self._daemons.back(self._liar), START_SECONDS_MAX, f"the start of {self._liar}"
        )
        self._tap()
        await self._settle(START_SECONDS_MAX)

    # Checks.

    async def _wait(self, condition: Callable[[], bool], seconds_max: float, what: str) -> None:
        end = time.monotonic() + seconds_max
        while not await asyncio.to_thread(condition):
            if time.monotonic() > end:
                raise FuzzFailed(f"waited {seconds_max:g} s for {what}")
            await asyncio.sleep(LOOK_SECONDS)

    async def _settle(self, seconds_max: float) -> float:
        """Waits until all daemons share one view; returns the time that it took."""
        seen: dict[str, str] = {}
        begun = time.monotonic()
        while not await asyncio.to_thread(self._daemons.settled, seen.__setitem__):
            if time.monotonic() - begun > seconds_max:
                views = "".join([f"\n  {name}: {view}" for name, view in sorted(seen.items())])
                raise FuzzFailed(f"no common view {seconds_max:g} s after the last packet:{views}")
            self._check_now()
            await asyncio.sleep(LOOK_SECONDS)
        return time.monotonic() - begun

    async def _judge(self, result: RoundResult) -> None:
        """Waits until everything that was sent has arrived, and no property is broken that must hold."""
        await self._clients.stop_sending()
        end = time.monotonic() + REST_SECONDS_MAX
        while True:
            await asyncio.sleep(1.0)
            living = sorted(self._daemons.processes)
            daemons = self._slices.history(living)
            clients = self._clients.history(daemons)
            forged = self._daemons.forged() if result.inside else None
            wrong, result.excused = judge(daemons, clients, living, forged)
            spoiled = [one.spoiled for one in self._clients.all if one.spoiled]
            if spoiled and not result.inside:
                raise FuzzFailed(f"a client got what nobody sent: {spoiled[0]}")
            if not wrong:
                result.events = len(daemons) + len(clients)
                return
            if time.monotonic() > end:
                told = "".join([f"\n  {one.property}: {one.witness}" for one in wrong])
                raise FuzzFailed(f"broken in a round {_whose(result.inside)}:{told}")

    def _check_now(self) -> None:
        """Fails as soon as a daemon has ended, was silent or has grown."""
        try:
            self._daemons.check()
        except ClusterError as error:
            raise FuzzFailed(str(error)) from None
        if self._watch.failures:
            raise FuzzFailed(self._watch.failures[0])
        for one in list(self._watch.seen.values()):
            if one.silent_seconds >= SILENT_SECONDS_MAX:
                raise FuzzFailed(f"{one.name} was silent for {one.silent_seconds:.1f} s")
            if one.grown_bytes >= GROWTH_BYTES_MAX:
                raise FuzzFailed(f"{one.name} has grown by {one.grown_bytes / 2**20:.1f} MB")
        self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown < SHOW_SECONDS:
            return
        self._shown = now
        sent = self._attacker.sent.total() + self.lies.total()
        grown = max([one.grown_bytes for one in list(self._watch.seen.values())], default=0)
        silent = max([one.silent_seconds for one in list(self._watch.seen.values())], default=0.0)
        views = sum([one.views for one in list(self._watch.seen.values())])
        print(
            f"\r{now - self._begun:5.0f} s, {sent} packets of {self._packets}, {self.lies.total()} sealed, "
            f"{views} views, memory {grown / 2**20:+.1f} MB, silent {silent:.1f} s at most ",
            end="",
            file=sys.stderr,
            flush=True,
        )

    def _check_whole(self) -> None:
        dropped = self._watch.dropped()
        wanted = [*REFUSED_BY.items(), *(LONG_REFUSED_BY.items() if self._packets >= LONG_PACKETS else ())]
        for layer, reasons in wanted:
            missing = [reason for reason in reasons if not dropped.get(layer, Counter())[reason]]
            if missing:
                raise FuzzFailed(f"the {layer} refused nothing because of: {', '.join(missing)}")
        if self.decoded_share < DECODED_SHARE_MIN:
            raise FuzzFailed(f"only {self.decoded_share:.0%} of the sealed packets were decoded")

    @property
    def decoded_share(self) -> float:
        """The share of rightly sealed datagrams that the sockets did not refuse."""
        return 1.0 - self.lies_refused / max(1, self._lie_datagrams())

    def _lie_datagrams(self) -> int:
        return sum([sent.get(DATAGRAMS, 0) for sent in self._told.values()])

    def summary(self) -> str:
        """What was sent and what became of it, as text."""
        lines = [f"{time.monotonic() - self._begun:.0f} s"]
        lines.append(_table("sent by the attacker", self._attacker.sent))
        lines.append(_table("sent with a right seal, by what was changed", self.lies))
        lines.append(
            f"sealed datagrams {self._lie_datagrams()}, of which the sockets decoded {self.decoded_share:.0%}"
        )
        for layer, drops in sorted(self._watch.dropped().items()):
            lines.append(_table(f"refused by {layer}", drops))
        lines.append("daemon  pid      memory MB: first, last, most   silent s   views")
        for one in sorted(self._watch.seen.values(), key=lambda one: (one.name, one.pid)):
            sizes = [size / 2**20 for size in (one.first_bytes, one.last_bytes, one.most_bytes)]
            lines.append(
                f"{one.name:7} {one.pid:<8} {sizes[0]:16.1f} {sizes[1]:5.1f} {sizes[2]:5.1f} "
                f"{one.silent_seconds:10.2f} {one.views:7}"
            )
        for result in self.results:
            broken = sorted({one.property for one in result.excused})
            lines.append(
                f"round {_whose(result.inside)}: {result.packets} packets, one view after "
                f"{result.settle_seconds:.1f} s, {result.events} events judged"
                + (f", broken as listed: {'; '.join(broken)}" if broken else "")
            )
        return "\n".join(lines)


def _whose(inside: bool) -> str:
    return "of a faulty daemon" if inside else "of an attacker without the key"


def _table(title: str, counts: Counter[str]) -> str:
    rows = "".join([f"\n  {name:30} {count:9}" for name, count in sorted(counts.items())])
    return f"{title}: {counts.total()}{rows}"


async def fuzz_packets(seed: int, packets: int, directory: Path) -> PacketFuzz:
    """Runs the fuzz; logs and traces are in the directory. FuzzFailed says what is wrong."""
    fuzz = PacketFuzz(seed, packets, directory)
    task = asyncio.ensure_future(fuzz.run())
    # Whoever has no time for the rest still gets the summary.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise FuzzFailed("stopped before all packets were sent; nothing was wrong so far") from None
    finally:
        print(f"\n{fuzz.summary()}", file=sys.stderr)
    return fuzz


def main() -> int:
    """Reads the command line; the exit code is 1 if a requirement is not met."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.packets", description="Fuzzes a cluster with changed real packets."
    )
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where logs and traces stay (default: nowhere)")
    arguments = parser.parse_args()
    directory: Path = arguments.directory or Path(tempfile.mkdtemp(prefix="hop-fuzz-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(fuzz_packets(arguments.seed, arguments.packets, directory))
    except (FuzzFailed, ClusterError) as failed:
        print(f"seed {arguments.seed}: {failed}\nlogs and traces: {directory}", file=sys.stderr)
        return 1
    if arguments.directory is None:
        shutil.rmtree(directory)
    print("every requirement is met", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
