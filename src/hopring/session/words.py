"""The words of the client protocol: bodies of all frames but those that carry bundles.

A word is a msgpack array with exactly its fields. Members of a view are listed once; other lists of them are
places in that one.

The values here are read by msgspec at run time, so this file is not compiled.
"""

from typing import Annotated, Final

import msgspec

from hopring.errors import Drop, PeerError
from hopring.groups.names import GroupViewId, ViewCause
from hopring.session.frames import Frame, Kind, encode_frame
from hopring.session.options import SlowPolicy
from hopring.session.place import Place

NUMBER_BYTES_MAX: Final = 2**62

Count = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_BYTES_MAX)]
Name = Annotated[str, msgspec.Meta(max_length=256)]
Text = Annotated[str, msgspec.Meta(max_length=1024)]


class Word(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What all words have in common."""


class Hello(Word, frozen=True):
    """The client's first word."""

    name: Name
    window_bytes: Count  # Of events that it has not taken.
    membership: bool = True  # Whether it wants views and signals.
    slow: SlowPolicy = "kick"  # What is done when it does not keep up.
    priority: bool = False  # Whether its requests and events go before those of others.


class Join(Word, frozen=True):
    """The client wants to be a member."""

    group: Name


class Leave(Word, frozen=True):
    """The client wants to be a member no longer."""

    group: Name


class Credit(Word, frozen=True):
    """So much of what the other end sent is done with; it may send that much more."""

    size_bytes: Count


class Quit(Word, frozen=True):
    """The client wants to end when all that it asked for is done."""


class Ask(Word, frozen=True):
    """The client wants to know something of the daemon; what is told is in answers.py."""

    serial: Count  # Of its own choice.
    what: Name  # groups, members, view, daemon or weights.
    name: Name = ""  # Of the group.
    after: Name = ""  # The last one of the page before; the view that is known.


class Welcome(Word, frozen=True):
    """The daemon's first word: the session is there."""

    daemon: Name
    daemon_number: Count
    session: Count
    private_group: Name
    message_bytes_max: Count
    window_bytes: Count  # Of requests that have not gone out.


class Refused(Word, frozen=True):
    """A request that nothing comes of; after that of a HELLO the connection ends."""

    request: Name  # hello, join or leave.
    name: Name  # Of the session or the group.
    reason: Text
    remedy: Text


class Member(Word, frozen=True):
    """A session in a group."""

    name: Name
    daemon: Name
    incarnation: Annotated[int, msgspec.Meta(ge=0)]
    session: Count


Places = tuple[Count, ...]


class View(Word, frozen=True):
    """Who is in a group from here on."""

    group: Name
    id: GroupViewId
    members: tuple[Member, ...]
    together: Places
    cause: ViewCause
    who: Member | None
    sets: tuple[Places, ...]


class Signal(Word, frozen=True):
    """The group's view is closing; what follows until the next one is promised among these only."""

    group: Name
    id: GroupViewId
    together: tuple[Member, ...]


class Left(Word, frozen=True):
    """The client's own leave has its place here."""

    group: Name


class Receipt(Word, frozen=True):
    """Messages whose sender asked for it have their place in the order, and are delivered at its daemon."""

    tickets: tuple[Count, ...]
    place: Place
    closing: bool  # Whether the daemons' view was closing: then it holds among those who stay together.
    members: tuple[
        Count | None, ...
    ]  # For each ticket, the sessions in the message's groups there; None: unknown.


class Answer(Word, frozen=True):
    """What the client asked."""

    serial: Count
    body: bytes


class Gap(Word, frozen=True):
    """Messages of these groups are missing here, because the client was slow and wanted it so."""

    messages: Count
    size_bytes: Count
    groups: tuple[Name, ...]
    complete: bool  # Whether all groups are named.


class Warning(Word, frozen=True):
    """So much waits for the client; beyond the limit its policy acts."""

    waiting_bytes: Count
    limit_bytes: Count
    policy: SlowPolicy


class Error(Word, frozen=True):
    """Why the daemon ends the connection."""

    reason: Text
    detail: Text
    remedy: Text


class Goodbye(Word, frozen=True):
    """The session's end has its place here; all that it asked for is done."""


_KIND: Final[dict[type[Word], Kind]] = {
    Hello: Kind.HELLO,
    Join: Kind.JOIN,
    Leave: Kind.LEAVE,
    Credit: Kind.CREDIT,
    Quit: Kind.QUIT,
    Ask: Kind.ASK,
    Welcome: Kind.WELCOME,
    Refused: Kind.REFUSED,
    View: Kind.VIEW,
    Signal: Kind.SIGNAL,
    Left: Kind.LEFT,
    Receipt: Kind.RECEIPT,
    Gap: Kind.GAP,
    Warning: Kind.WARNING,
    Error: Kind.ERROR,
    Goodbye: Kind.GOODBYE,
    Answer: Kind.ANSWER,
}
_encoder: Final = msgspec.msgpack.Encoder()
_decoders: Final = {kind: msgspec.msgpack.Decoder(word) for word, kind in _KIND.items()}


def encode_word(word: Word) -> bytes:
    """A word as a frame."""
    return encode_frame(_KIND[type(word)], _encoder.encode(word))


def decode_word(frame: Frame) -> Word:
    """The word in a frame of any kind that has one."""
    decoder = _decoders.get(frame.kind)
    if decoder is None:
        raise PeerError(Drop.UNKNOWN_TYPE, f"{frame.kind.name} has no word")
    try:
        word: Word = decoder.decode(frame.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerError(Drop.INCONSISTENT, f"{frame.kind.name}: {error}") from None
    return word
