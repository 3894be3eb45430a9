"""Discovery: when a daemon searches for others, and the knowledge that outlives a single search.

Below       one `Gather` for each search.
Above       the membership, which sends the messages of a search and forms the view that it finds.
Invariants  records keep the time at which they were heard, so a later search does not take them for new; links
            and daemons that failed repeatedly are left out for a while, by this daemon's searches and, since
            its records say so, by those of others.

Suspicions record links and daemons that failed repeatedly, and until when they are left out of views. A link
between sites may carry small packets and lose large ones, or fail as soon as it is used; a ring may fail
between two daemons of a site that hear each other's messages. Each new view would include them and break again.
After the second failure in a row, the link, or the higher of the two daemons, is left out for `back_off_us`,
then for twice as long, up to `back_off_us_max`. Daemons that do not hear each other's messages are kept apart
by `SiteConnectivity`, without a back-off.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from hopring.ids import NEVER, DaemonId, Process, SiteId
from hopring.membership.connectivity import SiteConnectivity
from hopring.membership.current_network import CurrentNetwork, LocalDaemon
from hopring.membership.events import SendDaemonMessage
from hopring.membership.gather import Gather, GatherOutput, KnownRecord, is_news, make_room
from hopring.membership.messages import DaemonAlive, DaemonJoin, DaemonRefer, GatherRecord, SitePair
from hopring.membership.view import InstalledView
from hopring.routing.trees import Pair, pair

Blamed = TypeVar("Blamed", Pair, Process)


@dataclass(slots=True)
class Suspicion:
    """The failures of one link or process."""

    count: int
    last_us: int
    until_us: int = 0


@dataclass(slots=True)
class Suspicions:
    """All suspicions of one daemon; they outlive attempts and views."""

    back_off_us: int
    back_off_us_max: int
    links: dict[Pair, Suspicion] = field(default_factory=dict)
    processes: dict[Process, Suspicion] = field(default_factory=dict)  # Of the site; may not hear this daemon.
    exclusions: dict[Process, Suspicion] = field(
        default_factory=dict
    )  # Of processes that are left out, or were lately.
    cut_at_us: dict[Pair, int] = field(default_factory=dict)  # When a link was last left out.

    def blame_link(self, link: Pair, now_us: int) -> None:
        """This link made a network fail soon after its start."""
        self._blame(self.links, link, now_us)
        if self.links[link].until_us:
            self.cut_at_us[link] = now_us

    def blame_process(self, process: Process, now_us: int) -> None:
        """A ring failed soon after its start because this process was not heard."""
        self._blame(self.processes, process, now_us)

    def suspects(self, now_us: int) -> tuple[Process, ...]:
        """Processes of the site that seem not to hear this daemon."""
        return tuple(sorted(one for one, known in self.processes.items() if now_us < known.until_us))

    def accused_by(self, accuser: Process, suspects: Iterable[Process], now_us: int) -> None:
        """A daemon names suspects: of two daemons that do not hear each other, the higher is left out."""
        self.leave_out([max(accuser, suspect) for suspect in suspects], now_us)

    def leave_out(self, processes: Iterable[Process], now_us: int) -> None:
        """Leaves these out from now on, each time for longer; no effect on those already left out."""
        _forget(self.exclusions, now_us - 2 * self.back_off_us_max)
        for one in processes:
            known = self.exclusions.get(one)
            if known is None:
                make_room(self.exclusions, one.daemon, lambda one: one.last_us)
                self.exclusions[one] = Suspicion(1, now_us, now_us + self.back_off_us)
            elif now_us >= known.until_us:
                known.count += 1
                known.last_us = now_us
                known.until_us = now_us + min(self.back_off_us << (known.count - 1), self.back_off_us_max)

    def left_out(self, now_us: int) -> frozenset[Process]:
        """The processes to leave out now."""
        return frozenset(one for one, known in self.exclusions.items() if now_us < known.until_us)

    def _blame(self, among: dict[Blamed, Suspicion], one: Blamed, now_us: int) -> None:
        _forget(among, now_us - self.back_off_us_max)
        known = among.get(one)
        if known is None:
            among[one] = Suspicion(1, now_us)
            return
        known.count += 1
        known.last_us = now_us
        known.until_us = now_us + min(self.back_off_us << (known.count - 2), self.back_off_us_max)

    def remembers(self, link: Pair, for_us: int, now_us: int) -> bool:
        """Whether this link was left out within this time."""
        return link in self.cut_at_us and now_us - self.cut_at_us[link] < for_us

    def cut(self, now_us: int) -> tuple[Pair, ...]:
        """The links to leave out now."""
        return tuple(sorted(link for link, known in self.links.items() if now_us < known.until_us))


def _forget(among: dict[Blamed, Suspicion], before_us: int) -> None:
    """Deletes old suspicions: otherwise every incarnation of a suspected daemon would stay."""
    for one in [one for one, known in among.items() if max(known.last_us, known.until_us) < before_us]:
        del among[one]


class Discovery:
    """One daemon's searches, one after the other; `gather` is the current one, or None."""

    def __init__(self, local: LocalDaemon, site_of: dict[DaemonId, SiteId], network: CurrentNetwork) -> None:
        options = network.options
        self.local = local
        self.site_of = site_of
        self.network = network
        self.options = options
        self.gather: Gather | None = None
        self.suspicions = Suspicions(options.back_off_us, options.back_off_us_max)
        self.site = site_of[local.me.daemon]
        near = [one for one in sorted(site_of) if site_of[one] == self.site and one != local.me.daemon]
        self.connectivity = SiteConnectivity(local.me, tuple(near), options.represented_us)
        self._known: dict[Process, KnownRecord] = {}
        self._heard_at_us: dict[DaemonId, int] = {}
        # An earlier search's record must never outrank a later one's.
        self._numbers = count(1)
        self._dismissed: dict[Process, object] = {}
        self._dismissed_until_us = 0
        self._began_at_us = 0  # The current search, or the last one.
        self.probe_at_us = NEVER
        # The next ALIVE of a whole view, which reports the daemons that this one hears.
        self.report_at_us = NEVER
        self._report_until_us = 0

    @property
    def wake_at_us(self) -> int:
        """When the next probe, report or tick of a search is due."""
        wake_us = min(self.probe_at_us, self.report_at_us)
        return wake_us if self.gather is None else min(wake_us, self.gather.wake_at_us)

    # Begin and end of a search.

    def seek(self, counter: int, now_us: int) -> list[GatherOutput]:
        """The view is broken: begins a search for all others."""
        self.probe_at_us = NEVER
        gather = self._new_gather(counter, now_us)
        return gather.seek(now_us)

    def probe(self, counter: int, view: InstalledView, now_us: int, wide: bool = False) -> list[GatherOutput]:
        """A whole view looks for daemons outside, and whether its cut links work again."""
        gather = self._new_gather(counter, now_us)
        gather.view_cut = view.cut
        self.refresh(now_us)
        return gather.probe(view.members, now_us, wide or bool(view.cut))

    def end_search(self, view: InstalledView, now_us: int) -> None:
        """The view is whole and the search ends: for `probe_us` the records that it heard start no new one.

        Only the records that it heard: two views whose searches miss each other would dismiss each other for
        ever. The lowest daemon of the view probes again after that time.
        """
        heard = [(one, known) for one, known in self._known.items() if known.at_us >= self._began_at_us]
        self._dismissed = {one: _sense(known.record) for one, known in heard}
        self._dismissed_until_us = now_us + self.options.probe_us
        self.gather = None
        lowest = view.members[0] == self.local.me
        self.probe_at_us = now_us + self.options.probe_us if lowest else NEVER

    def stop(self) -> None:
        """An attempt begins, or this daemon stops: no search goes on."""
        self.gather = None
        self.probe_at_us = NEVER

    def refresh(self, now_us: int) -> None:
        """Updates the current search with the current suspicions."""
        gather = self.gather
        if gather is None:
            return
        gather.left_out = self._left_out(now_us)
        gather.suspects = self.suspicions.suspects(now_us)
        # A suspect link may carry a search's short messages and lose data; with another route it stays cut.
        kept = [ends for ends in gather.view_cut if self._remembers(ends, now_us)]
        gather.cut = tuple(sorted({*self.suspicions.cut(now_us), *kept}))

    def _remembers(self, ends: SitePair, now_us: int) -> bool:
        link = pair(SiteId(ends[0]), SiteId(ends[1]))
        return self.suspicions.remembers(link, self.options.mend_us, now_us)

    def _new_gather(self, counter: int, now_us: int) -> Gather:
        suspects = self.suspicions.suspects(now_us)
        self.suspicions.accused_by(self.local.me, suspects, now_us)
        self._began_at_us = now_us
        self.gather = Gather(
            me=self.local.me,
            site_of=self.site_of,
            weights=self.local.topology.weights,
            options=self.options,
            round_trip_us=self.network.round_trip_us,
            counter=counter,
            connectivity=self.connectivity,
            known=self._known,
            heard_at_us=self._heard_at_us,
            numbers=self._numbers,
            left_out=self._left_out(now_us),
            suspects=suspects,
            cut=tuple(self.suspicions.cut(now_us)),
            reports=self.network.measuring.report(now_us),
        )
        return self.gather

    def follow(self, earlier: "Discovery") -> None:
        """Continues the record numbers of the same process under another configuration."""
        self._numbers = earlier._numbers

    # A whole view and daemons that search.

    def searched_by(self, sender: Process, now_us: int) -> None:
        """A daemon outside of the whole view searches: if it is of this site, reports to it begin."""
        if self.site_of[sender.daemon] == self.site:
            self._report_until_us = now_us + self.options.represented_us
            self.report_at_us = min(self.report_at_us, now_us)

    def report(self, counter: int, view: InstalledView | None, now_us: int) -> list[GatherOutput]:
        """An ALIVE that reports which daemons this one hears, while daemons of the site search a whole view."""
        if view is None or now_us >= self._report_until_us:
            self.report_at_us = NEVER
            return []
        self.report_at_us = now_us + self.options.alive_us
        outside = [one for one in self.connectivity.others if one not in view.processes]
        to = tuple(sorted({*outside, self._lowest_of_site(view)} - {self.local.me.daemon}))
        hears = self.connectivity.hears(now_us)
        return [SendDaemonMessage(to, DaemonAlive(self.local.me, counter, hears=hears, active=True))]

    def answer(self, message: DaemonJoin, counter: int, view: InstalledView, now_us: int) -> list[GatherOutput]:
        """A JOIN reaches a whole view: refers its sender to the representative, or begins a wide probe."""
        lowest = self._lowest_of_site(view)
        if lowest != self.local.me.daemon:
            if self.site_of[message.sender.daemon] == self.site:
                return []  # A daemon of the site must be heard by all of its daemons.
            return [SendDaemonMessage((message.sender.daemon,), DaemonRefer(self.local.me, lowest))]
        if self.gather is None and self.concerns(message, view, now_us):
            return self.probe(counter, view, now_us, wide=True)
        return []

    def _lowest_of_site(self, view: InstalledView) -> DaemonId:
        return min(one for one in view.processes if self.site_of[one] == self.site)

    # Messages of others.

    def forget(self, process: Process) -> None:
        """Drops the records of a process that is gone."""
        self._known.pop(process, None)
        self._heard_at_us.pop(process.daemon, None)
        self.connectivity.forget(process.daemon)
        if self.gather is not None:
            self.gather.forget(process)

    def is_left_out(self, process: Process, now_us: int) -> bool:
        """Whether this process is left out now, so that its messages are ignored."""
        return process in self.suspicions.left_out(now_us)

    def note_suspects(self, message: DaemonAlive | DaemonJoin, now_us: int) -> None:
        """Notes the suspects that a message names; the current search leaves them out too."""
        if isinstance(message, DaemonAlive):
            self.suspicions.accused_by(message.sender, message.suspects, now_us)
        if self.gather is not None:
            self.gather.left_out = self._left_out(now_us)

    def concerns(self, message: DaemonJoin, view: InstalledView, now_us: int) -> bool:
        """Whether a JOIN has news of daemons outside, or is the view's own probe for cut links."""
        if view.cut and message.sender == view.members[0]:
            return True
        left_out = self._said_to_be_left_out(message, now_us)
        if self.local.me in left_out:
            return False
        others = [one for one in message.records if one.rep not in view.members and one.rep not in left_out]
        dismissed = self._dismissed if now_us < self._dismissed_until_us else {}
        join_us, sender = self.options.join_us, message.sender
        return any(
            is_news(one, one.rep == sender, self._known, join_us, now_us)
            and dismissed.get(one.rep) != _sense(one)
            for one in others
        )

    def _said_to_be_left_out(self, message: DaemonJoin, now_us: int) -> set[Process]:
        """Processes that any record left out lately: a search would have the same result again."""
        lately = [
            known.record for known in self._known.values() if now_us - known.at_us < self.options.probe_us
        ]
        return {one for record in (*lately, *message.records) for one in record.left_out}

    def _left_out(self, now_us: int) -> frozenset[Process]:
        return self.suspicions.left_out(now_us) - {self.local.me}

    # Failures.

    def blame(
        self, members: tuple[Process, ...], now_us: int, late: bool, debtors: Iterable[Process] = ()
    ) -> None:
        """Leaves debtors out; blames links and the process that made a network fail soon after its start."""
        self.suspicions.leave_out(debtors, now_us)
        if now_us - self.network.started_at_us > self.options.flap_us:
            return
        links, silent = self.network.suspects(late)
        for link in links:
            self.suspicions.blame_link(link, now_us)
        for process in members:
            if process.daemon == silent and process != self.local.me:
                self.suspicions.blame_process(process, now_us)

    def leave_out(self, process: Process, now_us: int) -> None:
        """Leaves out a process that breaks the protocol."""
        if process != self.local.me:
            self.suspicions.leave_out([process], now_us)


def _sense(record: GatherRecord) -> object:
    """The content of a record, without its number and time."""
    return (record.members, record.hears, record.cut, record.left_out)
