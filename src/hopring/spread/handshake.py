"""The handshake from both sides: version and name, methods of authentication, welcome. Pure: bytes in and out.

Clients before 3.16 do not know methods and send none; those before 3.15 send and expect two bytes of version
instead of three. The client's side never reads more than the daemon has to send, so that it
reads nothing of the first frame.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final, NamedTuple

USER_BYTES_MAX: Final = 10
METHOD_BYTES: Final = 30
METHODS_BYTES: Final = 3 * METHOD_BYTES
VERSION: Final = (5, 0, 1)
"""The announced version: clients require 3 or more, and this is the newest that they know."""

NULL: Final = "NULL"
IP: Final = "IP"

_FIRST_VERSION: Final = (3, 1)
_LAST_OF_TWO_BYTES: Final = (3, 14)
_PATCH_WELCOME: Final = (3, 15, 0)
_METHODS_SINCE: Final = (3, 16, 0)


class HandshakeCode(IntEnum):
    """The codes of the handshake on the wire."""

    ACCEPT = 1
    QUOTA = -3
    ILLEGAL_NAME = -5
    NOT_UNIQUE = -6
    VERSION = -7
    AUTH = -9


class HandshakeStage(Enum):
    """The stages of the handshake at the daemon."""

    NAME = "name"
    WAITS = "waits"  # For the daemon's decision about the name.
    METHODS = "methods"
    DONE = "done"
    REFUSED = "refused"


class HandshakeRequest(NamedTuple):
    """The client's request for a session; for an empty name the daemon chooses one."""

    user: str
    membership: bool
    priority: bool


@dataclass(slots=True)
class Handshake:
    """The daemon's side of a handshake, from the first byte to the welcome."""

    methods: tuple[str, ...] = (NULL,)  # Methods that a client may choose; none of them exchanges bytes.
    passes: bool = True  # The result of the checks for every client, such as that of its address.
    stage: HandshakeStage = HandshakeStage.NAME
    version: tuple[int, int, int] = (0, 0, 0)
    out: list[bytes] = field(default_factory=list)  # To be sent.
    _private_group: str = ""
    _buffer: bytearray = field(default_factory=bytearray)

    @property
    def rest(self) -> bytes:
        """After the handshake: the input behind it."""
        return bytes(self._buffer)

    def receive(self, chunk: bytes) -> HandshakeRequest | None:
        """Adds bytes; returns the client's request once, and then waits for `accept` or `refuse`."""
        self._buffer += chunk
        wants = self._name() if self.stage is HandshakeStage.NAME else None
        if self.stage is HandshakeStage.METHODS:
            self._methods()
        return wants

    def accept(self, private_group: str) -> None:
        """Accepts the name of the client."""
        assert self.stage is HandshakeStage.WAITS, "the client has sent its name"
        self._private_group = private_group
        if self.version < _METHODS_SINCE:
            self._decide()
            return
        methods = "".join(f"{one} " for one in self.methods).encode()
        self.out.append(bytes([len(methods)]) + methods)
        self.stage = HandshakeStage.METHODS
        self._methods()

    def refuse(self, code: HandshakeCode) -> None:
        """Refuses the session with a code."""
        self.out.append(code.to_bytes(1, signed=True))
        self.stage = HandshakeStage.REFUSED

    def _name(self) -> HandshakeRequest | None:
        data = self._buffer
        if len(data) < 2:
            return None
        short = (data[0], data[1]) <= _LAST_OF_TWO_BYTES
        head = 4 if short else 5
        if (data[0], data[1]) < _FIRST_VERSION:
            self.refuse(HandshakeCode.VERSION)
            return None
        if len(data) < head:
            return None
        flags, length = data[head - 2], data[head - 1]
        if length > USER_BYTES_MAX:
            self.refuse(HandshakeCode.ILLEGAL_NAME)
            return None
        if len(data) < head + length:
            return None
        self.version = (data[0], data[1], 0 if short else data[2])
        user = bytes(data[head : head + length])
        del data[: head + length]
        if not all(ord("#") < one <= ord("~") for one in user):
            self.refuse(HandshakeCode.ILLEGAL_NAME)
            return None
        self.stage = HandshakeStage.WAITS
        return HandshakeRequest(user.decode("ascii"), bool(flags & 1), bool(flags >> 4))

    def _methods(self) -> None:
        if len(self._buffer) < METHODS_BYTES:
            return
        field_ = bytes(self._buffer[:METHODS_BYTES])
        del self._buffer[:METHODS_BYTES]
        fields = [field_[at : at + METHOD_BYTES] for at in range(0, METHODS_BYTES, METHOD_BYTES)]
        names = [one.partition(b"\0")[0].decode("ascii", "replace") for one in fields]
        given = [name for name in names if name]
        if not names[0] or any(name not in self.methods for name in given):
            self.refuse(HandshakeCode.AUTH)
        else:
            self._decide()

    def _decide(self) -> None:
        if self.passes:
            self._welcome()
        else:
            self.refuse(HandshakeCode.AUTH)

    def _welcome(self) -> None:
        numbers = VERSION if self.version >= _PATCH_WELCOME else VERSION[:2]
        name = self._private_group.encode("ascii")
        self.out.append(bytes([HandshakeCode.ACCEPT, *numbers, len(name)]) + name)
        self.stage = HandshakeStage.DONE


CLOSED: Final = -8
"""The client's own code for a lost connection or an invalid answer."""

SILENT_METHODS: Final = (b"NULL", b"IP")
"""Methods of authentication without an exchange; the first that the daemon offers is chosen."""

_REFUSALS: Final = range(-9, -2)
_SIGN: Final = 0x80
_NAME_BYTES_MAX: Final = 31
_OLDEST_DAEMON: Final = (3, 1, 0)


class SpreadWelcome(NamedTuple):
    """The session was accepted, with this private group."""

    version: tuple[int, int, int]
    private_group: bytes


class SpreadRefusal(NamedTuple):
    """The session was refused with a code of the daemon, or with CLOSED."""

    code: int


class ClientHandshake:
    """The client's side of a handshake: bytes to send, and the number of bytes to read next."""

    def __init__(self, user: bytes, membership: bool, priority: bool) -> None:
        """The daemon checks the name, and makes one if it is empty."""
        assert len(user) <= USER_BYTES_MAX, "the caller makes it fit"
        self.out = bytes([*VERSION, membership | priority << 4, len(user)]) + user  # To be sent, once.
        self.wants = 1  # Bytes; none when it is over.
        self.result: SpreadWelcome | SpreadRefusal | None = None
        self._next: Callable[[bytes], None] = self._length
        self._version = (0, 0, 0)

    def receive(self, data: bytes) -> None:
        """Handles exactly as many bytes as `wants`."""
        assert self.wants
        assert len(data) == self.wants
        self.out, self.wants = b"", 0
        self._next(data)

    def _want(self, size: int, then: Callable[[bytes], None]) -> None:
        self.wants, self._next = size, then

    def _refuse(self, code: int) -> None:
        self.result = SpreadRefusal(code if code in _REFUSALS else CLOSED)

    def _length(self, data: bytes) -> None:
        length = int.from_bytes(data, signed=True)
        if length < 0 or length > METHODS_BYTES:
            self._refuse(length)
        elif length == 0:
            self._refuse(HandshakeCode.AUTH)  # No method is allowed; the daemon would refuse any.
        else:
            self._want(length, self._methods)

    def _methods(self, data: bytes) -> None:
        offered = data.split(b" ")
        ours = [one for one in SILENT_METHODS if one in offered]
        if not ours:
            self._refuse(HandshakeCode.AUTH)
            return
        self.out = ours[0].ljust(METHOD_BYTES, b"\0").ljust(METHODS_BYTES, b"\0")
        self._want(1, self._answer)

    def _answer(self, data: bytes) -> None:
        if data[0] == HandshakeCode.ACCEPT:
            self._want(4, self._version_and_size)
        else:
            self._refuse(int.from_bytes(data, signed=True))

    def _version_and_size(self, data: bytes) -> None:
        *version, length = data
        if any(one & _SIGN for one in version) or not 1 <= length <= _NAME_BYTES_MAX:
            self._refuse(CLOSED)
            return
        self._version = (version[0], version[1], version[2])
        if self._version < _OLDEST_DAEMON:
            self._refuse(HandshakeCode.VERSION)
        else:
            self._want(length, self._name)

    def _name(self, data: bytes) -> None:
        self.result = SpreadRefusal(CLOSED) if b"\0" in data else SpreadWelcome(self._version, data)
