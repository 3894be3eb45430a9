"""The server's half of request and reply: a request is done once, a repeated one is answered from a cache.

Implements  RMP 4.5, trap 23: replies are cached by caller and serial, bounded; a repeated request says so.
Below       a binding (exchange.py), or the simulator: it delivers requests in their order and sends replies.
Above       the handler of an application.
Invariants  a handler gets a request at most once; all replies but the first to a request are marked `again`;
            the cache keeps its limits, except that a request that is being handled is never forgotten.
Limits      a reply that fell out of the cache is forgotten, and so is a caller that was silent for longest; a
            repeated request that may be one of these is refused as too old, never done again.

A request is repeated by another connection of its caller, which the first one may follow in the order: its
daemon may have kept it while the network changed. So serials decide, not the mark. Only of a caller that is not
known a request without the mark counts as new, even if callers were forgotten: otherwise no new caller would
be served any more.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, assert_never, final

from hopring.blocks.call_header import ReplyMark, ReplyResult, RequestMark
from hopring.value import Mutable, Value

CALLERS_MAX: Final = 4_096
REPLIES_MAX: Final = 16_384
REPLIES_BYTES_MAX: Final = 32 * 1024 * 1024
WAITING_MAX: Final = 4_096
"""Requests that wait for a handler or are being handled; more are refused as busy."""

CallerKey = tuple[str, str]
"""The name of the caller's session, and the caller of its marks: others cannot use up its serials."""


@final
class RequestArrived(Value):
    """A request, where it stands in the order; the reply goes to this private group."""

    def __init__(self, key: CallerKey, mark: RequestMark, reply_to: str, mine: bool = True) -> None:
        self.key: Final = key
        self.mark: Final = mark
        self.reply_to: Final = reply_to
        # Otherwise another one holds the handler lock, and does it unless this one already has.
        self.mine: Final = mine


@final
class HandlerEnded(Value):
    """The handler is done with a request."""

    def __init__(self, key: CallerKey, serial: int, result: ReplyResult, data: bytes) -> None:
        self.key: Final = key
        self.serial: Final = serial
        self.result: Final = result
        self.data: Final = data


Input = RequestArrived | HandlerEnded


@final
class RunHandler(Value):
    """Give this request to the handler."""

    def __init__(self, key: CallerKey, serial: int, again: bool) -> None:
        self.key: Final = key
        self.serial: Final = serial
        self.again: Final = again  # It was sent before, perhaps to others.


@final
class SendReply(Value):
    """Send a reply to the caller, and to the group if the request wants that."""

    def __init__(self, to: str, mark: ReplyMark, data: bytes, to_group: bool = False) -> None:
        self.to: Final = to
        self.mark: Final = mark
        self.data: Final = data
        self.to_group: Final = to_group


Output = RunHandler | SendReply


@final
class ServedRequest(Mutable):
    """A request that was given to the handler."""

    def __init__(self, reply_to: str, to_group: bool, sending: int) -> None:
        self.reply_to = reply_to
        self.to_group = to_group
        self.sending = sending  # The highest that came.
        self.mark: ReplyMark | None = None  # None while it is being handled.
        self.data = b""


@dataclass(slots=True)
class CallerRecord:
    """The requests of one caller."""

    served: dict[int, ServedRequest] = field(default_factory=dict)
    floor: int = 0  # Requests up to this serial that are not in `served` may have been forgotten.


@dataclass(slots=True)
class Server:
    """The requests of one handler."""

    callers: OrderedDict[CallerKey, CallerRecord] = field(default_factory=OrderedDict)
    """The one that was silent for longest is the first."""
    waiting: int = 0
    replies: int = 0
    replies_bytes: int = 0
    forgot_callers: bool = False
    callers_max: int = CALLERS_MAX
    replies_max: int = REPLIES_MAX

    def step(self, event: Input) -> list[Output]:
        """Handles one event; returns the actions for the driver. No time is involved."""
        if isinstance(event, RequestArrived):
            return self._request(event.key, event.mark, event.reply_to, event.mine)
        if isinstance(event, HandlerEnded):
            return self._ended(event.key, event.serial, event.result, event.data)
        assert_never(event)

    def _request(self, key: CallerKey, mark: RequestMark, reply_to: str, mine: bool) -> list[Output]:
        record = self.callers.get(key)
        had = None if record is None else record.served.get(mark.serial)
        if had is not None:
            return self._repeat(had, mark, reply_to)
        if not mine:
            return []
        if self._may_be_forgotten(record, mark):
            return [SendReply(reply_to, ReplyMark(mark.caller, mark.serial, ReplyResult.TOO_OLD), b"")]
        if self.waiting >= WAITING_MAX:
            return [SendReply(reply_to, ReplyMark(mark.caller, mark.serial, ReplyResult.BUSY), b"")]
        record = self._record(key, mark.serial)
        self._drop_below(record, mark.low)
        record.served[mark.serial] = ServedRequest(reply_to, mark.to_group, mark.sending)
        self.waiting += 1
        return [RunHandler(key, mark.serial, mark.again)]

    def _repeat(self, had: ServedRequest, mark: RequestMark, reply_to: str) -> list[Output]:
        if mark.sending <= had.sending:
            return []  # A late one of an earlier connection: nobody waits there.
        had.sending, had.reply_to = mark.sending, reply_to
        if had.mark is None:  # The reply follows, to where the caller is now.
            return []
        return [SendReply(reply_to, had.mark._replace(again=True), had.data)]

    def _may_be_forgotten(self, record: CallerRecord | None, mark: RequestMark) -> bool:
        return mark.again and self.forgot_callers if record is None else mark.serial <= record.floor

    def _record(self, key: CallerKey, serial: int) -> CallerRecord:
        record = self.callers.pop(key, None)
        if record is None:
            record = CallerRecord()
            if len(self.callers) >= self.callers_max:
                self._forget_a_caller()
            # Lower serials of this caller may have been forgotten with it.
            record.floor = serial - 1 if self.forgot_callers else 0
        self.callers[key] = record
        return record

    def _forget_a_caller(self) -> None:
        """Forgets the caller that was silent for longest; one whose request is being handled stays."""
        for key, record in self.callers.items():
            if all(one.mark is not None for one in record.served.values()):
                for one in record.served.values():
                    self._uncount(one)
                del self.callers[key]
                self.forgot_callers = True
                return

    def _drop_below(self, record: CallerRecord, low: int) -> None:
        """The caller has all replies that it wants up to here."""
        done = [serial for serial, one in record.served.items() if serial < low and one.mark is not None]
        for serial in done:
            self._uncount(record.served.pop(serial))
        record.floor = max(record.floor, low - 1)

    def _ended(self, key: CallerKey, serial: int, result: ReplyResult, data: bytes) -> list[Output]:
        record = self.callers.get(key)
        served = None if record is None else record.served.get(serial)
        assert record is not None, "its caller is known"
        assert served is not None, "it was given to the handler"
        assert served.mark is None, "a handler ends once"
        self.waiting -= 1
        mark = served.mark = ReplyMark(key[1], serial, result)
        served.data = data
        self.replies += 1
        self.replies_bytes += len(data)
        self._shrink()
        return [SendReply(served.reply_to, mark, data, served.to_group)]

    def _shrink(self) -> None:
        """Forgets the oldest replies of the callers that were silent for longest, above the limits."""
        while self.replies > self.replies_max or self.replies_bytes > REPLIES_BYTES_MAX:
            for record in self.callers.values():
                done = [serial for serial, one in record.served.items() if one.mark is not None]
                if done:
                    serial = min(done)
                    self._uncount(record.served.pop(serial))
                    record.floor = max(record.floor, serial)
                    break

    def _uncount(self, one: ServedRequest) -> None:
        self.replies -= 1
        self.replies_bytes -= len(one.data)
