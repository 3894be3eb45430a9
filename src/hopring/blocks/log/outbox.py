"""Messages of a program that its session has no room for yet: sent in their order, when there is room."""

from collections import deque
from typing import TYPE_CHECKING, Any

from hopring.client.outgoing import OutgoingMessage
from hopring.ids import GroupName
from hopring.services import Service

if TYPE_CHECKING:
    from hopring.client.aio import Session


class SessionOutbox:
    """What one program still has to send by an asyncio session; it never waits."""

    def __init__(self, session: "Session[Any]") -> None:
        self._session = session
        self._waiting: deque[OutgoingMessage] = deque()

    def append(self, group: GroupName, body: bytes) -> None:
        """Adds a message to a group, or to a private group; `flush` sends it."""
        self._waiting.append(OutgoingMessage((group,), body, Service.AGREED))

    def clear(self) -> None:
        """Drops what was not sent: it belonged to a connection that is gone."""
        self._waiting.clear()

    def flush(self) -> None:
        """Sends as much as there is room for; raises what the session refuses."""
        core = self._session._core
        while self._waiting and core.connected and core.has_room(self._waiting[0]):
            core.send(self._waiting.popleft())
        if core.ended is None:
            self._session._flush_soon()
