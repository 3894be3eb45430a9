"""A session of Spread clients at real daemons, byte by byte: the transcript of docs/spread_session.md.

Three daemons, with a client at each. They join a group, one sends, the third daemon is cut off and comes back,
and then it crashes. Every frame is recorded as it was received, with its fields explained.
"""

import re
from dataclasses import dataclass, field
from struct import unpack_from

from tests.spread.client import AGREED, BY_NETWORK, JOIN, REG_MEMB, TRANSITION, Client, dial, frame, hello

from hopring.local.blocking import Cluster

BITS = {
    0x10: "AGREED",
    0x100: "CAUSED_BY_JOIN",
    0x200: "CAUSED_BY_LEAVE",
    0x400: "CAUSED_BY_DISCONNECT",
    0x800: "CAUSED_BY_NETWORK",
    0x1000: "REG_MEMB",
    0x2000: "TRANSITION",
    0x10000: "JOIN",
}
GROUP = "grp"
ROW = re.compile(r"^ *\d+  ((?:[0-9a-f]{2} )+)(?:\+ (\d+) x 00)?")


@dataclass
class Page:
    """The text of the transcript."""

    lines: list[str] = field(default_factory=list)

    def head(self, text: str) -> None:
        self.lines += [f"## {text}", ""]

    def say(self, text: str) -> None:
        self.lines += [text, ""]

    def bytes(self, title: str, rows: list[tuple[bytes, str]]) -> None:
        """Adds one message, field by field."""
        self.lines += [f"**{title}**", "", "```"]
        at = 0
        for raw, meaning in rows:
            self.lines.append(f"{at:4}  {shown(raw):<50} {meaning}".rstrip())
            at += len(raw)
        self.lines += ["```", ""]


def shown(raw: bytes) -> str:
    """Hexadecimal text, with the padding counted."""
    bare = raw.rstrip(b"\0") if len(raw) > 4 else raw
    text = " ".join([f"{one:02x}" for one in bare])
    return f"{text} + {len(raw) - len(bare)} x 00" if len(bare) < len(raw) else text


def read_back(page: str) -> list[tuple[str, bytes]]:
    """The titles and bytes that a page shows."""
    found: list[tuple[str, bytes]] = []
    for line in page.splitlines():
        if line.startswith("**"):
            found.append((line.strip("*"), b""))
        elif match := ROW.match(line):
            title, data = found[-1]
            raw = bytes.fromhex(match[1]) + bytes(int(match[2] or 0))
            found[-1] = (title, data + raw)
    return found


def fields(data: bytes) -> list[tuple[bytes, str]]:
    """The fields of a frame, in either byte order."""
    little = bool(data[0] & 0x80)
    order = "<" if little else ">"
    word, name, count, hint, size = unpack_from(f"{order}I32sI4sI", data)
    sender_order = "little" if hint[0] & 0x80 else "big"
    message_type = (unpack_from("<I" if hint[0] & 0x80 else ">I", hint)[0] >> 8) & 0xFFFF
    kind = word & ~0x80000080
    names = " + ".join([text for bit, text in BITS.items() if kind & bit])
    marker = "little-endian" if little else "big-endian"
    membership = kind & 0x3F00
    rows = [
        (data[:4], f"type {kind:#x}: {names}; written {marker}"),
        (data[4:36], f"{'group' if membership else 'sender'} {text_of(name)}"),
        (data[36:40], f"number of {'members' if membership else 'groups'}: {count}"),
        (hint, f"hint: type of message {message_type:#x}, written {sender_order}-endian"),
        (data[44:48], f"bytes of the body: {size}"),
    ]
    for at in range(48, 48 + 32 * count, 32):
        rows.append(
            (data[at : at + 32], f"{'member' if membership else 'group'} {text_of(data[at : at + 32])}")
        )
    return rows + body_fields(kind, data[48 + 32 * count :])


def body_fields(kind: int, body: bytes) -> list[tuple[bytes, str]]:
    """The fields after the groups."""
    if not kind & (REG_MEMB | TRANSITION):
        return [(body, f"body: {body.decode()}")] if body else []
    of = "the view that closes" if kind & TRANSITION else "this view"
    rows = [
        (body[:4], f"id of {of}: a hash of the daemons' view"),
        (body[4:8], "its counter, where Spread has a time"),
        (body[8:12], f"its step: {unpack_from('<I', body, 8)[0]}"),
    ]
    if kind & TRANSITION:
        return rows
    count, offset = unpack_from("<II", body, 12)
    rows += [
        (body[12:16], f"number of virtual-synchrony sets: {count}"),
        (body[16:20], f"the receiver's own set begins {offset} bytes behind this field"),
    ]
    at = 20
    while at < len(body):
        (size,) = unpack_from("<I", body, at)
        rows.append((body[at : at + 4], f"members of a set: {size}"))
        for place in range(at + 4, at + 4 + 32 * size, 32):
            rows.append((body[place : place + 32], f"in it: {text_of(body[place : place + 32])}"))
        at += 4 + 32 * size
    return rows


def text_of(name: bytes) -> str:
    return name.rstrip(b"\0").decode()


def tell(cluster: Cluster) -> str:
    """Runs the session; returns the page."""
    page = Page()
    alice, bob, carol = dial(cluster.spread("d1")), dial(cluster.spread("d2"), ">"), dial(cluster.spread("d3"))
    _handshake(page, alice)
    bob.connect("bob", (4, 4, 0))
    carol.connect("carol")

    page.head("Joins")
    page.say("alice joins, then bob, whose client writes big-endian, as Java does; then carol.")
    page.bytes("alice says", fields(frame("<", JOIN, alice.name, (GROUP,))))
    alice.join(GROUP)
    _see(page, alice, "alice")
    page.bytes("bob says", fields(frame(">", JOIN, bob.name, (GROUP,))))
    bob.join(GROUP)
    _see(page, alice, "alice and bob", bob)
    carol.join(GROUP)
    _see(page, alice, "alice, bob and carol", bob, carol)

    page.head("A message")
    page.say("bob sends. The type word is in the daemon's byte order when it arrives, the hint is in bob's.")
    said = frame(">", AGREED, bob.name, (GROUP,), b"hello", tag=0x1234)
    page.bytes("bob says", fields(said))
    bob.write(said)
    _see(page, alice, "alice, bob and carol", bob, carol)

    page.head("The network splits")
    page.say("d3 is cut off. Each side sees its view close, and then who is left.")
    cluster.partition({"d1", "d2"}, {"d3"})
    _see(page, alice, "alice and bob", bob)
    _see(page, alice, "alice and bob", bob)
    _see(page, carol, "carol")
    _see(page, carol, "carol")

    page.head("The network merges")
    page.say(
        "Members and sets are the same for all; the offset of the own set tells each side who came with it."
    )
    cluster.heal()
    _see(page, alice, "alice and bob", bob)
    _see(page, carol, "carol")

    page.head("A daemon crashes")
    page.say(
        "d3 is killed. carol reads the end of her connection; the others see their view close, and another."
    )
    cluster.crash("d3")
    assert carol.take() is None, "the session of the crashed daemon is still open"
    _see(page, alice, "alice and bob", bob)
    _see(page, alice, "alice and bob", bob)
    for one in (alice, bob, carol):
        one.close()
    return "\n".join(page.lines).strip() + "\n"


def _handshake(page: Page, alice: Client) -> None:
    page.head("A handshake")
    page.say("A client of version 5.0.1 that wants membership messages.")
    said = hello("alice")
    rows = [(said[:3], "version 5.0.1"), (said[3:4], "wants membership"), (said[4:5], "bytes of the name")]
    page.bytes("alice says", [*rows, (said[5:], "name alice")])
    alice.write(said)
    methods = alice.read(6)
    page.bytes("d1 answers", [(methods[:1], "bytes of the list"), (methods[1:], "methods: NULL")])
    choice = b"NULL".ljust(90, b"\0")
    page.bytes("alice says", [(choice, "the chosen method, in three fields of 30 bytes")])
    alice.write(choice)
    head = alice.read(5)
    name = alice.read(head[4])
    rows = [(head[:1], "accepted"), (head[1:4], "version 5.0.1"), (head[4:], "bytes of the private group")]
    page.bytes("d1 answers", [*rows, (name, f"private group {name.decode()}")])
    alice.name = name.decode()


def _see(page: Page, one: Client, who: str, *others: Client) -> None:
    """Reads the next frame, which must be the same for all of these clients."""
    assert one.take() is not None, "the connection has ended"
    for other in others:
        other.take()
        assert other.seen[-1] == one.seen[-1], "the clients received different bytes"
    page.bytes(f"{who} {'see' if others else 'sees'}", fields(one.seen[-1]))


def story_of(page: str) -> list[object]:
    """The content of a page without values that differ in every run: ids of views and the order of sets."""
    found: list[object] = []
    for title, data in read_back(page):
        little = data[0] & 0x80
        (word,) = unpack_from("<I" if little else ">I", data.ljust(4, b"\0"))
        kind = word & ~0x80000080
        if len(data) < 48 or not kind & (REG_MEMB | TRANSITION):
            found.append((title, data))
            continue
        (count,) = unpack_from("<I", data, 36)
        body = data[48 + 32 * count :]
        sets = sorted(
            [meaning for _, meaning in body_fields(kind, body) if meaning.startswith(("members", "in it"))]
        )
        found.append((title, data[: 48 + 32 * count], sets, kind & BY_NETWORK))
    return found
