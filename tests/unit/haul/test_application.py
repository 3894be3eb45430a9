"""The application manager: what entries change, what is refused, and that a snapshot is all of it."""

from msgspec.structs import replace
from tests.unit.haul.managers import BOTH, FIRST, HUB, NORWAY, answer, apply, cast, hub, join, opened, received

from hopring.haul.application import ApplicationManager, PeerRefused
from hopring.haul.entries import (
    Accepted,
    DoneRequest,
    FramesReceived,
    HandedOver,
    LinkClosed,
    LinkOpened,
    MembersServing,
    SetJoinRequest,
    SwitchRequest,
    WideRequestRefused,
)
from hopring.haul.ids import ClusterId, ClusterMask, ParcelId, clusters_mask
from hopring.haul.link.frames import (
    LENGTH_BYTES,
    LinkGeneration,
    ParcelFrame,
    SetFrame,
    encode_frame,
)
from hopring.haul.managed_set import SetOptions
from hopring.haul.order.events import CastKind


def test_a_cast_waits_for_the_channel_and_for_the_group() -> None:
    app = hub()

    acts = apply(app, cast(2))

    assert answer(acts) == Accepted(ParcelId(HUB, 1))
    managed = app.sets["tickets"]
    assert [one.number for one in managed.channels[NORWAY].waiting] == [1, 2]  # SET, and the parcel.
    assert [one.number for one in managed.line] == [1]


def test_a_set_begins_with_its_clusters_on_every_channel() -> None:
    (first,) = hub().sets["tickets"].channels[NORWAY].waiting

    assert first.clusters == BOTH


def test_what_was_handed_over_is_dropped_when_all_have_it() -> None:
    app = hub()
    apply(app, cast(2))
    managed = app.sets["tickets"]

    apply(app, HandedOver("tickets", 1))

    assert not managed.line
    assert ParcelId(HUB, 1) in managed.kept  # Norway has not got it.


def test_another_list_of_clusters_is_refused_with_both() -> None:
    refused = answer(apply(hub(), join(2, clusters_mask([HUB]))))

    assert refused == WideRequestRefused("ClustersDiffer", "tickets is a set of the clusters 1 2, not 1")


def test_a_set_that_nobody_joined_is_refused() -> None:
    app = ApplicationManager(HUB, clusters_mask([NORWAY]))

    refused = answer(apply(app, cast(1)))

    assert isinstance(refused, WideRequestRefused)
    assert refused.kind == "NotInSet"


def test_an_abcast_is_for_all_participants() -> None:
    refused = answer(apply(hub(), cast(2, to=NORWAY, kind=CastKind.ABCAST)))

    assert isinstance(refused, WideRequestRefused)


def test_what_waits_has_a_limit() -> None:
    app = hub(spool_bytes_max=500)
    answers = [answer(apply(app, cast(number, to=NORWAY))) for number in range(2, 8)]

    assert [isinstance(one, Accepted) for one in answers] == [True, True, True, True, False, False]
    assert answers[-1] == WideRequestRefused("WideFull", "what waits for cluster 2 has reached 500 bytes")


def test_a_set_comes_with_the_first_frame_of_a_peer_and_waits_for_its_group() -> None:
    app = ApplicationManager(NORWAY, clusters_mask([HUB]))
    apply(app, LinkOpened(HUB, HUB, FIRST, "n1", 9, ()))
    data = encode_frame(SetFrame("tickets", 1, 0, BOTH))[LENGTH_BYTES:]

    apply(app, FramesReceived(HUB, HUB, FIRST, (data,)))

    assert app.sets["tickets"].group == ""
    assert app.sets["tickets"].channels[HUB].received == 1


def test_a_set_with_other_clusters_is_not_taken_from_a_peer() -> None:
    app = hub()
    apply(app, opened(FIRST))

    received(app, SetFrame("tickets", 1, 0, clusters_mask([HUB, NORWAY, ClusterId(3)])))

    assert app.sets["tickets"].disputed == {NORWAY: ClusterMask(7)}
    assert app.sets["tickets"].channels[NORWAY].received == 0


def test_frames_of_an_older_connection_are_void() -> None:
    app = hub()
    apply(app, opened(FIRST))
    apply(app, opened(LinkGeneration(1, 2)))

    received(app, SetFrame("tickets", 1, 0, BOTH), generation=FIRST)

    assert app.sets["tickets"].channels[NORWAY].received == 0


def test_a_frame_counts_once() -> None:
    app = hub()
    apply(app, opened(FIRST))
    frame = SetFrame("tickets", 1, 1, BOTH)

    assert received(app, frame, frame) == []
    assert app.sets["tickets"].channels[NORWAY].received == 1
    assert app.sets["tickets"].channels[NORWAY].acked == 1


def test_who_acknowledges_what_was_not_sent_is_refused() -> None:
    app = hub()
    apply(app, opened(FIRST))

    (act,) = received(app, SetFrame("tickets", 1, 9, BOTH))

    assert isinstance(act, PeerRefused)
    assert app.sets["tickets"].channels[NORWAY].received == 0


def test_an_older_greeting_is_refused() -> None:
    app = hub()
    apply(app, opened(LinkGeneration(2, 1)))

    assert app.refusal(opened(LinkGeneration(1, 9))) == ("there is a later connection", "use that one")


def test_a_peer_without_its_state_is_refused_until_somebody_says_so() -> None:
    app = hub()
    apply(app, opened(FIRST, received=1))
    apply(app, LinkClosed(NORWAY, HUB, FIRST))

    other = app.refusal(opened(LinkGeneration(1, 2), received=1, incarnation=8))
    ahead = app.refusal(opened(LinkGeneration(1, 2), received=5))

    assert other == ahead
    assert other is not None
    assert "bring the state of cluster 2 back" in other[1]
    assert app.refusal(opened(LinkGeneration(1, 2), received=1)) is None


def test_a_greeting_that_was_overtaken_is_refused_and_may_be_repeated() -> None:
    app = hub()
    apply(app, opened(FIRST, received=1))

    refused = app.refusal(opened(LinkGeneration(1, 2), received=0))

    assert refused is not None
    assert refused[0] == "cluster 2 knows less than it has acknowledged"
    assert refused[1].startswith("greet again")


def test_a_link_that_is_switched_off_is_closed_and_stays_so() -> None:
    app = hub()
    apply(app, opened(FIRST))

    apply(app, SwitchRequest("vendor", 2, 0, NORWAY, False))

    assert not app.links[NORWAY].is_open
    assert app.refusal(opened(LinkGeneration(1, 2))) is not None
    apply(app, SwitchRequest("vendor", 3, 0, NORWAY, True))
    assert app.refusal(opened(LinkGeneration(1, 2))) is None


def test_a_link_that_is_drained_goes_off_when_what_waits_is_there() -> None:
    app = hub()
    apply(app, opened(FIRST, received=1))
    apply(app, cast(2))
    apply(app, SwitchRequest("vendor", 3, 0, NORWAY, on=False, drain=True))
    assert app.links[NORWAY].is_on
    apply(app, cast(4))

    received(app, SetFrame("tickets", 1, 2, BOTH))

    assert not app.links[NORWAY].is_on
    assert not app.links[NORWAY].is_open


def test_a_link_on_which_nothing_waits_is_drained_at_once() -> None:
    app = hub()
    apply(app, opened(FIRST, received=1))

    apply(app, SwitchRequest("vendor", 3, 0, NORWAY, on=False, drain=True))

    assert not app.links[NORWAY].is_on


def test_the_connection_of_a_member_that_is_gone_is_closed() -> None:
    app = hub()
    apply(app, opened(FIRST))

    apply(app, MembersServing(2, ("h2",)))

    assert not app.links[NORWAY].is_open
    assert app.managers == {NORWAY: "h2"}


def test_members_of_an_earlier_epoch_say_nothing() -> None:
    app = hub()
    apply(app, MembersServing(3, ("h1", "h2")))

    apply(app, MembersServing(2, ("h3",)))

    assert app.members == ("h1", "h2")


def test_answers_are_kept_until_the_client_has_them() -> None:
    app = hub()
    apply(app, cast(2))
    assert sorted(app.answers["vendor"]) == [1, 2]

    apply(app, replace(cast(3), known=2))

    assert sorted(app.answers["vendor"]) == [3]


def test_a_snapshot_is_all_of_it() -> None:
    app = hub()
    apply(app, opened(FIRST))
    apply(app, cast(2))
    apply(app, cast(3, kind=CastKind.ABCAST))
    other = ApplicationManager(HUB, clusters_mask([NORWAY]), SetOptions(spool_bytes_max=10_000))

    other.restore(app.snapshot())

    assert other.snapshot() == app.snapshot()
    for one in (app, other):
        apply(one, cast(4))
        apply(one, HandedOver("tickets", 2))
    assert other.snapshot() == app.snapshot()


def durable(number: int) -> SetJoinRequest:
    return replace(join(number), durable="vendor-a")


def done(number: int, up_to: int, leaves: bool = False) -> DoneRequest:
    return DoneRequest("vendor", number, 0, "tickets", "vendor-a", up_to, leaves)


def test_a_durable_consumer_keeps_what_it_has_not_done_with() -> None:
    app = hub()
    apply(app, durable(2))
    for number in (3, 4, 5):
        apply(app, cast(number))
    managed = app.sets["tickets"]

    apply(app, HandedOver("tickets", 3, managed.rewinds))
    assert [one.number for one in managed.line] == [1, 2, 3]
    apply(app, done(6, 2))

    assert [one.number for one in managed.line] == [3]


def test_a_durable_consumer_that_comes_back_begins_behind_what_it_has_done_with() -> None:
    app = hub()
    apply(app, durable(2))
    for number in (3, 4, 5):
        apply(app, cast(number))
    managed = app.sets["tickets"]
    apply(app, HandedOver("tickets", 3, managed.rewinds))
    apply(app, done(6, 1))

    again = answer(apply(app, durable(7)))

    assert again == Accepted(None, done=1, rewinds=2)
    assert managed.handed == 1


def test_what_was_handed_over_before_a_durable_consumer_came_back_does_not_count() -> None:
    app = hub()
    apply(app, durable(2))
    apply(app, cast(3))
    managed = app.sets["tickets"]
    apply(app, durable(4))

    apply(app, HandedOver("tickets", 1, 1))
    assert managed.handed == 0
    apply(app, HandedOver("tickets", 1, 2))

    assert managed.handed == 1


def test_nothing_is_kept_for_a_consumer_that_has_ended() -> None:
    app = hub()
    apply(app, durable(2))
    apply(app, cast(3))
    managed = app.sets["tickets"]
    apply(app, HandedOver("tickets", 1, managed.rewinds))

    apply(app, done(4, 0, leaves=True))

    assert not managed.line
    assert isinstance(answer(apply(app, done(5, 1))), WideRequestRefused)


def test_bytes_that_are_no_entry_change_nothing() -> None:
    app = hub()
    before = app.snapshot()

    assert app.apply(b"noise") == []
    assert apply(app, cast(2, body=b"x" * 200_000)) == []
    assert app.snapshot() == before


def test_a_parcel_frame_is_delivered_and_its_body_kept() -> None:
    norway = ApplicationManager(NORWAY, clusters_mask([HUB]))
    apply(norway, LinkOpened(HUB, HUB, FIRST, "n1", 9, ()))
    app = hub()
    apply(app, cast(2))
    managed = app.sets["tickets"]
    introduction, sent = managed.channels[NORWAY].waiting
    assert sent.parcel is not None
    frames = (
        SetFrame("tickets", introduction.number, 0, BOTH),
        ParcelFrame("tickets", sent.number, 0, sent.parcel, sent.descriptors, b"3 left"),
    )

    apply(norway, FramesReceived(HUB, HUB, FIRST, tuple([encode_frame(one)[LENGTH_BYTES:] for one in frames])))

    (item,) = norway.sets["tickets"].line
    assert item.parcel is not None
    assert norway.sets["tickets"].bodies[item.parcel.id] == b"3 left"
