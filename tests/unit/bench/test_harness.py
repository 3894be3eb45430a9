"""The parts of `hop bench` that need no daemons: the board, the order, the columns, tables and baselines."""

import os
from itertools import accumulate
from pathlib import Path
from struct import Struct
from zlib import crc32

import msgspec
import pytest

from hopring.bench.cpu import CpuResult, above_baseline, least, record
from hopring.bench.harness.daemons import sites_of
from hopring.bench.harness.figures import both_columns, both_columns_text, spread_percent, summary, table
from hopring.bench.harness.processes import cpu_seconds, others_share, read_cpu
from hopring.bench.harness.worker import batch_tags, run_tags
from hopring.bench.harness.workload import (
    CLIENTS_MAX,
    ORDER,
    RECEIVED,
    SENT,
    SLOTS,
    WINDOW,
    BenchWorkload,
    ReceiverCounters,
    WorkerTask,
    create_counters,
    message_tag,
    open_counters,
    order_checksum,
    window_left,
)
from hopring.bench.throughput import counters_for, order_is_ok
from hopring.client.receiving.runs import MessageRun
from hopring.client.receiving.sequence import EventSequence
from hopring.client.receiving.stream import EventStream
from hopring.groups.private_groups import private_group
from hopring.ids import DaemonId, GroupName, Incarnation, Place, ViewId
from hopring.services import AGREED
from hopring.session.frames import DeliveredBundle
from hopring.wire.bundle import Bundle, BundleKey, decode_bundle, encode_bundle

PLACE = Place(ViewId(1, DaemonId(0), Incarnation(1)), 1, 0)


def bundle_of(bodies: list[bytes]) -> Bundle:
    key = BundleKey(DaemonId(0), 1, AGREED, (GroupName("g"),))
    return decode_bundle(encode_bundle(key, bodies, [0] * len(bodies), bytes(len(bodies))))


def test_all_processes_that_open_a_board_see_the_same_numbers(tmp_path: Path) -> None:
    one = create_counters(tmp_path / "board")
    other = open_counters(tmp_path / "board")

    one[WINDOW] = -7

    assert other[WINDOW] == -7
    assert len(other) == SLOTS


def test_the_window_is_counted_from_the_slowest_receiver(tmp_path: Path) -> None:
    counters = counters_for(tmp_path / "board", BenchWorkload(window=100, senders=2, receivers=3))
    counters[SENT], counters[SENT + 1] = 30, 20
    counters[RECEIVED], counters[RECEIVED + 1], counters[RECEIVED + 2] = 50, 10, 40

    assert window_left(counters) == 100 - (30 + 20 - 10)


def test_equal_orders_have_equal_sums_however_they_came_in_batches(tmp_path: Path) -> None:
    counters = counters_for(tmp_path / "board", BenchWorkload(receivers=2))
    marks = [message_tag(0, number) for number in range(1000)]
    one, other = ReceiverCounters(counters, 0), ReceiverCounters(counters, 1)

    for single in marks:
        one.add(single)
    for first, last in ((0, 1), (1, 600), (600, 1000)):
        other.add(b"".join(marks[first:last]))

    assert counters[ORDER] == counters[ORDER + 1] == order_checksum(1000)
    assert counters[RECEIVED] == counters[RECEIVED + 1] == 1000
    assert order_is_ok(counters, 1000)


def test_swapped_duplicate_and_missing_messages_are_noticed(tmp_path: Path) -> None:
    for seen in ([1, 0, 2], [0, 0, 1, 2], [0, 2]):
        counters = counters_for(tmp_path / "board", BenchWorkload(receivers=1))
        received = ReceiverCounters(counters, 0)
        for number in seen:
            received.add(message_tag(0, number))
        assert not order_is_ok(counters, 3)


def test_of_several_senders_all_receivers_have_to_see_one_order(tmp_path: Path) -> None:
    counters = counters_for(tmp_path / "board", BenchWorkload(receivers=2, senders=2))
    one, other = ReceiverCounters(counters, 0), ReceiverCounters(counters, 1)
    one.add(message_tag(0, 0) + message_tag(1, 0))
    other.add(message_tag(0, 0) + message_tag(1, 0))
    assert order_is_ok(counters, 2)

    one.add(message_tag(0, 1) + message_tag(1, 1))
    other.add(message_tag(1, 1) + message_tag(0, 1))
    assert not order_is_ok(counters, 4)


def test_the_sum_of_one_sender_does_not_depend_on_how_it_is_made() -> None:
    count = (1 << 16) + 3
    whole = Struct(f"<{count}I").pack(*range(0, count * CLIENTS_MAX, CLIENTS_MAX))

    assert order_checksum(count) == crc32(whole)
    assert order_checksum(0) == 0


@pytest.mark.parametrize("sizes", [[100] * 5, [8] * 3, [5] * 4, [4, 12, 8], [12, 4], [8, 4, 12, 8]])
def test_marks_of_a_bundle_are_what_its_bodies_begin_with(sizes: list[int]) -> None:
    bodies = [message_tag(3, number) + bytes(size - 4) for number, size in enumerate(sizes)]

    came = DeliveredBundle(private_group("anna", "a1"), PLACE, bundle_of(bodies))
    for start in (0, 1):
        key = MessageRun(1, 0, start, len(bodies), came)
        assert run_tags(key) == b"".join([message_tag(3, number) for number in range(start, len(bodies))])


@pytest.mark.parametrize("at_once", [1, 3, 7, 100])
def test_marks_of_batches_continue_where_the_last_batch_ended(at_once: int) -> None:
    stream = EventStream()
    ends = list(accumulate([4, 1, 5]))
    for first, last in zip([0, *ends], ends, strict=False):
        bundle = bundle_of([message_tag(0, number) + bytes(96) for number in range(first, last)])
        stream.put_messages(DeliveredBundle(private_group("anna", "a1"), PLACE, bundle), 0, len(bundle), 1)

    seen = b""
    while taken := stream.take_many(at_once)[0]:
        seen += batch_tags(EventSequence(tuple(taken)))

    assert seen == b"".join([message_tag(0, number) for number in range(10)])


def test_windows_and_bursts_follow_the_size_within_limits() -> None:
    assert [BenchWorkload(size_bytes=size).in_flight for size in (100, 1024, 65536, 140_000)] == [
        41943,
        4096,
        64,
        64,
    ]
    assert [BenchWorkload(size_bytes=size).at_once for size in (100, 1024, 65536)] == [579, 60, 1]
    assert BenchWorkload(single=True, bundle=9).at_once == 1
    assert BenchWorkload(window=4).at_once == 4
    assert BenchWorkload().many
    assert not any(
        [BenchWorkload(by_one=True).many, BenchWorkload(single=True).many, BenchWorkload(groups=2).many]
    )
    assert WorkerTask("send", 0, "", "g", BenchWorkload(groups=2)).groups == ["g-0", "g-1"]


def test_the_clock_of_a_process_runs_with_its_work() -> None:
    before = read_cpu({"me": os.getpid()})
    while cpu_seconds(os.getpid()) < before.taken_s["me"] + 0.002:
        pass
    after = read_cpu({"me": os.getpid()})

    assert after.taken_s["me"] >= before.taken_s["me"] + 0.002
    assert others_share(before, after, os.cpu_count() or 1) >= 0
    with pytest.raises(ProcessLookupError):
        cpu_seconds(2**22 + 1)  # Above the highest pid that Linux assigns.


def test_several_runs_are_summarized_by_their_median_and_by_their_worst_loss() -> None:
    runs = [
        {"rate": 10.0, "lost": 0, "ok": True, "cpu": {"a": 1.0}},
        {"rate": 30.0, "lost": 2, "ok": False, "cpu": {"a": 3.0}},
        {"rate": 20.0, "lost": 0, "ok": True, "cpu": {"a": 2.0}},
    ]

    assert summary(runs) == {"rate": 20.0, "lost": 2, "ok": False, "cpu": {"a": 2.0}}
    assert spread_percent([10.0, 30.0, 20.0]) == 100.0


def test_daemons_are_spread_over_sites() -> None:
    assert sites_of(3, 1) == {"a": 3}
    assert sites_of(3, 3) == {"a": 1, "b": 1, "c": 1}
    assert sites_of(5, 2) == {"a": 3, "b": 2}


def test_a_table_is_aligned_markdown() -> None:
    assert table(["NAME", "RATE"], [["hopring", "100"], ["x", "2"]]).splitlines() == [
        "| NAME    | RATE |",
        "| :------ | ---: |",
        "| hopring |  100 |",
        "| x       |    2 |",
    ]


def cpu(sending: float, receiving: float, compiled: bool = True) -> CpuResult:
    return CpuResult(1.0, 1.0, 1.0, sending, receiving, 0.5, 0.0, 0, True, compiled)


def test_a_baseline_allows_thirty_percent_more(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    record(cpu(10.0, 8.0), file)
    record(cpu(40.0, 30.0, compiled=False), file)
    baseline = {"compiled": {"sending_ratio": 10.0, "receiving_ratio": 8.0}}

    assert '"sending_ratio": 40.0' in file.read_text()
    assert '"sending_ratio": 10.0' in file.read_text()
    assert above_baseline(cpu(13.0, 10.4), baseline) == []
    (problem,) = above_baseline(cpu(13.1, 10.4), baseline)
    assert "sending_ratio is 13.1, 31 % above" in problem
    _, doubt = above_baseline(msgspec.structs.replace(cpu(13.1, 10.4), others_cpu_share=0.4), baseline)
    assert doubt == "others took 40% of the machine, so measure again when it is quiet"
    (problem,) = above_baseline(cpu(1.0, 1.0, compiled=False), baseline)
    assert "nothing of interpreted" in problem


def test_a_repeated_measurement_keeps_the_lesser_cpu_time_and_all_losses() -> None:
    both = least(cpu(10.0, 9.0), msgspec.structs.replace(cpu(12.0, 8.0), lost=3))

    assert (both.sending_ratio, both.receiving_ratio, both.lost) == (10.0, 8.0, 3)


def test_figures_in_the_clear_and_sealed_stand_beside_their_ratio() -> None:
    clear = {"us": 2.0, "lost": 0, "ok": True, "cpu": {"a1": 4.0}}
    both = both_columns(clear, {"us": 3.0, "lost": 0, "ok": True, "cpu": {"a1": 5.0}})

    assert both["ratio"] == {"us": 1.5, "lost": None, "cpu": {"a1": 1.25}}
    assert [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in both_columns_text(both).splitlines()
    ] == [
        ["figure", "clear", "sealed", "ratio"],
        [":-----", "----:", "-----:", "----:"],
        ["us", "2.0", "3.0", "1.5"],
        ["lost", "0", "0", "-"],
        ["ok", "True", "True", "-"],
        ["cpu a1", "4.0", "5.0", "1.25"],
    ]
