"""Makes the snapshot of a membership, which is all that other packages read of it."""

from enum import Enum
from typing import TYPE_CHECKING, Final, get_args

from hopring.engine import (
    AttemptSnapshot,
    EnginePhase,
    EngineState,
    LinkSnapshot,
    NetworkSnapshot,
    OverlaySnapshot,
    RingSnapshot,
    RouteSnapshot,
    RouteUse,
    Snapshot,
    WindowSnapshot,
)
from hopring.membership.view import ViewAttempt
from hopring.routing.network import Network
from hopring.routing.trees import Pair, edges_used
from hopring.routing.weights import delivery_us
from hopring.stack import Stack

if TYPE_CHECKING:
    from hopring.membership.membership import Membership


class MembershipPhase(Enum):
    """The states of the thesis. SEARCH stands for SEG, REP and GATHER, which `GatherPhase` distinguishes."""

    OP = "op"
    SEARCH = "search"
    STATETRANS = "statetrans"
    EVS = "evs"
    GONE = "gone"


PHASES: Final[tuple[EnginePhase, ...]] = get_args(EnginePhase)


def state_of(membership: "Membership") -> EngineState:
    """The phase and the view of a membership."""
    view, phase = membership.view, membership.phase
    settled = phase is MembershipPhase.OP
    attempt = _attempt(membership.attempt)
    return EngineState(membership.local.me, phase.value, settled, view.id, view.members, attempt, view.primary)


def snapshot_of(membership: "Membership") -> Snapshot:
    """The whole snapshot of a membership."""
    view, stack = membership.view, membership.network.stack
    gather = membership.discovery.gather
    searches = membership.phase is MembershipPhase.SEARCH and gather is not None
    return Snapshot(
        me=membership.local.me,
        phase=membership.phase.value,
        phases=PHASES,
        settled=membership.phase is MembershipPhase.OP,
        view=view.id,
        members=view.members,
        cause=membership.reasons.text,
        reached=(view.order.reached.lts, view.order.reached.site),
        window=_window(membership),
        phase_detail=gather.phase.value if searches and gather is not None else membership.phase.value,
        drops=dict(membership.drops + membership.network.ended_drops),
        ring=_ring(stack),
        network=None if stack is None else network_snapshot(stack),
        last_network=membership.network.last_network,
        attempt=_attempt(membership.attempt),
        overlay=_overlay(membership, None if stack is None else stack.network),
        primary=view.primary,
    )


def network_snapshot(stack: Stack) -> NetworkSnapshot:
    """The links of a network with their counters."""
    links = tuple(
        [
            LinkSnapshot(peer, link.kind, link.counters, link.backlog_bytes)
            for peer, link in sorted(stack.links.items())
        ]
    )
    return NetworkSnapshot(stack.own.generation, links, dict(stack.drops))


def _window(membership: "Membership") -> WindowSnapshot:
    ring, outbox = membership.network.stack_options.ring, membership.flow.window
    sizes = {
        "personal_segments": ring.personal_window_segments,
        "global_segments": ring.global_window_segments,
        "packet_segments": ring.packet_segments_max,
        "bytes": outbox.window_bytes,
        "bundles": outbox.window_bundles,
    }
    return WindowSnapshot(sizes, outbox.out_bytes, outbox.out_bundles, outbox.waiting_bytes)


def _ring(stack: Stack | None) -> RingSnapshot:
    if stack is None:
        return RingSnapshot()
    members, state = stack.network.ring, stack.ring.state
    return RingSnapshot(members, state.token.number // max(1, len(members)), state.resent_segments)


def _attempt(attempt: ViewAttempt | None) -> AttemptSnapshot | None:
    if attempt is None:
        return None
    decision = attempt.decision
    together = 0 if decision is None else len(decision.together)
    return AttemptSnapshot(attempt.bound, decision is not None, together)


def _overlay(membership: "Membership", network: Network | None) -> OverlaySnapshot:
    uses: dict[Pair, RouteUse] = {} if network is None else _uses(network)
    agreed = {} if network is None else network.topology.weights
    routes: list[RouteSnapshot] = []
    for ends, plan in sorted(membership.local.topology.links.items()):
        mine = membership.network.measuring.measure_of(ends)
        use: RouteUse = uses.get(ends, "absent")
        routes.append(
            RouteSnapshot(
                sites=ends,
                protocol=plan.protocol.value,
                cut=ends in membership.view.cut,
                use=use,
                configured_weight=plan.weight,
                agreed_weight=None if use == "absent" else agreed.get(ends),
                measured_us=None if mine is None else delivery_us(mine),
                round_trip_us=None if mine is None else mine.round_trip_us,
                loss_ppm=None if mine is None else mine.loss_ppm,
            )
        )
    promises = membership.flow.updates.count
    if network is None:
        return OverlaySnapshot(None, tuple(routes), (), promises)
    parents = tuple([tree.parent for tree in network.trees.values()])
    return OverlaySnapshot(network.representatives[membership.site], tuple(routes), parents, promises)


def _uses(network: Network) -> dict[Pair, RouteUse]:
    """How a network uses each link between its sites."""
    used = edges_used(network.trees)
    idle: RouteUse = "spare" if network.topology.measured else "unused"
    return {
        ends: "tree" if ends in used else "cut" if ends in network.cut_links else idle
        for ends in network.topology.links
        if ends[0] in network.representatives and ends[1] in network.representatives
    }
