"""The messages of a history by number: the numbers rise with the messages' places in the order."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hopring.check.trace import Delivered, MessageId, Ord, Process, Sent
from hopring.services import Service

NEVER_SENT = -1


@dataclass(slots=True)
class Messages:
    """What is known of each message, in lists over its number.

    Two messages with one stamp get two numbers all the same; that stamps differ is a check of its own.
    """

    number: dict[MessageId, int]
    ids: list[MessageId]
    service: list[Service]  # As it was sent; as it was first delivered, if it never was.
    sent: list[Sent | None]
    ord: list[Ord]
    sender: list[Process] = field(init=False)
    place: list[int] = field(init=False)  # Among the messages of its session, in the order of their sends.

    def __post_init__(self) -> None:
        self.sender = [message.sender for message in self.ids]
        self.place = [NEVER_SENT] * len(self.ids)

    def place_in_session(self, sends: Iterable[Sent]) -> None:
        """Learns the order of one process's sends."""
        sent_so_far: Counter[Process] = Counter()
        for event in sends:
            number = self.number[event.message]
            if self.place[number] == NEVER_SENT:
                self.place[number] = sent_so_far[event.message.sender]
                sent_so_far[event.message.sender] += 1


def number_messages(sends: Iterable[Sent], deliveries: Iterable[Delivered]) -> Messages:
    """Gives every message its number. The first send counts; whether there are more is a check of its own."""
    known: dict[MessageId, Sent | Delivered] = {}
    for sent in sends:
        known.setdefault(sent.message, sent)
    for delivered in deliveries:
        if delivered.message not in known:
            known[delivered.message] = delivered
    stamps: dict[MessageId, Ord] = {message: event.ord for message, event in known.items()}
    ids = sorted(stamps, key=stamps.__getitem__)
    events = [known[message] for message in ids]
    return Messages(
        number={message: number for number, message in enumerate(ids)},
        ids=ids,
        service=[event.service for event in events],
        sent=[event if isinstance(event, Sent) else None for event in events],
        ord=[event.ord for event in events],
    )
