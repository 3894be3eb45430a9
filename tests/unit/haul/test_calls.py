"""Durable calls: one request, one answer, and what is kept until the caller is done."""

from msgspec.structs import replace
from tests.unit.haul.managers import BOTH, HUB, NORWAY, answer, apply, cast, hub, opened, received

from hopring.haul.application import ApplicationManager, BodyDropped, PeerRefused
from hopring.haul.calls import CALLS_MAX, UNNAMED, DurableCalls, calls_from
from hopring.haul.entries import Accepted, CallDoneRequest, CastRequest, WideRequestRefused
from hopring.haul.ids import ClusterMask, ParcelId, Talk, clusters_mask
from hopring.haul.link.frames import LinkGeneration, ParcelFrame, SetFrame
from hopring.haul.order.events import CastKind, Parcel
from hopring.haul.order.runs import DescriptorRun

FIRST = LinkGeneration(1, 1)
TALK = Talk(BOTH)


def call(number: int, name: str = "order 17", to: int = NORWAY, body: bytes = b"3 please") -> CastRequest:
    return replace(cast(number, body, to), call=name, notify=False)


def done(number: int, name: str = "order 17") -> CallDoneRequest:
    return CallDoneRequest("vendor", number, 0, "tickets", name)


def with_norway() -> ApplicationManager:
    app = hub()
    apply(app, opened(FIRST))
    received(app, SetFrame("tickets", 1, 0, BOTH))
    return app


def from_norway(
    number: int, answers: int, destinations: ClusterMask | None = None, *, got: bool = True
) -> ParcelFrame:
    """The answer of Norway to a request of the hub, of which it tells that it is there."""
    mine = clusters_mask([HUB])
    to = mine if destinations is None else destinations
    past = ((HUB, 1),) if number == 1 else ((HUB, 1), (NORWAY, number - 1))
    parcel = Parcel(ParcelId(NORWAY, number), TALK, CastKind.CBCAST, to, 0, past, 0, answers)
    theirs = clusters_mask([NORWAY])
    runs = [DescriptorRun(NORWAY, number, number, TALK, to, to)]
    if got:
        runs.insert(0, DescriptorRun(HUB, 1, 1, TALK, theirs, ClusterMask(0)))
    return ParcelFrame("tickets", number + 1, 2, parcel, tuple(runs), b"sold")


def test_a_call_is_made_once_by_its_name() -> None:
    app = with_norway()

    assert answer(apply(app, call(2))) == Accepted(ParcelId(HUB, 1))
    assert answer(apply(app, call(3, body=b"again"))) == Accepted(ParcelId(HUB, 1))
    assert app.sets["tickets"].core.descriptors.known[HUB] == 1


def test_an_answer_is_kept_for_its_caller_and_is_no_item_of_the_line() -> None:
    app = with_norway()
    apply(app, call(2))

    received(app, from_norway(1, answers=1))

    managed = app.sets["tickets"]
    assert managed.calls.by_name["order 17"].answer == ParcelId(NORWAY, 1)
    assert (managed.delivered, list(managed.line)) == (0, [])
    assert managed.bodies[ParcelId(NORWAY, 1)] == b"sold"


def test_the_answer_goes_when_the_caller_is_done() -> None:
    app = with_norway()
    apply(app, call(2))
    received(app, from_norway(1, answers=1))
    managed = app.sets["tickets"]
    managed.core.descriptors.take_due(NORWAY)  # Norway is told that the hub has it.
    apply(app, cast(3, to=HUB))
    assert managed.core.descriptors.find(ParcelId(NORWAY, 1)) is None
    assert ParcelId(NORWAY, 1) in managed.kept

    acts = apply(app, done(4))

    assert BodyDropped(("tickets", ParcelId(NORWAY, 1))) in acts
    assert ParcelId(NORWAY, 1) not in managed.kept
    assert managed.calls.by_name == {}


def test_a_call_is_another_one_when_it_is_done() -> None:
    app = with_norway()
    apply(app, call(2))
    apply(app, done(3))
    assert answer(apply(app, done(4))) == Accepted()

    assert answer(apply(app, call(5))) == Accepted(ParcelId(HUB, 2))


def test_the_first_answer_counts_and_only_of_the_cluster_that_was_asked() -> None:
    app = with_norway()
    apply(app, call(2))
    apply(app, replace(cast(3, b"mine", HUB), answers=1, notify=False))
    assert app.sets["tickets"].calls.by_name["order 17"].answer is None

    received(app, from_norway(1, answers=1))
    received(app, from_norway(2, answers=1, got=False))

    managed = app.sets["tickets"]
    assert managed.calls.by_name["order 17"].answer == ParcelId(NORWAY, 1)
    assert managed.delivered == 0


def test_a_call_to_the_own_cluster_is_answered_here() -> None:
    app = hub()
    apply(app, call(2, to=HUB))
    apply(app, replace(cast(3, b"here", HUB), answers=1))

    managed = app.sets["tickets"]
    assert managed.calls.by_name["order 17"].answer == ParcelId(HUB, 2)
    assert managed.bodies[ParcelId(HUB, 2)] == b"here"
    assert [item.parcel.id for item in managed.line if item.parcel is not None] == [ParcelId(HUB, 1)]


def test_an_answer_without_its_call_is_dropped() -> None:
    app = with_norway()
    apply(app, call(2))
    apply(app, done(3))

    received(app, from_norway(1, answers=1))

    managed = app.sets["tickets"]
    assert (managed.delivered, managed.calls.by_name) == (0, {})
    managed.core.descriptors.take_due(NORWAY)
    apply(app, cast(4, to=HUB))
    assert ParcelId(NORWAY, 1) not in managed.kept


def test_calls_and_answers_are_in_the_snapshot() -> None:
    app = with_norway()
    apply(app, call(2))
    apply(app, call(3, "order 18"))
    received(app, from_norway(1, answers=1))

    other = hub()
    other.restore(app.snapshot())

    assert other.sets["tickets"].calls.by_name == app.sets["tickets"].calls.by_name
    assert other.sets["tickets"].calls.holds(ParcelId(NORWAY, 1))
    assert other.snapshot() == app.snapshot()


def test_wrong_calls_are_refused() -> None:
    app = with_norway()

    for wrong in (
        replace(cast(2), call="order 17"),
        replace(cast(3), answers=1),
        replace(call(4), answers=1),
        replace(cast(5, to=NORWAY), answers=1),
    ):
        assert isinstance(answer(apply(app, wrong)), WideRequestRefused)
    assert app.sets["tickets"].calls.by_name == {}


def test_an_answer_to_what_was_not_asked_cannot_be() -> None:
    app = with_norway()
    apply(app, call(2))

    acts = received(app, from_norway(1, answers=2))

    assert (
        PeerRefused(NORWAY, "inconsistent: parcel 1 of cluster 2 answers what cluster 1 has not asked") in acts
    )
    both = from_norway(1, answers=1, destinations=BOTH)
    assert any(isinstance(one, PeerRefused) for one in received(app, both))
    assert app.sets["tickets"].core.descriptors.known[NORWAY] == 0


def test_calls_have_a_limit_and_those_without_a_name_make_room() -> None:
    calls = DurableCalls()
    for number in range(1, CALLS_MAX):
        calls.open(f"call {number}", number, NORWAY)
    calls.open(f"{UNNAMED}x", CALLS_MAX, NORWAY)
    assert (calls.is_full, calls.oldest_unnamed) == (True, f"{UNNAMED}x")
    app = with_norway()
    app.sets["tickets"].calls = calls_from(calls.state())

    # Numbers of this test alone: no parcel was sent with these calls.
    apply(app, call(2, f"{UNNAMED}y"))
    assert f"{UNNAMED}x" not in app.sets["tickets"].calls.by_name
    apply(app, done(3, f"{UNNAMED}y"))
    apply(app, call(4, "the last"))
    refused = answer(apply(app, call(5, "one more")))

    assert refused == WideRequestRefused("WideFull", f"there are {CALLS_MAX} open calls")
