"""What all nodes have seen, as one history: each daemon's events in their order, merged by the common clock.

All processes read the same monotonic clock of this machine, so their times compare.
"""

from collections import Counter
from heapq import merge
from operator import attrgetter

from hopring.check.network import NetworkTrace, check_network
from hopring.check.verdict import Verdict
from hopring.cli.demo.words import Ended, Happening, Received, Sent, Started, as_history

Mark = dict[str, int]
"""A moment in the history: how many events of each daemon were before it."""


class History:
    """Grows while the nodes report."""

    def __init__(self) -> None:
        self.ended: dict[str, Ended] = {}
        """The daemons whose present network has ended."""
        self.sent = 0
        self.received = 0
        self.running: Counter[int] = Counter()
        """How many daemons have begun each network."""
        self._events: dict[str, list[Happening]] = {}

    def add(self, happening: Happening) -> None:
        """Takes the next event of a daemon."""
        self._events.setdefault(happening.daemon, []).append(happening)
        match happening:
            case Started():
                self.running[happening.network] += 1
                self.ended.pop(happening.daemon, None)
            case Sent():
                self.sent += 1
            case Received():
                self.received += 1
            case Ended():
                self.ended[happening.daemon] = happening

    def mark(self) -> Mark:
        """Now."""
        return {daemon: len(events) for daemon, events in self._events.items()}

    def since(self, mark: Mark) -> list[Happening]:
        """All that came after a moment."""
        return _merged([events[mark.get(daemon, 0) :] for daemon, events in self._events.items()])

    def before(self, mark: Mark) -> list[Happening]:
        """All that came before a moment."""
        return _merged([events[: mark.get(daemon, 0)] for daemon, events in self._events.items()])

    def all(self) -> list[Happening]:
        """Everything."""
        return self.since({})


def judge(*histories: list[Happening]) -> list[Verdict]:
    """The properties of the network; each has to hold in every one of these histories."""
    verdicts: dict[str, Verdict] = {}
    for happenings in histories:
        trace: NetworkTrace = [as_history(one) for one in happenings]
        for verdict in check_network(trace):
            if verdicts.setdefault(verdict.property, verdict).holds:
                verdicts[verdict.property] = verdict
    return list(verdicts.values())


def _merged(histories: list[list[Happening]]) -> list[Happening]:
    return list(merge(*histories, key=attrgetter("at_us")))
