"""Members of the long-haul service: what is held back, what goes out, and what happens when it cannot."""

from tests.unit.haul.members import OneMember, exchange

from hopring.haul.entries import (
    Accepted,
    CastRequest,
    DoneRequest,
    MembersServing,
    SetJoinRequest,
    SwitchRequest,
)
from hopring.haul.ids import ClusterId, ClusterMask, ParcelId
from hopring.haul.link.frames import Beat, Bye, Greeting, LinkGeneration, ParcelFrame, ReceivedFrame, Refuse
from hopring.haul.link.schedule import OnDemand
from hopring.haul.member_events import ConnectionId, Dialed, PeerConnected, PeerConnectionLost
from hopring.haul.order.events import CastKind

HUB, NORWAY = ClusterId(1), ClusterId(2)
BOTH = ClusterMask(3)


def join(number: int = 1) -> SetJoinRequest:
    return SetJoinRequest("vendor", number, 0, "tickets", "vendors", BOTH)


def cast(number: int, body: bytes = b"3 left") -> CastRequest:
    return CastRequest(
        "vendor", number, 0, "tickets", BOTH, "", CastKind.CBCAST, 0, ClusterId(0), body, notify=False
    )


def two() -> tuple[OneMember, OneMember]:
    """The hub, which dials, and Norway; both serve, and both have joined the set."""
    hub, norway = OneMember(1, (2,), dials=(2,)), OneMember(2, (1,))
    for one in (hub, norway):
        one.view()
        one.request("vendor", 1, join())
        one.present("vendors")
    return hub, norway


def connected() -> tuple[OneMember, OneMember]:
    """Two clusters with an open connection."""
    hub, norway = two()
    hub.connect(norway)
    exchange(hub, norway)
    hub.after(50_000)
    norway.now_us = hub.now_us
    norway.after(50_000)
    exchange(hub, norway)
    return hub, norway


def test_a_member_serves_when_its_epoch_is_on_disk() -> None:
    hub = OneMember(1, (2,))
    hub.disk_holds = True
    hub.view()
    assert not hub.core.serving

    hub.sync()

    assert hub.core.serving


def test_a_request_is_answered_when_it_is_on_disk_and_not_before() -> None:
    hub, _ = two()
    hub.answers.clear()
    hub.disk_holds = True

    hub.request("vendor", 2, cast(2))
    assert hub.answers == []
    hub.sync()

    (answer,) = hub.answers
    assert (answer.client, answer.number, answer.answer) == ("vendor", 2, Accepted(ParcelId(HUB, 1)))


def test_nothing_is_handed_over_or_sent_before_it_is_on_disk() -> None:
    hub, _ = connected()
    hub.disk_holds = True

    hub.request("vendor", 2, cast(2))

    assert not hub.handed
    assert not [frame for _, frame in hub.frames if isinstance(frame, ParcelFrame)]


def test_a_repeated_request_gets_its_answer_again_and_nothing_else_happens() -> None:
    hub, _ = two()
    hub.request("vendor", 2, cast(2))
    hub.answers.clear()

    hub.request("vendor", 2, cast(2))

    assert [one.answer for one in hub.answers] == [Accepted(ParcelId(HUB, 1))]
    assert hub.core.app.sets["tickets"].delivered == 1


def test_a_parcel_arrives_at_both_groups() -> None:
    hub, norway = connected()

    hub.request("vendor", 2, cast(2))
    exchange(hub, norway)

    assert hub.copies() == ["3 left"]
    assert norway.copies() == ["3 left"]


def test_the_greeting_names_the_epoch_of_the_log() -> None:
    hub, norway = two()

    hub.connect(norway)

    (_, greeting) = hub.frames[0]
    assert isinstance(greeting, Greeting)
    assert greeting.generation == LinkGeneration(1, 1)
    assert not greeting.welcome


def test_after_each_refusal_the_next_generation_skips_twice_as_many_numbers() -> None:
    hub, norway = two()
    for connection in range(1, 5):
        hub.connect(norway, connection)
        hub.arrive(Refuse("there is a later connection", "use that one"), connection)
        hub.after(60_000_000)
    greetings = [frame for _, frame in hub.frames if isinstance(frame, Greeting)]

    assert [one.generation.number for one in greetings] == [1, 3, 7, 15]


def test_an_acknowledgement_goes_alone_after_fifty_milliseconds() -> None:
    hub, norway = connected()
    hub.request("vendor", 2, cast(2))
    exchange(hub, norway)
    assert not norway.frames

    norway.after(49_999)
    assert not norway.frames
    norway.after(1)

    assert isinstance(norway.frames[0][1], ReceivedFrame)


def test_without_an_acknowledgement_a_parcel_goes_again_on_the_next_connection() -> None:
    hub, norway = connected()
    hub.request("vendor", 2, cast(2))
    hub.frames.clear()  # It is lost with the connection.
    for one in (hub, norway):
        one.step(PeerConnectionLost(ConnectionId(1)))
    assert not hub.core.app.links[NORWAY].is_open
    hub.after(1_000_000)

    hub.connect(norway, 2)
    exchange(hub, norway)

    assert norway.copies() == ["3 left"]


def test_a_parcel_whose_acknowledgement_is_lost_is_not_delivered_twice() -> None:
    hub, norway = connected()
    hub.request("vendor", 2, cast(2))
    exchange(hub, norway)
    for one in (hub, norway):
        one.step(PeerConnectionLost(ConnectionId(1)))
    hub.after(1_000_000)
    hub.connect(norway, 2)

    exchange(hub, norway)

    assert norway.copies() == ["3 left"]
    assert norway.core.app.sets["tickets"].delivered == 1


def test_what_nobody_was_there_for_is_handed_over_again() -> None:
    hub, _ = two()
    hub.request("vendor", 2, cast(2))
    assert hub.copies(present=False) == ["3 left"]

    assert hub.copies() == ["3 left"]
    assert hub.core.app.sets["tickets"].handed == 1


def test_a_group_without_members_gets_what_waited_when_it_has_some() -> None:
    hub, _ = two()
    hub.present("vendors", present=False)
    hub.request("vendor", 2, cast(2))
    assert not hub.handed

    hub.present("vendors")

    assert hub.copies() == ["3 left"]


def test_a_beat_goes_after_ten_seconds_without_anything_else() -> None:
    hub, norway = connected()
    hub.after(9_000_000)
    assert not hub.frames

    hub.after(1_000_000)

    assert [type(frame) for _, frame in hub.frames] == [Beat]
    exchange(hub, norway)


def test_a_silent_peer_is_given_up_after_thirty_seconds() -> None:
    hub, _ = connected()
    hub.after(29_000_000)
    assert not hub.ended

    hub.after(1_100_000)

    assert hub.ended == [(1, "the other end is silent")]
    assert not hub.core.app.links[NORWAY].is_open


def test_a_connection_without_a_greeting_ends_after_ten_seconds() -> None:
    _, norway = two()
    norway.step(PeerConnected(ConnectionId(9)))

    norway.after(10_000_000)

    assert norway.ended == [(9, "the other end is silent")]


def test_a_link_that_is_switched_off_says_so_and_is_not_dialled_again() -> None:
    hub, norway = connected()

    hub.request("vendor", 2, SwitchRequest("vendor", 2, 0, NORWAY, on=False))
    hub.after(60_000_000)

    assert isinstance(hub.frames[0][1], Bye)
    assert not hub.dialed
    exchange(hub, norway)
    assert not norway.core.app.links[HUB].is_open
    hub.request("vendor", 3, SwitchRequest("vendor", 3, 0, NORWAY, on=True))
    assert hub.dialed == [NORWAY]


def test_a_link_that_is_switched_off_while_it_is_dialled_is_not_greeted() -> None:
    hub, _ = two()
    assert hub.dialed == [NORWAY]
    hub.request("vendor", 2, SwitchRequest("vendor", 2, 0, NORWAY, on=False))

    hub.step(Dialed(NORWAY, ConnectionId(5)))

    assert not hub.frames
    assert [one for one, _ in hub.ended] == [5]


def test_without_a_majority_nothing_goes_out_and_connections_end_after_three_seconds() -> None:
    hub, _ = connected()
    hub.signal()

    hub.after(2_999_999)
    assert not hub.ended
    hub.after(1)

    assert hub.ended == [(1, "this member does not serve any more")]
    assert not hub.frames


def test_who_does_not_serve_accepts_no_connection() -> None:
    norway = OneMember(2, (1,))

    norway.step(PeerConnected(ConnectionId(3)))

    assert norway.ended == [(3, "this member does not serve now")]


def test_another_clusters_file_is_refused_with_a_remedy() -> None:
    _, norway = two()
    norway.step(PeerConnected(ConnectionId(3)))

    norway.arrive(Greeting("ims", b"x" * 32, HUB, 7, LinkGeneration(1, 1)), 3)

    assert norway.frames[0][1] == Refuse("the clusters files differ", "give both clusters the same file")
    assert norway.ended == [(3, "the clusters files differ")]


def test_attempts_that_fail_come_later_and_later() -> None:
    hub, _ = two()
    hub.dialed.clear()
    times: list[int] = []
    for _ in range(4):
        hub.step(Dialed(NORWAY, None))
        while not hub.dialed:
            hub.after(100_000)
        hub.dialed.clear()
        times.append(hub.now_us)

    waits = [later - earlier for earlier, later in zip([0, *times], times, strict=False)]
    assert waits == sorted(waits)
    assert waits[-1] >= 4_000_000


def test_of_two_ends_that_dial_the_smaller_one_goes_on() -> None:
    hub, norway = OneMember(1, (2,), dials=(2,)), OneMember(2, (1,), dials=(1,))
    for one in (hub, norway):
        one.view()
        one.request("vendor", 1, join())
    hub.connect(norway, 1)
    norway.connect(hub, 2)

    exchange(hub, norway)

    assert hub.core.app.links[NORWAY].dialer == HUB
    assert norway.core.app.links[HUB].dialer == HUB
    assert [reason for connection, reason in hub.ended if connection == 2] == ["both ends have dialled"]


def test_a_durable_consumer_that_comes_back_gets_again_what_it_had_in_hand() -> None:
    hub, _ = two()
    hub.request("consumer", 1, SetJoinRequest("consumer", 1, 0, "tickets", "vendors", BOTH, "vendor-a"))
    hub.request("vendor", 2, cast(2, b"one"))
    hub.request("vendor", 3, cast(3, b"two"))
    assert hub.copies() == ["one", "two"]
    hub.request("consumer", 2, DoneRequest("consumer", 2, 0, "tickets", "vendor-a", 1))

    hub.request("again", 1, SetJoinRequest("again", 1, 0, "tickets", "vendors", BOTH, "vendor-a"))

    assert [(one.item.number, one.rewinds) for one in hub.handed] == [(2, 2)]
    assert hub.answers[-1].answer == Accepted(None, done=1, rewinds=2)


def test_spools_are_on_while_somebody_is_away_and_off_when_they_are_empty() -> None:
    hub, norway = connected()
    norway.present("vendors", present=False)
    hub.request("vendor", 2, SwitchRequest("vendor", 2, 0, NORWAY, on=False))
    hub.request("vendor", 3, cast(3))
    hub.copies()

    away, here = hub.core.snapshot().spools
    assert (away.set, away.peer, away.is_on, away.messages) == ("tickets", NORWAY, True, 1)
    assert (here.peer, here.is_on, here.messages) == (None, False, 0)

    exchange(hub, norway)
    hub.request("vendor", 4, SwitchRequest("vendor", 4, 0, NORWAY, on=True))
    hub.after(1_000_000)
    hub.connect(norway, 2)
    exchange(hub, norway)
    norway.after(1_000_000)
    exchange(hub, norway)

    assert not hub.core.snapshot().spools[0].is_on
    (_, waits) = norway.core.snapshot().spools
    assert (waits.is_on, waits.messages) == (True, 1)
    norway.present("vendors")
    norway.copies()
    assert not norway.core.snapshot().spools[1].is_on


def test_a_member_shows_links_and_sets() -> None:
    hub, _ = connected()

    shown = hub.core.snapshot()

    assert (shown.cluster, shown.member, shown.serving, shown.epoch, shown.members) == (
        HUB,
        "m",
        True,
        1,
        ("m",),
    )
    (link,) = shown.links
    assert (link.peer, link.is_on, link.is_open, link.member) == (NORWAY, True, True, "m")
    (one,) = shown.sets
    assert (one.name, one.group, one.clusters, one.forwarder) == ("tickets", "vendors", BOTH, "m")


def test_a_client_writes_its_own_requests_and_nothing_else() -> None:
    hub, _ = two()
    hub.answers.clear()
    end = hub.core.log.replica.image.end

    hub.request("vendor", 2, MembersServing(9, ("vendor",)))
    hub.request("other", 1, cast(1))

    assert hub.core.log.replica.image.end == end
    assert not hub.answers
    assert hub.core.app.epoch == 1


def test_the_time_of_the_state_goes_on_with_a_process_whose_clock_is_behind() -> None:
    hub, _ = connected()
    hub.after(3_600_000_000)
    hub.request("vendor", 2, cast(2))
    hub.copies()
    ahead_us = hub.core.app.now_us
    assert ahead_us >= 3_600_000_000
    other = OneMember(1, (2,))
    other.now_us = 5_000_000
    other.core.app.restore(hub.core.app.snapshot())

    other.view()
    other.present("vendors")
    other.request("vendor", 1, cast(1))
    other.now_us += 2_000_000
    other.copies()

    assert other.core.app.now_us == ahead_us + 2_000_000


def test_a_link_on_demand_is_opened_when_enough_waits_and_closed_when_it_is_idle() -> None:
    demand = OnDemand(waiting_bytes=100_000, waiting_us=10_000_000, idle_us=5_000_000)
    hub, norway = OneMember(1, (2,), (2,), demand), OneMember(2, (1,))
    for one in (hub, norway):
        one.view()
        one.request("vendor", 1, join())
        one.present("vendors")
    hub.after(9_900_000)
    assert not hub.dialed
    hub.after(200_000)
    assert hub.dialed == [NORWAY]

    hub.connect(norway)
    exchange(hub, norway)
    norway.after(50_000)
    exchange(hub, norway)
    assert hub.core.app.links[NORWAY].is_open
    hub.after(3_000_000)
    exchange(hub, norway)
    norway.after(50_000)
    exchange(hub, norway)
    hub.after(6_000_000)

    assert [reason for _, reason in hub.ended] == ["the window is over"]
    hub.after(60_000_000)
    assert not hub.dialed
