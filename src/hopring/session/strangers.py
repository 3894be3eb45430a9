"""Strangers: connections whose handshake is not done. They have a while for it, and are not too many."""

from dataclasses import dataclass, field

from hopring.ids import NEVER
from hopring.session.session import Session


@dataclass(slots=True)
class Strangers:
    """Of one daemon."""

    by_number: dict[int, Session] = field(default_factory=dict)  # The oldest first.

    @property
    def wake_at_us(self) -> int:
        """When the oldest has had its time."""
        oldest = self.oldest
        return NEVER if oldest is None else oldest.hello_by_us

    @property
    def oldest(self) -> Session | None:
        """The first that came, if there is any."""
        return next(iter(self.by_number.values()), None)

    def __len__(self) -> int:
        return len(self.by_number)

    def came(self, session: Session) -> None:
        """One more."""
        self.by_number[session.number] = session

    def forget(self, session: Session) -> None:
        """It is none any more."""
        self.by_number.pop(session.number, None)

    def late(self, now_us: int) -> list[Session]:
        """Those that have had their time."""
        return [one for one in self.by_number.values() if one.hello_by_us <= now_us]
