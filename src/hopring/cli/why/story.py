"""Puts a story together from evidence: incidents with their diagnoses, the clocks, and what is the case now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from hopring.cli.monitor.event_lines import LoggedEvent
from hopring.cli.why.clocks import ClockEstimate, corrected, estimate_clocks
from hopring.cli.why.diagnosis import Diagnosis, diagnose, find_strangers
from hopring.cli.why.evidence import Evidence
from hopring.cli.why.incidents import Incident, SeenView, find_incidents, views_of
from hopring.printable import printable
from hopring.reason import ReasonKind

CLOCKS_EQUAL_S: Final = 0.05
LINES_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class Story:
    """All that is told of a cluster."""

    evidence: Evidence
    clocks: dict[str, ClockEstimate]
    views: list[SeenView]
    incidents: list[tuple[Incident, Diagnosis]]
    strangers: list[Diagnosis]


def make_story(evidence: Evidence) -> Story:
    """The story of this evidence, by one clock."""
    clocks = estimate_clocks(evidence.histories, evidence.asked)
    histories: dict[str, list[LoggedEvent]] = corrected(evidence.histories, clocks)
    views = views_of(histories)
    incidents = find_incidents(views)
    told = [(incident, diagnose(incident, evidence, histories)) for incident in incidents]
    return Story(evidence, clocks, views, told, find_strangers(evidence, histories, incidents))


def incident_of(story: Story, view: str) -> tuple[Incident, Diagnosis] | None:
    """The incident that this view belongs to or healed; ValueError if nobody knows the view."""
    known = [one for one in story.views if one.id == view or one.id.startswith(f"{view}.")]
    if not known:
        raise ValueError(view)
    ids = {one.id for one in known}
    for incident, diagnosis in story.incidents:
        healed = incident.healed is not None and incident.healed.id in ids
        if healed or any(one.id in ids for one in incident.views):
            return incident, diagnosis
    return None


# As text.


def time_text(at_s: float) -> str:
    """A time as the log writes it."""
    moment = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def incident_text(incident: Incident, diagnosis: Diagnosis) -> str:
    """What happened, since when, where, who noticed, why, what to do; then the views as evidence."""
    first, healed = incident.first, incident.healed
    ran = "ran last" if first.kind == ReasonKind.STALL else f"heard {first.peer or 'the others'} last"
    heard = f"{first.witness} {ran} at {time_text(first.heard_at_s)}"
    since = (
        f"{time_text(incident.noticed_at_s)}; {heard}" if first.silence_s else time_text(incident.noticed_at_s)
    )
    if healed is None:
        until = "lasts" if incident.lost else "is over"
    else:
        lasted = f"{healed.at_s - incident.noticed_at_s:.1f} s"
        until = f"{time_text(healed.at_s)} ({lasted} later), by view {healed.id}"
    lines = [
        ("what", _what(incident)),
        ("since", since),
        ("until", until),
        ("where", diagnosis.where),
        ("why", diagnosis.text),
        ("noticed", f"first by {first.witness}: {first.cause.removeprefix(f'{first.witness}: ')}"),
        ("do", diagnosis.remedy),
    ]
    rows = [f"{head:8}{text}" for head, text in lines]
    views = incident.views[:LINES_MAX]
    rows += [f"  {time_text(one.at_s)} {one.daemon:8} {_view_text(one)}" for one in views]
    if len(incident.views) > len(views):
        rows.append(f"  and {len(incident.views) - len(views)} more views")
    if healed is not None and healed not in incident.views:
        rows.append(f"  {time_text(healed.at_s)} {healed.daemon:8} {_view_text(healed)}")
    return "\n".join([printable(row) for row in rows])


def _what(incident: Incident) -> str:
    sides = [" ".join(side) for side in incident.sides]
    sides += [f"{' '.join(incident.gone)} (not heard from)"] if incident.gone else []
    if len(sides) > 1:
        return f"{len(sides)} sides: {' | '.join(sides)}"
    return f"the view was formed again, of {sides[0]}"


def _view_text(view: SeenView) -> str:
    change = f", without {' '.join(view.gone)}" if view.gone else ""
    change += f", with {' '.join(view.came)}" if view.came else ""
    own = f"; itself: {view.own} {view.own_peer}".rstrip() if view.own else ""
    return f"view {view.id} of {len(view.members)}{change} ({view.cause}{own})"


def stranger_text(diagnosis: Diagnosis) -> str:
    """A daemon that is not with the others, and what to do."""
    rows = [f"what    {diagnosis.where} is not in the view of the others", f"why     {diagnosis.text}"]
    return "\n".join([printable(row) for row in [*rows, f"do      {diagnosis.remedy}"]])


def clocks_text(story: Story) -> str:
    """One line about the clocks, if there are several."""
    if len(story.clocks) < 2:
        return ""
    parts = []
    for name, clock in sorted(story.clocks.items()):
        if not clock.known:
            parts.append(f"{name} unknown, taken as equal")
        elif abs(clock.ahead_s) > CLOCKS_EQUAL_S or clock.error_s > CLOCKS_EQUAL_S:
            parts.append(f"{name} {clock.ahead_s:+.3f} s (within {clock.error_s:.3f})")
    asked = all(name in story.evidence.asked for name in story.clocks)
    by = "this host's clock" if asked else "one of them"
    said = ", ".join(parts) or f"all within {CLOCKS_EQUAL_S} s"
    return printable(f"clocks  estimated against {by}: {said}")


def quiet_text(story: Story, since: str) -> str:
    """That nothing was lost, and the view that all are in."""
    last = {view.daemon: view for view in story.views}
    now = sorted({(view.id, view.members) for view in last.values()})
    if not now:
        return f"no daemon has installed a view{since}"
    views = "; ".join([f"{identifier}: {' '.join(members)}" for identifier, members in now])
    return printable(f"no view was lost{since}; the present one is {views}")


# As JSON.


def incident_facts(incident: Incident, diagnosis: Diagnosis) -> dict[str, object]:
    """An incident as plain values."""
    first, healed = incident.first, incident.healed
    return {
        "fault": diagnosis.fault.value,
        "where": diagnosis.where,
        "text": diagnosis.text,
        "remedy": diagnosis.remedy,
        "sides": [list(side) for side in incident.sides],
        "gone": list(incident.gone),
        "noticed": time_text(incident.noticed_at_s),
        "last_heard": time_text(incident.since_s),
        "first": {"witness": first.witness, "peer": first.peer, "kind": first.kind, "cause": first.cause},
        "healed": None if healed is None else time_text(healed.at_s),
        "views": sorted({view.id for view in incident.views}),
    }


def story_facts(story: Story, chosen: Sequence[tuple[Incident, Diagnosis]]) -> dict[str, object]:
    """The chosen incidents, strangers, clocks and problems as plain values."""
    return {
        "incidents": [incident_facts(*one) for one in chosen],
        "strangers": [
            {"fault": one.fault.value, "where": one.where, "text": one.text, "remedy": one.remedy}
            for one in story.strangers
        ],
        "clocks": {
            name: {"ahead_s": round(one.ahead_s, 6), "error_s": round(one.error_s, 6), "known": one.known}
            for name, one in sorted(story.clocks.items())
        },
        "problems": story.evidence.problems,
    }
