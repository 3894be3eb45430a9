"""Receipts: a client that asks for one is told where its message stands in the order, member or not.

It asks with a ticket from 1 to 255 in the message's hints, which travel with the bundle. A daemon delivers
what its own sessions send, whoever is a member; so when a bundle comes back to where it was sent, its tickets
are read from it, and nothing has to be kept meanwhile but whether the session asked at all.
"""

from hopring.groups.payloads import unseal
from hopring.membership.events import Delivered
from hopring.session.place import Place
from hopring.session.words import Receipt
from hopring.wire.bundle import decode_bundle


def receipt_of(event: Delivered, closing: bool) -> Receipt | None:
    """The receipt for a session's own bundle, if it asked for one."""
    _, payload = unseal(event.message.payload)
    tickets = tuple([hint for hint in decode_bundle(payload).hints.tolist() if hint])
    return Receipt(tickets, Place(event.view, *event.position), closing) if tickets else None
