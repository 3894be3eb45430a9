"""Objects of Unreliable bundles on a ring: sent with the token, counted, unnumbered and not kept."""

from tests.unit.links.loose_objects import an_object
from tests.unit.links.rings import NOTHING_NEW, A, B, make_ring, passed_token, token

from hopring.links.events import Submit, Transmit
from hopring.links.ring.events import FromMember, Passed, Release
from hopring.links.ring.options import RingOptions
from hopring.links.ring.ring import Output, Ring, open_ring
from hopring.wire.data import Data
from hopring.wire.unreliable import Loose


def visited(ring: Ring, number: int, release: Release = NOTHING_NEW, **fields: object) -> list[Output]:
    ring.step(FromMember(A, token(number, **fields)), now_us=0)  # type: ignore[arg-type]
    return ring.step(release, now_us=0)


def test_a_loose_object_waits_for_the_token_and_is_sent_last() -> None:
    ring = make_ring()

    assert ring.step(Submit(an_object(1), loose=True), now_us=0) == []
    ring.step(Submit(b"transit"), now_us=0)
    outputs = visited(ring, 1, Release(1, 1, 0, (b"local",)))

    assert outputs[0] == Transmit((Data(1, b"localtransit"), Loose(an_object(1))))


def test_a_loose_object_has_no_number_but_counts_in_the_window() -> None:
    ring = make_ring()
    ring.step(Submit(an_object(1), loose=True), now_us=0)

    outputs = visited(ring, 1)

    assert outputs[0] == Transmit((Loose(an_object(1)),))
    left = passed_token(outputs)
    assert (left.link_seq, left.flow_control, left.quiet) == (0, 1, 0)
    assert ring.state.store.packets == {}
    assert visited(ring, 4)[-1] == Passed(5, 0)


def test_a_loose_object_requests_the_token() -> None:
    ring = make_ring(A)

    ring.step(Submit(an_object(1), loose=True), now_us=0)

    assert ring.state.hurried


def test_loose_objects_use_the_rest_of_the_window() -> None:
    ring = make_ring(options=RingOptions(personal_window_segments=100, global_window_segments=96))
    for number in range(1, 301):
        ring.step(Submit(an_object(number, size=1_370), loose=True), now_us=0)

    assert len(_loose(visited(ring, 1))) == 96
    assert len(_loose(visited(ring, 4, Release(1, 1, 0, (bytes(46 * 1_356),))))) == 96 - 46


def test_even_a_full_visit_leaves_an_eighth_of_the_share_for_loose_objects() -> None:
    options = RingOptions(personal_window_segments=92, global_window_segments=96, queue_bytes_max=10**7)
    ring = make_ring(options=options)
    for _ in range(100):
        ring.step(Submit(bytes(1_356)), now_us=0)
    for number in range(1, 301):
        ring.step(Submit(an_object(number, size=1_370), loose=True), now_us=0)

    outputs = visited(ring, 1)

    assert len(_loose(outputs)) == 96 // 3 // 8
    assert passed_token(outputs).flow_control == 92


def test_in_a_window_of_one_segment_loose_objects_have_their_turn() -> None:
    ring = make_ring(options=RingOptions(personal_window_segments=1))
    for number in range(1, 4):
        ring.step(Submit(bytes(1_000)), now_us=0)
        ring.step(Submit(an_object(number, size=1_370), loose=True), now_us=0)

    kinds = []
    for at in range(6):
        outputs = visited(ring, 1 + 3 * at, link_seq=ring.state.store.aru, link_aru=ring.state.store.aru)
        [frames] = [out.frames for out in outputs if isinstance(out, Transmit)]
        kinds.append([type(frame) for frame in frames])

    assert kinds == [[Data], [Loose], [Data], [Data], [Loose], [Loose]]


def test_when_the_queue_is_full_the_oldest_loose_object_is_dropped() -> None:
    ring = make_ring(options=RingOptions(loose_bytes_max=200))
    for number in range(1, 4):
        ring.step(Submit(an_object(number), loose=True), now_us=0)

    assert _loose(visited(ring, 1)) == [Loose(an_object(2) + an_object(3))]
    assert ring.state.outbox.loose.dropped == 1


def test_a_ring_of_one_drops_loose_objects() -> None:
    ring = open_ring(B, (B,), RingOptions(), 0, now_us=0)

    ring.step(Submit(an_object(1), loose=True), now_us=0)

    assert not ring.state.outbox.loose.objects


def _loose(outputs: list[Output]) -> list[Loose]:
    frames = [frame for output in outputs if isinstance(output, Transmit) for frame in output.frames]
    return [frame for frame in frames if isinstance(frame, Loose)]
