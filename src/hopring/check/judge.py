"""The plain checkers: verdicts on every property of daemons (EVS-S) and of clients (EVS-C) over one history.

`docs/properties.md` states each property. The first broken one is the nearest to the cause.
"""

from collections.abc import Iterable, Iterator

from hopring.check.client_history import ClientHistory, index_clients
from hopring.check.history import Components, History, index
from hopring.check.properties import CLIENTS, DAEMONS
from hopring.check.properties.property import Verdict


def check_evs(
    events: Iterable[object],
    quiet_end: bool,
    components: Components | None = None,
    *,
    counters_survive: bool = True,
) -> list[Verdict]:
    """A verdict on every property of daemons that can be judged.

    Liveness is judged only if all had come to rest when the history ended (`quiet_end`); otherwise its end
    counts as a crash of everyone. Membership precision is judged only if `components` says who could reach whom
    in the end. View ids are compared over restarts of a daemon unless its counter may have been lost.
    """
    return list(_of_daemons(index(events, quiet_end, components, counters_survive)))


def first_broken(
    events: Iterable[object],
    quiet_end: bool,
    components: Components | None = None,
    *,
    counters_survive: bool = True,
) -> Verdict | None:
    """The first property of daemons that is broken, nearest to the cause; None if all hold."""
    verdicts = _of_daemons(index(events, quiet_end, components, counters_survive))
    return next((verdict for verdict in verdicts if not verdict), None)


def check_evs_c(
    events: Iterable[object], quiet_end: bool, components: Components | None = None
) -> list[Verdict]:
    """A verdict on every property of clients that can be judged; the arguments are those of `check_evs`."""
    return list(_of_clients(index_clients(events, quiet_end, components)))


def first_broken_c(
    events: Iterable[object], quiet_end: bool, components: Components | None = None
) -> Verdict | None:
    """The first property of clients that is broken, nearest to the cause; None if all hold."""
    verdicts = _of_clients(index_clients(events, quiet_end, components))
    return next((verdict for verdict in verdicts if not verdict), None)


def _of_daemons(history: History) -> Iterator[Verdict]:
    known = history.components is not None
    return (one.judge(history) for one in DAEMONS if one.is_judged(history.quiet_end, known))


def _of_clients(history: ClientHistory) -> Iterator[Verdict]:
    known = history.components is not None
    return (one.judge(history) for one in CLIENTS if one.is_judged(history.quiet_end, known))
