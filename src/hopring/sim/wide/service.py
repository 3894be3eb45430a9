"""Clusters with members of the long-haul service, clients and connections, as one simulated world."""

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from hopring.check.durable_log import DiskEmptied, DurableLogEvent
from hopring.check.wide.history import (
    WideDropped,
    WideEvent,
    WideFrameSent,
    WideLimitSeen,
    WideLogEvent,
    WideLogged,
    WideRefused,
    WideRest,
    WideWaiting,
)
from hopring.haul.entries import Answer
from hopring.haul.ids import ClusterId, ClusterMask, ParcelId, clusters_mask, without
from hopring.haul.link.frames import Bye, LinkFrame, Refuse
from hopring.haul.member import MemberOptions
from hopring.haul.member_events import ConnectionId, CopySeen, HandOver, RepresentativesChanged
from hopring.haul.order.events import Parcel
from hopring.haul.stored.names import directory_of
from hopring.sim.engine import SimEngine, generator
from hopring.sim.wide.calling import SimCall
from hopring.sim.wide.clients import SimWideClient, nothing
from hopring.sim.wide.disks import SimMemberDisk
from hopring.sim.wide.lan import SimLan
from hopring.sim.wide.processes import SimMemberProcess, founded
from hopring.sim.wide.streams import SimStreams, StreamEnd

EVENTS_MAX: Final = 2_000_000
EXPECTED: Final = (
    "the other end is silent",
    "the window is over",
    "the link is off",
    "the link to cluster",
    "the link is off,",
    "this member does not serve",
    "there is a later connection",
    "a later connection",
    "both ends have dialled",
    *[f"cluster {number} knows less than" for number in range(1, 6)],
)
"""The beginnings of the reasons for which correct members end connections."""

COPY_US: Final = (200, 2_000)


class SimServiceCluster:
    """One cluster: its LAN, the members of the service, their disks, and the clients."""

    def __init__(self, world: "SimService", me: ClusterId, members: int, options: MemberOptions) -> None:
        self.world = world
        self.me = me
        self.peers = without(world.every, me)
        self.options = options
        self.names = tuple([f"c{me}m{number}" for number in range(1, members + 1)])
        self.dice = generator(world.seed, f"cluster {me}")
        self.lan = SimLan(world.engine, generator(world.seed, f"lan {me}"))
        self.lan.when_changed = self.look_at_groups
        self.processes: dict[str, SimMemberProcess] = {}
        self.clients: dict[str, SimWideClient] = {}  # By host; those that run.
        self.accepted_at: dict[tuple[str, int], int] = {}  # The index of each operation.
        self.switched: dict[ClusterId, tuple[str, int]] = {}  # The last request for each link.
        self.highest: Counter[str] = Counter()
        self.sources: dict[str, str] = {}  # Files on hosts of clients that have been sent: the message of each.
        self.calls: dict[str, dict[str, SimCall]] = {}  # What hosts have noted of their clients' calls.
        self._disks = {name: SimMemberDisk() for name in self.names}
        self._lives = 0
        self._copy_us = 0  # When the last multicast in a local group arrives.
        self._logged: set[tuple[str, ParcelId]] = set()
        self._dropped: set[tuple[str, ParcelId]] = set()

    def found(self) -> None:
        """The log of the members was begun before."""
        for name, disk in self._disks.items():
            disk.sync(founded(name, self.names))

    def skew_of(self, life: int) -> int:
        """How far the clock of one life of a member is ahead of the world's: it counts from any time."""
        dice = generator(self.world.seed, f"clock {self.me} {life}")
        return dice.choice([0, 0, 3_600_000_000, 86_400_000_000]) + dice.randrange(1_000_000)

    # Processes.

    def start(self, name: str) -> None:
        """Starts a member that does not run."""
        if name not in self.processes:
            self._lives += 1
            process = SimMemberProcess(self, name, self._lives, self._disks[name])
            self.processes[name] = process
            self.lan.join(process)

    def crash(self, name: str) -> None:
        """Ends the process of a member."""
        process = self.processes.pop(name, None)
        if process is not None:
            process.end()
            self.lan.leave(name)

    def lose_session(self, name: str) -> None:
        """A member's daemon is gone for a moment; the process goes on with another session."""
        process = self.processes.get(name)
        if process is not None:
            self.lan.leave(name)
            process.lose_session()
            self.lan.join(process)

    def lose_disk(self, name: str) -> None:
        """A member's disk is lost, with its process, if the others have their whole log."""
        others = [one for one in self._disks if one != name]
        if others and all(self._disks[one].image.votes for one in others) and self._have_files(name, others):
            self.crash(name)
            self._disks[name] = SimMemberDisk()
            self.note_log(DiskEmptied(self.world.engine.now_us, name))

    def _have_files(self, name: str, others: list[str]) -> bool:
        """Whether others have what one disk has beside the log, or in theirs."""
        mine, theirs = self._disks[name], [self._disks[one] for one in others]
        cores = [process.core for process in self.processes.values() if process.host in others]
        bodies = all(
            any(key in disk.bodies for disk in theirs)
            or any(key[0] in core.app.sets and core.keeping.has_body(*key) for core in cores)
            for key in mine.bodies
        )
        return bodies and all(
            any(len(disk.files.get(key, b"")) >= len(content) for disk in theirs)
            for key, content in mine.files.items()
        )

    def crash_all(self) -> None:
        """Ends all members at one moment."""
        processes, self.processes = self.processes, {}
        for process in processes.values():
            process.end()
        self.lan.leave_all(list(processes))

    def split(self, sides: dict[str, int]) -> None:
        """The LAN falls apart, or comes together."""
        self.lan.split(sides)
        for client in list(self.clients.values()):
            client.regrouped()

    def start_client(self, host: str) -> None:
        """Starts a client process on a host where none runs."""
        if host not in self.clients:
            self._lives += 1
            client = self.clients[host] = SimWideClient(self, f"{host}.{self._lives}", host)
            if self.world.durable and host.endswith("k1"):
                client.durable = host
            for name, clusters in self.world.sets.items():
                if clusters >> (self.me - 1) & 1:
                    client.join(name, clusters)
            client.calls.resume()
            self.look_at_groups()

    def crash_client(self, host: str) -> None:
        """Ends the client process of a host."""
        client = self.clients.pop(host, None)
        if client is not None:
            client.runs = False
            self.look_at_groups()

    def look_at_groups(self) -> None:
        """Members see which local groups have members on their side."""
        for process in list(self.processes.values()):
            present = any(self.lan.together(process.host, host) for host in self.clients)
            for name in self.world.sets:
                process.step(RepresentativesChanged(name, present))

    # What members do.

    def hand_over(self, process: SimMemberProcess, hand: HandOver) -> None:
        """A multicast in the local group of a set, which its sender sees, too."""
        engine = self.world.engine
        self._copy_us = max(self._copy_us, engine.now_us + self.dice.randint(*COPY_US))
        engine.at(self._copy_us, self._deliver, process, hand)

    def _deliver(self, process: SimMemberProcess, hand: HandOver) -> None:
        if not process.runs:
            return
        there = [one for host, one in self.clients.items() if self.lan.together(process.host, host)]
        for client in there:
            client.take(hand, self._read(process, hand))
        process.step(CopySeen(hand.set, hand.item.number, bool(there)))

    @staticmethod
    def _read(process: SimMemberProcess, hand: HandOver) -> tuple[str, str] | None:
        """Path and digest of the file of an item, as the local group finds it."""
        if hand.item.parcel is None or hand.item.file is None:
            return None
        path = f"{directory_of(hand.set)}/{hand.item.file.place}"
        content = process.disk.placed.get(path)
        return path, "" if content is None else sha256(content).hexdigest()

    def answer(self, process: SimMemberProcess, client: str, number: int, answer: Answer) -> None:
        """An answer to a client's private group."""
        self.world.engine.after(self.dice.randint(*COPY_US), self._answer, process.host, client, number, answer)

    def _answer(self, source: str, name: str, number: int, answer: Answer) -> None:
        for host, client in self.clients.items():
            if client.name == name and self.lan.together(source, host):
                client.answered(number, answer)

    # The history.

    def note(self, event: WideEvent) -> None:
        """Adds an event to the history."""
        self.world.note(event)

    def note_log(self, event: DurableLogEvent) -> None:
        """Adds an event of the members' log."""
        self.note(WideLogEvent(self.me, self.names, event))

    def note_logged(self, name: str, parcel: ParcelId) -> None:
        """The accepted log has a parcel."""
        if (name, parcel) not in self._logged:
            self._logged.add((name, parcel))
            self.note(WideLogged(self.me, name, parcel))

    def note_dropped(self, name: str, parcel: ParcelId) -> None:
        """A member has dropped a body."""
        if (name, parcel) not in self._dropped:
            self._dropped.add((name, parcel))
            self.note(WideDropped(self.me, name, parcel))

    def note_frame(self, process: SimMemberProcess, connection: ConnectionId, frame: LinkFrame) -> None:
        """A member sends a frame of a channel, or a sign of life."""
        known = process.core.links.connections.get(connection)
        if known is None or not known.peer or isinstance(frame, Bye | Refuse):
            return
        in_window = known.dialer != self.me or self.world.in_window(self.me, known.peer)
        self.note(WideFrameSent(self.me, known.peer, process.host, in_window, type(frame).__name__))

    def note_end_of(self, reason: str) -> None:
        """A member ends a connection; what a correct peer does is no reason."""
        self.world.reasons[reason] += 1
        if not reason.startswith(EXPECTED):
            self.note(WideRefused(self.me, reason))

    def note_limits(self, process: SimMemberProcess) -> None:
        """Keeps the highest values of what has a limit."""
        for managed in process.core.app.sets.values():
            self._highest("bytes for the group", managed.line_bytes)
            for peer in managed.channels:
                self._highest("bytes under way to a peer", managed.under_way_to(peer)[0])
        for connection in process.core.links.connections.values():
            for sender in connection.senders.values():
                self._highest("bytes on a connection", sender.under_way_bytes)
            self._highest("bytes of files on a connection", connection.files.under_way_bytes)

    def _highest(self, what: str, value: int) -> None:
        self.highest[what] = max(self.highest[what], value)

    def having(self, client: str, number: int) -> tuple[str, ...]:
        """The members with a request on their disks."""
        index = self.accepted_at.get((client, number), 0)
        return tuple([name for name, disk in self._disks.items() if disk.has(client, number, index)])

    def any_app_of_a_member(self) -> SimMemberProcess | None:
        """A member that serves, if there is one."""
        return next((one for one in self.processes.values() if one.core.serving), None)


class SimService:
    """A world of clusters with the whole service."""

    def __init__(self, seed: int, count: int, delay_us: int, life_us: tuple[int, int]) -> None:
        self.seed = seed
        self.engine = SimEngine(EVENTS_MAX)
        self.history: list[WideEvent] = []
        self.every = clusters_mask([ClusterId(one) for one in range(1, count + 1)])
        self.sets: dict[str, ClusterMask] = {}
        self.clusters: dict[ClusterId, SimServiceCluster] = {}
        self.streams = SimStreams(self.engine, generator(seed, "streams"), delay_us, life_us)
        self.body_bytes = 0
        self.calls: dict[str, str] = {}  # The names of calls, by their messages.
        self.watches_limits = False
        self.durable = False  # Whether the first client of each cluster is a durable consumer.
        self.when_seen: Callable[[SimWideClient, str, Parcel], None] = nothing
        self.in_window: Callable[[ClusterId, ClusterId], bool] = lambda _one, _other: True
        self.reasons: Counter[str] = Counter()  # Why connections ended.
        self.refusals: Counter[str] = Counter()  # Of requests.

    def add(self, me: ClusterId, members: int, options: MemberOptions) -> SimServiceCluster:
        """Makes a cluster; its processes are started later."""
        cluster = self.clusters[me] = SimServiceCluster(self, me, members, options)
        self.streams.access[me] = lambda: _ends(cluster)
        return cluster

    def note(self, event: WideEvent) -> None:
        """Adds an event to the history."""
        self.history.append(event)

    @property
    def writes(self) -> bool:
        """Whether a member has an entry on its way into its log."""
        members = [one for cluster in self.clusters.values() for one in cluster.processes.values()]
        return any(one.core.log.pending for one in members)

    def note_waiting(self) -> None:
        """Notes what waits, at a moment at which all that can move has moved."""
        for cluster in self.clusters.values():
            process = cluster.any_app_of_a_member()
            for managed in process.core.app.sets.values() if process is not None else ():
                waits = tuple(sorted(managed.core.delayed.delayed))
                self.note(WideWaiting(cluster.me, managed.name, waits))

    def note_end(self, limits: dict[str, int]) -> None:
        """Notes at the quiet end what is kept, and the logs."""
        for cluster in self.clusters.values():
            for name, highest in cluster.highest.items():
                self.note(WideLimitSeen(cluster.me, name, highest, limits[name]))
            for process in cluster.processes.values():
                cluster.note_log(process.log_at_end())
                self.note(WideRest(cluster.me, kept_by(process)))
            waiting = sum([len(client.pending) for client in cluster.clients.values()])
            self.note(WideRest(cluster.me, (("requests without an answer", waiting),)))


def kept_by(process: SimMemberProcess) -> tuple[tuple[str, int], ...]:
    """What a member keeps of its sets."""
    sets = process.core.app.sets.values()
    return (
        ("descriptors", sum([one.core.descriptors.size for one in sets])),
        ("delayed parcels", sum([len(one.core.delayed.delayed) for one in sets])),
        ("frames", sum([len(channel.waiting) for one in sets for channel in one.channels.values()])),
        ("items", sum([len(one.line) for one in sets])),
        ("bodies", sum([len(one.kept) for one in sets])),
        ("bodies on disk", len(process.disk.bodies)),
        ("bytes for the group", sum([one.line_bytes for one in sets])),
        ("bytes of files for the group", sum([one.line_files_bytes for one in sets])),
        ("completions", sum([len(one.notify) for one in sets])),
        ("parked parcels", sum([len(one.parked) for one in sets])),
        ("files of the state", sum([len(process.core.app.shelf.files)])),
        ("files on disk", len(process.disk.files)),
    )


def _ends(cluster: SimServiceCluster) -> list[StreamEnd]:
    return list(cluster.processes.values())
