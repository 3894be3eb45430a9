"""pc_cbcast and pc_abcast among clusters, message by message."""

from dataclasses import replace

import pytest
from tests.unit.haul.wide_clusters import WideClusters

from hopring.errors import PeerError
from hopring.haul.ids import ClusterId, ClusterMask, ParcelId, Talk
from hopring.haul.order.events import (
    AskForParcel,
    Cast,
    CastKind,
    DescriptorsArrived,
    Parcel,
    ParcelArrived,
    ParcelWanted,
)
from hopring.haul.order.runs import DescriptorRun

SECOND = 1_000_000


def test_a_parcel_is_delivered_where_it_was_sent_and_everywhere_else() -> None:
    clusters = WideClusters(3)
    clusters.cbcast(1)
    clusters.move()

    assert clusters.delivered == {1: ["1.1"], 2: ["1.1"], 3: ["1.1"]}


def test_a_parcel_for_one_cluster_is_delivered_there_only() -> None:
    clusters = WideClusters(3)
    clusters.cbcast(1, to=3)
    clusters.move()

    assert clusters.delivered == {1: [], 2: [], 3: ["1.1"]}


def test_a_cause_that_came_by_way_of_two_others_is_waited_for() -> None:
    """With descriptors for destinations only, cluster 4 would not know of 1.1 when it gets 3.1."""
    clusters = WideClusters(4)
    clusters.cut.add((1, 4))
    clusters.cbcast(1, to=4)
    clusters.cbcast(1, to=2)
    clusters.move()
    clusters.cbcast(2, to=3)
    clusters.move()
    clusters.cbcast(3, to=4)
    clusters.move()
    assert clusters.delivered[4] == []

    clusters.cut.clear()
    clusters.move()
    assert clusters.delivered[4] == ["1.1", "3.1"]


def test_a_cluster_that_is_away_does_not_hold_up_the_others() -> None:
    """Cluster 4 has 1.1, and 4.1 depends on it: clusters 2 and 3 wait for these, and not for each other."""
    clusters = WideClusters(4)
    clusters.cut.update({(1, 2), (1, 3)})
    clusters.cbcast(1)
    clusters.move()
    clusters.cut.update({(1, 4), (2, 1), (3, 1), (4, 1)})
    clusters.cbcast(4)
    clusters.move()
    for _ in range(3):
        clusters.cbcast(2)
        clusters.cbcast(3)
        clusters.move()

    assert clusters.delivered[2] == ["2.1", "3.1", "2.2", "3.2", "2.3", "3.3"]
    assert [sorted(clusters.sets[one].delayed.delayed) for one in (2, 3)] == [[ParcelId(ClusterId(4), 1)]] * 2


def test_waits_are_for_causes_of_the_same_talk_only() -> None:
    clusters = WideClusters(3)
    clusters.cut.add((1, 3))
    clusters.cbcast(1, 1, 2, 3)
    clusters.move()
    clusters.cbcast(2, 2, 3)  # It depends on 1.1, which is of another talk.
    clusters.move()

    assert clusters.delivered[3] == ["2.1"]


def test_causes_travel_through_other_talks() -> None:
    clusters = WideClusters(4)
    clusters.cut.add((1, 4))
    clusters.cbcast(1)
    clusters.move()
    clusters.cbcast(2, 2, 3)
    clusters.move()
    clusters.cbcast(3)
    clusters.move()

    assert clusters.delivered[4] == []
    clusters.cut.clear()
    clusters.move()
    assert clusters.delivered[4] == ["1.1", "3.1"]


def test_the_sender_is_told_when_all_have_a_parcel_and_nothing_is_kept() -> None:
    clusters = WideClusters(3)
    clusters.cbcast(1)
    clusters.cbcast(1)
    clusters.move()
    assert clusters.everywhere[1] == []

    for _ in range(3):
        clusters.tick(SECOND)
    assert clusters.everywhere[1] == [1, 2]
    assert all(one.at_rest for one in clusters.sets.values())


def test_a_day_without_one_cluster_is_a_few_runs_of_descriptors() -> None:
    clusters = WideClusters(3)
    clusters.cut.update({(1, 3), (2, 3), (3, 1), (3, 2)})
    for _ in range(2_000):
        clusters.cbcast(1)
    clusters.move()
    for _ in range(3):
        clusters.tick(SECOND)

    assert len(clusters.delivered[2]) == 2_000
    assert [clusters.sets[one].descriptors.size for one in (1, 2)] == [1, 1]


def test_abcasts_have_the_order_of_the_coordinator() -> None:
    clusters = WideClusters(3)
    clusters.cut.add((1, 3))
    clusters.abcast(3)
    clusters.abcast(2)
    clusters.move()
    assert clusters.delivered == {1: ["2.1", "3.1"], 2: ["2.1", "3.1"], 3: []}

    clusters.cut.clear()
    clusters.move()
    assert clusters.delivered[3] == ["2.1", "3.1"]


def test_an_abcast_waits_for_its_turn_although_another_cluster_sends_it_again() -> None:
    clusters = WideClusters(3)
    clusters.cut.add((1, 3))
    clusters.abcast(2)
    clusters.abcast(2)
    clusters.move()
    second = clusters.logs[2][ParcelId(ClusterId(2), 2)]
    clusters.step(3, ParcelArrived(ClusterId(2), second, clusters.sets[2].descriptors.take_due(ClusterId(3))))
    assert clusters.delivered[3] == []

    clusters.cut.clear()
    clusters.move()
    assert clusters.delivered[3] == ["2.1", "2.2"]


def test_a_cbcast_behind_an_abcast_waits_for_it_also_at_its_own_cluster() -> None:
    clusters = WideClusters(2)
    clusters.abcast(2)
    clusters.cbcast(2)
    assert clusters.delivered[2] == []

    clusters.move()
    assert clusters.delivered == {1: ["2.1", "2.2"], 2: ["2.1", "2.2"]}


def test_a_cluster_asks_another_one_for_a_cause_that_it_lacks() -> None:
    clusters = WideClusters(3)
    clusters.cut.add((1, 3))
    clusters.cbcast(1)
    clusters.move()
    clusters.cbcast(2)
    clusters.move()
    assert clusters.delivered[3] == []

    clusters.tick(2 * SECOND)
    asked = [one for one in clusters.sent if isinstance(one, AskForParcel)]
    assert {(one.to, one.id) for one in asked} == {(2, ParcelId(ClusterId(1), 1))}
    assert clusters.delivered[3] == ["1.1", "2.1"]

    clusters.cut.clear()
    clusters.move()
    assert clusters.delivered[3] == ["1.1", "2.1"], "the copy that comes by the other channel is not delivered"


ALL = Talk(ClusterMask(0b111))
ONE, TWO = ClusterId(1), ClusterId(2)
FIRST = Parcel(ParcelId(ONE, 1), ALL, CastKind.CBCAST, ALL.participants, 0, ())
ITS_RUN = DescriptorRun(ONE, 1, 1, ALL, ALL.participants, ALL.participants)
ABCAST = replace(FIRST, kind=CastKind.ABCAST, order=1)

REFUSED = {
    "a cluster that is not in the set": ParcelArrived(ClusterId(9), FIRST, (ITS_RUN,)),
    "this cluster": ParcelArrived(ClusterId(3), FIRST, (ITS_RUN,)),
    "a parcel without its descriptor": ParcelArrived(ONE, FIRST),
    "parcel number 0": ParcelArrived(ONE, replace(FIRST, id=ParcelId(ONE, 0)), (ITS_RUN,)),
    "a descriptor of a cluster that is not in the set": DescriptorsArrived(
        ONE, (ITS_RUN._replace(sender=ClusterId(9)),)
    ),
    "descriptors far ahead": DescriptorsArrived(ONE, (ITS_RUN.part(7, 7),)),
    "descriptors that end before they begin": DescriptorsArrived(ONE, (ITS_RUN.part(1, 0),)),
    "a descriptor of this cluster that it has not made": DescriptorsArrived(
        ONE, (ITS_RUN._replace(sender=ClusterId(3)),)
    ),
    "a descriptor for nobody": DescriptorsArrived(ONE, (ITS_RUN._replace(destinations=ClusterMask(0)),)),
    "participants outside of the set": DescriptorsArrived(
        ONE, (ITS_RUN._replace(talk=Talk(ClusterMask(0b1111))),)
    ),
    "missing clusters that are no destinations": DescriptorsArrived(
        ONE, (ITS_RUN._replace(destinations=ClusterMask(0b101)),)
    ),
    "a parcel that is said to be here": DescriptorsArrived(
        ONE, (ITS_RUN._replace(missing=ClusterMask(0b011)),)
    ),
    "a parcel for others": ParcelArrived(ONE, replace(FIRST, destinations=ClusterMask(0b011)), (ITS_RUN,)),
    "a parcel that differs from its descriptor": ParcelArrived(
        ONE, replace(FIRST, talk=Talk(ALL[0], "x")), (ITS_RUN,)
    ),
    "a past that lies ahead": ParcelArrived(ONE, replace(FIRST, past=((TWO, 4),)), (ITS_RUN,)),
    "a past that runs backwards": ParcelArrived(ONE, replace(FIRST, past=((ONE, 1),)), (ITS_RUN,)),
    "a past that names a cluster twice": ParcelArrived(
        ONE, replace(FIRST, id=ParcelId(ONE, 2), past=((ONE, 1), (ONE, 1))), (ITS_RUN.part(1, 2),)
    ),
    "an entry point above the limit": ParcelArrived(ONE, replace(FIRST, entry=65_536), (ITS_RUN,)),
    "a cbcast with an order": ParcelArrived(ONE, replace(FIRST, order=1), (ITS_RUN,)),
    "an abcast with a negative order": ParcelArrived(ONE, replace(ABCAST, order=-1), (ITS_RUN,)),
    "a question for a parcel that nobody has sent": ParcelWanted(ONE, ParcelId(TWO, 1)),
    "a question for a parcel of an unknown cluster": ParcelWanted(ONE, ParcelId(ClusterId(9), 1)),
}


@pytest.mark.parametrize("event", REFUSED.values(), ids=REFUSED.keys())
def test_what_no_correct_cluster_sends_is_refused_and_changes_nothing(
    event: ParcelArrived | DescriptorsArrived | ParcelWanted,
) -> None:
    clusters = WideClusters(3)
    core = clusters.sets[3]

    with pytest.raises(PeerError):
        core.step(event, 0)

    assert core.at_rest
    assert core.descriptors == WideClusters(3).sets[3].descriptors
    assert core.delayed == WideClusters(3).sets[3].delayed


def test_the_first_parcel_of_these_is_accepted() -> None:
    """Otherwise the refusals above would prove nothing."""
    clusters = WideClusters(3)
    clusters.step(3, ParcelArrived(ONE, FIRST, (ITS_RUN,)))
    clusters.step(
        3, ParcelArrived(ONE, replace(ABCAST, id=ParcelId(ONE, 2), past=((ONE, 1),)), (ITS_RUN.part(2, 2),))
    )

    assert clusters.delivered[3] == ["1.1", "1.2"]


def test_a_talk_is_its_participants_and_its_name() -> None:
    clusters = WideClusters(3)

    assert clusters.talk(1, 3) == clusters.talk(3, 1)
    assert clusters.talk(1, 3) != clusters.talk(1, 3, name="prices")
    assert clusters.talk(2, 3).coordinator == 2


def test_a_cluster_sends_in_talks_that_it_takes_part_in() -> None:
    clusters = WideClusters(3)

    with pytest.raises(AssertionError):
        clusters.step(1, Cast(clusters.talk(2, 3), CastKind.CBCAST))
