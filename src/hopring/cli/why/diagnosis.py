"""Judges an incident: which link or daemon is to blame, and why, by what both sides say.

What somebody did (a cut by hand, an orderly stop, a reload) goes before what a daemon says of itself (it did
not run), that before what its restart shows (it crashed), and that before what others missed (a silent link).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hopring.cli.monitor.event_lines import LoggedEvent
from hopring.cli.why.evidence import Evidence
from hopring.cli.why.incidents import Incident, SeenView, views_of
from hopring.reason import ReasonKind

NEAR_S: Final = 5.0
"""An event this long before or after a loss may belong to it."""

STALL_PART: Final = 0.5
"""A stall explains a silence of which it covers at least this part."""


class FaultKind(StrEnum):
    """What has happened, in one word for programs."""

    CUT = "cut"
    SHAPED = "shaped"
    STALLED = "stalled"
    STOPPED = "stopped"
    RELOADED = "reloaded"
    CRASHED = "crashed"
    NOT_RUNNING = "not running"
    NOT_ANSWERING = "not answering"
    NETWORK = "network"
    ONE_WAY = "one way"
    ONE_SIDE = "one side known"
    UNREACHED = "unreached"
    REFUSED = "refused"
    OPERATOR = "operator"
    PROTOCOL = "protocol"
    OVERLOAD = "overload"
    DISK = "disk"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The fault, the daemon or link that it is at, and what to do."""

    fault: FaultKind
    where: str
    text: str
    remedy: str


_HEAL: Final = "`hop monitor heal` ends the cut; `hop monitor review` shows it"
_HOST: Final = (
    "look at that host: processor time (`stalled` in the log), limits of its cgroup, suspend, a slow disk"
)
_START: Final = "start it again if that was not wanted"
_CRASH: Final = "look at the end of its log and the kernel's (out of memory), and see that it is restarted"
_FROZEN: Final = "look at that process: SIGCONT if it was stopped, otherwise its processor time and its disk"
_PATH: Final = "check that UDP passes both ways between these sites: routers, firewalls, `hop doctor FILE`"
_RING: Final = "check the network inside the site (switch, cable, firewall), and that those hosts run"


def diagnose(
    incident: Incident, evidence: Evidence, histories: Mapping[str, Sequence[LoggedEvent]]
) -> Diagnosis:
    """The most certain explanation of an incident."""
    case = _Case(incident, evidence, histories)
    for found in (
        case.by_hand(),
        case.stopped(),
        case.stalled(),
        case.crashed(),
        case.silent(),
        case.said(),
        case.link(),
        case.ring(),
    ):
        if found is not None:
            return found
    first = incident.first
    return Diagnosis(FaultKind.UNKNOWN, first.witness, f"{first.daemon} says: {first.cause}", _RING)


class _Case:
    """One incident with all that is known around it."""

    def __init__(
        self, incident: Incident, evidence: Evidence, histories: Mapping[str, Sequence[LoggedEvent]]
    ) -> None:
        self.incident = incident
        self.evidence = evidence
        self.histories = histories
        healed_s = float("inf") if incident.healed is None else incident.healed.at_s
        self.until_s = healed_s + NEAR_S
        self.missed = {*incident.lost, *[view.peer for view in incident.views if view.peer]}

    def _events(self, daemon: str, name: str, since_s: float, until_s: float) -> Iterator[LoggedEvent]:
        for event in self.histories.get(daemon, ()):
            if event.name == name and since_s <= event.at_s <= until_s:
                yield event

    # What somebody did.

    def by_hand(self) -> Diagnosis | None:
        """A cut or a shape of the admin channel that was in force when the silence began."""
        shaped: Diagnosis | None = None
        concerned = {*self.missed, *[view.daemon for view in self.incident.views]}
        for daemon in sorted(self.histories):
            cut, shapes = self._in_force(daemon)
            others = (concerned if daemon in self.missed else self.missed) - {daemon}
            if cut is not None and daemon in concerned and (parted := sorted(set(cut[1]) & others)):
                who = f"user {cut[0].facts['user']}" if "user" in cut[0].facts else "somebody"
                text = f"{daemon} was cut off from {' '.join(parted)} by {who} over its admin channel"
                return Diagnosis(FaultKind.CUT, self._between(daemon, parted), text, _HEAL)
            for peer, request in sorted(shapes.items()):
                if peer in self.missed or daemon in self.missed:
                    text = (
                        f"packets from {daemon} to {peer} were delayed or lost by hand: {_shape_text(request)}"
                    )
                    remedy = "undo it: `shape` without figures on the admin channel, or restart the daemon"
                    shaped = shaped or Diagnosis(FaultKind.SHAPED, self._between(daemon, [peer]), text, remedy)
        return shaped

    def _in_force(
        self, daemon: str
    ) -> tuple[tuple[LoggedEvent, list[str]] | None, dict[str, dict[str, object]]]:
        cut: tuple[LoggedEvent, list[str]] | None = None
        shapes: dict[str, dict[str, object]] = {}
        for event in self.histories[daemon]:
            if event.name not in ("admin", "start") or event.at_s > self.incident.noticed_at_s:
                continue
            request = _request(event)
            verb = request.get("verb")
            if event.name == "start" or "healed" in event.facts or verb == "heal":
                # A cut that was undone while the silence lasted may still be the reason.
                cut = cut if event.at_s > self.incident.since_s else None
                shapes = {} if event.name == "start" else shapes
            elif verb == "cut":
                cut = (event, _names(request.get("daemons")))
            elif verb == "shape":
                figures = {key: value for key, value in request.items() if key not in ("verb", "to") and value}
                for peer in _names(request.get("to")):
                    shapes[peer] = figures
        return cut, {peer: figures for peer, figures in shapes.items() if figures}

    def stopped(self) -> Diagnosis | None:
        """A daemon that ended in an orderly way, or changed its configuration."""
        for view in self.incident.views:
            if view.kind == ReasonKind.RELOAD:
                text = f"{view.witness} changed its configuration"
                return Diagnosis(
                    FaultKind.RELOADED, view.witness, text, "give all daemons the same file, and reload them"
                )
        leavers = {view.peer for view in self.incident.views if view.kind == ReasonKind.LEAVE}
        for name in sorted(self.missed | leavers):
            since_s, until_s = self.incident.since_s - NEAR_S, self.incident.last_s
            reloads = list(self._events(name, "reload", self.incident.noticed_at_s - 2.0, until_s + NEAR_S))
            rebuilt = [one for one in reloads if "hash" in one.facts]
            if name in leavers and rebuilt:
                text = f"{name} changed its configuration"
                return Diagnosis(
                    FaultKind.RELOADED, name, text, "give all daemons the same file, and reload them"
                )
            if name in leavers or list(self._events(name, "leave", since_s, until_s)):
                text = f"{name} was stopped in an orderly way"
                return Diagnosis(FaultKind.STOPPED, name, text, _START)
        return None

    # What daemons say of themselves, and what they show.

    def stalled(self) -> Diagnosis | None:
        """A daemon that did not run, by its own words."""
        views = [view for events in self.histories.values() for view in self._later(events)]
        for view in [*self.incident.views, *views]:
            if view.kind == ReasonKind.STALL:
                return self._stall(view.witness, view.silence_s)
        for name in sorted(self.missed):
            for event in self._events(name, "stalled", self.incident.since_s, self.until_s):
                seconds = event.number("seconds")
                began_s = event.at_s - seconds
                covered_s = min(event.at_s, self.incident.noticed_at_s) - max(began_s, self.incident.since_s)
                if covered_s > STALL_PART * (self.incident.noticed_at_s - self.incident.since_s):
                    return self._stall(name, seconds)
        return None

    def _later(self, events: Sequence[LoggedEvent]) -> Iterator[SeenView]:
        """Views of a daemon up to the end of the incident whose witness was missed in it."""
        near = [one for one in events if self.incident.noticed_at_s <= one.at_s <= self.until_s]
        for view in views_of({event.daemon: near for event in near}):
            if view.witness in self.missed and view.heard_at_s <= self.incident.last_s:
                yield view

    def _stall(self, name: str, seconds: float) -> Diagnosis:
        text = f"{name} did not run for {seconds:.1f} s: it was stopped, starved of processor time or suspended"
        return Diagnosis(FaultKind.STALLED, name, text, _HOST)

    def crashed(self) -> Diagnosis | None:
        """A daemon that was started again without having ended."""
        for name in sorted(self.missed):
            for event in self._events(name, "start", self.incident.since_s - NEAR_S, self.until_s):
                if event.facts.get("after") == "crash":
                    when = event.at_s - self.incident.noticed_at_s
                    later = (
                        f"{when:.1f} s after its loss was noticed"
                        if when > 0
                        else "before its loss was noticed"
                    )
                    text = f"{name} crashed or was killed; it was started again {later}"
                    return Diagnosis(FaultKind.CRASHED, name, text, _CRASH)
        return None

    def silent(self) -> Diagnosis | None:
        """A daemon that is lost until now, and does not answer on its admin channel."""
        if self.incident.healed is not None:
            return None
        for name in sorted(self.missed):
            why = self.evidence.silent.get(name)
            if why is None:
                continue
            if "refused" in why or "No such file" in why:
                text = f"{name} does not run: nothing listens on its admin socket"
                return Diagnosis(FaultKind.NOT_RUNNING, name, text, _CRASH)
            if "no answer within" in why:
                text = f"{name} has a process that answers nobody: it is stopped, starved, or waits for a disk"
                return Diagnosis(FaultKind.NOT_ANSWERING, name, text, _FROZEN)
        return None

    def said(self) -> Diagnosis | None:
        """A reason that says all by itself."""
        faults = {
            ReasonKind.OPERATOR: (FaultKind.OPERATOR, "nothing is to be done"),
            ReasonKind.PROTOCOL: (FaultKind.PROTOCOL, "compare the versions of all daemons, and report it"),
            ReasonKind.OVERLOAD: (FaultKind.OVERLOAD, "send less, or give the link a higher rate"),
            ReasonKind.DISK: (FaultKind.DISK, "make room on the disk of the state directory"),
        }
        for view in self.incident.views:
            for kind, (fault, remedy) in faults.items():
                if view.kind == kind:
                    return Diagnosis(fault, view.witness, f"{view.witness} says: {view.cause}", remedy)
        return None

    # What others missed.

    def link(self) -> Diagnosis | None:
        """A link between two sites that was silent or made no progress."""
        views = [view for view in self.incident.views if view.kind == ReasonKind.LINK]
        if not views:
            return None
        view = min(views, key=lambda one: (one.noticed_at_s, one.daemon))
        near, far = view.witness, view.peer
        where = f"link {view.link or f'{near}-{far}'}"
        if missed := self._missed_by(far, near, views):
            both = f"{near} missed {far}, and {far} missed {missed}"
            text = f"nothing passed on the {where} in either direction: {both}"
            return Diagnosis(FaultKind.NETWORK, where, text, _PATH)
        if self._heard_of(far, near):
            text = (
                f"packets from {far} to {near} were lost on the {where}, and those from {near} to {far} arrived"
            )
            return Diagnosis(FaultKind.ONE_WAY, where, text, _PATH)
        if self._present(far):
            return Diagnosis(FaultKind.NETWORK, where, f"the {where} failed: {view.cause}", _PATH)
        text = f"{near} heard nothing of {far} on the {where}; nothing is known from {far} itself"
        remedy = f"see whether {far} runs; if it does, {_PATH}"
        return Diagnosis(FaultKind.ONE_SIDE, where, text, remedy)

    def _missed_by(self, far: str, near: str, views: Sequence[SeenView]) -> str:
        """Whom the other end missed, by a reason or its own account: this one, or another of its side."""
        missed = {view.peer for view in views if view.witness == far}
        own = [view for view in self.incident.views if view.daemon == far]
        missed |= {view.own_peer for view in own if view.own == ReasonKind.LINK}
        if near in missed:
            return near
        beside = {name for side in self.incident.sides if near in side and far not in side for name in side}
        return min(missed & beside, default="")

    def _heard_of(self, far: str, near: str) -> bool:
        """Whether the other end, or its site, only heard that this one had lost the view."""
        site = self.evidence.site_of(far)
        beside = {far, *[name for name in self.histories if site and self.evidence.site_of(name) == site]}
        for view in self.incident.views:
            told = view.witness in beside and view.kind == ReasonKind.LOST and view.peer == near
            own = view.daemon in beside and view.own == ReasonKind.LOST and view.own_peer == near
            if told or own:
                return True
        return False

    def _present(self, name: str) -> bool:
        return any(view.daemon == name for view in self.incident.views)

    def ring(self) -> Diagnosis | None:
        """Daemons of one site that missed each other."""
        views = [view for view in self.incident.views if view.kind == ReasonKind.RING]
        if not views:
            return None
        view = min(views, key=lambda one: (one.noticed_at_s, one.daemon))
        where = f"site {view.link}" if view.link else f"the site of {view.witness}"
        lost = sorted(self.incident.lost)
        alive = [name for name in lost if self._present(name)]
        if not lost:
            text = f"the token of {where} was lost for {view.silence_s:.1f} s, and all its daemons are there"
            return Diagnosis(FaultKind.NETWORK, where, text, _RING)
        if not alive:
            who = " ".join(lost)
            text = f"{who} was not heard any more in {where}; nothing is known from {who} itself"
            return Diagnosis(FaultKind.UNREACHED, who, text, f"see whether it runs; if it does, {_RING}")
        sides = " | ".join([" ".join(side) for side in self.incident.sides])
        text = f"daemons of {where} missed each other while all of them ran: {sides}"
        return Diagnosis(FaultKind.NETWORK, where, text, _RING)

    def _between(self, daemon: str, others: Sequence[str]) -> str:
        """The link, site or daemons that a cut by hand concerns."""
        here = self.evidence.site_of(daemon)
        sites = {self.evidence.site_of(other) for other in others}
        if here and sites == {here}:
            return f"site {here}"
        if here and len(sites - {here, ""}) == 1 and "" not in sites:
            return f"link {'-'.join(sorted([here, *(sites - {here})]))}"
        return f"{daemon} and {' '.join(others)}"


def _request(event: LoggedEvent) -> dict[str, object]:
    try:
        read = json.loads(event.facts.get("request", ""))
        answer = json.loads(event.facts.get("answer", "{}"))
    except (ValueError, RecursionError):
        return {}
    done = isinstance(answer, dict) and answer.get("ok") is True
    return read if isinstance(read, dict) and done else {}


def _names(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _shape_text(figures: Mapping[str, object]) -> str:
    return ", ".join([f"{key} {value}" for key, value in sorted(figures.items())])


def find_strangers(
    evidence: Evidence, histories: Mapping[str, Sequence[LoggedEvent]], incidents: Sequence[Incident]
) -> list[Diagnosis]:
    """Daemons that are not with the others now: refused, or never in a view with them."""
    last = {name: [one for one in events if one.name == "view"][-1:] for name, events in histories.items()}
    views = {name: events[0].list_of("members") for name, events in last.items() if events}
    whole = min(views.values(), key=lambda members: (-len(members), members), default=())
    lost_at_s: dict[str, float] = {}
    for one in incidents:
        if one.healed is None:
            lost_at_s |= dict.fromkeys([*one.lost, *[view.daemon for view in one.views]], one.last_s)
    found: list[Diagnosis] = []
    for name in sorted(evidence.daemons - set(whole)):
        # One that was lost may have come back as something that the others refuse.
        refused = _refused(name, histories, lost_at_s.get(name, 0.0))
        if refused is not None or name not in lost_at_s:
            found.append(refused or _stranger(name, evidence))
    return found


_REFUSALS: Final = frozenset({"key", "clear_text", "seal", "cluster", "version", "certificate"})


def _refused(name: str, histories: Mapping[str, Sequence[LoggedEvent]], since_s: float) -> Diagnosis | None:
    """What daemons have refused about each other since then."""
    for other, events in sorted(histories.items()):
        for event in reversed(events):
            concerned = name in (other, event.facts.get("daemon", "")) and "daemon" in event.facts
            if event.name == "refused" and concerned and event.at_s >= since_s:
                text = f"{name} is refused: {event.facts.get('problem', 'no reason')} (said by {other})"
                remedy = event.facts.get("remedy", "compare `hop config check` on all hosts")
                return Diagnosis(FaultKind.REFUSED, name, text, remedy)
    for event in reversed(histories.get(name, ())):
        reason = event.facts.get("reason", "").replace(" ", "_")
        if event.name == "dropped" and reason in _REFUSALS and event.at_s >= since_s:
            text = f"{name} refuses the packets of the others: {event.facts['reason']}"
            return Diagnosis(FaultKind.REFUSED, name, text, event.facts.get("remedy", "compare the keys"))
    return None


def _stranger(name: str, evidence: Evidence) -> Diagnosis:
    if name in evidence.silent:
        text = f"{name} is not with the others and cannot be asked: {evidence.silent[name]}"
        return Diagnosis(FaultKind.NOT_ANSWERING, name, text, "see whether it runs")
    text = f"{name} is configured, and in none of these views"
    return Diagnosis(FaultKind.UNREACHED, name, text, f"start it; if it runs, {_PATH}")
