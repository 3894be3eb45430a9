"""All properties of the daemons (EVS-S) over one history."""

from collections.abc import Collection, Iterable, Iterator

from hopring.check.evs.agreed import agreed_after_signal, agreed_before_signal
from hopring.check.evs.history import History, index
from hopring.check.evs.integrity import (
    delivery_integrity,
    no_duplication,
    same_view_delivery,
    sane_view_delivery,
)
from hopring.check.evs.liveness import membership_precision, self_delivery, termination
from hopring.check.evs.order import agreed_order, causal_order, fifo_order, order_agreement
from hopring.check.evs.safe import safe_after_signal, safe_before_signal
from hopring.check.evs.shape import one_life, one_stamp, sent_once
from hopring.check.evs.synchrony import transitional_signals, virtual_synchrony
from hopring.check.evs.views import (
    initial_view,
    local_monotonicity,
    membership_agreement,
    self_inclusion,
    transitional_set,
)
from hopring.check.verdict import Verdict

Components = Iterable[Collection[str]]
"""The daemons that are up, by who can reach whom."""

# Causes before effects: the first one that is broken is the one to look at.
ASSUMPTIONS = (one_life, sent_once, one_stamp)
VIEWS = (initial_view, self_inclusion, local_monotonicity, membership_agreement, transitional_set)
DELIVERIES = (no_duplication, delivery_integrity)
ORDER = (same_view_delivery, fifo_order, causal_order, agreed_order, order_agreement)
SETS = (
    *(virtual_synchrony, transitional_signals),
    *(agreed_before_signal, agreed_after_signal, safe_before_signal, safe_after_signal),
)
LIVENESS = (self_delivery, termination)


def check_evs(
    events: Iterable[object],
    quiet_end: bool,
    components: Components | None = None,
    *,
    counters_survive: bool = True,
) -> list[Verdict]:
    """A verdict on every property that can be judged.

    Liveness is judged only if all had come to rest when the history ended (`quiet_end`); otherwise its end
    counts as a crash of everyone. Membership precision is judged only if `components` says who could reach whom
    in the end. View ids are compared over restarts of a daemon unless its counter may have been lost.
    """
    return list(_verdicts(index(events, quiet_end), components, counters_survive))


def first_broken(
    events: Iterable[object],
    quiet_end: bool,
    components: Components | None = None,
    *,
    counters_survive: bool = True,
) -> Verdict | None:
    """The first property that is broken, nearest to the cause; None if all hold."""
    verdicts = _verdicts(index(events, quiet_end), components, counters_survive)
    return next((verdict for verdict in verdicts if not verdict), None)


def _verdicts(history: History, components: Components | None, counters_survive: bool) -> Iterator[Verdict]:
    for check in (*ASSUMPTIONS, *VIEWS, *DELIVERIES):
        yield check(history)
    yield sane_view_delivery(history, counters_survive)
    for check in (*ORDER, *SETS, *(LIVENESS if history.quiet_end else ())):
        yield check(history)
    if components is not None:
        yield membership_precision(history, components)
