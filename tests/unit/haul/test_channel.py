"""Channels: numbers that outlive connections, windows, and what is held until the log has it."""

import pytest

from hopring.errors import Drop, PeerError
from hopring.haul.link.channel import FRAME_COST_BYTES, Channel, ChannelFrame, ChannelReceiver, ChannelSender
from hopring.haul.link.frames import DescriptorsFrame


def channel_with(*sizes: int) -> Channel:
    channel = Channel()
    for size in sizes:
        channel.append(size)
    return channel


def frame(number: int) -> DescriptorsFrame:
    return DescriptorsFrame("tickets", number, 0, ())


def has_all(frame: ChannelFrame) -> bool:
    del frame
    return True


def test_a_new_connection_begins_behind_what_is_acknowledged() -> None:
    channel = channel_with(10, 10, 10)
    first = ChannelSender(channel.acked)
    assert [one.number for one in first.take(channel, has_all)] == [1, 2, 3]
    channel.acknowledge(2)

    second = ChannelSender(channel.acked)

    assert [one.number for one in second.take(channel, has_all)] == [3]
    assert second.take(channel, has_all) == []


def test_acknowledged_frames_are_no_longer_kept() -> None:
    channel = channel_with(10, 20, 30)

    channel.acknowledge(2)

    assert [one.number for one in channel.waiting] == [3]
    assert channel.waiting_bytes == 30 + FRAME_COST_BYTES


def test_an_older_acknowledgement_changes_nothing() -> None:
    channel = channel_with(10, 20)
    channel.acknowledge(2)

    channel.acknowledge(1)

    assert (channel.acked, channel.waiting_bytes) == (2, 0)


def test_nobody_can_acknowledge_what_was_not_sent() -> None:
    assert channel_with(10).may_acknowledge(1)
    assert not channel_with(10).may_acknowledge(2)


def test_the_window_opens_with_acknowledgements() -> None:
    channel = channel_with(100, 100, 100)
    sender = ChannelSender(0, window_bytes=2 * (100 + FRAME_COST_BYTES))
    assert [one.number for one in sender.take(channel, has_all)] == [1, 2]

    channel.acknowledge(1)

    assert [one.number for one in sender.take(channel, has_all)] == [3]


def test_one_frame_goes_whatever_the_window() -> None:
    channel = channel_with(5_000, 10)
    sender = ChannelSender(0, window_bytes=1_000)

    assert [one.number for one in sender.take(channel, has_all)] == [1]


def test_what_came_by_an_earlier_connection_is_not_held_again() -> None:
    receiver = ChannelReceiver(arrived=2)
    for number in (1, 2, 3):
        receiver.arrive(frame(number))

    assert [one.number for one, _ in receiver.held] == [3]


def test_a_gap_is_an_error_of_the_peer() -> None:
    receiver = ChannelReceiver(arrived=2)

    with pytest.raises(PeerError) as refused:
        receiver.arrive(frame(4))
    assert refused.value.reason is Drop.OUT_OF_WINDOW
    assert receiver == ChannelReceiver(arrived=2)


def test_a_peer_that_ignores_the_window_is_refused() -> None:
    receiver = ChannelReceiver(arrived=0, window_bytes=FRAME_COST_BYTES)
    receiver.arrive(frame(1))

    with pytest.raises(PeerError) as refused:
        receiver.arrive(frame(2))
    assert refused.value.reason is Drop.LIMIT


def test_frames_are_held_until_the_log_has_them() -> None:
    receiver = ChannelReceiver(arrived=0)
    for number in (1, 2, 3):
        receiver.arrive(frame(number))
    assert [one.number for one in receiver.submit(2 * FRAME_COST_BYTES)] == [1, 2]
    assert [one.number for one in receiver.submit(2 * FRAME_COST_BYTES)] == [3]

    receiver.taken(1)
    receiver.submit_again(1)

    assert [one.number for one in receiver.submit(10 * FRAME_COST_BYTES)] == [2, 3]
    assert receiver.held_bytes == 2 * FRAME_COST_BYTES


def test_a_frame_whose_body_is_not_here_waits_and_those_behind_it() -> None:
    channel = channel_with(10, 10, 10)
    sender = ChannelSender(channel.acked)

    assert [one.number for one in sender.take(channel, lambda frame: frame.number != 2)] == [1]
    assert [one.number for one in sender.take(channel, has_all)] == [2, 3]
