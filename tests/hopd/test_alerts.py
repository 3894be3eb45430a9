"""Alerts of the pipeline at a real daemon: each arrives once, also from a pipeline that was killed."""

import json
from pathlib import Path

import msgspec
import pytest

from hopring import sync
from hopring.client.errors import ConnectError
from hopring.spark.audit.witness import AuditViolation

pytest.importorskip("pyspark", reason="needs Spark: make spark")

from hopring.spark.pipeline.alerts import (
    BOOK,
    Alert,
    AlertTarget,
    noted,
    of_violations,
    raise_alerts,
    read_book,
)
from hopring.spark.pipeline.store import Store

pytestmark = pytest.mark.slow

GROUP = "hop.alerts"


def violation(number: int) -> Alert:
    facts = {"process": "a#1", "message": f"b:{number}"}
    return of_violations([AuditViolation("", "2.5", number, f"b:{number} twice", facts)])[0]


def test_an_alert_arrives_once_whenever_the_pipeline_is_killed(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    store.open()
    first, second, third = map(violation, (1, 2, 3))
    with sync.local_cluster({"eu": 1}, trace=False) as cluster, cluster.connect("eu1", name="ward") as ward:
        ward.join(GROUP)
        target = AlertTarget(GROUP, cluster.url("eu1"))

        def alert(*found: Alert) -> int:
            return raise_alerts(target, store.read, store.write, found)

        assert alert(first) == 1
        assert alert(first) == 0
        # Killed after the batch was sent and before that was noted.
        written: list[str] = []

        def killed(name: str, text: str) -> None:
            store.write(name, text)
            written.append(text)
            if len(written) == 2:
                raise KeyboardInterrupt

        kept = read_book(store.read(BOOK))
        with pytest.raises(KeyboardInterrupt):
            raise_alerts(target, store.read, killed, [first, second])
        store.write(BOOK, written[0])
        assert alert(first, second) == 1  # Sent again, and dropped by receivers.
        # Killed before it was sent.
        store.write(BOOK, msgspec.json.encode(noted(read_book(store.read(BOOK)), [third])).decode())
        assert alert(first, second) == 1
        assert alert(first, second, third) == 0

        ward.multicast(GROUP, b'{"text": "end"}')
        texts = []
        for message in ward.messages():
            texts.append(json.loads(message.data)["text"])
            if texts[-1] == "end":
                break
        assert texts == ["b:1 twice", "b:2 twice", "b:3 twice", "end"]
        assert ward.dropped_again == 1
        assert kept.app == read_book(store.read(BOOK)).app
    with pytest.raises(ConnectError, match="start hopd there"):
        alert(violation(4))
