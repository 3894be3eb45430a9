"""A view as it closes: deliveries before the signal and after it (rules 30 to 34)."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.membership.state_reports import ATTEMPT, OLD, A, B, C, holes, sites

from hopring.engine import Delivered, PrimaryBasis, Rift, TransitionalSignal, Withheld
from hopring.ids import DaemonId, Process, SiteId, SiteMask
from hopring.membership.message_flow import close_view, deliver_before_signal
from hopring.membership.messages import check_state
from hopring.membership.recovery import BEYOND_ALL, Decision, decide
from hopring.membership.view import InstalledView, runs_of
from hopring.ordering.entry import Entry, OrderedMessage, Position, encode_message
from hopring.ordering.holders import MAJORITY
from hopring.ordering.order import new_order
from hopring.services import Service
from hopring.wire.routed import Meta

SITES = {DaemonId(0): SiteId(0), DaemonId(1): SiteId(1), DaemonId(2): SiteId(2)}
ALL = SiteMask(0b111)


def view_of(me: Process = A) -> InstalledView:
    return InstalledView(OLD, me, (A, B, C), new_order([SiteId(0), SiteId(1), SiteId(2)], 0))


def hold(
    view: InstalledView,
    sender: Process,
    seq: int,
    lts: int,
    word: str,
    service: Service = Service.AGREED,
    prev: int = 0,
) -> None:
    meta = Meta(SITES[sender.daemon], seq, lts, ALL, prev)
    early = view.order.hold(meta, OrderedMessage(service, sender.daemon, 1, word.encode()))
    assert all(entry.delivered for entry in early)


def decided(*views: InstalledView) -> Decision:
    for view in views:
        view.break_up()
    return decide([view.state(ATTEMPT, 8) for view in views], OLD, SITES)


def payloads(entries: list[Entry]) -> list[str]:
    return [bytes(entry.message.payload).decode() for entry in entries if entry.message is not None]


def test_without_holes_everything_held_is_delivered() -> None:
    view = view_of()
    hold(view, C, 1, 5, "one")
    hold(view, C, 2, 6, "two", Service.SAFE)

    decision = decided(view)

    assert decision.edge == BEYOND_ALL
    assert payloads(view.after_signal(decision)) == ["one", "two"]


def test_after_a_hole_only_bundles_of_the_commit_set_are_delivered() -> None:
    view = view_of()
    hold(view, C, 2, 6, "orphan")
    hold(view, A, 1, 7, "mine")

    decision = decided(view)

    assert holes(decision) == [(2, 1)]
    assert payloads(view.after_signal(decision)) == ["mine"]


def test_a_safe_message_of_a_lost_sender_before_the_hole_is_delivered() -> None:
    view = view_of()
    hold(view, C, 1, 5, "safe", Service.SAFE)
    hold(view, C, 3, 7, "behind", Service.SAFE)

    assert payloads(view.after_signal(decided(view))) == ["safe"]


def test_reliable_and_fifo_are_not_held_back_by_a_hole() -> None:
    view = view_of()
    hold(view, C, 2, 6, "reliable", Service.RELIABLE)
    hold(view, C, 3, 7, "fifo", Service.FIFO, prev=1)

    assert payloads(view.after_signal(decided(view))) == ["fifo"]
    assert view.order.entries[SiteId(2), 2].delivered


def test_fifo_after_a_skipped_message_of_its_session_is_delivered() -> None:
    """It may have been delivered early where the other is not wanted."""
    view = view_of()
    hold(view, C, 2, 6, "agreed")
    hold(view, C, 3, 7, "fifo", Service.FIFO, prev=2)

    assert payloads(view.after_signal(decided(view))) == ["fifo"]


def test_a_bundle_that_another_delivered_in_order_comes_before_the_signal() -> None:
    ahead, behind = view_of(A), view_of(B)
    for view in (ahead, behind):
        hold(view, A, 1, 5, "first")
        hold(view, A, 2, 6, "second")
    for site in (1, 2):
        ahead.order.promise(SiteId(site), 0, 5)
    assert payloads(ahead.order.deliver()) == ["first"]

    decision = decided(ahead, behind)

    assert decision.delivered == Position(5, 0)
    assert payloads(ahead.before_signal(decision)) == []
    assert payloads(behind.before_signal(decision)) == ["first"]
    for view in (ahead, behind):
        for entry in view.before_signal(decision):
            entry.delivered = True
        assert payloads(view.after_signal(decision)) == ["second"]


def test_nothing_is_delivered_twice() -> None:
    view = view_of()
    hold(view, C, 1, 5, "early", Service.RELIABLE)

    decision = decided(view)

    assert payloads(view.before_signal(decision)) == payloads(view.after_signal(decision)) == []


def test_a_view_that_is_bound_keeps_its_line_and_its_commitments_through_the_next_attempt() -> None:
    view, other = view_of(A), view_of(B)
    hold(view, C, 1, 5, "safe", Service.SAFE)
    view.bind(decided(view))
    assert view.commit == {A}
    assert view.bound[SiteId(2)] == 1

    # The other daemon knows of a lost message of its own site, stamped below.
    other.order.promise(SiteId(1), 1, 4)
    decision = decided(view, other)

    assert holes(decision) == [(1, 1)]
    assert decision.edge == Position(1, 1)
    assert payloads(view.after_signal(decision)) == ["safe"]


def test_breaking_up_twice_does_not_undo_a_binding() -> None:
    view = view_of()
    hold(view, C, 1, 5, "agreed")
    view.bind(decided(view))
    assert view.bound[SiteId(2)] == 1

    view.break_up()

    assert view.bound[SiteId(2)] == 1


def test_a_hole_never_enters_the_store_nor_the_next_report() -> None:
    view = view_of()
    hold(view, C, 2, 6, "orphan")

    decision = decided(view)
    view.bind(decision)
    view.after_signal(decision)

    (site,) = [one for one in view.state(ATTEMPT, 8).sites if one.site == 2]
    assert (site.cseq, [run.first for run in site.held]) == (0, [2])


def test_a_resend_fills_the_gap_of_a_daemon_that_lacks_it() -> None:
    holder, lacking = view_of(A), view_of(B)
    hold(holder, C, 1, 5, "one")
    decision = decided(holder, lacking)
    assert decision.owed(SiteId(1)) == {(SiteId(2), 1): True}
    assert lacking.lacks((SiteId(2), 1), True)

    for key, with_body in decision.resends(A, SITES):
        lacking.recover(holder.resend(key, with_body, ATTEMPT), sites(0, 1, 2))

    assert not lacking.lacks((SiteId(2), 1), True)
    assert payloads(lacking.after_signal(decision)) == ["one"]


def test_a_stable_bundle_that_was_forgotten_is_not_missing() -> None:
    view = view_of()
    hold(view, A, 1, 5, "old")
    for site in (0, 1, 2):
        view.order.promise(SiteId(site), int(site == 0), 9)
        view.order.stable(SiteId(site), 9)
    view.order.deliver()
    view.order.discard()

    assert not view.lacks((SiteId(0), 1), True)


def test_meta_data_are_not_enough_where_the_body_is_owed() -> None:
    view = view_of()
    view.order.hold(Meta(SiteId(2), 1, 5, SiteMask(0b001), 0), None)

    assert view.lacks((SiteId(2), 1), True)
    assert not view.lacks((SiteId(2), 1), False)

    message = OrderedMessage(Service.AGREED, C.daemon, 1, b"m")
    other = view_of(B)
    other.order.hold(Meta(SiteId(2), 1, 5, SiteMask(0b001), 0), message)
    resend = other.resend((SiteId(2), 1), True, ATTEMPT)
    assert resend.body == encode_message(message)
    view.recover(resend, sites(0, 1, 2))
    assert not view.lacks((SiteId(2), 1), True)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 2), st.booleans())))
def test_runs_cover_every_bundle_once_and_nothing_else(steps: list[tuple[int, int, int, bool]]) -> None:
    seq = lts = 0
    entries: list[Entry] = []
    for seqs, stamps, mask, body in steps:
        seq, lts = seq + seqs, lts + stamps
        message = OrderedMessage(Service.AGREED, A.daemon, 1, b"") if body else None
        entries.append(Entry(SiteId(0), seq, lts, SiteMask(mask), 0, message))

    runs = runs_of(entries, SiteMask(0))

    told = [(seq, lts, run.mask, run.body) for run in runs for seq, lts in run.stamps()]
    assert told == [(one.seq, one.lts, one.mask, one.message is not None) for one in entries]
    assert not any(run.safe for run in runs)
    if all(step == (1, step[1], steps[0][2], steps[0][3]) for step in steps):
        assert len(runs) == min(1, len(steps))


def test_runs_mark_bundles_that_are_safe_or_not_for_all_sites() -> None:
    def entry(seq: int, mask: SiteMask, service: Service) -> Entry:
        return Entry(SiteId(0), seq, seq + 10, mask, 0, OrderedMessage(service, A.daemon, 1, b""))

    some = SiteMask(0b011)
    runs = runs_of(
        [
            entry(1, some, Service.AGREED),
            entry(2, some, Service.SAFE),
            entry(3, some, Service.SAFE),
            entry(4, ALL, Service.SAFE),
            entry(5, ALL, Service.AGREED),
        ],
        ALL,
    )

    assert [(run.first, len(run.stamps()), run.safe) for run in runs] == [
        (1, 1, False),
        (2, 2, True),
        (4, 2, False),
    ]


def test_rifts_keep_their_places_among_the_deliveries_before_the_signal() -> None:
    """Site 0 went past 5 and 7, which are for sites 1 and 2; c is lost, and with it the body of 5."""
    ahead, behind = view_of(A), view_of(B)
    some = SiteMask(0b110)
    for view in (ahead, behind):
        body = None if view is ahead else OrderedMessage(Service.SAFE, C.daemon, 1, b"safe")
        view.order.hold(Meta(SiteId(2), 1, 5, some, 0), None)
        hold(view, C, 2, 6, "six")
        view.order.hold(Meta(SiteId(2), 3, 7, some, 1), body)
        hold(view, C, 4, 8, "eight")
    for site in (0, 1, 2):
        ahead.order.promise(SiteId(site), 4 if site == 2 else 0, 9)
    ahead.order.deliver()

    decision = decided(ahead, behind)

    assert [(rift.position.lts, rift.mask) for rift in decision.rifts] == [(5, some), (7, some)]
    told = deliver_before_signal(behind, decision, SiteId(1), ATTEMPT, False)
    assert [one.position.lts for one in told if isinstance(one, Rift | Delivered)] == [5, 6, 7, 7, 8]
    assert [isinstance(one, Rift) for one in told] == [True, False, True, False, False]
    assert deliver_before_signal(ahead, decision, SiteId(0), ATTEMPT, False) == []


def test_a_bound_daemon_commits_to_nothing_that_it_does_not_know() -> None:
    """Another daemon has the meta-data of a hole here; the next state must not be refused for it."""
    knows, knows_not = view_of(A), view_of(B)
    knows.order.hold(Meta(SiteId(2), 1, 5, SiteMask(0b110), 0), None)
    for site in (0, 1):
        knows.order.promise(SiteId(site), 0, 9)
    decision = decided(knows, knows_not)
    assert (holes(decision), decision.promised[SiteId(2)]) == ([(2, 1)], 1)

    knows_not.bind(decision)

    state = knows_not.state(ATTEMPT, 1)
    check_state(state, sites(0, 1, 2))
    assert [one.bound for one in state.sites] == [0, 0, 0]


def test_behind_the_signal_a_majority_message_needs_a_next_view_that_is_primary() -> None:
    def closed(primary: PrimaryBasis, next_primary: bool) -> list[type]:
        view = view_of(A)
        view.primary = primary
        message = OrderedMessage(Service.AGREED, A.daemon, 1, b"m", MAJORITY)
        view.order.hold(Meta(SiteId(0), 1, 5, SiteMask(0b111), 0), message)
        view.break_up()
        out = close_view(view, decided(view), SiteId(0), ATTEMPT, next_primary)
        return [type(one) for one in out]

    assert closed(PrimaryBasis.MAJORITY, True) == [TransitionalSignal, Delivered]
    assert closed(PrimaryBasis.MAJORITY, False) == [TransitionalSignal, Withheld]
    assert closed(PrimaryBasis.NONE, True) == [TransitionalSignal, Withheld]
