"""The verdict of `hop wide demo` is not given to histories that are wrong."""

from hopring.check.wide.history import WideEvent, WideSeen, WideSent, index_wide
from hopring.cli.wide.demo import JUDGES, SET
from hopring.haul.ids import ClusterId, ParcelId, Talk, clusters_mask
from hopring.haul.order.events import CastKind, Parcel

HUB, NORWAY = ClusterId(1), ClusterId(2)
BOTH = clusters_mask([HUB, NORWAY])
TALK = Talk(BOTH)


def sent(number: int) -> WideSent:
    return WideSent("anna", HUB, f"anna.{number}", SET, TALK, CastKind.CBCAST, BOTH, 0, number, False)


def seen(place: int, number: int) -> WideSeen:
    parcel = Parcel(ParcelId(HUB, number), TALK, CastKind.CBCAST, BOTH, 0, ())
    return WideSeen("bert", NORWAY, SET, place, f"anna.{number}", parcel)


def broken(*events: WideEvent) -> set[str]:
    history = index_wide(events)
    return {verdict.property.split()[0] for verdict in [judge(history) for judge in JUDGES] if not verdict}


def test_a_history_in_order_is_right() -> None:
    assert broken(sent(1), sent(2), seen(1, 1), seen(2, 2)) == set()


def test_a_message_before_its_cause_one_twice_and_one_of_nobody_are_found() -> None:
    assert broken(sent(1), sent(2), seen(1, 2), seen(2, 1)) == {"W3"}
    assert "W2" in broken(sent(1), seen(1, 1), seen(2, 1))
    assert "W1" in broken(seen(1, 1))
