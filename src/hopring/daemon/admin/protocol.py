"""The protocol of a daemon's admin channel: JSON lines, one request and one answer each (`docs/admin.md`).

The daemon's `Controls` carry requests out; a new verb is a struct and a line in `_do`.
The values here are read by msgspec at run time, so this file is not compiled.
"""

from collections.abc import Collection
from typing import Annotated, Final, Protocol

import msgspec

from hopring.config import AdminVerb
from hopring.daemon.net.shaper import Shape

ADMIN_VERSION: Final = 3
LINE_BYTES_MAX: Final = 64 * 1024
DAEMONS_MAX: Final = 1024
DELAY_US_MAX: Final = 60_000_000
CUT_US_MAX: Final = 7 * 24 * 3_600 * 1_000_000
RATE_BITS_PER_SECOND_MAX: Final = 10**12
COUNT_MAX: Final = 2**31
"""Beyond any window; the host checks the limits of each."""

Name = Annotated[str, msgspec.Meta(max_length=256)]
Names = Annotated[list[Name], msgspec.Meta(max_length=DAEMONS_MAX)]
DelayUs = Annotated[int, msgspec.Meta(ge=0, le=DELAY_US_MAX)]
CutUs = Annotated[int, msgspec.Meta(ge=1, le=CUT_US_MAX)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Rate = Annotated[int, msgspec.Meta(ge=0, le=RATE_BITS_PER_SECOND_MAX)]
Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Count = Annotated[int, msgspec.Meta(ge=1, le=COUNT_MAX)]


class _Request(msgspec.Struct, frozen=True, tag_field="verb", forbid_unknown_fields=True):
    """The base of all requests: JSON objects with a `verb`."""


class ShapeLinks(_Request, frozen=True, tag="shape"):
    """Delays, loses or limits packets from here to these daemons; without any figure, undoes that."""

    to: Names
    delay_us: DelayUs = 0
    jitter_us: DelayUs = 0
    loss: Share = 0.0
    rate_bits_per_second: Rate = 0


class Cut(_Request, frozen=True, tag="cut"):
    """Lets nothing pass to or from these daemons; earlier cuts that are not named are undone.

    With `for_us` the daemon undoes the cut after this time by itself, even if the caller is gone.
    """

    daemons: Names
    for_us: CutUs | None = None


class Heal(_Request, frozen=True, tag="heal"):
    """Undoes all cuts of this daemon."""


class SetWindow(_Request, frozen=True, tag="window"):
    """Sets windows; those that are not given stay. The ring's windows and packets count in segments, the
    daemon's own messages in bytes and bundles."""

    personal_segments: Count | None = None
    global_segments: Count | None = None
    packet_segments: Count | None = None
    bytes: Count | None = None
    bundles: Count | None = None


class Reload(_Request, frozen=True, tag="reload"):
    """Asks to read the configuration file again."""


class Terminate(_Request, frozen=True, tag="terminate"):
    """Asks the daemon to leave its view and end."""


class MakePrimary(_Request, frozen=True, tag="primary"):
    """Makes the daemon's view primary: it forms its view anew, and whoever is in it counts."""


class Status(_Request, frozen=True, tag="status"):
    """Asks for the status of the daemon."""


class WatchEvents(_Request, frozen=True, tag="watch"):
    """Asks for the events behind this number, and then for each one that follows, as it comes."""

    after: Seq = 0


Request = WatchEvents | ShapeLinks | Cut | Heal | SetWindow | Reload | Terminate | MakePrimary | Status
VERBS: Final = ("cut", "heal", "primary", "reload", "shape", "status", "terminate", "watch", "window")


class AdminAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to one request."""

    ok: bool
    error: str = ""
    remedy: str = ""
    denied: bool = False  # The caller has no permission for it.
    status: dict[str, object] | None = None
    result: dict[str, object] | None = None


class NotJson(Exception):
    """A line that is no JSON object: the peer speaks another protocol."""


class AdminRefusal(Exception):
    """A request that cannot be carried out, with a remedy."""

    def __init__(self, error: str, remedy: str) -> None:
        super().__init__(error)
        self.remedy = remedy


class Controls(Protocol):
    """The actions that requests ask for. Implementations check the names of daemons."""

    def shape(self, daemons: Collection[str], shape: Shape) -> None:
        """Delays or loses packets to these daemons from now on."""

    def cut(self, daemons: Collection[str], for_us: int | None = None) -> None:
        """Cuts off exactly these daemons, for this time or until the next request."""

    def window(self, request: SetWindow) -> dict[str, object]:
        """Sets windows; returns all of them as they are now."""

    def reload(self) -> dict[str, object]:
        """Reads the configuration again; returns the changes."""

    def terminate(self) -> None:
        """Ends the daemon after this turn of its loop."""

    def make_primary(self) -> None:
        """Makes the daemon's view primary, which it forms anew."""

    def events(self) -> dict[str, object]:
        """The daemon, the time by its clock, and the numbers of its first and last event."""

    def status(self) -> dict[str, object]:
        """The status, as values that JSON can hold."""


_decoder: Final = msgspec.json.Decoder(Request)
_encoder: Final = msgspec.json.Encoder()


def answer(line: bytes, controls: Controls, allowed: Collection[AdminVerb]) -> bytes:
    """Carries out a request and returns the answer; NotJson if the line is no JSON object.

    Requests that change something are refused unless they are allowed.
    """
    try:
        request = _decoder.decode(line)
    except msgspec.ValidationError as error:
        refusal = AdminAnswer(False, str(error), f"the verbs are {', '.join(VERBS)}; see docs/admin.md")
        return _encoder.encode(refusal) + b"\n"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NotJson from None
    try:
        needed = _needed(request)
        if needed is not None and needed not in allowed:
            verb = type(request).__struct_config__.tag
            remedy = f'add "{needed}" to allow of [admin] in its configuration, or start it with --dangerous'
            return denial_answer(f"this daemon does not allow {verb}", remedy)
        return _encoder.encode(_do(request, controls)) + b"\n"
    except AdminRefusal as refusal:
        return _encoder.encode(AdminAnswer(False, str(refusal), refusal.remedy)) + b"\n"


def watched_after(line: bytes) -> int | None:
    """The number behind which a request wants events; None if it is another request, or not well formed."""
    if b'"watch"' not in line:
        return None
    try:
        request = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return request.after if isinstance(request, WatchEvents) else None


def denial_answer(error: str, remedy: str) -> bytes:
    """The answer to a request that is not allowed."""
    return _encoder.encode(AdminAnswer(False, error, remedy, denied=True)) + b"\n"


def busy_answer(watchers_max: int) -> bytes:
    """The answer to a caller that wants events when too many others do."""
    what = f"{watchers_max} others watch the events of this daemon already"
    return _encoder.encode(AdminAnswer(False, what, "end one of them, or read its file of events")) + b"\n"


def garbage_answer() -> bytes:
    """The last answer on a connection whose lines are no JSON."""
    return _encoder.encode(AdminAnswer(False, "that is not JSON", "send one JSON object per line")) + b"\n"


def too_long_answer() -> bytes:
    """The last answer on a connection whose line is too long."""
    what = f"a line is longer than {LINE_BYTES_MAX} bytes"
    return _encoder.encode(AdminAnswer(False, what, "send one JSON object per line")) + b"\n"


def _needed(request: Request) -> AdminVerb | None:
    """The permission that a request needs; None if it needs none."""
    match request:
        case Cut() | Heal():
            return AdminVerb.CUT
        case ShapeLinks():
            return AdminVerb.SHAPE
        case SetWindow():
            return AdminVerb.WINDOW
        case Reload():
            return AdminVerb.RELOAD
        case Terminate():
            return AdminVerb.TERMINATE
        case MakePrimary():
            return AdminVerb.PRIMARY
        case Status() | WatchEvents():
            return None


def _do(request: Request, controls: Controls) -> AdminAnswer:
    match request:
        case ShapeLinks(to, delay_us, jitter_us, loss, rate):
            controls.shape(to, Shape(delay_us, jitter_us, loss, rate_bits_per_second=rate))
        case Cut(daemons, for_us):
            controls.cut(daemons, for_us)
        case Heal():
            controls.cut(())
        case SetWindow():
            return AdminAnswer(True, result=controls.window(request))
        case Reload():
            return AdminAnswer(True, result=controls.reload())
        case Terminate():
            controls.terminate()
        case MakePrimary():
            controls.make_primary()
        case WatchEvents():
            return AdminAnswer(True, result=controls.events())
        case Status():
            return AdminAnswer(True, status={"admin": ADMIN_VERSION, **controls.status()})
    return AdminAnswer(True)
