"""Queries that multicast to a live group: each receiver gets each record once, whatever is killed."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hopd.spooling_cluster import SpoolingCluster
from tests.hopd.tls_daemon import TlsDaemon, tls_daemon
from tests.spark.killing import BATCH_SECONDS_MAX, Killed, kill_all
from tests.spark.piping import FILLING, SOURCE, TARGET, live
from tests.support.waiting import until
from tests.unit.spark.spooling import fill

from hopring import sync
from hopring.credentials.directory import KeyDirectory
from hopring.spark.errors import SparkError, log_file, readable

pytest.importorskip("pyspark", reason="needs Spark: make spark")
pytestmark = [pytest.mark.spark, pytest.mark.slow]
PER_BATCH = 100


class Subscriber(threading.Thread):
    """A member of the group during the whole test."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[int, bytes]] = []
        self.dropped_again = 0
        self.stopped = False
        self._session = sync.connect(url)
        self._session.join(TARGET)

    def run(self) -> None:
        while not self.stopped:
            batch = self._session.receive_many(max_messages=1, max_wait_seconds=0.1)
            self.seen += [(message.type, message.data) for message in batch.messages]
            self.dropped_again = self._session.dropped_again
        self._session.close()


@pytest.fixture
def cluster() -> Iterator[sync.Cluster]:
    with sync.local_cluster({"eu": 1, "us": 1}, patience="4s", trace=False) as found:
        yield found


@pytest.fixture
def subscriber(cluster: sync.Cluster) -> Iterator[Subscriber]:
    found = Subscriber(cluster.url("us1"))
    found.start()
    yield found
    found.stopped = True
    found.join()


def longer(records: int) -> list[tuple[int, bytes]]:
    return [(at % 10 % 7, b"%08d" % at + b"." * FILLING) for at in range(records)]


class KilledLive(Killed):
    """Killed runs of a query to a live group, in turn through one daemon and the other."""

    def __init__(self, root: Path, records: int, cluster: sync.Cluster, subscriber: Subscriber) -> None:
        super().__init__(root, records)
        self._cluster = cluster
        self._subscriber = subscriber
        self._runs = 0

    def arguments(self) -> tuple[str, ...]:
        self._runs += 1
        return str(PER_BATCH), self._cluster.url(("eu1", "us1")[self._runs % 2])

    def wait_for_append(self) -> None:
        """Waits until the first message of a batch has come; others, and their receipts, are in flight."""
        before = len(self._subscriber.seen)
        until(lambda: len(self._subscriber.seen) != before, seconds=BATCH_SECONDS_MAX, look_seconds=0.001)

    def is_published_and_not_committed(self) -> bool:
        """Whether the next run has to send a part of a batch again."""
        noted = [int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*")]
        return len(self._subscriber.seen) > PER_BATCH * (max(noted, default=-1) + 1)


def check(
    spark: Any, root: Path, cluster: sync.Cluster, subscriber: Subscriber, kills: int, records: int, seed: int
) -> None:
    """Checks that a subscriber at one daemon and a spooler at the other get every record once."""
    with SpoolingCluster(root / "spool", cluster.url("eu1"), "--group", TARGET) as spooler:
        until((root / "spool" / TARGET).exists)
        killed = KilledLive(root, records, cluster, subscriber)
        at_work = kill_all(killed, kills, 2.0 if kills == 1 else 4.0, seed)
        before = len(subscriber.seen)
        killed.finish(spark)
        until(lambda: len(subscriber.seen) >= records and len(spooler.messages(TARGET)) >= records)

        found = f"{at_work} of {kills} runs killed at work, {before} of {records} records by then"
        print(f"{found}, {killed.made_again} batches made again, {subscriber.dropped_again} messages dropped")
        assert at_work == kills
        assert subscriber.seen == longer(records)
        assert spooler.messages(TARGET) == [data for _, data in longer(records)]


@pytest.mark.long
def test_members_get_the_records_of_a_killed_query_once(
    users: Any, tmp_path: Path, cluster: sync.Cluster, subscriber: Subscriber
) -> None:
    check(users, tmp_path, cluster, subscriber, kills=1, records=600, seed=1)


@pytest.mark.long
def test_members_do_not_notice_twenty_kills(
    users: Any, tmp_path: Path, cluster: sync.Cluster, subscriber: Subscriber
) -> None:
    seed = int(os.environ.get("HOPRING_SEED", "4711"))
    check(users, tmp_path, cluster, subscriber, kills=20, records=40_000, seed=seed)


def test_a_stream_and_a_table_reach_a_live_group_once_also_if_a_batch_is_made_again(
    hopring: Any, tmp_path: Path, cluster: sync.Cluster, subscriber: Subscriber
) -> None:
    checkpoint = tmp_path / "checkpoint"
    where = cluster.url("eu1").removeprefix("hop://")
    fill(tmp_path, SOURCE, 250)

    def run() -> None:
        with readable("multicasting"):
            live(hopring, str(tmp_path), str(checkpoint), 100, where).awaitTermination()

    run()
    until(lambda: len(subscriber.seen) >= 250)
    # Killed between the delivery and Spark's commit: Spark makes the batch again.
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
    run()
    until(lambda: subscriber.dropped_again == 50)
    assert subscriber.seen == longer(250)

    # Receivers would drop the batches of another query under this name.
    belongs = "multicasting: txnAppId 'pipe' belongs to a query with another checkpoint .*; give this query"
    with pytest.raises(SparkError, match=belongs), readable("multicasting"):
        live(hopring, str(tmp_path), str(tmp_path / "other"), 100, where).awaitTermination()

    rows = hopring.range(0, 3000, 1, 3).selectExpr("repeat(cast(id as string), 100) as payload", "1 as type")
    its = {"group": TARGET, "txnAppId": "job", "daemon": where, "service": "agreed"}
    for version in (0, 0, 1):
        rows.write.format("hopring").options(**its, txnVersion=version).mode("append").save()
    until(lambda: len(subscriber.seen) >= 250 + 6000)
    assert subscriber.seen[250:] == [(1, str(at).encode() * 100) for at in range(3000)] * 2

    cluster.stop("eu1")
    refused = r"multicasting: hop://.*Connection refused; start hopd there, or correct the address"
    fill(tmp_path, SOURCE, 10)
    with pytest.raises(SparkError, match=refused):
        run()
    cluster.restart("eu1")
    cluster.settled()
    run()
    until(lambda: len(subscriber.seen) >= 6260)
    assert subscriber.seen[6250:] == longer(260)[250:]


def test_a_stream_connects_by_tls_and_its_key_is_in_no_plan_error_or_log(users: Any, tmp_path: Path) -> None:
    KeyDirectory(tmp_path).add_user("alice")
    key, other = tmp_path / "users" / "alice.key", tmp_path / "other.key"
    other.touch(0o600)
    other.write_text("very-secret-content-of-a-wrong-key")
    grants = """
[[users]]
name = "alice"
key = "users/alice.pub"

[grants.alice]
names = ["sink-*", "listener"]
join = ["to"]
send = ["to"]
apps = ["pipe"]
"""
    fill(tmp_path, SOURCE, 20)

    def start(served: TlsDaemon, file: Path) -> Any:
        read = users.readStream.format("hopring").option("groups", SOURCE).load(str(tmp_path))
        write = read.select("payload").writeStream.format("hopring").option("group", TARGET)
        write = write.options(daemon=served.url, ca=served.ca, user="alice", key=str(file), txnAppId="pipe")
        return write.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()

    with tls_daemon(tmp_path, more=grants) as served:
        with pytest.raises(SparkError, match=r"sending: .*other.key") as refused, readable("sending"):
            start(served, other).awaitTermination()
        with sync.connect(served.url, name="listener", user="alice", key=key, ca=served.ca) as listener:
            listener.join(TARGET)
            query = start(served, key)
            query.awaitTermination()
            assert [int(next(listener.messages()).data) for _ in range(20)] == [*range(20)]
    secrets = [other.read_text(), *[line for line in key.read_text().split() if len(line) > 20]]
    assert len(secrets) >= 2
    seen = [str(refused.value), query._jsq.explainInternal(True), json.dumps(query.lastProgress, default=str)]
    for text in [*seen, log_file().read_text(errors="replace")]:
        assert len(text) > 10
        assert not [secret for secret in secrets if secret in text]
