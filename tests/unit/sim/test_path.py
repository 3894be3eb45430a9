import pytest

from hopring.sim.path import IP_UDP_BYTES, LossReason, Path, Quality


def make_path(**quality: float) -> Path:
    return Path("a->b", Quality(**quality), 1)  # type: ignore[arg-type]


def test_a_plain_path_only_delays() -> None:
    assert make_path(delay_us=250).carry(1_000, now_us=7) == [257]


def test_a_line_sends_one_byte_after_the_other() -> None:
    # A thousand bytes per second: a datagram of 72 takes 100 ms with its headers.
    path = make_path(rate_bytes_per_second=1_000, delay_us=5)

    assert path.carry(100 - IP_UDP_BYTES, now_us=0) == [100_005]
    assert path.carry(100 - IP_UDP_BYTES, now_us=50_000) == [200_005]
    assert path.carry(100 - IP_UDP_BYTES, now_us=500_000) == [600_005]


def test_the_rate_is_exact_over_many_datagrams() -> None:
    # 3 bytes take 1000000 * 3 / 7 us, which no rounding may add up over.
    path = make_path(rate_bytes_per_second=143)
    arrivals = [path.carry(0, now_us=0) for _number in range(1_000)]

    assert arrivals[-1] == [-(-1_000 * IP_UDP_BYTES * 1_000_000 // 143)]


def test_the_queue_drops_what_does_not_fit_behind_the_rest() -> None:
    path = make_path(rate_bytes_per_second=1_000, queue_bytes=250)
    size = 100 - IP_UDP_BYTES

    assert path.carry(size, now_us=0) == [100_000]
    assert path.carry(size, now_us=0) == [200_000]
    assert path.carry(size, now_us=0) is LossReason.QUEUE
    assert path.backlog_bytes(now_us=49_999) == 151
    assert path.carry(size, now_us=50_000) == [300_000]


def test_an_idle_line_takes_any_datagram() -> None:
    assert make_path(rate_bytes_per_second=1_000, queue_bytes=10).carry(72, now_us=0) == [100_000]


def test_a_change_of_rate_keeps_the_waiting_time() -> None:
    path = make_path(rate_bytes_per_second=1_000)
    path.carry(72, now_us=0)

    path.quality = Quality(rate_bytes_per_second=500)

    assert path.carry(72, now_us=0) == [300_000]


def test_datagrams_above_the_mtu_are_lost() -> None:
    path = make_path(mtu_bytes=576)

    assert path.carry(576 - IP_UDP_BYTES, now_us=0) == [0]
    assert path.carry(577 - IP_UDP_BYTES, now_us=0) is LossReason.MTU


@pytest.mark.parametrize("loss", [0.01, 0.1, 0.5])
def test_losses_are_as_frequent_as_asked(loss: float) -> None:
    path = make_path(loss=loss)
    count = 20_000
    lost = sum(path.carry(100, now_us=0) is LossReason.CHANCE for _number in range(count))

    # Five standard deviations.
    assert abs(lost - count * loss) < 5 * (count * loss * (1 - loss)) ** 0.5


def test_jitter_stays_within_its_bounds() -> None:
    path = make_path(delay_us=100, jitter_us=10)
    arrivals = {tuple(arrival) for _number in range(1_000) if isinstance(arrival := path.carry(1, 0), list)}

    assert arrivals == {(at_us,) for at_us in range(100, 111)}


def test_duplicates_and_reordering_happen_as_often_as_asked() -> None:
    path = make_path(duplicate=0.25, reorder=0.25, reorder_delay_us=77)
    fates = [path.carry(1, now_us=0) for _number in range(4_000)]

    doubled = sum(isinstance(fate, list) and len(fate) == 2 for fate in fates)
    late = sum(isinstance(fate, list) and fate[0] == 77 for fate in fates)
    assert 850 < doubled < 1_150
    assert 850 < late < 1_150


def test_each_impairment_has_its_own_random_sequence() -> None:
    # The same datagrams are lost, whatever else happens on the path.
    plain, troubled = make_path(loss=0.3), make_path(loss=0.3, duplicate=0.5, jitter_us=50, reorder=0.5)
    lost = [
        [path.carry(1, now_us=0) is LossReason.CHANCE for _number in range(200)] for path in (plain, troubled)
    ]

    assert lost[0] == lost[1]


def test_a_probability_lies_between_0_and_1() -> None:
    with pytest.raises(AssertionError):
        Quality(loss=1.5)
