"""DESCBUF, PRECEDES and KNOWN: the descriptors that a cluster has, and those that others have to be told of.

Implements  Makpangou and Birman, 5.2.1 to 5.2.3: descriptors travel with parcels, vectors of missing
            destinations only lose bits, and a descriptor is forgotten when nobody is missing any more.
Above       the wide set, which hands in descriptors as they arrive and asks for those that are due.
Invariants  of each sender all numbers up to `known` are known, and that never falls; a number that is known and
            not in `runs` is stale: every destination has that parcel. Each cluster learns of every descriptor
            and of every change, over the channel from whoever knows it first. A descriptor that is forgotten
            has no destination missing, is due to nobody, and its parcel is delivered here if it is for here.
Deviations  a descriptor is new if its number is above `known`: 5.2.2 prints that rule with the precedence
            reversed, and then each sender's second descriptor is refused. New ones are for every cluster of the
            set; told to the parcel's destinations only, a chain over others loses its cause. KNOWN is by the
            sender of the parcel, and one number a sender is enough: the paper's queues forget what was
            collected, so that late copies return for ever, and its rule that only the head of a queue may go
            keeps everything behind the first parcel for a cluster that is away.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hopring.errors import Drop, PeerError
from hopring.haul.ids import NOBODY, ClusterId, ClusterMask, ParcelId, Talk, clusters_in, clusters_mask, without
from hopring.haul.order.numbers import NumberSet
from hopring.haul.order.runs import DescriptorRun, SenderRuns
from hopring.haul.order.set_state import DescriptorsState, DueNumbers, SenderNumbers


@dataclass(slots=True)
class DescriptorBuffer:
    """The descriptors of one wide set at one cluster."""

    me: ClusterId
    clusters: ClusterMask  # Of the set, this one included.
    known: dict[ClusterId, int] = field(default_factory=dict)
    runs: dict[ClusterId, SenderRuns] = field(default_factory=dict)  # DESCBUF, by sender.
    due: dict[ClusterId, dict[ClusterId, NumberSet]] = field(
        default_factory=dict
    )  # PRECEDES: by cluster, sender.
    complete: dict[ClusterId, NumberSet] = field(default_factory=dict)  # Nobody is missing; not forgotten yet.

    def __post_init__(self) -> None:
        for cluster in clusters_in(self.clusters):
            self.known[cluster] = 0
            self.runs[cluster] = SenderRuns()
            self.complete[cluster] = NumberSet()
            if cluster != self.me:
                self.due[cluster] = {}

    @property
    def size(self) -> int:
        """How many runs of descriptors there are."""
        return sum([len(one.runs) for one in self.runs.values()])

    def find(self, parcel: ParcelId) -> DescriptorRun | None:
        """The descriptor of a parcel; None if it is stale, or not known yet."""
        return self.runs[parcel.sender].find(parcel.number)

    def create(self, talk: Talk, destinations: ClusterMask) -> ParcelId:
        """A descriptor for a new parcel of this cluster."""
        number = self.known[self.me] + 1
        self._learn(DescriptorRun(self.me, number, number, talk, destinations, destinations), None)
        return ParcelId(self.me, number)

    def check(self, source: ClusterId, descriptors: Iterable[DescriptorRun]) -> dict[ClusterId, int]:
        """Raises PeerError unless these descriptors may come from there; returns what is known afterwards."""
        known = dict(self.known)
        for run in descriptors:
            if run.sender not in known:
                raise PeerError(
                    Drop.FOREIGN_SENDER, f"a descriptor of cluster {run.sender}, which is not in the set"
                )
            participants = run.talk.participants
            if not 0 < run.first <= run.last or not run.destinations or participants & ~self.clusters:
                raise PeerError(Drop.INCONSISTENT, f"descriptors {run.first} to {run.last} of nobody")
            if run.destinations & ~participants or run.missing & ~run.destinations:
                raise PeerError(
                    Drop.INCONSISTENT, f"descriptors of cluster {run.sender} for clusters outside of it"
                )
            if run.first > known[run.sender] + 1:
                raise PeerError(
                    Drop.OUT_OF_WINDOW, f"descriptor {run.first} of cluster {run.sender}, which comes too early"
                )
            if run.sender == self.me and run.last > known[self.me]:
                raise PeerError(
                    Drop.OUT_OF_WINDOW, f"descriptor {run.last} of this cluster, from cluster {source}"
                )
            mine = clusters_mask([self.me]) & run.destinations
            if run.last > known[run.sender] and mine & ~run.missing:
                raise PeerError(Drop.INCONSISTENT, f"parcel {run.last} of cluster {run.sender} is not here yet")
            for had in self.runs[run.sender].within(run.first, run.last):
                if had.missing & mine & ~run.missing:
                    raise PeerError(
                        Drop.INCONSISTENT, f"parcel {had.first} of cluster {run.sender} is not here yet"
                    )
                if (had.talk, had.destinations) != (run.talk, run.destinations):
                    raise PeerError(
                        Drop.INCONSISTENT, f"descriptor {had.first} of cluster {run.sender} has changed"
                    )
            known[run.sender] = max(known[run.sender], run.last)
        return known

    def learn(self, source: ClusterId, descriptors: Iterable[DescriptorRun]) -> list[DescriptorRun]:
        """Takes descriptors that `check` accepts; returns the new ones."""
        new: list[DescriptorRun] = []
        for run in descriptors:
            self._narrow(run, source)
            if run.last > self.known[run.sender]:
                part = run.part(max(run.first, self.known[run.sender] + 1), run.last)
                self._learn(part, source)
                new.append(part)
        return new

    def received(self, parcel: ParcelId) -> None:
        """This cluster has logged a parcel: it is no longer missing here."""
        run = self.find(parcel)
        assert run is not None, "a parcel that arrives for the first time is not stale"
        one = run.part(parcel.number, parcel.number)
        self._narrow(one._replace(missing=without(one.missing, self.me)), None)

    def take_due(self, to: ClusterId) -> tuple[DescriptorRun, ...]:
        """The descriptors that a cluster has to be told of; they count as told."""
        out: list[DescriptorRun] = []
        for sender, numbers in sorted(self.due[to].items()):
            for first, last in numbers.ranges():
                out += self.runs[sender].within(first, last)
        self.due[to].clear()
        return tuple(out)

    def forget(self, waiting: dict[ClusterId, NumberSet]) -> list[tuple[ClusterId, int, int]]:
        """Forgets what nobody needs; `waiting` are parcels for here that are not delivered, by sender."""
        out: list[tuple[ClusterId, int, int]] = []
        for sender, numbers in self.complete.items():
            if not numbers:
                continue
            free = NumberSet(list(numbers.firsts), list(numbers.lasts))
            kept = [waiting.get(sender), *[theirs.get(sender) for theirs in self.due.values()]]
            for one in kept:
                for first, last in one.ranges() if one is not None else ():
                    free.discard(first, last)
            for first, last in free.ranges():
                numbers.discard(first, last)
                self.runs[sender].remove(first, last)
                out.append((sender, first, last))
        return out

    def _learn(self, run: DescriptorRun, source: ClusterId | None) -> None:
        self.runs[run.sender].append(run)
        self.known[run.sender] = run.last
        self._changed(run, source)

    def _narrow(self, run: DescriptorRun, source: ClusterId | None) -> None:
        """Takes destinations out of `missing` which are not missing in this run either."""

        def both(had: DescriptorRun) -> ClusterMask:
            return ClusterMask(had.missing & run.missing)

        for changed in self.runs[run.sender].change(run.first, run.last, both):
            self._changed(changed, source)

    def _changed(self, run: DescriptorRun, source: ClusterId | None) -> None:
        """Every cluster is to be told, except for the one that has told this one."""
        for cluster, senders in self.due.items():
            if cluster != source:
                senders.setdefault(run.sender, NumberSet()).add(run.first, run.last)
        if run.missing == NOBODY:
            self.complete[run.sender].add(run.first, run.last)

    def state(self) -> DescriptorsState:
        """All of it, for a snapshot."""
        due = [
            DueNumbers(to, SenderNumbers(one, numbers.firsts, numbers.lasts))
            for to, senders in self.due.items()
            for one, numbers in senders.items()
        ]
        complete = [SenderNumbers(one, numbers.firsts, numbers.lasts) for one, numbers in self.complete.items()]
        runs = [run for theirs in self.runs.values() for run in theirs.runs]
        return DescriptorsState(list(self.known.items()), runs, due, complete)


def descriptors_from(me: ClusterId, clusters: ClusterMask, state: DescriptorsState) -> DescriptorBuffer:
    """The descriptors of a snapshot."""
    found = DescriptorBuffer(me, clusters)
    found.known.update(state.known)
    for run in state.runs:
        found.runs[run.sender].runs.append(run)
    for to, one in state.due:
        found.due[to][one.sender] = one.numbers()
    for one in state.complete:
        found.complete[one.sender] = one.numbers()
    return found
