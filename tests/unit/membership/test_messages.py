from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decoding import Tally
from tests.unit.membership.state_reports import A, B, C, D, body, meta, site, sites, state

from hopring.config.model import WEIGHT_MAX
from hopring.errors import Drop, PeerError
from hopring.ids import DAEMONS_MAX, NUMBER_MAX, SITES_MAX, DaemonId, Incarnation, Process, SiteId, ViewId
from hopring.membership.messages import (
    DaemonAlive,
    DaemonJoin,
    DaemonLeave,
    DaemonMessage,
    DaemonRefer,
    GatherRecord,
    HeldRun,
    NewMemb,
    RecoveryDone,
    RecoveryMessage,
    RecoveryResend,
    SiteState,
    StateTrans,
    check_daemon_message,
    check_state,
    check_weights,
    decode_daemon_message,
    decode_recovery_message,
    encode_membership_message,
    joins,
    newmemb,
)
from hopring.routing.trees import LinkPlan, Topology
from hopring.wire.train import MEMBERSHIP_DATAGRAM_BYTES_MAX

WHERE = sites(0, 0, 1)

counts = st.one_of(st.integers(0, 300), st.sampled_from([2**32, 2**63 - 1, 2**63, 2**64 - 1]))
daemons = st.integers(0, DAEMONS_MAX - 1).map(DaemonId)
places = st.integers(0, SITES_MAX - 1)
processes = st.builds(Process, daemons, st.integers(0, 2**64 - 1).map(Incarnation))
views = st.builds(ViewId, counts, daemons, st.integers(0, 2**64 - 1).map(Incarnation))
few_processes = st.lists(processes, max_size=3).map(tuple)
cuts = st.lists(st.tuples(places, places), max_size=2).map(tuple)
weights = st.lists(st.tuples(places, places, st.integers(1, WEIGHT_MAX)), max_size=2).map(tuple)
records = st.builds(
    GatherRecord,
    processes,
    counts,
    few_processes,
    st.lists(daemons, max_size=3).map(tuple),
    counts,
    cuts,
    few_processes,
    weights,
)
held = st.builds(HeldRun, counts, counts, st.lists(counts, max_size=3).map(tuple), counts, st.booleans())
site_states = st.builds(
    SiteState, places, counts, counts, counts, counts, st.lists(held, max_size=3).map(tuple)
)
orders = st.tuples(counts, st.integers(-1, SITES_MAX - 1))

datagrams: st.SearchStrategy[DaemonMessage] = st.one_of(
    st.builds(DaemonAlive, processes, counts, few_processes),
    st.builds(DaemonJoin, st.lists(records, min_size=1, max_size=3).map(tuple), st.booleans()),
    st.builds(DaemonRefer, processes, daemons),
    st.builds(DaemonLeave, processes),
    st.builds(NewMemb, views, few_processes, cuts, weights),
)
told: st.SearchStrategy[RecoveryMessage] = st.one_of(
    st.builds(
        StateTrans,
        *(views, processes, views, counts, counts, few_processes, counts, orders),
        st.lists(site_states, max_size=2).map(tuple),
    ),
    st.builds(
        RecoveryResend, views, views, places, counts, counts, counts, counts, st.none() | st.binary(max_size=9)
    ),
    st.builds(RecoveryDone, views),
)


@given(datagrams)
def test_messages_sent_by_datagram_are_decoded_to_the_same(message: DaemonMessage) -> None:
    assert decode_daemon_message(encode_membership_message(message)) == message


@given(told)
def test_messages_sent_over_the_network_are_decoded_to_the_same(message: RecoveryMessage) -> None:
    assert decode_recovery_message(encode_membership_message(message)) == message


@pytest.mark.parametrize(
    ("good", "decode"), [(datagrams, decode_daemon_message), (told, decode_recovery_message)]
)
def test_random_bytes_are_a_peers_mistake(good: st.SearchStrategy[Any], decode: Callable[[bytes], Any]) -> None:
    tally = Tally()

    @settings(derandomize=True, database=None)
    @given(st.binary(max_size=200), good)
    def one(noise: bytes, message: Any) -> None:
        for payload in (noise, encode_membership_message(message)):
            with tally.attempt():
                found = decode(payload)
                assert decode(encode_membership_message(found)) == found

    one()
    tally.expect(1 / 2)  # All that were messages.


@pytest.mark.parametrize(
    ("good", "decode", "share"),
    [(datagrams, decode_daemon_message, 1 / 4), (told, decode_recovery_message, 1 / 4)],
)
def test_a_damaged_message_is_a_message_or_a_peers_mistake(
    good: st.SearchStrategy[Any], decode: Callable[[bytes], Any], share: float
) -> None:
    tally = Tally()

    @settings(derandomize=True, database=None)
    @given(good, st.integers(0, 400), st.integers(0, 255))
    def one(message: Any, at: int, byte: int) -> None:
        payload = bytearray(encode_membership_message(message))
        payload[at % len(payload)] = byte
        with tally.attempt():
            found = decode(bytes(payload))
            assert decode(encode_membership_message(found)) == found

    one()
    tally.expect(share)


def test_a_damaged_datagram_is_valid_or_a_peers_mistake() -> None:
    tally = Tally()

    @settings(derandomize=True, database=None)
    @given(datagrams, st.integers(0, 400), st.integers(0, 255))
    def one(message: DaemonMessage, at: int, byte: int) -> None:
        payload = bytearray(encode_membership_message(message))
        payload[at % len(payload)] = byte
        for said in (encode_membership_message(DaemonLeave(A)), bytes(payload)):
            with tally.attempt():
                check_daemon_message(decode_daemon_message(said), WHERE)

    one()
    tally.expect(1 / 2)  # All that were sent by a daemon of the cluster; few of the others name one.


@given(st.one_of(datagrams, told), st.integers(0, 400))
def test_a_truncated_message_is_refused(message: Any, at: int) -> None:
    payload = encode_membership_message(message)

    with pytest.raises(PeerError):
        decode_daemon_message(payload[: at % len(payload)])
    with pytest.raises(PeerError):
        decode_recovery_message(payload[: at % len(payload)])


@pytest.mark.parametrize("decode", [decode_daemon_message, decode_recovery_message])
def test_a_tag_that_is_no_text_is_refused(decode: Callable[[bytes], object]) -> None:
    with pytest.raises(PeerError):
        decode(b"\x92\xa1\x80\x00")


def test_the_two_kinds_of_messages_are_not_mixed_up() -> None:
    with pytest.raises(PeerError):
        decode_recovery_message(encode_membership_message(DaemonAlive(A, 1)))
    with pytest.raises(PeerError):
        decode_daemon_message(encode_membership_message(RecoveryDone(ViewId(1, A.daemon, A.incarnation))))


def test_a_join_has_at_least_its_senders_record() -> None:
    with pytest.raises(PeerError):
        decode_daemon_message(encode_membership_message(DaemonJoin(())))


VIEW = ViewId(9, A.daemon, A.incarnation)
STRANGER = Process(DaemonId(9), Incarnation(1))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (DaemonAlive(STRANGER, 1), Drop.FOREIGN_SENDER),
        (DaemonAlive(A, NUMBER_MAX + 1), Drop.OUT_OF_WINDOW),
        (DaemonJoin((GatherRecord(A, 1, (A, STRANGER), (), 1),)), Drop.FOREIGN_SENDER),
        (DaemonJoin((GatherRecord(STRANGER, 1, (A,), (), 1),)), Drop.FOREIGN_SENDER),
        (
            DaemonJoin((GatherRecord(A, 1, (A,), (), 1), GatherRecord(B, 1, (B,), (), NUMBER_MAX + 1))),
            Drop.OUT_OF_WINDOW,
        ),
        (DaemonJoin((GatherRecord(A, 1, (A,), (), 1, ((1, 0),)),)), Drop.INCONSISTENT),
        (DaemonJoin((GatherRecord(A, NUMBER_MAX + 1, (A,), (), 1),)), Drop.OUT_OF_WINDOW),
        (DaemonJoin((GatherRecord(A, 1, (A,), (9,), 1),)), Drop.FOREIGN_SENDER),
        (NewMemb(VIEW, (A, STRANGER)), Drop.FOREIGN_SENDER),
        (NewMemb(VIEW, (A, Process(A.daemon, Incarnation(77)))), Drop.INCONSISTENT),
        (NewMemb(VIEW, (A, B), ((1, 1),)), Drop.INCONSISTENT),
        (NewMemb(VIEW._replace(counter=NUMBER_MAX + 1), (A, B)), Drop.OUT_OF_WINDOW),
        (DaemonRefer(STRANGER, 0), Drop.FOREIGN_SENDER),
        (DaemonLeave(STRANGER), Drop.FOREIGN_SENDER),
    ],
)
def test_an_invalid_message_is_refused(message: DaemonMessage, reason: Drop) -> None:
    with pytest.raises(PeerError) as caught:
        check_daemon_message(message, WHERE)

    assert caught.value.reason is reason


def test_a_message_of_configured_daemons_passes() -> None:
    check_daemon_message(NewMemb(VIEW, (A, B, C), ((0, 1),)), WHERE)
    check_daemon_message(DaemonJoin((GatherRecord(A, 1, (A, B), (2,), 100),)), WHERE)


# Daemons A and B are at site 0, C at site 1, D at site 2; sites 0 and 2 have no link.
CHAIN = Topology(
    (SiteId(0), SiteId(0), SiteId(1), SiteId(2)),
    {(SiteId(0), SiteId(1)): LinkPlan(10), (SiteId(1), SiteId(2)): LinkPlan(10)},
    measured=True,
)


def reports(rep: Process, *links: tuple[int, int, int]) -> DaemonJoin:
    return DaemonJoin((GatherRecord(D, 1, (D,), (), 1), GatherRecord(rep, 1, (rep,), (), 1, weights=links)))


def test_weights_of_the_own_sites_links_pass() -> None:
    check_weights(reports(C, (0, 1, 1), (1, 2, WEIGHT_MAX)), CHAIN)
    check_weights(NewMemb(VIEW, (A, C, D), (), ((0, 1, 5), (1, 2, 7))), CHAIN)


@pytest.mark.parametrize(
    "message",
    [
        reports(A, (1, 2, 5)),  # Of another site.
        reports(A, (0, 2, 5)),  # There is no such link.
        reports(A, (1, 0, 5)),  # The wrong way round.
        reports(A, (0, 1, 5), (0, 1, 6)),
        NewMemb(VIEW, (A, C), (), ((0, 2, 5),)),
        NewMemb(VIEW, (A, C), (), ((0, 1, 5), (0, 1, 6))),
    ],
)
def test_invalid_weights_are_refused(message: DaemonJoin | NewMemb) -> None:
    with pytest.raises(PeerError) as caught:
        check_weights(message, CHAIN)

    assert caught.value.reason is Drop.INCONSISTENT


@pytest.mark.parametrize("weight", [0, -1, WEIGHT_MAX + 1, 1.5, "5"])
def test_a_weight_out_of_range_is_refused_by_the_decoder(weight: object) -> None:
    join: Any = DaemonJoin((GatherRecord(A, 1, (A,), (), 1, weights=((0, 1, weight),)),))  # type: ignore[arg-type]
    newmemb: Any = NewMemb(VIEW, (A,), (), ((0, 1, weight),))  # type: ignore[arg-type]

    for message in (join, newmemb):
        with pytest.raises(PeerError) as caught:
            decode_daemon_message(encode_membership_message(message))
        assert caught.value.reason is Drop.INCONSISTENT


def test_where_the_configured_weights_hold_others_are_refused() -> None:
    fixed = Topology(CHAIN.site_of, CHAIN.links)

    check_weights(reports(A), fixed)
    with pytest.raises(PeerError):
        check_weights(reports(A, (0, 1, 5)), fixed)
    with pytest.raises(PeerError):
        check_weights(NewMemb(VIEW, (A, C), (), ((0, 1, 5),)), fixed)


def test_a_reference_names_a_configured_daemon() -> None:
    with pytest.raises(PeerError) as caught:
        check_daemon_message(DaemonRefer(A, DaemonId(9)), WHERE)

    assert caught.value.reason is Drop.FOREIGN_SENDER


@pytest.mark.parametrize(
    "impossible",
    [
        state(A, aru=52, clock=50),
        state(A, delivered=(52, 0), clock=50),
        state(A, site(0, 2, 52), clock=50),
        state(A, site(0, 2, 9, body(3, 51)), clock=50),
        state(A, site(0, 2, 9, body(4, 12), body(3, 13))),
        state(A, site(0, 2, 9, body(3, 12), body(4, 12))),
        state(A, site(0, 2, 9, HeldRun(3, 12, (1, 0), 1, body=True))),
        state(A, SiteState(0, 2, 9, 3, 0, (HeldRun(3, 12, (1,), 1, body=True),))),
        state(A, site(0, 2, 9, highest=NUMBER_MAX + 1)),
        state(A, clock=NUMBER_MAX + 1),
        state(A, SiteState(0, 4, 9, 3, 0, ())),
        state(A, site(0, 2, 9), site(0, 3, 9)),
        state(A, commit=(D,)),
        state(A, commit=(Process(A.daemon, Incarnation(-1)),)),
        state(A, site(0, 2, 9, highest=3, line=4)),
    ],
)
def test_an_invalid_state_is_refused(impossible: StateTrans) -> None:
    with pytest.raises(PeerError):
        check_state(impossible, sites(0, 1))


def test_a_valid_state_passes() -> None:
    known = site(0, 4, 13, HeldRun(3, 10, (1,), 3, body=True), meta(7, 19), highest=9)

    check_state(state(A, known, aru=10, delivered=(11, 0), clock=19), sites(0))


def test_records_of_many_sites_are_split_into_joins_that_each_fit_a_datagram() -> None:
    """64 sites of 8 daemons, whose representatives all name each other, in as few messages as possible."""
    everybody = tuple(Process(DaemonId(at), Incarnation(2**64 - 1 - at)) for at in range(512))
    hears = tuple(DaemonId(at) for at in range(0, 512, 8))
    cut = tuple((one, one + 1) for one in range(63))
    records = [GatherRecord(rep, NUMBER_MAX, everybody, hears, NUMBER_MAX, cut) for rep in everybody[::8]]

    parts = joins(records[0], records[1:], active=True)

    assert all(message.records[0] == records[0] and message.active for message in parts)
    assert [record for message in parts for record in message.records[1:]] == records[1:]
    assert all(len(encode_membership_message(message)) <= MEMBERSHIP_DATAGRAM_BYTES_MAX for message in parts)
    assert (
        sum(len(encode_membership_message(message)) for message in parts)
        > (len(parts) - 1) * MEMBERSHIP_DATAGRAM_BYTES_MAX // 2
    )


def test_records_that_fit_are_sent_in_one_join() -> None:
    record = GatherRecord(A, 1, (A, B), (DaemonId(2),), 4)

    assert joins(record, [record], active=False) == [DaemonJoin((record, record), False)]


def test_weights_of_all_links_fit_into_a_newmemb_unless_there_are_thousands_of_members() -> None:
    links = [(one, other, WEIGHT_MAX) for one in range(SITES_MAX) for other in range(one + 1, SITES_MAX)]

    def of(count: int) -> NewMemb:
        members = [Process(DaemonId(at), Incarnation(2**64 - 1)) for at in range(count)]
        return newmemb(VIEW, tuple(members), (), tuple(links))

    assert len(of(3_000).weights) == len(links)
    assert of(DAEMONS_MAX).weights == ()
    assert all(
        len(encode_membership_message(of(count))) < MEMBERSHIP_DATAGRAM_BYTES_MAX
        for count in (3_000, DAEMONS_MAX)
    )
