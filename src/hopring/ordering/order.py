"""Order: decides which bundles of a view may be delivered, in which order, and when they are discarded.

Implements  thesis chapter 5: AgreedLine, ARU, the four delivery rules of figure 5.1.
Below       bundles and meta-data in any order, each at least once; promises of all sites; the stability line of
            the own site, from the ring.
Above       membership, which delivers the messages and closes the view.
Invariants  Agreed and Safe are delivered in the order of (lts, site); an unstable Safe bundle holds back all
            later ones, and so does a resilient one without its holders; FIFO never passes an earlier bundle of
            its session; no bundle is discarded before all daemons have it.
Deviations  of two bundles with the same stamp the one of the lower site is first: from a site with a higher
            number, having everything below the stamp is enough. All lines are exclusive. Causal is Agreed.

A `SiteLine` records which bundles of one site a daemon has, by three lines (C, H and HA in thesis 5.1). `cseq`
counts sequences, `next_lts` and `stable_lts` are Lamport times. A promise takes effect only when all bundles up
to its sequence have arrived: links reorder, so a promise may overtake its data.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hopring.errors import Drop, PeerError
from hopring.ids import NUMBER_MAX, SITES_MAX, SiteId, SiteMask, mask_of
from hopring.ordering.entry import Entry, OrderedMessage, Position, position_at
from hopring.ordering.holders import Holders, ViewVotes
from hopring.wire.routed import Meta


@dataclass(slots=True)
class SiteLine:
    """The lines of one site at one daemon."""

    cseq: int  # The highest contiguous sequence held.
    next_lts: int  # The lowest stamp that a bundle not held can carry.
    stable_lts: int  # Below it, every daemon of the site holds everything.
    highest: int = 0  # The highest sequence known to exist.
    ahead: dict[int, int] = field(default_factory=dict)  # Held above a gap: sequence to stamp.
    ahead_seqs: list[int] = field(default_factory=list)  # The sequences of `ahead`, sorted.
    promises: dict[int, int] = field(default_factory=dict)  # Sequence to stamp, those above cseq only.

    def holds(self, seq: int) -> bool:
        """Whether this bundle is here."""
        return seq <= self.cseq or seq in self.ahead

    def check(self, seq: int, lts: int) -> None:
        """Refuses a bundle that is not here yet if its stamp does not rise with the sequence."""
        if lts < self.next_lts:
            raise PeerError(Drop.INCONSISTENT, f"bundle {seq} with stamp {lts}, below {self.next_lts}")
        if not self.ahead_seqs:
            return
        at = bisect_left(self.ahead_seqs, seq)
        low = self.ahead[self.ahead_seqs[at - 1]] if at else 0
        if lts <= low or (at < len(self.ahead_seqs) and lts >= self.ahead[self.ahead_seqs[at]]):
            raise PeerError(Drop.INCONSISTENT, f"bundle {seq} with stamp {lts} among others of its site")

    def hold(self, seq: int, lts: int) -> None:
        """Records that a bundle of the site has arrived."""
        self.highest = max(self.highest, seq)
        if seq == self.cseq + 1:
            self.cseq = seq
            self.next_lts = max(self.next_lts, lts + 1)
            if self.ahead:
                self._close_gap()
        else:
            self.ahead[seq] = lts
            insort(self.ahead_seqs, seq)
        self._apply_promises()

    def _close_gap(self) -> None:
        """Counts the bundles that were held above a gap which is filled now."""
        count = 0
        while self.cseq + 1 in self.ahead:
            self.cseq += 1
            count += 1
            self.next_lts = max(self.next_lts, self.ahead.pop(self.cseq) + 1)
        del self.ahead_seqs[:count]

    def promise(self, seq: int, lts: int) -> None:
        """Records a promise: bundles beyond this sequence have at least this stamp."""
        self.highest = max(self.highest, seq)
        if seq <= self.cseq:
            self.next_lts = max(self.next_lts, lts)
        else:
            # Keyed by sequence, because many promises may name the same one while a gap is open.
            self.promises[seq] = max(lts, self.promises.get(seq, 0))

    def _apply_promises(self) -> None:
        if not self.promises:
            return
        for seq in [seq for seq in self.promises if seq <= self.cseq]:
            self.next_lts = max(self.next_lts, self.promises.pop(seq))


IN_FLIGHT_DEFAULT = 1 << 20
"""`Order.in_flight_max` where no membership computes it from windows and members."""

Key = tuple[SiteId, int]


@dataclass(slots=True)
class Order:
    """The order of one view at one daemon."""

    sites: tuple[SiteId, ...]
    start_lts: int  # Every stamp of the view is above it.
    holders: Holders
    # The most bundles that the members may have sent and that this daemon lacks: all their windows. It bounds
    # sequences, because all between the last contiguous one and a new one are in flight. It bounds stamps too:
    # each one above the highest known stamp was given to a bundle in flight.
    in_flight_max: int = IN_FLIGHT_DEFAULT
    lines: dict[SiteId, SiteLine] = field(init=False)
    entries: dict[Key, Entry] = field(default_factory=dict)
    listed: list[Entry] = field(default_factory=list)  # All entries, in order.
    walked: int = 0  # How many of the list are delivered in order.
    reached: Position = field(init=False)  # The position of the last entry delivered in order.
    clock: int = field(init=False)
    agreed_line: int = field(init=False)  # Everything stamped below it has arrived.
    waiting_for_holders: int = 0  # How many Safe and resilient bundles have arrived and are not delivered.
    resilient_lts: int = 0  # The highest stamp of a resilient bundle that has arrived.
    # How many bundles that are not discarded are for some sites of the view only, by mask.
    _narrow: dict[SiteMask, int] = field(default_factory=dict)
    _whole: SiteMask = field(init=False)  # All sites of the view.
    _waiting: dict[Key, list[Entry]] = field(default_factory=dict)  # By the bundle they wait for.

    def __post_init__(self) -> None:
        first = self.start_lts + 1
        self._whole = mask_of(*self.sites)
        self.lines = {site: SiteLine(0, first, first) for site in self.sites}
        self.reached = Position(self.start_lts, -1)
        self.clock = self.start_lts
        self.agreed_line = first

    # Input.

    def hold(self, meta: Meta, message: OrderedMessage | None) -> list[Entry]:
        """Adds a bundle or its meta-data; returns the entries that may be delivered ahead of the order."""
        line = self.lines.get(meta.source)
        if line is None:
            raise PeerError(Drop.INCONSISTENT, f"site {meta.source} is not in this view")
        if line.holds(meta.seq):
            return []
        self._check(line, meta)
        self.clock = max(self.clock, meta.lts)
        return self._early(self._insert(meta, message))

    def _check(self, line: SiteLine, meta: Meta) -> None:
        self._check_seq(line, meta.seq)
        self._check_stamp(meta.lts)
        if meta.prev >= meta.seq:
            raise PeerError(Drop.INCONSISTENT, f"bundle {meta.seq} after bundle {meta.prev} of its session")
        line.check(meta.seq, meta.lts)

    def holds(self, site: SiteId, seq: int) -> bool:
        """Whether this bundle has arrived, discarded or not."""
        return site in self.lines and self.lines[site].holds(seq)

    def recover(self, meta: Meta, message: OrderedMessage | None) -> None:
        """Adds a bundle that was resent during recovery; delivers nothing."""
        entry = self.entries.get((meta.source, meta.seq))
        if entry is not None:
            entry.message = entry.message or message
        elif meta.source in self.lines and not self.lines[meta.source].holds(meta.seq):
            self._check(self.lines[meta.source], meta)
            self.clock = max(self.clock, meta.lts)
            self._insert(meta, message)

    def _insert(self, meta: Meta, message: OrderedMessage | None) -> Entry:
        entry = Entry(meta.source, meta.seq, meta.lts, meta.mask, meta.prev, message)
        self.entries[meta.source, meta.seq] = entry
        if self.listed and entry.before(self.listed[-1].lts, self.listed[-1].source):
            insort(self.listed, entry, lo=self.walked, key=_position_of)
        else:
            self.listed.append(entry)
        if meta.mask & self._whole != self._whole:
            self._narrow[meta.mask] = self._narrow.get(meta.mask, 0) + 1
        if message is not None and message.waits_for_holders:
            self.waiting_for_holders += 1
            if message.resilience:
                self.resilient_lts = max(self.resilient_lts, meta.lts)
        self.lines[meta.source].hold(meta.seq, meta.lts)
        self._draw_line()
        return entry

    def promise(self, site: SiteId, seq: int, lts: int) -> None:
        """Records a site's promise that bundles beyond `seq` have at least the stamp `lts`."""
        line = self.lines.get(site)
        if line is None:
            raise PeerError(Drop.INCONSISTENT, f"site {site} is not in this view")
        self._check_seq(line, seq)
        self._check_stamp(lts - 1)
        self.clock = max(self.clock, lts - 1)
        line.promise(seq, lts)
        self._draw_line()

    def stable(self, site: SiteId, aru: int) -> None:
        """Records the line below which every daemon of the site has everything."""
        if aru > self.clock + 1:
            raise PeerError(Drop.OUT_OF_WINDOW, f"stability line {aru}, our clock is at {self.clock}")
        if site in self.lines:
            line = self.lines[site]
            line.stable_lts = max(line.stable_lts, aru)

    def told(self, site: SiteId, lines: tuple[int, ...]) -> None:
        """Records the lines that the daemons of a site have stated of themselves."""
        self.holders.check(site, lines, self.clock)
        self.holders.learn(site, lines)

    def _check_seq(self, line: SiteLine, seq: int) -> None:
        if seq > line.cseq + self.in_flight_max:
            raise PeerError(Drop.OUT_OF_WINDOW, f"bundle {seq}, all received to {line.cseq}")

    def _check_stamp(self, lts: int) -> None:
        if lts > NUMBER_MAX:
            raise PeerError(Drop.OUT_OF_WINDOW, f"stamp {lts} is beyond NUMBER_MAX")
        if lts > self.clock + self.in_flight_max:
            raise PeerError(Drop.OUT_OF_WINDOW, f"stamp {lts}, our clock is at {self.clock}")

    # The lines.

    def _draw_line(self) -> None:
        """Computes the agreed line after each change of a site's line, since it is read far more often."""
        agreed_line = -1
        for line in self.lines.values():
            if agreed_line < 0 or line.next_lts < agreed_line:
                agreed_line = line.next_lts
        self.agreed_line = agreed_line

    @property
    def aru(self) -> int:
        """Everything stamped below it is at every daemon."""
        aru = -1
        for line in self.lines.values():
            if aru < 0 or line.stable_lts < aru:
                aru = line.stable_lts
        return aru

    @property
    def edge(self) -> Position:
        """The first position at which an unknown bundle may still be ordered."""
        line, first = self.agreed_line, SITES_MAX
        for site, one in self.lines.items():
            if one.next_lts == line and site < first:
                first = site
        return position_at(line, first)

    # Output.

    def deliver(self) -> list[Entry]:
        """Returns the entries that may be delivered now, in order."""
        out: list[Entry] = []
        if self.walked == len(self.listed) or self.listed[self.walked].lts > self.agreed_line:
            return out
        edge_lts, edge_site = self.edge
        aru = self.aru
        while self.walked < len(self.listed):
            entry = self.listed[self.walked]
            if not entry.before(edge_lts, edge_site):
                break
            message = entry.message
            if message is not None and message.waits_for_holders:
                if entry.lts >= aru and (message.service.stable or not self._has_holders(entry, message)):
                    break
                self.waiting_for_holders -= 1
                entry.holders = self._holders_of(entry, stable=entry.lts < aru)
            self.walked += 1
            self.reached = entry.position
            if not entry.delivered:
                out.extend(self._delivered(entry))
        return out

    def _has_holders(self, entry: Entry, message: OrderedMessage) -> bool:
        """Whether a resilient bundle has its holders, and with it all bundles before it."""
        stable = self._stable_lines()
        masks = [entry.mask, *self._narrow]  # Later bundles count as well: that costs time only.
        return all(self.holders.enough(entry.lts, mask, message.resilience, stable) for mask in masks)

    def _holders_of(self, entry: Entry, stable: bool) -> int:
        if stable:
            return self.holders.daemons(entry.mask)
        return self.holders.count(entry.lts, entry.mask, self._stable_lines())

    def _stable_lines(self) -> dict[SiteId, int]:
        return {site: line.stable_lts for site, line in self.lines.items()}

    def discard(self) -> list[Entry]:
        """Removes the entries that are delivered and stable, and returns them."""
        if not self.walked:
            return []
        aru = self.aru
        gone: list[Entry] = []
        for entry in self.listed:
            if entry.lts >= aru or len(gone) == self.walked:
                break
            del self.entries[entry.source, entry.seq]
            gone.append(entry)
            if entry.mask in self._narrow:
                self._widen(entry.mask)
        if gone:
            del self.listed[: len(gone)]
            self.walked -= len(gone)
        return gone

    def _widen(self, mask: SiteMask) -> None:
        """A bundle with this mask is discarded."""
        self._narrow[mask] -= 1
        if not self._narrow[mask]:
            del self._narrow[mask]

    def _early(self, entry: Entry) -> list[Entry]:
        """Delivers Reliable at once, and FIFO behind all earlier bundles of its session."""
        if entry.message is not None and entry.message.service.at_once:
            return self._delivered(entry)
        return self._try_session(entry)

    def _delivered(self, entry: Entry) -> list[Entry]:
        entry.delivered = True
        return [entry, *self._try_session(entry)]

    def _try_session(self, entry: Entry) -> list[Entry]:
        """Delivers the FIFO bundles of the session that waited for this entry."""
        out: list[Entry] = []
        queue = [entry]
        while queue:
            one = queue.pop(0)
            if one.passed or not self._before_passed(one):
                continue
            if not one.delivered and one.message is not None:
                if not one.message.service.by_session:
                    continue
                one.delivered = True
                out.append(one)
            one.passed = True
            queue.extend(self._waiting.pop((one.source, one.seq), []))
        return out

    def _before_passed(self, entry: Entry) -> bool:
        """Whether the session's bundle before this one has passed; if not, this one waits for it."""
        if entry.prev == 0:
            return True
        key = (entry.source, entry.prev)
        before = self.entries.get(key)
        if before is None and entry.prev <= self.lines[entry.source].cseq:
            return True  # Discarded, so it was delivered.
        if before is not None and before.passed:
            return True
        waiting = self._waiting.setdefault(key, [])
        if all(one is not entry for one in waiting):
            waiting.append(entry)
        return False


def _position_of(entry: Entry) -> Position:
    return entry.position


def new_order(
    sites: Iterable[SiteId],
    start_lts: int,
    seqs: Mapping[SiteId, int] | None = None,
    in_flight_max: int = IN_FLIGHT_DEFAULT,
    holders: Holders | None = None,
) -> Order:
    """The order of a view that begins; site sequences start above those given, or at 1.

    Without `holders` each site has one daemon, and this one is at the first site.
    """
    at = tuple(sorted(sites))
    holders = holders or Holders(ViewVotes(dict.fromkeys(at, (1,))), at[0], 0)
    order = Order(at, start_lts, holders, in_flight_max)
    for site, seq in (seqs or {}).items():
        order.lines[site].cseq = order.lines[site].highest = seq
    return order
