"""How verdicts on clients are called, so that nobody takes them for those on daemons."""

from collections.abc import Callable

from hopring.check.evs.history import History
from hopring.check.evs_c.history import ClientHistory
from hopring.check.verdict import Verdict, broken, holds

EVS_C = "EVS-C "


def of_each_group(check: Callable[[History], Verdict], history: ClientHistory) -> Verdict:
    """What a check of daemons says of the first group that breaks it; a holding verdict if none does."""
    verdict = check(History(history.quiet_end, {}, history.whole.messages, {}, {}))
    for _, group in sorted(history.groups.items()):
        verdict = check(group)
        if not verdict:
            break
    return of_clients(verdict)


def of_clients(verdict: Verdict) -> Verdict:
    """The same, said of clients."""
    return Verdict(EVS_C + verdict.property, verdict.holds, verdict.witness)


def first_of(name: str, witness: str | None) -> Verdict:
    """Broken if there is a witness."""
    return holds(EVS_C + name) if witness is None else broken(EVS_C + name, witness)
