"""Batches that are delivered once at real daemons in two sites, and the errors of Spark's sink."""

import asyncio
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hopd.served_cluster import SECONDS_MAX, ServedCluster
from tests.hopd.spooling_cluster import SpoolingCluster, both_are_in
from tests.support.waiting import until

from hopring import (
    AGREED,
    CAUSAL,
    FIFO,
    RELIABLE,
    SAFE,
    BatchInDoubt,
    ConnectError,
    Message,
    Service,
    connect,
    sync,
)
from hopring.spark.errors import SparkError

pytestmark = pytest.mark.slow


def numbered(count: int, size: int = 0) -> list[bytes]:
    return [b"%d" % at + bytes(size) for at in range(count)]


def heard(session: sync.Session, count: int) -> list[bytes]:
    """Receives this many messages; anything after them is left in the queue."""
    out: list[bytes] = []
    while len(out) < count:
        event = session.receive(timeout_seconds=SECONDS_MAX)
        if isinstance(event, Message):
            out.append(event.data)
    return out


def repeated(served: ServedCluster, services: tuple[Service, ...]) -> Iterator[tuple[sync.Session, Service]]:
    """Yields a sender of the same batch at one daemon and then at the other."""
    for service in services:
        for daemon in ("eu1", "us1"):
            with sync.connect(served.url(daemon), name="sink") as sink:
                yield sink, service


def test_a_batch_that_another_daemon_sends_again_is_delivered_once_by_every_service(
    served: ServedCluster,
) -> None:
    services = (RELIABLE, FIFO, CAUSAL, AGREED, SAFE)
    with sync.connect(served.url("eu1")) as anna, sync.connect(served.url("us1")) as bert:
        for session in (anna, bert):
            session.join("g")
        until(lambda: both_are_in(anna, "g", 2))
        for batch, (sink, service) in enumerate(repeated(served, services)):
            sink.multicast_batch("g", numbered(3000), app="app", batch=batch // 2, service=service)
        anna.multicast("g", b"end", service=SAFE)
        for session in (anna, bert):
            out = heard(session, 5 * 3000 + 1)
            assert sorted(out[:3000]) == sorted(numbered(3000))  # Reliable ones may come in any order.
            assert out[3000:] == [*numbered(3000) * 4, b"end"]
            assert session.dropped_again == 5 * 3000


def test_members_at_both_daemons_get_the_batches_of_two_concurrent_sinks_once(served: ServedCluster) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            connect(served.url("eu1"), name="sink") as anna,
            connect(served.url("us1"), name="sink") as bert,
        ):
            groups = [await anna.join("g"), await bert.join("g")]
            for batch in range(3):
                await asyncio.gather(
                    *[
                        one.multicast_batch("g", numbered(500, 300), app="app", batch=batch, service=AGREED)
                        for one in (anna, bert)
                    ]
                )
            await anna.multicast("g", b"end")
            for group in groups:
                seen = []
                async for message in group.messages():
                    if message.data == b"end":
                        break
                    seen.append(message.data)
                assert seen == numbered(500, 300) * 3
            assert (anna.dropped_again, bert.dropped_again) == (1500, 1500)

    asyncio.run(story())


def test_a_batch_at_a_killed_daemon_can_be_completed_at_another(served: ServedCluster) -> None:
    with sync.connect(served.url("eu1")) as anna:
        anna.join("g")
        killer = threading.Timer(0.05, served.daemons.kill, ("us1",))
        sink = sync.connect(served.url("us1"), name="sink", reconnect=False)
        served.daemons.processes["us1"].send_signal(signal.SIGSTOP)
        killer.start()
        with pytest.raises(BatchInDoubt, match="the connection was lost before all its receipts came"):
            sink.multicast_batch("g", numbered(20_000, 100), app="app", batch=0, timeout_seconds=SECONDS_MAX)
        killer.join()
        sink.abort()
        with sync.connect([served.url("us1"), served.url("eu1")], name="sink") as again:
            again.multicast_batch("g", numbered(20_000, 100), app="app", batch=0)
        anna.multicast("g", b"end", service=SAFE)

        assert heard(anna, 20_001) == [*numbered(20_000, 100), b"end"]


def test_a_restarted_spooler_drops_messages_that_its_spool_already_has(
    served: ServedCluster, tmp_path: Path
) -> None:
    with sync.connect(served.url("eu1"), name="sink") as anna:

        def send(messages: list[bytes], batch: int) -> None:
            anna.multicast_batch("trades", messages, app="app", batch=batch)

        with SpoolingCluster(tmp_path, served.url("us1"), "--group", "trades") as first:
            until(lambda: both_are_in(anna, "trades", 1))
            send(numbered(1000), 0)
            send(numbered(700), 1)  # The first part of a batch whose end the sink did not see.
            until(lambda: len(first.messages()) == 1700)
            first.end(signal.SIGKILL)
        until(lambda: both_are_in(anna, "trades", 0))
        with SpoolingCluster(tmp_path, served.url("us1"), "--group", "trades") as second:
            until(lambda: both_are_in(anna, "trades", 1))
            send(numbered(1000), 1)
            send([b"end"], 2)
            until(lambda: second.messages()[-1:] == [b"end"])

            assert second.messages() == [*numbered(1000), *numbered(1000), b"end"]


def test_the_sink_of_spark_reports_errors_in_one_line(served: ServedCluster, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    from tests.unit.spark.batches import batch  # noqa: PLC0415  Needs Arrow.

    from hopring.spark.sink.live import multicast  # noqa: PLC0415
    from hopring.spark.sink.options import write_options  # noqa: PLC0415
    from hopring.spark.sink.staging import stage  # noqa: PLC0415
    from hopring.spool.encode import AppendMark  # noqa: PLC0415

    def publish(daemon: str, payload: bytes, number: int) -> None:
        said = {"daemon": daemon, "group": "g", "txnAppId": "a", "staging": str(tmp_path)}
        staged = [stage([batch(payload)], tmp_path / "staging")]
        multicast(write_options(said, stream=True), tmp_path, staged, AppendMark("a", number))

    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectError, match=r"Connection refused; start hopd there, or correct the address"):
            publish(f"127.0.0.1:{nobody.getsockname()[1]}", b"x", 0)
    with sync.connect(served.url("us1")) as anna:
        anna.join("g")
        where = f"127.0.0.1:{served.ports['eu1']}"
        for _ in range(2):
            publish(where, b"x", 0)
        with pytest.raises(
            SparkError, match=r"a payload has 200000 bytes, and the daemon's limit is 1.*; split"
        ):
            publish(where, bytes(200_000), 1)
        publish(where, b"shorter", 1)  # The query was changed and makes the batch differently.
        anna.multicast("g", b"end")
        assert heard(anna, 3) == [b"x", b"shorter", b"end"]


def test_members_on_both_sides_of_a_split_get_the_batch_of_a_moved_sink_once(tmp_path: Path) -> None:
    def send(daemon: str, messages: list[bytes], batch: int) -> None:
        with cluster.connect(daemon, name="sink") as sink:
            sink.multicast_batch("g", messages, app="app", batch=batch, timeout_seconds=SECONDS_MAX)

    with (
        sync.local_cluster({"eu": 1, "us": 1}, directory=tmp_path, patience="2s", trace=False) as cluster,
        cluster.connect("eu1") as anna,
        cluster.connect("us1") as bert,
    ):
        for session in (anna, bert):
            session.join("g")
        until(lambda: both_are_in(anna, "g", 2))
        cluster.partition({"eu"}, {"us"})
        cluster.settled()
        send("eu1", numbered(10)[:7], 0)  # Killed at one daemon and restarted at the other.
        send("us1", numbered(10), 0)
        cluster.heal()
        cluster.settled()
        send("us1", [b"next"], 1)
        assert heard(anna, 8) == [*numbered(10)[:7], b"next"]
        assert heard(bert, 11) == [*numbered(10), b"next"]

        # Sent again to all members, it reaches those that lack a part of it.
        send("eu1", numbered(10), 0)
        send("eu1", [b"end"], 2)
        assert heard(anna, 4) == [*numbered(10)[7:], b"end"]
        assert heard(bert, 1) == [b"end"]
        assert (anna.dropped_again, bert.dropped_again) == (7, 10)
