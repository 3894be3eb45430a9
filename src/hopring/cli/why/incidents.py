"""Finds incidents in the events of daemons: times in which views were lost, and what became of them.

Views that were lost within `GAP_S` of each other, by whatever daemon, are one incident. It ends with the first
view in which those who had lost each other are together again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hopring.cli.monitor.event_lines import LoggedEvent
from hopring.reason import ReasonKind

GAP_S: Final = 5.0
_NO_LOSS: Final = ("", ReasonKind.START, ReasonKind.MERGE)


@dataclass(frozen=True, slots=True)
class SeenView:
    """A view as one daemon installed it."""

    daemon: str
    at_s: float
    id: str
    members: tuple[str, ...]
    gone: tuple[str, ...]
    came: tuple[str, ...]
    kind: str
    witness: str
    peer: str
    link: str
    silence_s: float
    noticed_s: float
    cause: str
    own: str  # What the daemon itself had noticed, if that is another reason.
    own_peer: str

    @property
    def noticed_at_s(self) -> float:
        """When the witness noticed the loss."""
        return self.at_s - self.noticed_s

    @property
    def heard_at_s(self) -> float:
        """When the peer was heard last or, for a stall, when it began."""
        return self.noticed_at_s - self.silence_s

    @property
    def loss(self) -> bool:
        """Whether it followed a loss: not only daemons that came."""
        return bool(self.gone) or (self.kind not in _NO_LOSS and not self.came)


@dataclass(slots=True)
class Incident:
    """Views that were lost together."""

    views: list[SeenView]  # By time.
    healed: SeenView | None = None
    sides: list[tuple[str, ...]] = field(default_factory=list)  # Members of the views, the largest first.
    gone: tuple[str, ...] = ()  # Lost by somebody, and in no view that is known.

    @property
    def first(self) -> SeenView:
        """The view whose reason was noticed first, hearsay last."""
        return min(
            self.views, key=lambda one: (one.kind in ("", ReasonKind.LOST), one.noticed_at_s, one.daemon)
        )

    @property
    def since_s(self) -> float:
        """When all was well last, as far as it is known."""
        return min([one.heard_at_s for one in self.views])

    @property
    def noticed_at_s(self) -> float:
        """When the first daemon noticed."""
        return min([one.noticed_at_s for one in self.views])

    @property
    def last_s(self) -> float:
        """When the last of its views was installed."""
        return max([one.at_s for one in self.views])

    def is_over(self, view: SeenView) -> bool:
        """Whether a daemon sees all those again in this view that it had lost."""
        own = [one for one in self.views if one.daemon == view.daemon]
        lost = {name for one in own for name in one.gone}
        return bool(lost) and lost.issubset(view.members) and view.at_s >= own[-1].at_s

    @property
    def lost(self) -> set[str]:
        """The daemons that somebody lost."""
        return {name for view in self.views for name in view.gone}


def views_of(histories: Mapping[str, Sequence[LoggedEvent]]) -> list[SeenView]:
    """The views that all daemons installed, by time."""
    found = [
        _seen(daemon, event)
        for daemon, events in histories.items()
        for event in events
        if event.name == "view" and event.facts.get("id")
    ]
    return sorted(found, key=lambda view: (view.at_s, view.daemon))


def _seen(daemon: str, event: LoggedEvent) -> SeenView:
    facts = event.facts
    return SeenView(
        daemon=daemon,
        at_s=event.at_s,
        id=facts["id"],
        members=event.list_of("members"),
        gone=event.list_of("gone"),
        came=event.list_of("came"),
        kind=facts.get("kind", ""),
        witness=facts.get("witness", daemon),
        peer=facts.get("peer", ""),
        link=facts.get("link", ""),
        silence_s=event.number("silence"),
        noticed_s=event.number("noticed"),
        cause=facts.get("cause", ""),
        own=facts.get("own", ""),
        own_peer=facts.get("own_peer", ""),
    )


def find_incidents(views: Iterable[SeenView]) -> list[Incident]:
    """The incidents that these views show, by time."""
    ordered = sorted(views, key=lambda view: (view.at_s, view.daemon))
    incidents: list[Incident] = []
    over_at_s = float("inf")  # When the last incident was over.
    for view in ordered:
        if not view.loss:
            if incidents and incidents[-1].is_over(view):
                over_at_s = min(over_at_s, view.at_s)
        elif incidents and _belongs(view, incidents[-1], over_at_s):
            incidents[-1].views.append(view)
        else:
            incidents.append(Incident([view]))
            over_at_s = float("inf")
    for at, incident in enumerate(incidents):
        until_s = incidents[at + 1].last_s if at + 1 < len(incidents) else float("inf")
        _find_outcome(incident, ordered, until_s)
    return incidents


def _belongs(view: SeenView, incident: Incident, over_at_s: float) -> bool:
    """Whether a view was lost with those of an incident, or by the stall that was the reason of it."""
    stalled = view.kind == ReasonKind.STALL and view.heard_at_s <= incident.noticed_at_s
    near = view.noticed_at_s - incident.last_s <= GAP_S and view.noticed_at_s <= over_at_s
    return stalled or near


def _find_outcome(incident: Incident, ordered: Sequence[SeenView], until_s: float) -> None:
    """Notes the sides of an incident, who is in none of them, and when they met again."""
    during = [view for view in ordered if incident.noticed_at_s <= view.at_s <= until_s]
    incident.healed = next((view for view in during if incident.is_over(view)), None)
    if not incident.lost:
        incident.healed = max(incident.views, key=lambda view: view.at_s)
    healed = incident.healed
    # Small views may have met before the end, and the last one has no sides any more.
    parted = [view for view in during if healed is None or (view.id != healed.id and view.at_s < healed.at_s)]
    last = {view.daemon: view for view in (parted if incident.lost else incident.views)}
    incident.sides = sorted({view.members for view in last.values()}, key=lambda side: (-len(side), side))
    inside = {name for side in incident.sides for name in side}
    incident.gone = tuple(sorted(incident.lost - inside))
