"""Planted bugs of request and reply: the cache of servers, the marks of replies, repetition by callers."""

from collections.abc import Callable
from typing import Any, Final

from hopring.blocks.call_header import ReplyResult
from hopring.blocks.caller import Caller
from hopring.blocks.caller import Output as CallerOutput
from hopring.blocks.serving import CallerKey, Output, SendReply, ServedRequest, Server
from hopring.sim.campaign.bugs.planting import Bug, call_bug


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


BUGS: Final[tuple[Bug, ...]] = (
    call_bug(
        "call-answered-twice",
        "RMP trap 23: a repeated reply says so",
        "a server answers a repeated request as if it were the first time",
        ("hopring.blocks.serving:Server._repeat", _unmarked),
    ),
    call_bug(
        "reply-to-another-call",
        "RMP trap 23: replies are cached by caller and serial",
        "a server sends a reply under the last serial of the caller",
        ("hopring.blocks.serving:Server._ended", _of_the_newest),
    ),
    call_bug(
        "forgotten-call-done",
        "RMP trap 23: a forgotten request is refused, not done",
        "a server does a late request whose reply it has dropped",
        ("hopring.blocks.serving:Server._may_be_forgotten", _no_floor),
    ),
    call_bug(
        "parted-call-not-repeated",
        "RMP trap 23: a request is sent again after the network has parted the group",
        "a caller waits for ever for a reply that a split has swallowed",
        ("hopring.blocks.caller:Caller._known", _never_repeated),
    ),
)
