"""A view of daemons: its members, the order of their bundles, its end, and the attempt to form the next one.

Implements  thesis 6.1.9 and 6.1.10: in an attempt members exchange their states (STATETRANS), then missing
            bundles (EVS).
Below       the attempt's own network, whose control messages reach all its members.
Above       the membership, which installs the view or gives the attempt up.
Invariants  when a view breaks, its store, commit set and lines are frozen. They change by recovery only,
            through any number of failed attempts, until the installation of the next view replaces them.
            An attempt changes the broken view only by adding recovered bundles, and by binding it when all
            bundles that can be recovered are there.
Deviation   an explicit DONE of every member replaces WaitLTS.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import structs

from hopring.engine import Installed, PrimaryBasis
from hopring.errors import Drop, PeerError
from hopring.ids import NUMBER_MAX, DaemonId, Process, SiteId, SiteMask, ViewId, mask_of
from hopring.membership.connectivity import lowest_of_sites
from hopring.membership.messages import (
    CLOCK_AHEAD_MAX,
    EpochMark,
    HeldRun,
    NewMemb,
    RecoveryDone,
    RecoveryMessage,
    RecoveryResend,
    SiteState,
    StateTrans,
    check_reach,
    check_state,
    pairs,
)
from hopring.membership.primary import Judgement, PrimaryVoter, judge
from hopring.membership.recovery import Decision, Key, decide
from hopring.ordering.entry import Entry, decode_message, encode_message
from hopring.ordering.holders import Holders, ViewVotes
from hopring.ordering.order import Order, new_order
from hopring.reason import ViewReason
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
    primary: PrimaryBasis = PrimaryBasis.NONE
    epoch: int = 0  # Its place in the chain of primary views, if that is known for sure.
    processes: dict[DaemonId, Process] = field(init=False)

    def __post_init__(self) -> None:
        self.processes = {one.daemon: one for one in self.members}

    def installation(self, decision: Decision, reason: ViewReason, own: ViewReason) -> Installed:
        """The event that begins this view, with the reason of all members and that of this daemon."""
        parts = decision.together, reason.text(self.me.daemon), decision.uneven, self.primary, self.epoch
        return Installed(self.id, self.members, *parts, reason, own)

    def beginning(self, reason: ViewReason) -> Installed:
        """The event that begins the first view of a daemon."""
        return Installed(self.id, self.members, self.members, reason.text(self.me.daemon), reason=reason)

    def break_up(self) -> None:
        """The view is over: from here on only recovery changes its state."""
        if not self.broken:
            self.broken = True
            self.commit = frozenset([self.me])
            self.bound = self._known()

    def _known(self) -> dict[SiteId, int]:
        """By site, the last sequence below the first position where an unknown bundle may be."""
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

    def recover(self, resend: RecoveryResend, site_of: Mapping[DaemonId, SiteId]) -> None:
        """Adds a resent bundle to the order."""
        message = None if resend.body is None else decode_message(resend.body)
        if message is not None:
            daemon = message.daemon
            if daemon not in self.processes or site_of[daemon] != resend.source:
                raise PeerError(Drop.FOREIGN_SENDER, f"message of daemon {daemon} by site {resend.source}")
            if message.service.loose:
                raise PeerError(Drop.INCONSISTENT, "an Unreliable message in the order")
            # A daemon holds its own bundles from the time at which it stamps them.
            if daemon == self.me.daemon and not self.order.holds(SiteId(resend.source), resend.seq):
                raise PeerError(Drop.FOREIGN_SENDER, f"bundle {resend.seq} in the name of this daemon")
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
        # Not beyond its own knowledge: a bundle that it lacks now is a hole, which no member delivers.
        for site, line in self.order.lines.items():
            self.bound[site] = min(decision.promised.get(site, 0), max(line.highest, line.cseq))

    def before_signal(self, decision: Decision) -> list[Entry]:
        """The entries to deliver before the signal: a member of T had delivered them in order."""
        return [entry for entry in self._rest() if entry.position <= decision.delivered]

    def after_signal(self, decision: Decision) -> list[Entry]:
        """The entries to deliver after the signal: their guarantees hold within T."""
        out: list[Entry] = []
        for entry in self._rest():
            message = entry.message
            assert message is not None, "entries without a message are not delivered"
            sender = self.processes.get(message.daemon)
            promised = entry.seq <= decision.promised.get(entry.source, 0) or sender in decision.commit
            # FIFO may be delivered early at a site that a bundle missing here was not for.
            if promised or message.service.early:
                out.append(entry)
        return out

    def _rest(self) -> list[Entry]:
        return [entry for entry in self.order.listed if not entry.delivered and entry.message is not None]


def first_view(view_id: ViewId, me: Process, site: SiteId, clock: int) -> InstalledView:
    """The view of a daemon that starts: it is alone, and searches for others at once."""
    view = InstalledView(view_id, me, (me,), new_order([site], clock))
    view.break_up()
    return view


def runs_of(entries: Iterable[Entry], whole: SiteMask) -> list[HeldRun]:
    """One site's entries, sorted, as few runs as possible; `whole` is the mask of all sites of the view."""
    out: list[HeldRun] = []
    steps: list[int] = []
    last: Entry | None = None
    for entry in entries:
        body = entry.message is not None
        waits = entry.message is not None and entry.message.waits_for_holders
        safe = waits and whole & ~entry.mask != 0
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


@dataclass(slots=True)
class ViewAttempt:
    """One attempt, from its NEWMEMB until the view can be installed."""

    new: NewMemb
    old: InstalledView
    site_of: Mapping[DaemonId, SiteId]
    counter: int  # The highest view counter that any member has seen.
    voter: PrimaryVoter
    clock_ahead_max: int = CLOCK_AHEAD_MAX  # How far the clock of a member from another view may be ahead.
    states: dict[Process, StateTrans] = field(default_factory=dict)
    done: set[Process] = field(default_factory=set)
    decision: Decision | None = None
    missing: dict[Key, bool] = field(default_factory=dict)  # Bundles owed to this daemon; whether with a body.
    judgement: Judgement | None = None  # Whether the view is primary; made with the decision.

    def start(self, reason: ViewReason | None = None) -> list[RecoveryMessage]:
        """Begins the attempt; returns the messages for the other members, with why this daemon is in it."""
        state = self.old.state(self.new.view, self.counter)
        state = structs.replace(state, vote=self.voter.vote, reason=reason)
        self._check_own(state)
        self.states[self.old.me] = state
        return [state, *self.advance()]

    def _check_own(self, state: StateTrans) -> None:
        """The own state passes the checks of the others, or they would leave this daemon out for good.

        A counter beyond the last number, of a damaged file, keeps this daemon alone; it does not end it.
        """
        try:
            check_state(structs.replace(state, counter=min(state.counter, NUMBER_MAX)), self.site_of)
            check_reach(state, self.old.members, self.old.order)
        except PeerError as error:
            raise AssertionError("the order holds only bundles that were checked") from error

    def receive(self, daemon: DaemonId, message: RecoveryMessage) -> list[RecoveryMessage]:
        """Handles a message of another member; returns the messages to send in response."""
        sender = next((one for one in self.new.members if one.daemon == daemon), None)
        if sender is None or message.view != self.new.view:
            return []
        if isinstance(message, StateTrans) and message.sender == sender:
            check_state(message, self.site_of)
            if message.installed == self.old.id:
                check_reach(message, self.old.members, self.old.order)
            elif message.clock > self.old.order.clock + self.clock_ahead_max:
                raise PeerError(Drop.OUT_OF_WINDOW, f"daemon {daemon} says its clock is at {message.clock}")
            self.states.setdefault(sender, message)
            self.counter = max(self.counter, message.counter)
        elif isinstance(message, RecoveryResend) and message.installed == self.old.id:
            self._check_resend(message)
            self.old.recover(message, self.site_of)
            self._recovered((SiteId(message.source), message.seq))
        elif isinstance(message, RecoveryDone):
            self.done.add(sender)
        return self.advance()

    def _check_resend(self, message: RecoveryResend) -> None:
        """Refuses a bundle that is not in the decision, if all states have arrived."""
        if message.source not in self.old.order.lines:
            raise PeerError(Drop.INCONSISTENT, f"a bundle of site {message.source}, which is not in the view")
        if self.decision is None:
            return
        item = self.decision.items.get((SiteId(message.source), message.seq))
        if item is None or (item.lts, item.mask) != (message.lts, message.mask):
            raise PeerError(Drop.INCONSISTENT, f"bundle {message.seq} is resent, and no state has it")

    @property
    def silent(self) -> list[Process]:
        """The members whose state has not arrived."""
        return [one for one in self.new.members if one not in self.states]

    def debtors(self, timeouts: int) -> list[Process]:
        """The members that said they hold a bundle which this daemon lacks, and have to resend it.

        There are none after one timeout: the bundle may be lost on its way. Who owes one again may not have it.
        """
        if self.decision is None or timeouts < 2:
            return []
        others = [one for one in self.decision.together if one != self.old.me]
        owed = [(one, self.decision.resends(one, self.site_of)) for one in others]
        return [one for one, resends in owed if any(key in self.missing for key, _ in resends)]

    @property
    def newmemb_targets(self) -> list[DaemonId]:
        """The silent members that this daemon sends NEWMEMB to.

        The representative sends to all of them. The lowest of each site passes NEWMEMB on to its own site and
        to the lowest of the other sites, in case the direct path is cut.
        """
        me = self.old.me.daemon
        lowest = lowest_of_sites([one.daemon for one in self.new.members], self.site_of)
        silent = [one.daemon for one in self.silent if one.daemon != me]
        if self.new.view.representative == me:
            return silent
        if me not in lowest:
            return []
        return [one for one in silent if self.site_of[one] == self.site_of[me] or one in lowest]

    @property
    def complete(self) -> bool:
        """Whether all members are bound: the view may be installed."""
        return self.decision is not None and self.done.issuperset(self.new.members)

    def make_view(self, in_flight_max: int) -> InstalledView:
        """The view that this attempt becomes."""
        assert self.judgement is not None, "an attempt has decided before its view is installed"
        members = tuple(sorted(self.new.members))
        sites = {self.site_of[one.daemon] for one in members}
        holders = self._holders(members)
        order = new_order(sites, self.clock, in_flight_max=in_flight_max, holders=holders)
        cut, primary = pairs(self.new.cut), self.judgement.basis
        epoch = self.judgement.epoch if self.judgement.sure else 0
        return InstalledView(self.new.view, self.old.me, members, order, cut, primary=primary, epoch=epoch)

    def _holders(self, members: tuple[Process, ...]) -> Holders:
        """What is known of the members at first; those that do not vote for primary views weigh nothing."""
        assert self.judgement is not None, "the members have told their votes"
        voters, weights = self.judgement.voters, self.voter.electorate.weights
        by_site: dict[SiteId, tuple[int, ...]] = {}
        place = 0
        for one in members:
            site = self.site_of[one.daemon]
            before = by_site.get(site, ())
            if one == self.old.me:
                place = len(before)
            by_site[site] = (*before, weights.get(one.daemon, 1) if one in voters else 0)
        return Holders(ViewVotes(by_site), self.site_of[self.old.me.daemon], place)

    @property
    def bound(self) -> bool:
        """Whether this daemon is bound to the decision."""
        return self.old.me in self.done

    @property
    def clock(self) -> int:
        """The highest clock of any member."""
        return max(state.clock for state in self.states.values())

    def _recovered(self, key: Key) -> None:
        if key in self.missing and not self.old.lacks(key, self.missing[key]):
            del self.missing[key]

    def advance(self) -> list[RecoveryMessage]:
        """Decides and binds this daemon as soon as that is possible; returns the messages to send."""
        out: list[RecoveryMessage] = []
        if self.decision is None and not self.silent:
            out = self._decide()
        if self.decision is None or self.judgement is None or self.bound or self.missing:
            return out
        if self.voter.may_bind(self.judgement):
            self.old.bind(self.decision)
            self.voter.bind(self.judgement, self.new.view)
            self.done.add(self.old.me)
            out.append(RecoveryDone(self.new.view))
        return out

    def begin_mark(self) -> EpochMark | None:
        """If the view will be primary: the mark of this vote, which has to be written now."""
        return None if self.judgement is None else self.voter.begin_mark(self.judgement)

    def _decide(self) -> list[RecoveryMessage]:
        """All states have arrived: decides, and returns the bundles that this daemon resends."""
        self.decision = decide(self.states.values(), self.old.id, self.site_of)
        votes = {sender: state.vote for sender, state in self.states.items()}
        self.judgement = judge(votes, self.voter.electorate)
        owed = self.decision.owed(self.site_of[self.old.me.daemon])
        self.missing = {key: body for key, body in owed.items() if self.old.lacks(key, body)}
        resends = self.decision.resends(self.old.me, self.site_of)
        return [self.old.resend(key, with_body, self.new.view) for key, with_body in resends]
