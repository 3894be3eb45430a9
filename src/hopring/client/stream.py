"""The stream of events: one order for the whole session, from which a group's part can be taken alone.

Each event is taken once, by whoever asks first: the session's reader takes the oldest of all, a group's reader
the oldest of its group. Only `Reconnected` is for every group's reader; the session's reader takes it for all.
Messages of one bundle stand here as one lot, however many they are.
"""

from collections import deque
from dataclasses import dataclass, field

from hopring.client.events import Event, Message, Reconnected
from hopring.client.runs import Lot, lot_of
from hopring.client.sequence import Part, Taken
from hopring.session.messages import Messages


@dataclass(slots=True)
class Stream:
    """Events that nobody has taken."""

    lots: dict[int, Lot] = field(default_factory=dict)  # By the number of the first event; the oldest first.
    by_group: dict[str, deque[Lot]] = field(default_factory=dict)  # Groups joined; taken ones may be left in.
    last: int = 0
    now_us: int = 0  # When what is put in now was read.
    credit_bytes: int = 0  # For all that waits.
    apart: bool = False  # Somebody has read one group alone.

    def open(self, group: str) -> None:
        """From now on events of this group can be asked for."""
        self.by_group.setdefault(group, deque())

    def close(self, group: str) -> None:
        """No more comes of this group; what waits can still be asked for."""
        if not any(lot.at < lot.end for lot in self.by_group.get(group, ())):
            self.by_group.pop(group, None)

    def put_messages(self, came: Messages, start: int, end: int, credit_bytes: int) -> None:
        """Messages of a bundle from one to before another; taking the last gives that much credit back."""
        groups = came.bundle.run.groups
        order = self.last + 1
        self._put(Lot(order, self.now_us, credit_bytes, groups, None, came, start, start, end))
        self.last += end - start

    def put_lone(self, message: Message, body: bytes, credit_bytes: int) -> None:
        """A message that came alone, and the body of its frame for who wants it in columns."""
        order = self.last + 1
        groups = message.groups
        self._put(Lot(order, self.now_us, credit_bytes, groups, None, None, 0, 0, 1, [message], 0, body))
        self.last = order

    def put(self, event: Event, credit_bytes: int) -> None:
        """The next event; taking it gives that much credit back."""
        self._put(lot_of(event, self.last + 1, self.now_us, credit_bytes))
        self.last += 1

    def _put(self, lot: Lot) -> None:
        if self.apart and lot.mixed:
            for one in lot.apart():
                self._put(one)
            return
        self.lots[lot.order] = lot
        self.credit_bytes += lot.credit_bytes
        for group in lot.groups:
            if group in self.by_group:
                self.by_group[group].append(lot)

    def waits(self, group: str | None = None) -> bool:
        """Whether there is an event, of this group or at all."""
        return self.first(group) is not None

    def first(self, group: str | None) -> Lot | None:
        """What is taken next, of this group or at all; forgets on the way what others have taken."""
        if group is None:
            for lot in self.lots.values():
                return lot
            return None
        if not self.apart:
            self._take_apart()
        lots = self.by_group.get(group)
        while lots:
            lot = lots[0]
            if lot.at == lot.end:
                lots.popleft()
            else:
                return lot
        return None

    def _take_apart(self) -> None:
        """Somebody reads one group alone: from now on what is mixed stands here in parts, one to a group."""
        self.apart = True
        pieces = {lot.order: lot.apart() for lot in self.lots.values() if lot.mixed}
        if not pieces:
            return
        lots, self.lots = self.lots, {}
        for lot in lots.values():
            for one in pieces.get(lot.order, (lot,)):
                self.lots[one.order] = one
        for group, waiting in self.by_group.items():
            its: deque[Lot] = deque()
            for lot in waiting:
                if lot.mixed:
                    its.extend([one for one in pieces[lot.order] if group in one.groups])
                else:
                    its.append(lot)
            self.by_group[group] = its
        for order in pieces:
            lots[order].forget()  # Who is about to take more of it finds nothing left.

    def has(self, messages: int, group: str | None = None) -> bool:
        """Whether so many messages wait."""
        if group is not None and not self.apart:
            self._take_apart()
        for lot in self.lots.values() if group is None else self.by_group.get(group, ()):
            messages -= lot.messages
            if messages <= 0:
                return True
        return messages <= 0

    def take(self, group: str | None = None) -> tuple[Event, int] | None:
        """The oldest event, of this group or at all, and the credit for it."""
        lot = self.first(group)
        if lot is None:
            return None
        if lot.event is not None:
            return lot.event, self._take_event(lot, lot.event, group)
        message = lot.message()
        return message, self._settle(lot) if lot.at == lot.end else 0

    def take_many(self, messages: int, group: str | None = None) -> tuple[list[Part], int]:
        """The oldest events up to so many messages, and the credit for them."""
        out: list[Part] = []
        credit_bytes = 0
        while messages and (lot := self.first(group)) is not None:
            if lot.event is not None:
                out.append(Taken(lot.event, lot.order, lot.at_us / 1_000_000))
                credit_bytes += self._take_event(lot, lot.event, group)
                continue
            run = lot.run(messages)
            out.append(run)
            messages -= len(run)
            credit_bytes += self._settle(lot) if lot.at == lot.end else 0
        return out, credit_bytes

    def _take_event(self, lot: Lot, event: Event, group: str | None) -> int:
        if group is not None and isinstance(event, Reconnected):
            self.by_group[group].popleft()
            if any(lot in self.by_group.get(other, ()) for other in event.groups):
                return 0
        return self._settle(lot)

    def _settle(self, lot: Lot) -> int:
        """All of it is taken; returns the credit for it."""
        del self.lots[lot.order]
        lot.forget()
        self.credit_bytes -= lot.credit_bytes
        for name in lot.groups:
            lots = self.by_group.get(name)
            while lots:
                first = lots[0]
                if first.at < first.end:
                    break
                lots.popleft()
        return lot.credit_bytes

    def drop(self, group: str, app: str, number: int) -> tuple[int, int]:
        """Drops what waits of an application's batches up to this number; how much, and the credit for it."""
        dropped = credit_bytes = 0
        for lot in list(self.by_group.get(group, ())):
            mark = None if lot.columns is None else lot.columns.bundle.run.mark  # What came alone has none.
            if mark is None or mark.app != app:
                continue
            upto = min(lot.end, number + 1 - mark.number)
            if upto > lot.at:
                dropped += upto - lot.at
                lot.at = upto
                credit_bytes += self._settle(lot) if lot.at == lot.end else 0
        return dropped, credit_bytes

    def forget_credits(self) -> None:
        """Nobody wants credit any more for what waits: it came by a connection that is gone."""
        for lot in self.lots.values():
            lot.credit_bytes = 0
        self.credit_bytes = 0
