"""Real daemons of two sites in one process, for tests of the membership's driver."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tests.support.free_ports import free_base_port

from hopring.config import Config, LinkProtocol, LinkTuning, RingTuning, local_config
from hopring.credentials.daemon_tls import DaemonTls
from hopring.daemon.engines.membership_host import MembershipHost
from hopring.daemon.loop.event_loop import Loop
from hopring.engine import Delivered, EngineOutput, Installed
from hopring.ids import Incarnation, Process
from hopring.sealing.keys import KeyRing

# Tests judge deliveries on any machine: no daemon is declared dead for being slow.
PATIENT_RING = RingTuning(token_loss_us=10_000_000)


PATIENT_LINK = LinkTuning(silence_us=10_000_000)


def patient(config: Config) -> Config:
    sites = tuple(replace(site, ring=PATIENT_RING) for site in config.sites)
    links = tuple(replace(link, tuning=PATIENT_LINK) for link in config.links)
    return replace(config, sites=sites, links=links)


class Watched:
    """A member, and the events that its two callbacks received."""

    def __init__(
        self,
        loop: Loop,
        config: Config,
        name: str,
        keys: KeyRing | None = None,
        incarnation: Incarnation | None = None,
        tls: DaemonTls | None = None,
    ) -> None:
        self.noted: list[EngineOutput] = []
        self.got: list[EngineOutput] = []
        self.counters: list[int] = []
        self.answering = False
        number = config.daemon_id(name)
        me = Process(number, Incarnation(1_000 + number) if incarnation is None else incarnation)
        self.member = MembershipHost(
            loop,
            config,
            me,
            self.take,
            counter=5,
            note=self.note,
            reached=self.counters.append,
            keys=keys,
            tls=tls,
        )

    def note(self, events: Sequence[EngineOutput]) -> None:
        self.noted += events

    def take(self, events: Sequence[EngineOutput]) -> None:
        assert self.noted[len(self.got) :][: len(events)] == list(events), (
            "the trace callback comes first, in the same order"
        )
        self.got += events
        for event in events:
            if self.answering and isinstance(event, Delivered) and event.message.payload[:4] == b"ping":
                self.member.submit(event.message.service, b"pong" + event.message.payload[4:])

    def payloads(self) -> list[bytes]:
        return [bytes(event.message.payload) for event in self.got if isinstance(event, Delivered)]

    def installed(self) -> int:
        return sum(isinstance(event, Installed) for event in self.got)

    def size(self) -> int:
        return [len(event.members) for event in self.got if isinstance(event, Installed)][-1] if self.got else 0


def two_sites(protocol: LinkProtocol = LinkProtocol.HOP) -> Config:
    sites, links = {"eu": 2, "us": 2}, {("eu", "us"): "5ms"}
    return patient(local_config(sites, links, base_port=free_base_port(8), protocol=protocol))


@contextmanager
def members_of(loop: Loop, config: Config) -> Iterator[dict[str, Watched]]:
    members = {daemon.name: Watched(loop, config, daemon.name) for daemon in config.daemons}
    try:
        yield members
    finally:
        for one in members.values():
            one.member.close()
