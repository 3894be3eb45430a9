"""A conversation with one Spread client: its handshake, then its frames as words and bundles.

Nothing is answered after the handshake: this dialect has no way to refuse anything but to end the connection.
What a real daemon ignores (a second join, a leave of others' groups, a message to nobody) is ignored here too.
"""

from collections.abc import Callable
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.groups.events import RefusalReason, Send
from hopring.groups.groups import Groups
from hopring.ids import DaemonId, GroupName
from hopring.session.dialect import Admitted, Said
from hopring.session.options import TOO_MANY_CLIENTS, SlowPolicy
from hopring.session.words import NUMBER_BYTES_MAX, Error, Hello, Join, Leave, Quit, Refused, Welcome, Word
from hopring.spread.bits import SERVICES, Bits
from hopring.spread.frames import Batch, Reader
from hopring.spread.handshake import Code, Handshake, Stage
from hopring.spread.names import is_group, shown_groups
from hopring.wire.bundle import Run, encode_bundle

_CODES: Final = {
    str(RefusalReason.NAME_IN_USE): Code.NOT_UNIQUE,
    str(RefusalReason.ILLEGAL_NAME): Code.ILLEGAL_NAME,
}
"""Any other reason is that the client may not do what it wants."""


class SpreadConversation:
    """With one client."""

    greeting: Final = b""
    wants_receipts: Final = False

    def __init__(
        self,
        groups: Groups,
        session: int,
        handshake: Handshake,
        reader: Reader,
        invent: Callable[[], str],
        slow: SlowPolicy,
    ) -> None:
        """Invents a name for a client that gives none; the policy is for one that does not keep up."""
        self._groups = groups
        self._session = session
        self._handshake = handshake
        self._reader = reader
        self._invent = invent
        self._slow = slow
        self._heard = b""  # Of the handshake, not looked at.
        self._private_group = ""
        self._over = False  # Nothing that it says counts.
        # What the last messages shared,
        self._same: tuple[Bits, bool, bytes, bool, int, DaemonId] | None = None
        self._run: Run | None = None  # and how their bundles begin; None if they were for nobody.

    @property
    def admitted(self) -> bool:
        """Whether frames may follow."""
        return self._handshake.stage is Stage.DONE

    def feed(self, chunk: bytes) -> None:
        """More bytes."""
        if self._over:
            return
        if self.admitted:
            self._reader.feed(chunk)
        else:
            self._heard += chunk

    def next(self) -> Said | None:
        """The next step of the handshake, or the next request or messages."""
        if self._over:
            return None
        if not self.admitted:
            return self._shake()
        while (batch := self._reader.next()) is not None:
            if (said := self._said(batch)) is not None:
                return said
        return None

    def tell(self, word: Word) -> bytes:
        """What can be said: that a client is welcome, or why it is not."""
        match word:
            case Welcome():
                self._private_group = word.private_group
                self._handshake.accept(word.private_group)
                return self._sent()
            case Refused("hello"):
                self._handshake.refuse(_CODES.get(word.reason, Code.AUTH))
                return self._sent()
            case Error(reason) if reason == TOO_MANY_CLIENTS:
                self._handshake.refuse(Code.QUOTA)
                return self._sent()
            case _:
                return b""

    # The handshake.

    def _shake(self) -> Said | None:
        heard, self._heard = self._heard, b""
        wants = self._handshake.receive(heard)
        if wants is not None:
            user = wants.user or self._invent()
            return Hello(user, NUMBER_BYTES_MAX, wants.membership, self._slow, wants.priority)
        if self._handshake.stage is Stage.REFUSED:
            self._over = True
            return Admitted(self._sent(), "handshake refused")
        return Admitted(self._sent()) if self.admitted else None

    def _sent(self) -> bytes:
        out = b"".join(self._handshake.out)
        self._handshake.out.clear()
        if self.admitted:
            self._reader.feed(self._handshake.rest)
        return out

    # Frames.

    def _said(self, batch: Batch) -> Said | None:
        if batch.sender != self._private_group:
            raise PeerError(Drop.FOREIGN_SENDER, f"a frame in the name of {batch.sender}")
        match batch.kind:
            case Bits.KILL:
                self._over = True
                return Quit()
            case Bits.JOIN | Bits.LEAVE:
                return self._change(batch)
            case _:
                return self._send(batch)

    def _change(self, batch: Batch) -> Said | None:
        if not batch.groups:
            raise PeerError(Drop.INCONSISTENT, "a request for no group")
        # Of several a real daemon takes the first.
        group = batch.groups[0]
        if not is_group(group):
            return None
        return Join(group) if batch.kind is Bits.JOIN else Leave(group)

    def _send(self, batch: Batch) -> Send | None:
        run = self._run_of(batch)
        if run is None:
            return None
        return Send(self._session, run, encode_bundle(run, batch.bodies, batch.types, bytes(len(batch.bodies))))

    def _run_of(self, batch: Batch) -> Run | None:
        daemon = self._groups.me.daemon
        same = batch.kind, batch.self_discard, batch.names, batch.big_endian, batch.free_bits, daemon
        if same != self._same:
            # A bundle names each group once; in a message to nobody, nobody is missed.
            groups = tuple([GroupName(one) for one in dict.fromkeys(batch.groups) if one])
            run = Run(
                daemon,
                self._session,
                SERVICES[batch.kind],
                groups,
                batch.self_discard,
                big_endian=batch.big_endian,
                spread_bits=batch.free_bits,
                spread_groups=b"" if batch.names == shown_groups(groups) else batch.names,
            )
            self._same, self._run = same, run if groups else None
        return self._run
