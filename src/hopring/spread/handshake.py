"""The handshake: version and name, methods of authentication, welcome. Pure: bytes in, answers out.

Clients before 3.16 know nothing of methods and send none; those before 3.15 send and expect two bytes of
version instead of three.
"""

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final, NamedTuple

USER_BYTES_MAX: Final = 10
METHOD_BYTES: Final = 30
METHODS_BYTES: Final = 3 * METHOD_BYTES
VERSION: Final = (5, 0, 1)
"""What we say that we are: clients want 3 or more, and this is the newest that they know."""

NULL: Final = "NULL"
IP: Final = "IP"

_FIRST_VERSION: Final = (3, 1)
_LAST_OF_TWO_BYTES: Final = (3, 14)
_PATCH_WELCOME: Final = (3, 15, 0)
_METHODS_SINCE: Final = (3, 16, 0)


class Code(IntEnum):
    """What is said on the wire."""

    ACCEPT = 1
    QUOTA = -3
    ILLEGAL_NAME = -5
    NOT_UNIQUE = -6
    VERSION = -7
    AUTH = -9


class Stage(Enum):
    """How far it has come."""

    NAME = "name"
    WAITS = "waits"  # For the daemon's word on the name.
    METHODS = "methods"
    DONE = "done"
    REFUSED = "refused"


class Wants(NamedTuple):
    """A client has said who it wants to be; an empty name is for us to choose."""

    user: str
    membership: bool
    priority: bool


@dataclass(slots=True)
class Handshake:
    """One client's, from its first byte to its welcome."""

    methods: tuple[str, ...] = (NULL,)  # That a client may choose; none of them exchanges bytes.
    passes: bool = True  # What the methods come to that are asked of everybody, such as a look at the address.
    stage: Stage = Stage.NAME
    version: tuple[int, int, int] = (0, 0, 0)
    out: list[bytes] = field(default_factory=list)  # To be sent.
    _private_group: str = ""
    _buffer: bytearray = field(default_factory=bytearray)

    @property
    def rest(self) -> bytes:
        """After it is done: what came behind it."""
        return bytes(self._buffer)

    def receive(self, chunk: bytes) -> Wants | None:
        """Takes bytes; says once who the client wants to be, and then waits for `accept` or `refuse`."""
        self._buffer += chunk
        wants = self._name() if self.stage is Stage.NAME else None
        if self.stage is Stage.METHODS:
            self._methods()
        return wants

    def accept(self, private_group: str) -> None:
        """The name is this one's."""
        assert self.stage is Stage.WAITS, "it has said its name"
        self._private_group = private_group
        if self.version < _METHODS_SINCE:
            self._judge()
            return
        methods = "".join(f"{one} " for one in self.methods).encode()
        self.out.append(bytes([len(methods)]) + methods)
        self.stage = Stage.METHODS
        self._methods()

    def refuse(self, code: Code) -> None:
        """There will be no session."""
        self.out.append(code.to_bytes(1, signed=True))
        self.stage = Stage.REFUSED

    def _name(self) -> Wants | None:
        data = self._buffer
        if len(data) < 2:
            return None
        short = (data[0], data[1]) <= _LAST_OF_TWO_BYTES
        head = 4 if short else 5
        if (data[0], data[1]) < _FIRST_VERSION:
            self.refuse(Code.VERSION)
            return None
        if len(data) < head:
            return None
        flags, length = data[head - 2], data[head - 1]
        if length > USER_BYTES_MAX:
            self.refuse(Code.ILLEGAL_NAME)
            return None
        if len(data) < head + length:
            return None
        self.version = (data[0], data[1], 0 if short else data[2])
        user = bytes(data[head : head + length])
        del data[: head + length]
        if not all(ord("#") < one <= ord("~") for one in user):
            self.refuse(Code.ILLEGAL_NAME)
            return None
        self.stage = Stage.WAITS
        return Wants(user.decode("ascii"), bool(flags & 1), bool(flags >> 4))

    def _methods(self) -> None:
        if len(self._buffer) < METHODS_BYTES:
            return
        field_ = bytes(self._buffer[:METHODS_BYTES])
        del self._buffer[:METHODS_BYTES]
        fields = [field_[at : at + METHOD_BYTES] for at in range(0, METHODS_BYTES, METHOD_BYTES)]
        names = [one.partition(b"\0")[0].decode("ascii", "replace") for one in fields]
        given = [name for name in names if name]
        if not names[0] or any(name not in self.methods for name in given):
            self.refuse(Code.AUTH)
        else:
            self._judge()

    def _judge(self) -> None:
        if self.passes:
            self._welcome()
        else:
            self.refuse(Code.AUTH)

    def _welcome(self) -> None:
        numbers = VERSION if self.version >= _PATCH_WELCOME else VERSION[:2]
        name = self._private_group.encode("ascii")
        self.out.append(bytes([Code.ACCEPT, *numbers, len(name)]) + name)
        self.stage = Stage.DONE
