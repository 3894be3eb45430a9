"""What the braid tells: of each knot what changed, of each view its members and its times. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from hopring.check.picture.drawing import letter
from hopring.spark.report import words
from hopring.spark.report.braid import Epoch, Leg
from hopring.value import Value


class ViewFacts(Value, frozen=True):
    """A view, from all daemons that were in it."""

    view: str
    letter: str
    number: int
    name: str
    members: tuple[str, ...]
    causes: tuple[str, ...]
    first_us: int  # Installed at the first of them,
    last_us: int  # and at the last.
    end_us: int  # When the last of them left it.
    lasts: bool
    closing_us: int | None  # The longest time from the signal to the end.


def views(legs: Iterable[Leg]) -> list[ViewFacts]:
    """All views in the order of time."""
    by_view = {
        view: list(them) for view, them in groupby(sorted(legs, key=lambda leg: leg.stay.view), _view_of_leg)
    }
    order = sorted(by_view, key=lambda view: (min(leg.stay.begin_us for leg in by_view[view]), view))
    return [_facts(number, view, by_view[view]) for number, view in enumerate(order)]


def _view_of_leg(leg: Leg) -> str:
    return leg.stay.view


def _facts(number: int, view: str, legs: list[Leg]) -> ViewFacts:
    closing = [leg.end_us - leg.stay.signalled_us for leg in legs if leg.stay.signalled_us is not None]
    causes = Counter([leg.stay.cause for leg in legs if leg.stay.cause])
    return ViewFacts(
        view,
        letter(number),
        number,
        words.view(view),
        tuple(sorted({one for leg in legs for one in leg.stay.members} or {leg.stay.daemon for leg in legs})),
        tuple(sorted(causes, key=lambda cause: (-causes[cause], cause))),
        min(leg.stay.begin_us for leg in legs),
        max(leg.stay.begin_us for leg in legs),
        max(leg.end_us for leg in legs),
        any(leg.end == "lasts" for leg in legs),
        max(closing, default=None),
    )


def told(view: ViewFacts) -> str:
    """All of a view in one line."""
    parts = [
        f"View {view.letter} ({view.name})",
        f"{words.plural(len(view.members), 'member')}: {words.names(view.members)}",
        f"{words.span(view.end_us - view.first_us)}" + (", to the end" if view.lasts else ""),
    ]
    parts += [f"cause: {words.short(view.causes[0], 90)}"] if view.causes else []
    parts += [f"closing for {words.span(view.closing_us)}"] if view.closing_us is not None else []
    return " · ".join(parts)


def what_changed(before: Epoch | None, behind: Epoch) -> str:
    """In a word or two."""
    if before is None:
        return "start"
    now = {daemon: bundle.view for bundle in behind.bundles for daemon in bundle.daemons}
    then = {daemon: bundle.view for bundle in before.bundles for daemon in bundle.daemons}
    changes = []
    if any(len({now[one] for one in bundle.daemons if one in now}) > 1 for bundle in before.bundles):
        changes.append("split")
    if any(len({then[one] for one in bundle.daemons if one in then}) > 1 for bundle in behind.bundles):
        changes.append("merge")
    changes += _who(sorted(set(then) - set(now)), "gone") + _who(sorted(set(now) - set(then)), "comes")
    return ", ".join(changes) or "new view"


def _who(daemons: Sequence[str], what: str) -> list[str]:
    if not daemons:
        return []
    if len(daemons) == 1:
        return [f"{words.short(daemons[0], 16)} {what}"]
    return [f"{len(daemons)} {what.removesuffix('s')}"]


def counted(knots: Iterable[tuple[Epoch | None, Epoch]]) -> Counter[str]:
    """How many splits and merges there were."""
    return Counter(word for pair in knots for word in what_changed(*pair).split(", "))
