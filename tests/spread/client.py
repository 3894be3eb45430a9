"""A byte-level Spread client: requests are handwritten, in either byte order; replies are read by fields.

It shares no code with the daemon.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import pack, unpack_from

UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE = 0x1, 0x2, 0x4, 0x8, 0x10, 0x20
SELF_DISCARD = 0x40
BY_JOIN, BY_LEAVE, BY_DISCONNECT, BY_NETWORK = 0x100, 0x200, 0x400, 0x800
REG_MEMB, TRANSITION = 0x1000, 0x2000
JOIN, LEAVE, KILL = 0x10000, 0x20000, 0x40000
MARKER = 0x80000080
NULL = b"NULL".ljust(90, b"\0")
WAIT_SECONDS = 60.0


def padded(name: str | bytes) -> bytes:
    return (name.encode() if isinstance(name, str) else name).ljust(32, b"\0")


def frame(
    order: str,
    word: int,
    name: str,
    groups: tuple[str | bytes, ...] = (),
    body: bytes = b"",
    *,
    tag: int = 0,
) -> bytes:
    """A frame as a client of this byte order, `<` or `>`, writes it."""
    marker = MARKER if order == "<" else 0
    head = pack(f"{order}I32sIII", word | marker, name.encode(), len(groups), tag << 8 | marker, len(body))
    return head + b"".join(map(padded, groups)) + body


def hello(
    user: str, version: tuple[int, ...] = (5, 0, 1), membership: bool = True, priority: bool = False
) -> bytes:
    return bytes([*version, membership | priority << 4, len(user)]) + user.encode()


@dataclass(frozen=True)
class Shown:
    """A frame from the daemon, decoded."""

    word: int  # Without the marker.
    name: str
    groups: tuple[str, ...]
    hint: bytes
    body: bytes

    @property
    def group_id(self) -> tuple[int, int, int]:
        one, two, three = unpack_from("<III", self.body)
        return one, two, three

    @property
    def sets(self) -> list[tuple[str, ...]]:
        """The virtual-synchrony sets of a membership message."""
        (count,) = unpack_from("<I", self.body, 12)
        found, at = [], 20
        for _ in range(count):
            (size,) = unpack_from("<I", self.body, at)
            found.append(names(self.body[at + 4 : at + 4 + 32 * size]))
            at += 4 + 32 * size
        assert at == len(self.body), "bytes are left after the sets"
        return found

    @property
    def own_set(self) -> tuple[str, ...]:
        """The set at which the offset points."""
        (offset,) = unpack_from("<I", self.body, 16)
        (size,) = unpack_from("<I", self.body, 20 + offset)
        return names(self.body[24 + offset : 24 + offset + 32 * size])


def names(fields: bytes) -> tuple[str, ...]:
    found = []
    for at in range(0, len(fields), 32):
        name, zero, rest = fields[at : at + 32].partition(b"\0")
        assert (zero, rest.strip(b"\0")) == (b"\0", b""), "names are padded with NUL"
        found.append(name.decode())
    return tuple(found)


@dataclass
class Client:
    """A session over any byte stream.

    `read` returns exactly the requested number of bytes, or fewer at the end.
    """

    write: Callable[[bytes], None]
    read: Callable[[int], bytes]
    close: Callable[[], None]
    order: str = "<"
    name: str = ""  # The private group.
    welcome: bytes = b""
    seen: list[bytes] = field(default_factory=list)  # Frames as they were received.

    def connect(
        self, user: str, version: tuple[int, ...] = (5, 0, 1), membership: bool = True, priority: bool = False
    ) -> "Client":
        """Performs the whole handshake; fails if it is refused."""
        self.write(hello(user, version, membership, priority))
        if version >= (3, 16):
            (size,) = self.read(1)
            assert self.read(size) == b"NULL ", "no list of methods"
            self.write(NULL)
        head = self.read(4 if version < (3, 15) else 5)
        assert head[0] == 1, f"welcome, not {head.hex()}"
        name = self.read(head[-1])
        self.welcome, self.name = head + name, name.decode()
        return self

    def say(self, word: int, *groups: str | bytes, body: bytes = b"", tag: int = 0) -> None:
        self.write(frame(self.order, word, self.name, groups, body, tag=tag))

    def join(self, group: str) -> None:
        self.say(JOIN, group)

    def leave(self, group: str) -> None:
        self.say(LEAVE, group)

    def kill(self) -> None:
        self.say(KILL, self.name)

    def take_bytes(self) -> bytes:
        """The bytes of the next frame; empty at the end of the connection."""
        head = self.read(48)
        if not head:
            return b""
        word, _, count, _, size = unpack_from("<I32sI4sI", head)
        assert word & MARKER == MARKER, "the frame is not little-endian"
        rest = self.read(32 * count + size)
        assert len(head + rest) == 48 + 32 * count + size, "the frame is not complete"
        self.seen.append(head + rest)
        return head + rest

    def take(self) -> Shown | None:
        """The next frame; None at the end of the connection."""
        data = self.take_bytes()
        if not data:
            return None
        word, name, count, hint, _ = unpack_from("<I32sI4sI", data)
        body_at = 48 + 32 * count
        return Shown(word & ~MARKER, names(name)[0], names(data[48:body_at]), hint, data[body_at:])

    def view(self) -> Shown:
        """The next frame, which must be a view."""
        shown = self.take()
        assert shown is not None, "the connection ended instead of a view"
        assert shown.word & REG_MEMB, f"a view, not {shown}"
        return shown

    def message(self) -> Shown:
        """The next frame, which must be a message."""
        shown = self.take()
        assert shown is not None, "the connection ended instead of a message"
        assert shown.word & 0x3F, f"a message, not {shown}"
        return shown

    def ended(self) -> bool:
        """Whether the daemon has closed the connection without sending anything before."""
        return self.read(1) == b""


def dial(place: str, order: str = "<") -> Client:
    """Connects as Spread spells addresses: `4803@127.0.0.1`, or the path of a Unix socket."""
    port, at, host = place.partition("@")
    family = socket.AF_INET if at else socket.AF_UNIX
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(WAIT_SECONDS)
    sock.connect((host, int(port)) if at else place)

    def read(size: int) -> bytes:
        found = b""
        while len(found) < size:
            try:
                chunk = sock.recv(size - len(found))
            except ConnectionResetError:
                break
            if not chunk:
                break
            found += chunk
        return found

    return Client(sock.sendall, read, sock.close, order)
