"""Priority: which requests are sent first, and how bulk is kept from filling the queues below."""

from collections import deque

from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client.core import ClientCore
from hopring.client.errors import NotAllowed
from hopring.client.events import Message
from hopring.client.session_base import message_of
from hopring.groups.sessions import EXPEDITED_IN_A_ROW
from hopring.links.events import Tick
from hopring.services import Service
from hopring.session.options import CREDIT_DELAY_US, SessionOptions
from hopring.session.pace import (
    IN_FLIGHT_BYTES_MAX,
    IN_FLIGHT_BYTES_MIN,
    LOST_US,
    PROBE_EVERY_US,
    SAMPLES,
    SLACK_US,
    STARVED_US,
    Pace,
)


def client(fake: FakeDaemon, number: int, name: str, *, priority: bool) -> ClientCore:
    core = ClientCore("hop://test", name, priority=priority)
    core.hello()
    fake.open(number)
    fake.exchange(number, core)
    core.join(f"g{number}")
    fake.exchange(number, core)
    return core


def send(core: ClientCore, group: str, *bodies: bytes) -> None:
    for at, body in enumerate(bodies):
        service = Service.SAFE if at % 2 else Service.AGREED  # So that they are not merged.
        core.outgoing.append(message_of([group], body, service, 0, False))
        core.outgoing.close_bundle()


def order(fake: FakeDaemon, reader: int, core: ClientCore) -> list[bytes]:
    fake.exchange(reader, core)
    seen = []
    while (event := core.take()) is not None:
        if isinstance(event, Message):
            seen.append(event.data)
        fake.exchange(reader, core)
    return seen


def test_priority_is_given_only_where_the_configuration_allows_it() -> None:
    core = ClientCore("hop://test", "high", priority=True)
    core.hello()
    fake = FakeDaemon()
    fake.open(1)
    fake.exchange(1, core)

    assert isinstance(core.ended, NotAllowed)
    assert 'set allow = ["priority"] in [clients]' in core.ended.remedy


def test_requests_with_priority_are_sent_first_in_order_and_others_are_not_starved() -> None:
    fake = FakeDaemon(SessionOptions(allow=("priority",)))
    bulk, high = client(fake, 1, "bulk", priority=False), client(fake, 2, "high", priority=True)
    watch = client(fake, 3, "watch", priority=False)
    fake.stopped = True
    send(bulk, "g3", *[b"b%d" % at for at in range(5)])
    fake.exchange(1, bulk)
    send(high, "g3", *[b"h%d" % at for at in range(40)])
    fake.exchange(2, high)
    fake.stopped = False
    fake.pump()
    seen = order(fake, 3, watch)

    assert [one for one in seen if one.startswith(b"h")] == [b"h%d" % at for at in range(40)]
    assert [one for one in seen if one.startswith(b"b")] == [b"b%d" % at for at in range(5)]
    places = [at for at, one in enumerate(seen) if one.startswith(b"b")]
    assert places[0] == EXPEDITED_IN_A_ROW
    assert places[1] == 2 * EXPEDITED_IN_A_ROW + 1


def test_bulk_waits_while_too_much_is_in_flight_and_priority_does_not() -> None:
    fake = FakeDaemon(SessionOptions(allow=("priority",)))
    bulk, high = client(fake, 1, "bulk", priority=False), client(fake, 2, "high", priority=True)
    fake.stopped = True
    send(bulk, "g1", *[bytes(100_000)] * 8)
    fake.exchange(1, bulk)
    taken = [fake.server.next_submission(True, 0) for _ in range(4)]
    assert [one.session for one in taken if one is not None] == [1]
    send(high, "g2", b"now")
    fake.exchange(2, high)
    one = fake.server.next_submission(True, 0)

    assert one is not None
    assert one.session == 2
    assert fake.server.next_submission(True, 0) is None


def test_bulk_is_sent_now_and_then_however_much_has_priority() -> None:
    fake = FakeDaemon(SessionOptions(allow=("priority",)))
    bulk, high = client(fake, 1, "bulk", priority=False), client(fake, 2, "high", priority=True)
    fake.stopped = True
    send(bulk, "g1", b"b")
    fake.exchange(1, bulk)
    assert fake.server.next_submission(True, 0) is not None
    for at in range(8):
        send(high, "g2", bytes(100_000))
        fake.exchange(2, high)
        assert fake.server.next_submission(True, at) is not None
    send(bulk, "g1", b"b")
    fake.exchange(1, bulk)
    fake.now_us = CREDIT_DELAY_US
    fake.step(Tick())
    assert fake.server.next_submission(True, STARVED_US - 1) is None
    assert fake.server.wake_at_us == STARVED_US
    one = fake.server.next_submission(True, STARVED_US)

    assert one is not None
    assert one.session == 1


BUNDLE_BYTES = 100_000


class BottleneckPath:
    """A path with a delay of `empty_us` and a bottleneck that takes `each_us` per bundle."""

    def __init__(self, empty_us: int, each_us: int) -> None:
        self.empty_us, self.each_us = empty_us, each_us
        self.free_at_us = self.now_us = 0
        self.under_way: deque[tuple[int, int]] = deque()  # When each was submitted, and when it is delivered.

    def carry(self, pace: Pace, bundles: int) -> list[int]:
        """Submits as much bulk as the pace allows; returns how long each bundle took."""
        took_us: list[int] = []
        while len(took_us) < bundles:
            pace.update(self.now_us)
            while pace.bulk_open:
                pace.submitted(BUNDLE_BYTES, self.now_us)
                self.free_at_us = max(self.free_at_us, self.now_us) + self.each_us
                self.under_way.append((self.now_us, self.free_at_us + self.empty_us))
            since_us, self.now_us = self.under_way.popleft()
            pace.delivered(BUNDLE_BYTES, self.now_us)
            took_us.append(self.now_us - since_us)
        return took_us


def test_a_long_path_is_filled_with_hardly_any_queue() -> None:
    pace, path = Pace(), BottleneckPath(empty_us=100_000, each_us=5_000)
    path.carry(pace, 1_000)
    begin_us = path.now_us
    took_us = path.carry(pace, 400)

    assert path.now_us - begin_us <= 400 * 5_000 * 1.05
    assert max(took_us) <= 150_000


def test_a_short_path_with_a_bottleneck_has_a_queue_of_the_slack_only() -> None:
    pace, path = Pace(), BottleneckPath(empty_us=1_000, each_us=2_000)
    path.carry(pace, 400)
    begin_us = path.now_us
    took_us = path.carry(pace, 400)

    assert path.now_us - begin_us <= 400 * 2_000 * 1.05
    assert max(took_us) <= 2 * (3_000 + SLACK_US)


def test_the_delay_of_the_empty_path_is_measured_again_so_that_it_contains_no_queue() -> None:
    pace, path = Pace(), BottleneckPath(empty_us=20_000, each_us=2_000)
    path.carry(pace, 10 * PROBE_EVERY_US // 2_000)
    begin_us = path.now_us
    took_us = sorted(path.carry(pace, PROBE_EVERY_US // 2_000))

    assert path.now_us - begin_us <= PROBE_EVERY_US * 1.05
    assert took_us[len(took_us) * 99 // 100] <= 22_000 * 5 // 4 + SLACK_US + 2 * 2_000


def test_a_path_that_becomes_longer_is_filled_after_the_next_measurement() -> None:
    pace, path = Pace(), BottleneckPath(empty_us=5_000, each_us=2_000)
    path.carry(pace, 1_000)
    path.empty_us = 80_000
    path.carry(pace, 2 * PROBE_EVERY_US // 2_000)
    begin_us = path.now_us
    path.carry(pace, 1_000)

    assert path.now_us - begin_us <= 1_000 * 2_000 * 1.1


def test_a_few_long_delays_do_not_count_as_a_queue() -> None:
    pace = Pace()
    for at in range(10 * SAMPLES):
        time_us = 100_000 if at % SAMPLES < SAMPLES // 2 - 1 else 5_000
        pace.submitted(pace.limit_bytes, at * 200_000)
        pace.delivered(pace.limit_bytes, at * 200_000 + time_us)

    assert pace.limit_bytes > 4 * IN_FLIGHT_BYTES_MIN


def test_the_limit_of_bytes_in_flight_is_bounded_and_grows_only_when_it_was_reached() -> None:
    pace = Pace()
    for at in range(100 * SAMPLES):
        pace.submitted(1_000, at * 10_000)
        pace.delivered(1_000, at * 10_000 + 500)
    assert pace.limit_bytes == IN_FLIGHT_BYTES_MIN
    BottleneckPath(empty_us=500_000, each_us=100).carry(pace, 2_000)

    assert pace.limit_bytes == IN_FLIGHT_BYTES_MAX


def test_bundles_that_are_never_delivered_do_not_block_bulk_for_ever() -> None:
    pace = Pace()
    pace.submitted(IN_FLIGHT_BYTES_MIN, 0)
    assert not pace.bulk_open
    pace.update(LOST_US)
    assert pace.in_flight_bytes == 0
    pace.submitted(IN_FLIGHT_BYTES_MIN, LOST_US + 2)
    assert not pace.bulk_open
    pace.begin()

    assert pace.bulk_open
