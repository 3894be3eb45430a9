"""Own requests of a member for a change of the list: sent again until the order has them (paper 4.3)."""

from dataclasses import dataclass, field

from hopring.rmp.retry import Retry
from hopring.rmp.state import PeerRingState
from hopring.wire.rmp.packets import ListChange, ListChangeRequest


@dataclass(slots=True)
class OwnRequests:
    """The request of this member that is under way; one after the other."""

    state: PeerRingState
    waiting: list[ListChangeRequest] = field(default_factory=list)
    retry: Retry = field(init=False)

    def __post_init__(self) -> None:
        self.retry = Retry(self.state.options.first_us, self.state.options.clamp_us)

    @property
    def current(self) -> ListChangeRequest | None:
        """The request that is sent until it is carried out."""
        return self.waiting[0] if self.waiting else None

    @property
    def unsent(self) -> bool:
        """Whether a request can be sent now for the first time."""
        return (
            bool(self.waiting)
            and self.state.epoch_state is not None
            and not (self.state.frozen or self.retry.running)
        )

    @property
    def leaving(self) -> bool:
        """Whether a leave was asked for."""
        return any(one.change is ListChange.LEAVE for one in self.waiting)

    @property
    def flushing(self) -> bool:
        """Whether a flush was asked for."""
        return any(one.change is ListChange.FLUSH for one in self.waiting)

    def leave(self) -> None:
        """Asks to leave; a second time changes nothing."""
        if not self.leaving:
            self.ask(ListChange.LEAVE)

    def ask(self, change: ListChange, lock: str = "", serial: int = 0, partial: bool = False) -> int:
        """Asks for a change; the number of the request."""
        number = self.state.next_request()
        self.waiting.append(
            ListChangeRequest(
                self.state.me, change, number, self.state.group, lock=lock, serial=serial, partial=partial
            )
        )
        return number

    def settle(self, now_us: int) -> ListChangeRequest | None:
        """Drops what the order has; returns a request that is to be sent for the first time."""
        while (current := self.current) is not None and self._is_done(current):
            self.waiting.pop(0)
            self.retry.stop()
        if self.current is None or self.state.frozen or self.retry.running:
            return None
        self.retry.start(now_us)
        return self.current

    def _is_done(self, request: ListChangeRequest) -> bool:
        member = self.state.my_member
        return member is None or member.request >= request.number

    def clear(self) -> None:
        """Forgets all requests: the stay has ended."""
        self.waiting.clear()
        self.retry.stop()
