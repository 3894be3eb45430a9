from tests.unit.links.loose_objects import an_object

from hopring.links.queues import LooseQueue


def test_objects_share_a_frame_up_to_a_datagram() -> None:
    queue = LooseQueue(object_bytes_max=250)
    for number in range(1, 4):
        queue.put(an_object(number))

    frame, wire_bytes = queue.pack()
    assert frame.payload == an_object(1) + an_object(2)
    assert wire_bytes == 200 + 26 + 4 + 28
    assert queue.pack()[0].payload == an_object(3)
    assert (len(queue.objects), queue.size_bytes, queue.sent) == (0, 0, 3)


def test_the_oldest_object_is_dropped_when_the_queue_is_full() -> None:
    queue = LooseQueue(object_bytes_max=100, bytes_max=300)
    for number in range(1, 6):
        queue.put(an_object(number))

    assert list(queue.objects) == [an_object(3), an_object(4), an_object(5)]
    assert queue.dropped == 2


def test_with_a_fragment_the_others_of_its_bundle_are_dropped() -> None:
    queue = LooseQueue(object_bytes_max=100, bytes_max=300)
    queue.put(an_object(1, 0, 3))
    queue.put(an_object(1, 1, 3))
    queue.put(an_object(2))
    queue.put(an_object(3))
    queue.put(an_object(1, 2, 3))

    assert list(queue.objects) == [an_object(2), an_object(3)]
    assert queue.dropped == 3


def test_an_object_that_fits_in_no_datagram_is_dropped() -> None:
    queue = LooseQueue(object_bytes_max=100)

    queue.put(an_object(1, 0, 2, size=101))
    queue.put(an_object(1, 1, 2, size=50))
    queue.put(an_object(2))

    assert list(queue.objects) == [an_object(2)]
    assert queue.dropped == 2


def test_a_loose_object_is_due_after_seven_times_as_much_data() -> None:
    queue = LooseQueue(object_bytes_max=100)
    queue.put(an_object(1))
    queue.put(an_object(2))
    queue.waited_bytes = 699
    assert not queue.due

    queue.waited_bytes = 1_500
    assert queue.due
    queue.pack()
    assert queue.waited_bytes == 1_500 - 7 * 158
    queue.pack()
    assert queue.waited_bytes == 0
