"""All properties of the clients (EVS-C) over one history."""

from collections.abc import Iterable, Iterator

from hopring.check.evs.judge import Components
from hopring.check.evs_c.agreed import (
    no_gaps_after_signal,
    no_gaps_before_signal,
    safe_after_signal,
    safe_before_signal,
)
from hopring.check.evs_c.history import ClientHistory, index_clients
from hopring.check.evs_c.integrity import (
    delivery_integrity,
    nothing_twice,
    same_view_delivery,
    sane_view_delivery,
)
from hopring.check.evs_c.liveness import membership_precision, requests, self_delivery, termination
from hopring.check.evs_c.order import agreed, causal, fifo, one_order
from hopring.check.evs_c.shape import one_place, one_session, sent_once
from hopring.check.evs_c.synchrony import transitional_signals, virtual_synchrony
from hopring.check.evs_c.views import (
    ids_rise,
    initial_view,
    members_are_in,
    one_id_one_membership,
    who_comes_along,
)
from hopring.check.verdict import Verdict

# Causes before effects: the first one that is broken is the one to look at.
SAFETY = (
    *(one_session, sent_once, one_place),
    *(initial_view, members_are_in, ids_rise, one_id_one_membership, who_comes_along),
    *(nothing_twice, delivery_integrity, sane_view_delivery, same_view_delivery),
    *(fifo, causal, agreed, one_order),
    *(virtual_synchrony, transitional_signals),
    *(no_gaps_before_signal, no_gaps_after_signal, safe_before_signal, safe_after_signal),
)
LIVENESS = (requests, self_delivery, termination)


def check_evs_c(
    events: Iterable[object], quiet_end: bool, components: Components | None = None
) -> list[Verdict]:
    """A verdict on every property that can be judged; the arguments are those of `check_evs`."""
    return list(_verdicts(index_clients(events, quiet_end), components))


def first_broken_c(
    events: Iterable[object], quiet_end: bool, components: Components | None = None
) -> Verdict | None:
    """The first property that is broken, nearest to the cause; None if all hold."""
    return next((one for one in _verdicts(index_clients(events, quiet_end), components) if not one), None)


def _verdicts(history: ClientHistory, components: Components | None) -> Iterator[Verdict]:
    for check in (*SAFETY, *(LIVENESS if history.quiet_end else ())):
        yield check(history)
    if history.quiet_end and components is not None:
        yield membership_precision(history, components)
