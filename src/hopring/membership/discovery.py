"""Searching: when a daemon looks around, for whom it speaks, and what it remembers from one search to the next.

Below       one `Gather` for each search.
Above       the membership, which carries out what a search wants said, and forms the view that it finds.
Invariants  a record is never newer than another because a later search heard of it; whoever failed again and
            again is left out for a while, by this search and by those of the others.
"""

from itertools import count

from hopring.ids import DaemonId, Process, SiteId
from hopring.membership.connectivity import SiteConnectivity
from hopring.membership.current_network import CurrentNetwork, LocalDaemon
from hopring.membership.gather import Gather, GatherOutput, KnownRecord, is_news
from hopring.membership.messages import DaemonAlive, DaemonJoin, GatherRecord, SitePair
from hopring.membership.suspicions import Suspicions
from hopring.membership.view import DaemonView
from hopring.routing.trees import pair

RECORDS_PER_DAEMON_MAX = 4


class Discovery:
    """One daemon's searches, one after the other; `gather` is the present one, or None."""

    def __init__(self, local: LocalDaemon, site_of: dict[DaemonId, SiteId], network: CurrentNetwork) -> None:
        options = network.options
        self.local = local
        self.site_of = site_of
        self.network = network
        self.options = options
        self.gather: Gather | None = None
        self.suspicions = Suspicions(options.back_off_us, options.back_off_us_max)
        site = site_of[local.me.daemon]
        near = [one for one in sorted(site_of) if site_of[one] == site and one != local.me.daemon]
        self.connectivity = SiteConnectivity(local.me, tuple(near), options.represented_us)
        self._known: dict[Process, KnownRecord] = {}
        self._heard_at_us: dict[DaemonId, int] = {}
        # An earlier search's record must never outrank a later one's.
        self._numbers = count(1)
        self._dismissed: dict[Process, object] = {}
        self._dismissed_until_us = 0
        self._began_at_us = 0  # The present search, or the last.

    # The ways in, and out.

    def seek(self, counter: int, now_us: int) -> list[GatherOutput]:
        """The view is broken."""
        gather = self._new_gather(counter, now_us)
        return gather.seek(now_us)

    def probe(self, counter: int, view: DaemonView, now_us: int, wide: bool = False) -> list[GatherOutput]:
        """The view is whole, and looks for others, and whether the links work again that it does without."""
        gather = self._new_gather(counter, now_us)
        gather.view_cut = view.cut
        self.refresh(now_us)
        return gather.probe(view.members, now_us, wide or bool(view.cut))

    def rest(self, now_us: int) -> None:
        """The search found nobody to take in: what it heard is no reason to search again, for a while.

        Only what it heard: two views whose searches miss each other would dismiss each other for ever.
        """
        heard = [(one, known) for one, known in self._known.items() if known.at_us >= self._began_at_us]
        self._dismissed = {one: _sense(known.record) for one, known in heard}
        self._dismissed_until_us = now_us + self.options.probe_us
        self.gather = None

    def stop(self) -> None:
        """There is nothing to look for."""
        self.gather = None

    def refresh(self, now_us: int) -> None:
        """Suspicions come and end while a search goes on."""
        gather = self.gather
        if gather is None:
            return
        gather.excluded = self._left_out(now_us)
        gather.suspects = self.suspicions.suspects(now_us)
        # A link that was suspect may carry words and still lose data; where there is another way it stays out.
        kept = [ends for ends in gather.view_cut if self._remembers(ends, now_us)]
        gather.cut = tuple(sorted({*self.suspicions.cut(now_us), *kept}))

    def _remembers(self, ends: SitePair, now_us: int) -> bool:
        link = pair(SiteId(ends[0]), SiteId(ends[1]))
        return self.suspicions.remembers(link, self.options.mend_us, now_us)

    def _new_gather(self, counter: int, now_us: int) -> Gather:
        suspects = self.suspicions.suspects(now_us)
        self.suspicions.told(self.local.me, suspects, now_us)
        self._forget_oldest()
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
            excluded=self._left_out(now_us),
            suspects=suspects,
            cut=tuple(self.suspicions.cut(now_us)),
            reports=self.network.measuring.report(now_us),
        )
        return self.gather

    def _forget_oldest(self) -> None:
        """Of daemons that start again and again, old lives are forgotten."""
        if len(self._known) > RECORDS_PER_DAEMON_MAX * len(self.site_of):
            latest = sorted(self._known.items(), key=lambda item: item[1].at_us)[-len(self.site_of) :]
            self._known.clear()
            self._known.update(latest)

    def follow(self, earlier: "Discovery") -> None:
        """The same process searches with another configuration: its records go on to rise."""
        self._numbers = earlier._numbers

    # What is heard.

    def forget(self, process: Process) -> None:
        """This one is gone."""
        self._known.pop(process, None)
        self._heard_at_us.pop(process.daemon, None)
        self.connectivity.forget(process.daemon)
        if self.gather is not None:
            self.gather.forget(process)

    def is_left_out(self, process: Process, now_us: int) -> bool:
        """Whether this one is not to be listened to now."""
        return process in self.suspicions.left_out(now_us)

    def accused(self, word: DaemonAlive | DaemonJoin, now_us: int) -> None:
        """Some do not hear others of their site; a search that is under way leaves them out too."""
        if isinstance(word, DaemonAlive):
            self.suspicions.told(word.sender, word.suspects, now_us)
        if self.gather is not None:
            self.gather.excluded = self._left_out(now_us)

    def concerns(self, word: DaemonJoin, view: DaemonView, now_us: int) -> bool:
        """Whether a word says anything new of somebody outside, or the view's lowest asks for cut links."""
        if view.cut and word.sender == view.members[0]:
            return True
        left_out = self._said_to_be_left_out(word, now_us)
        if self.local.me in left_out:
            return False
        others = [one for one in word.records if one.rep not in view.members and one.rep not in left_out]
        dismissed = self._dismissed if now_us < self._dismissed_until_us else {}
        return any(is_news(one, self._known) and dismissed.get(one.rep) != _sense(one) for one in others)

    def _said_to_be_left_out(self, word: DaemonJoin, now_us: int) -> set[Process]:
        """Whom anybody left out lately: a search would find the same again."""
        lately = [
            known.record for known in self._known.values() if now_us - known.at_us < self.options.probe_us
        ]
        return {one for record in (*lately, *word.records) for one in record.left_out}

    def _left_out(self, now_us: int) -> frozenset[Process]:
        return self.suspicions.left_out(now_us) - {self.local.me}

    # What fails.

    def blame(self, members: tuple[Process, ...], now_us: int, late: bool) -> None:
        """Remembers what made a network fail that had hardly begun; if it was late, what it was waiting for."""
        if now_us - self.network.started_at_us > self.options.flap_us:
            return
        links, silent = self.network.suspects(late)
        for link in links:
            self.suspicions.blame(link, now_us)
        for process in members:
            if process.daemon == silent and process != self.local.me:
                self.suspicions.accuse(process, now_us)

    def leave_out(self, process: Process, now_us: int) -> None:
        """This one breaks the protocol."""
        if process != self.local.me:
            self.suspicions.leave_out([process], now_us)


def _sense(record: GatherRecord) -> object:
    """What a record says, whenever it says it."""
    return (record.members, record.hears, record.cut, record.left_out)
