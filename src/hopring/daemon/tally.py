"""A tally of what a daemon delivered and installed, for whoever asks how it is going."""

from collections.abc import Sequence

from hopring.daemon.member import Upward
from hopring.groups.payloads import is_word
from hopring.membership.events import Delivered, Installed
from hopring.wire.bundle import messages_in


class Tally:
    """Counts since the start."""

    def __init__(self) -> None:
        self.views = 0
        self.cause = ""
        self.delivered_bundles = 0
        self.delivered_messages = 0

    def take(self, events: Sequence[Upward]) -> None:
        """What came out of the member in a turn."""
        for event in events:
            if isinstance(event, Delivered):
                payload = event.message.payload
                if payload and not is_word(payload):
                    self.delivered_bundles += 1
                    self.delivered_messages += messages_in(payload)
            elif isinstance(event, Installed):
                self.views += 1
                self.cause = event.cause
