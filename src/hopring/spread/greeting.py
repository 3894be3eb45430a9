"""The handshake as a client makes it. Pure: it says what to send and how many bytes it wants next.

It never wants more than the daemon has to send, so that nothing of the first frame is taken with it.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from hopring.spread.handshake import METHOD_BYTES, METHODS_BYTES, USER_BYTES_MAX, VERSION, Code

CLOSED: Final = -8
"""What a client tells itself when a daemon went away, or said what no daemon says."""

SILENT_METHODS: Final = (b"NULL", b"IP")
"""Methods of authentication in which nothing is said, the first that is offered it is."""

_REFUSALS: Final = range(-9, -2)
_SIGN: Final = 0x80
_NAME_BYTES_MAX: Final = 31
_OLDEST_DAEMON: Final = (3, 1, 0)


class Welcome(NamedTuple):
    """There is a session, under this name."""

    version: tuple[int, int, int]
    private_group: bytes


class Refusal(NamedTuple):
    """There is none; a code of the daemon, or CLOSED."""

    code: int


class Greeting:
    """One connection's, from our hello to the daemon's answer."""

    def __init__(self, user: bytes, membership: bool, priority: bool) -> None:
        """The daemon judges the name, and invents one if it is empty."""
        assert len(user) <= USER_BYTES_MAX, "whoever calls makes it fit"
        self.out = bytes([*VERSION, membership | priority << 4, len(user)]) + user  # To be sent, once.
        self.wants = 1  # Bytes; none when it is over.
        self.result: Welcome | Refusal | None = None
        self._next: Callable[[bytes], None] = self._length
        self._version = (0, 0, 0)

    def receive(self, data: bytes) -> None:
        """Takes the bytes that it wants."""
        assert self.wants
        assert len(data) == self.wants
        self.out, self.wants = b"", 0
        self._next(data)

    def _want(self, size: int, then: Callable[[bytes], None]) -> None:
        self.wants, self._next = size, then

    def _refuse(self, code: int) -> None:
        self.result = Refusal(code if code in _REFUSALS else CLOSED)

    def _length(self, data: bytes) -> None:
        length = int.from_bytes(data, signed=True)
        if length < 0 or length > METHODS_BYTES:
            self._refuse(length)
        elif length == 0:
            self._refuse(Code.AUTH)  # Nothing is allowed; the daemon will say so itself.
        else:
            self._want(length, self._methods)

    def _methods(self, data: bytes) -> None:
        offered = data.split(b" ")
        ours = [one for one in SILENT_METHODS if one in offered]
        if not ours:
            self._refuse(Code.AUTH)
            return
        self.out = ours[0].ljust(METHOD_BYTES, b"\0").ljust(METHODS_BYTES, b"\0")
        self._want(1, self._answer)

    def _answer(self, data: bytes) -> None:
        if data[0] == Code.ACCEPT:
            self._want(4, self._facts)
        else:
            self._refuse(int.from_bytes(data, signed=True))

    def _facts(self, data: bytes) -> None:
        *version, length = data
        if any(one & _SIGN for one in version) or not 1 <= length <= _NAME_BYTES_MAX:
            self._refuse(CLOSED)
            return
        self._version = (version[0], version[1], version[2])
        if self._version < _OLDEST_DAEMON:
            self._refuse(Code.VERSION)
        else:
            self._want(length, self._name)

    def _name(self, data: bytes) -> None:
        self.result = Refusal(CLOSED) if b"\0" in data else Welcome(self._version, data)
