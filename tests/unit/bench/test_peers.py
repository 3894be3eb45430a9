"""The comparison with other systems: the table, the picture, and missing ones; no server is started."""

from typing import Any, ClassVar
from xml.etree import ElementTree

import pytest

from hopring.bench.harness.workload import BenchWorkload, WorkerTask
from hopring.bench.peers.__main__ import as_picture, as_table, present, ratio_to_ours, summaries
from hopring.bench.peers.jgroups import JGroups
from hopring.bench.peers.peer import PeerSystem
from hopring.bench.peers.worker import PEERS


class Absent(PeerSystem):
    name = "absent"
    programs: ClassVar = {"no-such-server": "no-such-package", "/no/such/file": "another-package"}
    modules = ("no_such_module",)
    promise = "nothing"


def flood(rate: float, lost: int = 0, order_ok: bool = True, others: float = 0.0) -> dict[str, Any]:
    cpu = {"all_cpu_us_per_message": 5.0, "others_cpu_share": others}
    return {"messages_per_second": rate, "lost": lost, "order_ok": order_ok, **cpu}


def trip(us: float) -> dict[str, Any]:
    return {"p50_us": us, "p99_us": 2 * us, "max_us": 3 * us}


SYSTEMS = summaries(
    {
        "hopring": {"100": [flood(90.0), flood(110.0), flood(100.0)], "latency": [trip(200.0)]},
        "zeromq": {"100": [flood(50.0, lost=2, others=0.2)]},
        "nats": {},
    }
)


def test_a_table_has_medians_spreads_and_ratios_to_ours() -> None:
    _, _, ours, theirs, nothing = as_table(SYSTEMS, [100]).splitlines()

    assert "100 ±10 % (1.00)" in ours
    assert ratio_to_ours(SYSTEMS, "zeromq", "100") == 0.5
    assert "50* (0.50) LOST" in theirs
    assert nothing.count(" - ") == 4


def test_a_picture_has_a_bar_for_each_measured_system_and_highlights_ours() -> None:
    root = ElementTree.fromstring(as_picture(SYSTEMS, [100]))
    bars = [one for one in root.iter() if one.tag.endswith("rect")]

    assert [(one.get("class"), float(one.get("width", ""))) for one in bars] == [
        ("ours", 460.0),
        ("bar", 230.0),
    ]


def test_a_missing_system_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PEERS, "absent", Absent)

    assert present(["hopring", "absent"]) == ["hopring"]
    said = capsys.readouterr().err
    assert "apt-get install --no-install-recommends another-package no-such-package" in said
    assert "pip install --group peers" in said


def test_members_of_jgroups_that_are_probed_do_not_wait_for_more_to_send() -> None:
    probed, flooded = [
        JGroups(7000).command(WorkerTask(role, 0, "board", "g", BenchWorkload()))
        for role in ("answer", "receive")
    ]

    assert "enable_bundling=false" in probed[-1]
    assert "enable_bundling=true" in flooded[-1]
    assert "7000" in flooded[-1]
