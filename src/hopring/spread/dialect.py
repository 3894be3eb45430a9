"""The dialect of Spread clients: what they are shown, and how a conversation with them begins.

Implements  the client protocol of Spread 4 and 5, from the daemon's side; see docs/spread.md.
"""

from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from hopring.groups.events import Cause, DeliverBundle, GroupView, LeftGroup, ShowSignal, ShowView
from hopring.groups.groups import Groups
from hopring.groups.names import GroupMember
from hopring.groups.private_groups import private_group
from hopring.session.held import Held, Loss, held
from hopring.session.options import SessionOptions
from hopring.spread.bits import FREE_BITS_AT, SERVICE_BITS, Bits
from hopring.spread.conversation import SpreadConversation
from hopring.spread.frames import REST_BYTES_MAX, Reader, encode_messages
from hopring.spread.handshake import IP, NULL, USER_BYTES_MAX, Handshake
from hopring.spread.membership import Sets, group_id, own_leave, signal, view
from hopring.spread.names import shown_groups, shown_session

_SELF_DISCARD: Final = int(Bits.SELF_DISCARD)
_INVENTED_MAX: Final = 10 ** (USER_BYTES_MAX - 1)


class Spread:
    """As one daemon speaks it."""

    native = False

    def __init__(
        self,
        groups: Groups,
        message_bytes_max: int,
        options: Callable[[], SessionOptions],
        order: Sequence[str] = (),
    ) -> None:
        """The order is that of the daemons in the configuration file, in which members are listed."""
        assert message_bytes_max >= REST_BYTES_MAX, "whatever a Spread daemon takes fits into a bundle"
        self._groups = groups
        self._message_bytes_max = message_bytes_max
        self._options = options
        self.reorder(order)

    def reorder(self, order: Sequence[str]) -> None:
        """The daemons are listed in another order from now on."""
        self._rank = {daemon: at for at, daemon in enumerate(order)}

    def converse(self, session: int, address: str = "") -> SpreadConversation:
        """With a new client."""
        options = self._options()
        methods = (NULL, IP) if options.spread_access else (NULL,)
        handshake = Handshake(methods, may_come(address, options.spread_access))
        reader = Reader(REST_BYTES_MAX, self._message_bytes_max)
        groups, slow = self._groups, options.spread_slow
        return SpreadConversation(groups, session, handshake, reader, lambda: self._invented(session), slow)

    def _invented(self, session: int) -> str:
        """A name that nobody here has."""
        number = session
        while self._groups.named(name := f"r{number % _INVENTED_MAX}"):
            number += 1
        return name

    # What is shown.

    def messages(self, deliver: DeliverBundle) -> Held:
        """The frames of a bundle, end to end."""
        bundle = deliver.picked()
        run, types, bodies = bundle.run, bundle.types.tolist(), bundle.messages()
        bits = SERVICE_BITS[run.service] | (_SELF_DISCARD if run.self_discard else 0)
        bits |= run.spread_bits << FREE_BITS_AT
        sender = shown_session(deliver.sender)
        if run.mixed:
            frames = b"".join(
                [
                    encode_messages(
                        bits, sender, shown_groups(bundle.groups_of(at)), run.big_endian, [types[at]], [body]
                    )
                    for at, body in enumerate(bodies)
                ]
            )
        else:
            names = run.spread_groups or shown_groups(run.groups)
            frames = encode_messages(bits, sender, names, run.big_endian, types, bodies)
        return held(frames, Loss(run.groups, len(bundle), len(bundle.bodies)))

    def view(self, show: ShowView) -> Held:
        """A regular membership message."""
        shown = show.view
        cause, sets, own = self._sets(shown)
        named = Sets(tuple([self._named(one) for one in sets]), own)
        return held(view(shown.group, group_id(shown.id), self._named(shown.members), cause, named))

    def signal(self, show: ShowSignal) -> Held:
        """A transitional message."""
        return held(signal(show.group, group_id(show.id)))

    def left(self, event: LeftGroup) -> Held:
        """What a session sees of its own leave."""
        return held(own_leave(event.group))

    def _sets(self, shown: GroupView) -> tuple[Cause, tuple[tuple[GroupMember, ...], ...], int]:
        """The cause as Spread has it, the virtual-synchrony sets, and which is the receivers' own."""
        if shown.cause is Cause.NETWORK:
            own = next(at for at, one in enumerate(shown.sets) if set(shown.together) <= set(one))
            return shown.cause, shown.sets, own
        assert shown.who is not None, "somebody joined, left or vanished"
        if shown.cause is not Cause.JOIN or not shown.id.closing:
            return shown.cause, ((shown.who,),), 0
        # While the daemons' view is closing, a join is one more change of network.
        before = tuple([one for one in shown.members if one != shown.who])
        sets = (before, (shown.who,)) if before else ((shown.who,),)
        return Cause.NETWORK, sets, len(sets) - 1 if shown.together == (shown.who,) else 0

    def _named(self, members: Sequence[GroupMember]) -> tuple[str, ...]:
        daemons, rank = self._groups.names, self._rank
        last = len(rank)
        ranked = sorted(
            members, key=lambda one: (rank.get(daemons[one.daemon], last), one.daemon, one.name.encode())
        )
        return tuple([shown_session(private_group(one.name, daemons[one.daemon])) for one in ranked])


def may_come(address: str, networks: tuple[str, ...]) -> bool:
    """Whether a client from there is let in; one of this host, by a Unix socket, always is."""
    if not networks or not address:
        return True
    found = ip_address(address)
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in ip_network(one) for one in networks)
