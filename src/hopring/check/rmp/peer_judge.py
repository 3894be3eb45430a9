"""Verdicts on a history of peers: R1 to R17 on its events, and EVS-C on its form as a history of clients."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from hopring.check.properties.property import Verdict, broken, holds
from hopring.check.rmp.list_checks import gone_is_gone, joiner_is_next, minimum_is_kept
from hopring.check.rmp.lock_checks import holder_answers, one_holder, strangers_are_served
from hopring.check.rmp.order_checks import (
    one_content,
    orders_without_holes,
    passes_as_named,
    rising_order,
    visits_everybody,
)
from hopring.check.rmp.peer_events import PeerEvent
from hopring.check.rmp.peer_history import PeerHistory, RingFault, index_peers
from hopring.check.rmp.resource_checks import comes_to_rest, freed_is_held, kept_is_needed, limits_hold
from hopring.check.rmp.survival_checks import one_primary, survives_losses

PeerCheck = Callable[[PeerHistory], Iterator[RingFault]]

PEER_PROPERTIES: Final[dict[str, PeerCheck]] = {
    "R1 one content of a timestamp": one_content,
    "R2 rising order": rising_order,
    "R3 orders without holes": orders_without_holes,
    "R4 the token passes as named": passes_as_named,
    "R5 a message with resilience k survives the loss of k members": survives_losses,
    "R6 one primary list after the other": one_primary,
    "R7 the minimum is kept": minimum_is_kept,
    "R8 who is gone is another member": gone_is_gone,
    "R9 a joiner is the next token site": joiner_is_next,
    "R10 what is freed is held by all": freed_is_held,
    "R11 what is kept is needed": kept_is_needed,
    "R12 a lock has one holder": one_holder,
    "R13 the holder of a handler answers": holder_answers,
    "R14 strangers are served once": strangers_are_served,
    "R15 a ring comes to rest": comes_to_rest,
    "R16 limits of sending hold": limits_hold,
    "R17 the token visits everybody": visits_everybody,
}
"""By name, in the order in which verdicts are given."""


def check_peers(events: Iterable[PeerEvent], quiet_end: bool) -> list[Verdict]:
    """A verdict on each of R1 to R17, of the history of one group."""
    history = index_peers(events, quiet_end)
    return [_verdict(name, next(check(history), None)) for name, check in PEER_PROPERTIES.items()]


def _verdict(name: str, fault: RingFault | None) -> Verdict:
    return holds(name) if fault is None else broken(name, fault.text)
