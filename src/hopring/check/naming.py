"""Names of processes, views and messages in witnesses: as short as their history allows, never ambiguous.

A daemon is `a`, in its second start `a.2`, a session of a client at it `a/7`. A message is its sender and a
number, `a:12`. A view is its counter, with its representative or its whole id where another has the same.
"""

from collections import defaultdict
from collections.abc import Iterable

from hopring.check.history import History, Life, Stay
from hopring.check.trace import MessageDelivered, MessageId, MessageSent, Ord, ProcessName, ViewName


class HistoryNames:
    """The names in one history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._same_counter: defaultdict[int, set[ViewName]] = defaultdict(set)
        for view in history.views:
            self._same_counter[view.counter].add(view)

    def process(self, process: ProcessName) -> str:
        """A process, such as `a`, `a.2` for its second start, or `a/7` for a session."""
        daemon = process._replace(session=0)
        starts = self._history.starts.get(process.daemon, [])
        if daemon in starts:
            start = starts.index(daemon) + 1
            name = process.daemon if start == 1 else f"{process.daemon}.{start}"
        else:
            name = f"{process.daemon}.{process.incarnation:x}?" if starts else process.daemon
        return f"{name}/{process.session}" if process.session else name

    def processes(self, processes: Iterable[ProcessName]) -> str:
        """A set of them, by name."""
        return "{" + " ".join(sorted(map(self.process, processes))) + "}"

    def view(self, view: ViewName) -> str:
        """A view, by as much of its id as it takes."""
        if view in self._history.view_names:
            return self._history.view_names[view]
        others = self._same_counter[view.counter] - {view}
        if not others:
            return f"view {view.counter}"
        if all(view.representative != other.representative for other in others):
            return f"view {view.counter} of {view.representative}"
        return f"view {view.counter} of {view.representative} ({view.nonce:x})"

    def message(self, message: MessageId) -> str:
        """A message, such as `a:12`."""
        return f"{self.process(message.sender)}:{message.number}"

    def number(self, number: int) -> str:
        """The message with this number."""
        return self.message(self._history.messages.ids[number])

    def ord(self, ord: Ord) -> str:
        """A place in the order, as in `lts 7 of site 0 in view 2`, if it is the first of its bundle."""
        place = f", {ord.place} in its bundle" if ord.place else ""
        return f"lts {ord.lts} of site {ord.site} in {self.view(ord.view)}{place}"

    def install(self, stay: Stay) -> str:
        """The installation of a view, as in `a installed view 2 at 5 us`."""
        return f"{self.process(stay.process)} installed {self.view(stay.view)} at {stay.installed.at_us} us"

    def delivery(self, event: MessageDelivered) -> str:
        """A delivery, as in `a delivered b:1 at 5 us`."""
        return f"{self.process(event.process)} delivered {self.message(event.message)} at {event.at_us} us"

    def send(self, event: MessageSent) -> str:
        """A send, as in `a sent a:1 at 5 us`."""
        return f"{self.process(event.process)} sent {self.message(event.message)} at {event.at_us} us"

    def delivered(self, process: ProcessName, number: int) -> str:
        """The same, from the message's number; the process did deliver it."""
        return self.delivery(first_delivery(self._history, self._history.lives[process], number))


def first_delivery(history: History, life: Life, number: int) -> MessageDelivered:
    """Finds the event again, for a witness."""
    message = history.messages.ids[number]
    return next(event for event in life.deliveries if event.message == message)
