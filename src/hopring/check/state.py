"""Judges the transfer of state: what members of a group did, as the simulator records it.

These are properties of ours, beyond extended virtual synchrony. The state of an agent is the tuple of the
operations that it has applied; in a trace there is a fingerprint instead.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from hopring.check.block_record import BlockFindings, BlockRecord, block_property, verdicts
from hopring.check.properties.property import Verdict

SPEAKERS_STATE: Final = "T1 a member becomes ready with the state that the speaker had where the round began"
HAS_STATE: Final = "T2 who speaks has a state"
ONE_SPEAKER: Final = "T3 no member is spoken for by two in one round"
SAME_STATES: Final = "T4 members that apply an operation at one place have the same state after it"
ALL_READY: Final = "T5 at the quiet end all members of a view are ready, with the same state"

State = tuple[str, ...]
AnyState = State | str
"""A state, or its fingerprint."""

FINGERPRINT_DIGITS: Final = 16
NO_PLACE: Final[tuple[int, ...]] = ()


@dataclass(frozen=True, slots=True)
class RoundBegan:
    """A member that has a state saw a round begin."""

    at_us: int
    agent: str  # Its private group.
    round: str
    state: AnyState


@dataclass(frozen=True, slots=True)
class Spoke:
    """A member claimed a state for itself and others."""

    at_us: int
    agent: str
    round: str
    of: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BecameReady:
    """A member took a state, or several that it merged; without sources it began with its own."""

    at_us: int
    agent: str
    sources: tuple[tuple[str, str], ...]  # Speaker and round.
    state: AnyState


@dataclass(frozen=True, slots=True)
class OperationApplied:
    """A member that is ready applied an operation."""

    at_us: int
    agent: str
    operation: str
    place: tuple[int, ...]
    settled: bool  # Whether it took part in the agreement of this view.
    state: AnyState  # After it.


@dataclass(frozen=True, slots=True)
class StateAtEnd:
    """The state of a member at the end of the world; None if it is not ready."""

    at_us: int
    agent: str
    view: str  # Of the group; if a partition lasts, each side has one.
    state: AnyState | None


StateEvent = RoundBegan | Spoke | BecameReady | OperationApplied | StateAtEnd
Merge = Callable[[Sequence[State]], State]


@dataclass(slots=True)
class StateJudge:
    """The state of the checks while they go through a record."""

    findings: BlockFindings
    merge: Merge | None
    began: dict[tuple[str, str], AnyState] = field(default_factory=dict)  # By agent and round.
    spoken: dict[str, dict[int, str]] = field(default_factory=dict)  # By round and member: its speaker.
    # By place and operation: those of one bundle share a place.
    applied: dict[tuple[tuple[int, ...], str], OperationApplied] = field(default_factory=dict)
    last: dict[str, tuple[int, StateAtEnd]] = field(default_factory=dict)

    def see(self, at: int, event: object) -> None:
        """Judges the event at this position by those before it."""
        match event:
            case RoundBegan():
                self.began[event.agent, event.round] = event.state
            case Spoke():
                self._spoke(at, event)
            case BecameReady():
                self._became(at, event)
            case OperationApplied():
                self._applied(at, event)
            case StateAtEnd():
                self.last[event.agent] = at, event

    def _spoke(self, at: int, event: Spoke) -> None:
        speakers = self.spoken.setdefault(event.round, {})
        for one in event.of:
            other = speakers.setdefault(one, event.agent)
            if other != event.agent:
                text = f"in round {event.round} {other} and {event.agent} speak for member {one}"
                self.findings.at(ONE_SPEAKER, at, text)

    def _became(self, at: int, event: BecameReady) -> None:
        states: list[AnyState] = []
        for source in event.sources:
            if source not in self.began:
                speaker, name = source
                text = (
                    f"{event.agent} at {event.at_us} us took the state of {speaker}, which had none in {name}"
                )
                self.findings.at(HAS_STATE, at, text)
                return
            states.append(self.began[source])
        right = self._merged(states)
        if right is not None and right != event.state:
            text = f"{event.agent} at {event.at_us} us: {difference(event.state, right)}"
            self.findings.at(SPEAKERS_STATE, at, text)

    def _merged(self, states: Sequence[AnyState]) -> AnyState | None:
        """The state that must come of these; None if that is unknown."""
        whole = [one for one in states if not isinstance(one, str)]
        if len(states) > 1 and self.merge is not None and len(whole) == len(states):
            return self.merge(whole)
        return states[0] if len(states) == 1 else None

    def _applied(self, at: int, event: OperationApplied) -> None:
        if not event.settled:
            return
        first = self.applied.setdefault((event.place, event.operation), event)
        if first.state != event.state:
            text = (
                f"after {event.operation} at {event.at_us} us, {event.agent} against {first.agent}:"
                f" {difference(event.state, first.state)}"
            )
            self.findings.at(SAME_STATES, at, text)

    def judge_end(self) -> None:
        """All are ready, and equal."""
        first: dict[str, StateAtEnd] = {}
        for at, one in self.last.values():
            other = first.setdefault(one.view, one)
            if one.state is None:
                self.findings.at(ALL_READY, at, f"{one.agent} is not ready in view {one.view}")
            elif other.state is not None and one.state != other.state:
                text = f"{one.agent} against {other.agent}: {difference(one.state, other.state)}"
                self.findings.at(ALL_READY, at, text)


def difference(state: AnyState, right: AnyState) -> str:
    """Where two states begin to differ."""
    if isinstance(state, str) or isinstance(right, str):
        return f"{fingerprint(state)} instead of {fingerprint(right)}"
    at = next((at for at, (one, other) in enumerate(zip(state, right, strict=False)) if one != other), None)
    at = min(len(state), len(right)) if at is None else at
    return (
        f"{len(state)} and {len(right)} operations, from {at} on {state[at : at + 2]} and {right[at : at + 2]}"
    )


def fingerprint(state: AnyState) -> str:
    """A short text that differs where states differ; a trace has it instead of the state."""
    if isinstance(state, str):
        return state
    digest = sha256("\0".join(state).encode()).hexdigest()
    return f"{len(state)} operations, {digest[:FINGERPRINT_DIGITS]}"


def judge_state(record: BlockRecord, merge: Merge | None = None) -> BlockFindings:
    """All violations in a record of states; what came of a merge is judged only if `merge` is known."""
    judge = StateJudge(BlockFindings(record.name), merge)
    for at, event in record.numbered:
        judge.see(at, event)
    judge.judge_end()
    return judge.findings


def check_state(events: Iterable[StateEvent], quiet_end: bool, merge: Merge) -> list[Verdict]:
    """A verdict for each property on one history, in the order of its events."""
    record = BlockRecord([*events], quiet_end)
    findings = judge_state(record, merge)
    record.take(judge_state, findings)
    return verdicts(STATE_PROPERTIES, record)


# Queries over the events of all records, which are the table audit_states.

_SOURCES: Final = """
SELECT r.run, r.record, r.position, r.agent, r.state, r.nth, size(r.sources) AS many,
       max_by(b.state, b.position) AS began, count(b.position) AS rounds
FROM (SELECT *, posexplode(sources) AS (nth, source) FROM audit_states WHERE kind = 'became_ready') r
     LEFT JOIN audit_states b ON b.run = r.run AND b.record = r.record AND b.kind = 'round_began'
          AND b.agent = r.source[0] AND b.round = r.source[1] AND b.position < r.position
GROUP BY ALL
"""
"""The sources of each state that was taken, with what these had where the round began."""

_SPEAKERS_STATE_QUERY: Final = f"""
SELECT run, record, position, agent FROM ({_SOURCES}) WHERE many = 1 AND rounds > 0 AND state <> began
"""

_HAS_STATE_QUERY: Final = f"SELECT run, record, position, agent FROM ({_SOURCES}) WHERE rounds = 0"

_ONE_SPEAKER_QUERY: Final = """
SELECT run, record, position, agent, first_agent AS other
FROM (SELECT *, first_value(agent) OVER (PARTITION BY run, record, round, member
                                         ORDER BY position) AS first_agent
      FROM (SELECT *, explode(of) AS member FROM audit_states WHERE kind = 'spoke'))
WHERE agent <> first_agent
"""

_SAME_STATES_QUERY: Final = """
SELECT run, record, position, agent, operation, first.agent AS other
FROM (SELECT *, first_value(struct(agent, state)) OVER (PARTITION BY run, record, place, operation
                                                        ORDER BY position) AS first
      FROM audit_states WHERE kind = 'operation_applied' AND settled)
WHERE state <> first.state
"""

_ALL_READY_QUERY: Final = """
SELECT run, record, position, agent
FROM (SELECT *, first_value(struct(state)) OVER (PARTITION BY run, record, view ORDER BY seen) AS first
      FROM (SELECT *, min(position) OVER (PARTITION BY run, record, agent) AS seen,
                   max(position) OVER (PARTITION BY run, record, agent) AS latest
            FROM audit_states WHERE kind = 'state_at_end')
      WHERE position = latest)
WHERE state IS NULL OR state <> first.state
"""

STATE_PROPERTIES: Final = (
    block_property(
        judge_state, SPEAKERS_STATE, _SPEAKERS_STATE_QUERY, "{agent} took another state than the speaker had"
    ),
    block_property(
        judge_state, HAS_STATE, _HAS_STATE_QUERY, "{agent} took the state of a speaker that had none"
    ),
    block_property(judge_state, ONE_SPEAKER, _ONE_SPEAKER_QUERY, "{other} and {agent} spoke for one member"),
    block_property(
        judge_state,
        SAME_STATES,
        _SAME_STATES_QUERY,
        "after {operation}, {agent} has another state than {other}",
    ),
    block_property(
        judge_state,
        ALL_READY,
        _ALL_READY_QUERY,
        "{agent} is not ready, or has another state than others of its view",
        when_quiet=True,
    ),
)
