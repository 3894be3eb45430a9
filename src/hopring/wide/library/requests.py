"""Requests of one client to the members' log: numbered, repeated until they are answered, and counted once.

Below       a session that sends to the members' group, and gets answers in its private group.
Above       service.py.
Invariants  requests are sent in the order of their numbers, also when they are repeated. A client has a name
            that no other one has, so what it asks for is done once, however often it is sent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hopring.blocks.log.messages import Operation, encode_message
from hopring.haul.entries import Answer, ClientRequest, WideEntry, encode_entry
from hopring.ids import NEVER

REPEAT_US: Final = 2_000_000
REPEAT_US_MAX: Final = 30_000_000

MakeRequest = Callable[[str, int, int], ClientRequest]
"""Makes a request of the client's name, the request's number, and how far the client has all answers."""


@dataclass(slots=True)
class OpenRequest:
    """A request without an answer."""

    make: MakeRequest
    when_answered: Callable[[Answer], None]


class OpenRequests:
    """What one client has asked for."""

    def __init__(self, client: str) -> None:
        self.client = client
        self._open: dict[int, OpenRequest] = {}
        self._number = 0
        self._repeat_at_us = NEVER
        self._wait_us = REPEAT_US

    @property
    def known(self) -> int:
        """The client has the answers to all requests up to this number."""
        return next(iter(self._open), self._number + 1) - 1

    @property
    def wake_at_us(self) -> int:
        """When requests without an answer are sent again."""
        return self._repeat_at_us

    def submit(self, make: MakeRequest, when_answered: Callable[[Answer], None], now_us: int) -> bytes:
        """The message of a new request."""
        self._number += 1
        self._open[self._number] = OpenRequest(make, when_answered)
        if self._repeat_at_us == NEVER:
            self._wait_us = REPEAT_US
            self._repeat_at_us = now_us + self._wait_us
        return self._message(self._number)

    def repeated(self, now_us: int) -> list[bytes]:
        """The messages of all requests without an answer, to be sent again; the next time comes later."""
        if not self._open:
            self._repeat_at_us = NEVER
            return []
        self._wait_us = min(REPEAT_US_MAX, 2 * self._wait_us)
        self._repeat_at_us = now_us + self._wait_us
        return [self._message(number) for number in self._open]

    def answered(self, number: int, answer: Answer, now_us: int) -> None:
        """An answer has come; one that comes twice changes nothing."""
        request = self._open.pop(number, None)
        if request is None:
            return
        self._wait_us = REPEAT_US  # The service is there.
        self._repeat_at_us = now_us + REPEAT_US if self._open else NEVER
        request.when_answered(answer)

    def _message(self, number: int) -> bytes:
        known = self.known
        body = self._open[number].make(self.client, number, known)
        return encode_message(Operation(self.client, number, known, encode_entry(WideEntry(0, body))))
