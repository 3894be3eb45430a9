"""Planted bugs of request and reply: the cache of servers, the marks of replies, repetition by callers."""

from collections.abc import Callable
from typing import Any, Final

from hopring.blocks.call_header import ReplyResult
from hopring.blocks.caller import Caller
from hopring.blocks.caller import Output as CallerOutput
from hopring.blocks.handler_lock import HandlerLock
from hopring.blocks.serving import CallerKey, Output, SendReply, ServedRequest, Server
from hopring.ids import Place
from hopring.sim.campaign.bugs.planting import Bug, block_bug


def _unmarked(repeat: Callable[..., list[Output]]) -> Any:
    def without_again(self: Server, had: ServedRequest, mark: Any, reply_to: str) -> list[Output]:
        return [
            SendReply(one.to, one.mark._replace(again=False), one.data) if isinstance(one, SendReply) else one
            for one in repeat(self, had, mark, reply_to)
        ]

    return without_again


def _of_the_newest(ended: Callable[..., list[Output]]) -> Any:
    def under_the_last_serial(
        self: Server, key: CallerKey, serial: int, result: ReplyResult, data: bytes
    ) -> list[Output]:
        last = max(self.callers[key].served)
        return [
            SendReply(one.to, one.mark._replace(serial=last), one.data) if isinstance(one, SendReply) else one
            for one in ended(self, key, serial, result, data)
        ]

    return under_the_last_serial


def _no_floor(may_be_forgotten: Callable[..., bool]) -> Any:
    del may_be_forgotten
    return lambda _self, _record, _mark: False


def _never_repeated(known: Callable[..., list[CallerOutput]]) -> Any:
    def without_repetition(self: Caller, event: Any, now_us: int) -> list[CallerOutput]:
        for call in self.calls.values():
            call.view_counter = max(call.view_counter, event.view_counter)
        return known(self, event, now_us)

    return without_repetition


def _anybody(fence_at: Callable[..., int | None]) -> Any:
    def also_without_the_lock(self: HandlerLock, place: Place) -> int | None:
        return fence_at(self, place) or 1

    return also_without_the_lock


def _still_held(fence_at: Callable[..., int | None]) -> Any:
    def as_long_as_nobody_says(self: HandlerLock, place: Place) -> int | None:
        claim = self.claim
        if claim is not None and claim.fence is not None:
            return claim.fence.number
        return fence_at(self, place)

    return as_long_as_nobody_says


def _kept(advance: Callable[..., None]) -> Any:
    def until_there_is_another(self: HandlerLock, now_us: int) -> None:
        claim = self.claim
        if claim is None or claim.fence is None:
            advance(self, now_us)

    return until_there_is_another


BUGS: Final[tuple[Bug, ...]] = (
    block_bug(
        "calls",
        "call-answered-twice",
        "RMP trap 23: a repeated reply says so",
        "a server answers a repeated request as if it were the first time",
        ("hopring.blocks.serving:Server._repeat", _unmarked),
    ),
    block_bug(
        "calls",
        "reply-to-another-call",
        "RMP trap 23: replies are cached by caller and serial",
        "a server sends a reply under the last serial of the caller",
        ("hopring.blocks.serving:Server._ended", _of_the_newest),
    ),
    block_bug(
        "calls",
        "forgotten-call-done",
        "RMP trap 23: a forgotten request is refused, not done",
        "a server does a late request whose reply it has dropped",
        ("hopring.blocks.serving:Server._may_be_forgotten", _no_floor),
    ),
    block_bug(
        "calls",
        "parted-call-not-repeated",
        "RMP trap 23: a request is sent again after the network has parted the group",
        "a caller waits for ever for a reply that a split has swallowed",
        ("hopring.blocks.caller:Caller._known", _never_repeated),
    ),
    block_bug(
        "handlers",
        "call-answered-by-two",
        "property C7, RMP R13: exactly the holder at the place of a request answers",
        "all servers of a handler answer, whether they hold its lock or not",
        ("hopring.blocks.handler_lock:HandlerLock.fence_at", _anybody),
    ),
    block_bug(
        "handlers",
        "handler-after-its-loss",
        "property C7, RMP R13 and trap 24: a lock that is lost is not held",
        "a handler goes on when its lock is lost",
        ("hopring.blocks.handler_lock:HandlerLock.fence_at", _still_held),
        ("hopring.blocks.handler_lock:HandlerLock.advance", _kept),
    ),
)
