"""The calls of sessions and groups for view synchrony; blocks/ has the code."""

from importlib import import_module
from typing import Any

from hopring.client import calls
from hopring.client.arguments import got
from hopring.client.calls import Call
from hopring.client.core import ClientCore
from hopring.client.errors import WrongType, WrongValue
from hopring.client.events import FlushRequest, Receipt
from hopring.client.outgoing import OutgoingMessage, OutgoingSeries
from hopring.client.sockets import now_us
from hopring.ids import GroupName


def check_request(request: object) -> FlushRequest:
    """Checks the argument of `flush_ok`."""
    if not isinstance(request, FlushRequest):
        raise WrongType("request", got(request), "give the FlushRequest that was received")
    return request


class SynchronySends:
    """Sending, for both forms of a session: messages to a group with view synchrony get their view."""

    _core: ClientCore
    _flush_groups: Any = None  # Made by the first join that wants view synchrony.

    def _guards(self, groups: tuple[GroupName, ...]) -> bool:
        """Whether one of the groups has view synchrony here."""
        return not self._core.state.guarded.isdisjoint(groups)

    def _multicasting(self, sending: OutgoingMessage, seconds: float | None = None) -> Call[None]:
        if self._guards(sending.groups):
            call: Call[None] = self._flush_groups.exchange.multicast(sending, now_us(), seconds)
            return call
        return calls.multicast(self._core, sending, now_us(), seconds)

    def _multicasting_many(self, many: OutgoingSeries, seconds: float | None = None) -> Call[None]:
        if self._guards(many.sending.groups):
            call: Call[None] = self._flush_groups.exchange.multicast_many(many, now_us(), seconds)
            return call
        return calls.multicast_many(self._core, many, now_us(), seconds)

    def _multicasting_wait(self, sending: OutgoingMessage, seconds: float | None) -> Call[Receipt]:
        if self._guards(sending.groups):
            call: Call[Receipt] = self._flush_groups.exchange.multicast_wait(sending, now_us(), seconds)
            return call
        return calls.multicast_wait(self._core, sending, now_us(), seconds)

    def _check_batch(self, group: GroupName) -> None:
        if self._guards((group,)):
            reason = f"{group} has view synchrony, and a batch that counts once may be repeated in another view"
            raise WrongValue("group", reason, "use multicast_many there")


class AioSynchrony(SynchronySends):
    """View synchrony of an asyncio session."""

    async def flush_ok(self, request: FlushRequest) -> None:
        """Agrees to a flush: all that belongs to the view was sent. Nothing may be sent until the next View.

        NotAsked: this flush is not requested now, or was agreed to already.
        """
        check_request(request)
        self._use_flush().agree(request)

    def _use_flush(self) -> Any:
        if self._flush_groups is None:
            # Most sessions do not need it, and packages import downwards only.
            self._flush_groups = import_module("hopring.blocks.aio_flush").AioFlush(self)
        return self._flush_groups


class AioGroupSynchrony:
    """View synchrony of a group of an asyncio session."""

    session: AioSynchrony

    async def flush_ok(self, request: FlushRequest) -> None:
        """Agrees to a flush; see `Session.flush_ok`."""
        await self.session.flush_ok(request)


class BlockingSynchrony(SynchronySends):
    """View synchrony of a blocking session."""

    def flush_ok(self, request: FlushRequest) -> None:
        """Agrees to a flush: all that belongs to the view was sent. Nothing may be sent until the next View.

        NotAsked: this flush is not requested now, or was agreed to already.
        """
        check_request(request)
        self._use_flush().agree(request)

    def _use_flush(self) -> Any:
        if self._flush_groups is None:
            self._flush_groups = import_module("hopring.blocks.blocking_flush").BlockingFlush(self)
        return self._flush_groups


class BlockingGroupSynchrony:
    """View synchrony of a group of a blocking session."""

    session: BlockingSynchrony

    def flush_ok(self, request: FlushRequest) -> None:
        """Agrees to a flush; see `Session.flush_ok`."""
        self.session.flush_ok(request)
