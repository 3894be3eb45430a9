"""An installed view of daemons: its members, the order of their bundles, and its end.

Invariants  when a view breaks, its store, commit set and lines are frozen. They change by recovery only,
            through any number of failed attempts, until the installation of the next view replaces them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Process, SiteId, SiteMask, ViewId, mask_of
from hopring.membership.messages import HeldRun, RecoveryResend, SiteState, StateTrans
from hopring.membership.recovery import Decision
from hopring.ordering.entry import Entry, decode_message, encode_message
from hopring.ordering.order import Order
from hopring.routing.trees import Pair
from hopring.wire.routed import Meta


@dataclass(slots=True)
class InstalledView:
    """An installed view at one of its members."""

    id: ViewId
    me: Process
    members: tuple[Process, ...]  # Sorted.
    order: Order
    cut: tuple[Pair, ...] = ()  # Links that its network does not use.
    broken: bool = False
    commit: frozenset[Process] = frozenset()
    bound: dict[SiteId, int] = field(default_factory=dict)  # By site, the last sequence it is bound to.
    processes: dict[DaemonId, Process] = field(init=False)

    def __post_init__(self) -> None:
        self.processes = {one.daemon: one for one in self.members}

    def break_up(self) -> None:
        """The view is over: from here on only recovery changes its state."""
        if not self.broken:
            self.broken = True
            self.commit = frozenset([self.me])
            self.bound = self._known()

    def _known(self) -> dict[SiteId, int]:
        """By site, the last sequence below the first place where an unknown bundle may be."""
        order, edge = self.order, self.order.edge
        out = dict.fromkeys(order.sites, 0)
        for entry in order.listed:
            if entry.position < edge:
                out[entry.source] = entry.seq
        return out

    def state(self, attempt: ViewId, counter: int) -> StateTrans:
        """This daemon's STATETRANS for an attempt."""
        order = self.order
        held: dict[SiteId, list[Entry]] = {site: [] for site in order.sites}
        for entry in order.listed:
            held[entry.source].append(entry)
        whole = mask_of(*order.sites)
        sites = [
            SiteState(
                site,
                line.cseq,
                line.next_lts,
                line.highest,
                self.bound.get(site, 0),
                tuple(runs_of(held[site], whole)),
            )
            for site, line in sorted(order.lines.items())
        ]
        return StateTrans(
            view=attempt,
            sender=self.me,
            installed=self.id,
            clock=order.clock,
            counter=counter,
            commit=tuple(sorted(self.commit)),
            aru=order.aru,
            delivered=order.reached,
            sites=tuple(sites),
        )

    def resend(self, key: tuple[SiteId, int], with_body: bool, attempt: ViewId) -> RecoveryResend:
        """The RESEND of a bundle."""
        entry = self.order.entries[key]
        body = None
        if with_body:
            assert entry.message is not None, "the daemon that resends a body has it"
            body = encode_message(entry.message)
        return RecoveryResend(
            attempt, self.id, entry.source, entry.seq, entry.lts, entry.mask, entry.prev, body
        )

    def recover(self, resend: RecoveryResend) -> None:
        """Adds a resent bundle to the order."""
        message = None if resend.body is None else decode_message(resend.body)
        if message is not None and message.daemon not in self.processes:
            raise PeerError(Drop.FOREIGN_SENDER, f"message of daemon {message.daemon}")
        mask = SiteMask(resend.mask)
        meta = Meta(SiteId(resend.source), resend.seq, resend.lts, mask, resend.prev)
        self.order.recover(meta, message)

    def lacks(self, key: tuple[SiteId, int], with_body: bool) -> bool:
        """Whether this bundle, or its body, is missing; discarded bundles were delivered."""
        entry = self.order.entries.get(key)
        if entry is None:
            return not self.order.lines[key[0]].holds(key[1])
        return with_body and entry.message is None

    def bind(self, decision: Decision) -> None:
        """Binds this daemon to the decision, even if the attempt fails."""
        self.commit = decision.commit
        # Not beyond its own knowledge: a bundle that it lacks now is a hole, which nobody will deliver.
        for site, line in self.order.lines.items():
            self.bound[site] = min(decision.lines.get(site, 0), max(line.highest, line.cseq))

    def before_signal(self, decision: Decision) -> list[Entry]:
        """The entries to deliver before the signal: somebody in T had delivered them in order."""
        return [entry for entry in self._rest() if entry.position <= decision.delivered]

    def after_signal(self, decision: Decision) -> list[Entry]:
        """The entries to deliver after the signal: their guarantees hold within T."""
        out: list[Entry] = []
        for entry in self._rest():
            message = entry.message
            assert message is not None, "entries without a message are not delivered"
            sender = self.processes.get(message.daemon)
            promised = entry.seq <= decision.lines.get(entry.source, 0) or sender in decision.commit
            # FIFO may be delivered early at a site that a bundle missing here was not for.
            if promised or message.service.early:
                out.append(entry)
        return out

    def _rest(self) -> list[Entry]:
        return [entry for entry in self.order.listed if not entry.delivered and entry.message is not None]


def runs_of(entries: Iterable[Entry], whole: SiteMask) -> list[HeldRun]:
    """One site's entries, sorted, as few runs as possible; `whole` is the mask of all sites of the view."""
    out: list[HeldRun] = []
    steps: list[int] = []
    last: Entry | None = None
    for entry in entries:
        body = entry.message is not None
        safe = entry.message is not None and entry.message.service.stable and whole & ~entry.mask != 0
        if last is not None and (
            entry.seq == last.seq + 1
            and entry.mask == last.mask
            and (body, safe) == (out[-1].body, out[-1].safe)
        ):
            steps.append(entry.lts - last.lts)
        else:
            _close(out, steps)
            steps = []
            out.append(HeldRun(entry.seq, entry.lts, (), entry.mask, body, safe))
        last = entry
    _close(out, steps)
    return out


def _close(runs: list[HeldRun], steps: list[int]) -> None:
    if steps:
        last = runs[-1]
        runs[-1] = HeldRun(last.first, last.lts, tuple(steps), last.mask, last.body, last.safe)
