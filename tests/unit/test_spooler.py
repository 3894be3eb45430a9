"""Events of a client as records of a spool."""

from pathlib import Path

import pytest
from tests.unit.spooled_batches import (
    BERT,
    SHOWN,
    VIEW,
    batch_of,
    builder,
    bundle,
    enveloped,
    of_batch,
    stream_of,
)

from hopring.client.events import (
    Event,
    Gap,
    Message,
    Reconnected,
    ReconnectGap,
    SlowWarning,
    Transition,
)
from hopring.client.receiving.sequence import EventSequence, Taken
from hopring.ids import Place
from hopring.services import Service
from hopring.session.frames import DeliveredBundle
from hopring.spool.encode import AppendMark
from hopring.spool.reading import read
from hopring.spool.record import (
    NO_PLACE,
    NO_STEP,
    GroupStep,
    RecordedGap,
    RecordedMember,
    RecordedTransition,
    RecordedView,
    RecordKind,
    RecordRun,
    SpoolRecord,
    decode_body,
)
from hopring.spool.writer import SpoolWriter
from hopring.spooler import away, portions, spooled_groups


def records(tmp_path: Path, runs: list[RecordRun]) -> list[SpoolRecord]:
    with SpoolWriter(tmp_path, "trades") as writer:
        writer.append(runs)
    return list(read(writer.directory, 0, writer.end))


def test_messages_of_a_bundle_are_one_run_and_carry_place_number_and_view(tmp_path: Path) -> None:
    runs = builder("trades").runs(batch_of(SHOWN, bundle(b"one", b"two", b"three", lts=9)))["trades"]

    assert [len(run) for run in runs] == [1, 3]
    view, *messages = records(tmp_path, runs)
    assert view.header.kind is RecordKind.VIEW
    assert [(one.data, one.number, one.type) for one in messages] == [
        (b"one", 0, 0),
        (b"two", 1, 1),
        (b"three", 2, 2),
    ]
    its = messages[0].header
    assert (its.sender, its.groups, its.service) == ("#anna#eu1", ("trades",), Service.AGREED)
    assert (its.place, its.view, its.time_us) == (Place(VIEW, 9, 0), GroupStep(VIEW, 3), 1_001)


def test_headers_are_spooled_beside_the_bodies(tmp_path: Path) -> None:
    came = enveloped(({"source": "desk 7"}, b"one"), ({"key": "EURUSD", "n": "2"}, b"two"))

    found = records(tmp_path, builder("trades").runs(batch_of(came, bundle(b"three")))["trades"])

    assert [(one.data, dict(one.headers)) for one in found] == [
        (b"one", {"source": "desk 7"}),
        (b"two", {"key": "EURUSD", "n": "2"}),
        (b"three", {}),
    ]


def test_a_bundle_that_was_taken_in_two_batches_keeps_its_numbers(tmp_path: Path) -> None:
    stream = stream_of(bundle(b"a", b"b", b"c"))
    one = builder("trades")

    runs = [run for _ in range(2) for run in one.runs(EventSequence(tuple(stream.take_many(2)[0])))["trades"]]

    assert [(record.number, record.data) for record in records(tmp_path, runs)] == [
        (0, b"a"),
        (1, b"b"),
        (2, b"c"),
    ]


def test_a_message_goes_to_the_spool_of_each_of_its_groups_that_is_spooled() -> None:
    out = builder("trades", "news").runs(
        batch_of(bundle(b"x", groups=("news", "other", "trades")), bundle(b"y"))
    )

    assert {group: [bytes(run.bodies) for run in runs] for group, runs in out.items()} == {
        "news": [b"x"],
        "trades": [b"x", b"y"],
    }


def test_an_unreliable_message_has_no_place() -> None:
    (run,) = builder("trades").runs(batch_of(bundle(b"x", service=Service.UNRELIABLE)))["trades"]

    assert run.header.place == NO_PLACE
    assert run.header.view == NO_STEP


def test_views_transitions_and_gaps_are_records_with_all_fields(tmp_path: Path) -> None:
    signal = Transition("trades", SHOWN.id, (BERT,))
    gap = ReconnectGap(5e-6, 8e-6, "gone", Place(VIEW, 4, 0), 2, 1)
    lost = Reconnected(("news", "trades"), "us1", "#s#us1", gap)
    dropped = Gap(("other",), 12, 3_000, complete=False)
    warning = SlowWarning(("trades",), 1, 2, "drop")

    runs = builder("trades").runs(batch_of(SHOWN, signal, lost, dropped, warning))["trades"]
    view, transition, away_, slow = records(tmp_path, runs)

    assert decode_body(view.data, RecordedView) == RecordedView(
        SHOWN.id,
        (RecordedMember("eu1", "anna", 5, 1), RecordedMember("us1", "bert", 6, 2)),
        (1,),
        "join",
        RecordedMember("us1", "bert", 6, 2),
        ((0,), (1,)),
    )
    closing = RecordedTransition(SHOWN.id, (RecordedMember("us1", "bert", 6, 2),))
    assert decode_body(transition.data, RecordedTransition) == closing
    assert decode_body(away_.data, RecordedGap) == RecordedGap(
        "reconnected: gone", 5, 8, None, Place(VIEW, 4, 0)
    )
    assert decode_body(slow.data, RecordedGap).messages == 12
    assert [one.header.kind for one in (view, transition, away_, slow)] == [
        RecordKind.VIEW,
        RecordKind.TRANSITION,
        RecordKind.GAP,
        RecordKind.GAP,
    ]
    assert {one.header.view for one in (view, transition, away_, slow)} == {GroupStep(VIEW, 3)}


@pytest.mark.parametrize("event", [SHOWN, Transition("trades", SHOWN.id, ()), bundle(b"x")])
def test_groups_that_are_not_spooled_leave_no_record(event: Event | DeliveredBundle) -> None:
    assert builder("other").runs(batch_of(event)) == {}


def test_an_absence_of_the_spooler_is_a_record(tmp_path: Path) -> None:
    (record,) = records(tmp_path, [away("trades", "not running", 3, 9, None)])

    assert record.header.kind is RecordKind.GAP
    assert decode_body(record.data, RecordedGap) == RecordedGap("not running", 3, 9)


def test_events_without_a_bundle_are_not_merged() -> None:
    taken = (Taken(SHOWN, 1, 0), Taken(SHOWN, 2, 0))

    assert len(builder("trades").runs(EventSequence(taken))["trades"]) == 2
    assert not isinstance(SHOWN, Message)


def test_messages_of_batches_are_appended_with_their_last_number() -> None:
    parts = (SHOWN, of_batch("a", 1, 5, b"x", b"y"), bundle(b"plain"), of_batch("a", 2, 0, b"z"))
    (portion,) = portions(builder("trades").runs(batch_of(*parts))["trades"])

    assert [len(run) for run in portion.runs] == [1, 2, 1, 1]
    assert portion.mark == AppendMark("live:anna#a", 2 << 32)
    first, *_ = portions(builder("trades").runs(batch_of(*parts, most=1))["trades"])
    assert first.mark == AppendMark("live:anna#a", (1 << 32) + 5)


def test_an_append_has_the_mark_of_one_application_and_the_order_is_kept() -> None:
    parts = (
        *(bundle(b"0"), of_batch("a", 0, 0, b"1", b"2"), of_batch("b", 7, 3, b"3"), bundle(b"4")),
        *(of_batch("b", 7, 0, b"5"), of_batch("a", 0, 2, b"6"), bundle(b"7")),
    )
    found = portions(builder("trades").runs(batch_of(*parts))["trades"])

    assert [portion.mark for portion in found] == [
        AppendMark("live:anna#a", 1),
        AppendMark("live:anna#b", (7 << 32) + 3),
        AppendMark("live:anna#a", 2),
    ]
    assert [len(portion.runs) for portion in found] == [2, 3, 2]
    (plain,) = portions(builder("trades").runs(batch_of(bundle(b"x")))["trades"])
    assert plain.mark is None


def test_the_groups_of_an_earlier_run_are_those_whose_spools_can_be_read(tmp_path: Path) -> None:
    for group in ("trades.eu", "orders/é"):
        SpoolWriter(tmp_path, group).close()
    with SpoolWriter(tmp_path, "damaged") as writer:
        pass
    (tmp_path / "no spool").mkdir()
    next(writer.directory.glob("*.log")).write_bytes(b"HOPSPOOL")

    assert spooled_groups(tmp_path) == {"trades.eu", "orders/é"}
    assert spooled_groups(tmp_path / "nowhere") == set()
