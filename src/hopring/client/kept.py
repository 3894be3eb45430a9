"""What a session keeps from one connection to the next: its events, its memberships, and what it waits for."""

from dataclasses import dataclass, field

from hopring.client.events import Message
from hopring.client.once import Once
from hopring.client.stream import Stream
from hopring.errors import HopError
from hopring.session.answers import Told
from hopring.session.messages import Messages
from hopring.session.place import Place

Request = tuple[str, str]
"""What was asked for, join or leave, and the group."""


@dataclass(slots=True)
class Kept:
    """What a session keeps from one connection to the next."""

    stream: Stream = field(default_factory=Stream)
    groups: set[str] = field(default_factory=set)  # Joined, and the leave is not through.
    answers: dict[Request, HopError | None] = field(default_factory=dict)
    pending: list[Request] = field(default_factory=list)  # Asked and not answered, the oldest first.
    last: Place | None = None  # Of the last message that came.
    once: Once = field(default_factory=Once)
    told: dict[int, Told | None] = field(default_factory=dict)  # Of questions, by serial; None until it comes.

    def answer(self, request: Request, answer: HopError | None) -> None:
        """The answer to a request, or to a join that was made again by itself, which nobody waits for."""
        if request in self.pending:
            self.pending.remove(request)
            self.answers[request] = answer

    def put_lone(self, message: Message, body: bytes, credit_bytes: int) -> None:
        """A message that came alone, and has no mark; taking it gives the credit back."""
        self.last = message.place
        self.stream.put_lone(message, body, credit_bytes)

    def put_messages(self, messages: Messages, credit_bytes: int) -> bool:
        """A bundle has come; whether any of it is new, so that the credit waits for whoever takes it."""
        self.last = messages.place
        bundle = messages.bundle
        mark = bundle.run.mark
        if mark is None:
            self.stream.put_messages(messages, 0, len(bundle), credit_bytes)
            return True
        pieces = self.once.new(bundle.run.groups[0], mark, len(bundle))
        for start, end in pieces:
            is_last = end == pieces[-1][1]
            self.stream.put_messages(messages, start, end, credit_bytes if is_last else 0)
        return bool(pieces)
