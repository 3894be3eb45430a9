"""`hop bench wide`: its layers carry messages, and its rows are those of the paper's tables."""

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.unit.cli.conftest import Hop

from hopring.bench.wide import command
from hopring.bench.wide.measuring import STREAMED, bare_layer
from hopring.bench.wide.paper import (
    CBCAST,
    CHANNEL,
    LAYERS,
    PAPER_MS,
    REQUEST,
    SIZES,
    STREAM,
    TCP,
    WHOLE,
    paper_ms,
)


def rows_of(*arguments: str) -> list[dict[str, Any]]:
    words = [sys.executable, "-m", "hopring.cli.main", "bench", "wide", "--json", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_tables_of_the_paper_are_whole() -> None:
    assert all(len(figures) == len(SIZES) for figures in PAPER_MS.values())
    assert paper_ms(STREAM, TCP, 1024) == 3.44
    assert paper_ms(REQUEST, WHOLE, 0) is None
    assert paper_ms(STREAM, TCP, 100) is None
    for table in (STREAM, REQUEST):
        for below, above in ((TCP, CHANNEL), (CHANNEL, CBCAST)):
            # Each layer costs more than what is below it, but for the figure that is printed twice.
            pairs = zip(PAPER_MS[table, below], PAPER_MS[table, above], strict=True)
            assert sum(one < other for one, other in pairs) >= len(SIZES) - 1 - (table == REQUEST)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [CBCAST, *[pytest.param(one, marks=pytest.mark.long) for one in (TCP, CHANNEL)]]
)
def test_a_layer_carries_messages_there_and_one_back(name: str) -> None:
    with bare_layer(name, STREAMED) as layer:
        for turn in range(3):
            for number in range(STREAMED):
                layer.send(b"%d.%d" % (turn, number))
            assert layer.receive() == b"%d.%d" % (turn, STREAMED - 1)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("members", ["1", "3"])
def test_both_tables_and_the_parts_come_for_each_row(members: str) -> None:
    short = ["--size", "0", "--size", "1024", "--turns", "1", "--requests", "2", "--probes", "2"]
    found = rows_of(*short, "--members", members)
    cells = {(row["table"], row["row"], row["size_bytes"]): row for row in found if "table" in row}
    parts = [row for row in found if "table" not in row]

    assert set(cells) == {
        (table, row, size) for table in (1, 2) for row in (*LAYERS, WHOLE) for size in (0, 1024)
    }
    assert all(row["ms"] > 0 for row in cells.values())
    assert cells[1, WHOLE, 1024]["paper_ms"] == 131.43
    assert cells[1, WHOLE, 1024]["members"] == int(members)
    assert [row["size_bytes"] for row in parts] == [0, 1024]
    for row in parts:
        assert 0 < row["accepted_ms"] < row["whole_ms"]


@pytest.mark.slow
def test_the_whole_service_can_be_left_out(hop: Hop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LAYERS", (CHANNEL,))  # The other layers are tried in the long tests.
    short = ["--size", "4", "--turns", "1", "--requests", "1", "--members", "0"]
    shown = hop("bench", "wide", *short).stdout

    assert "Table 1" in shown
    assert "| channel |" in shown.replace("  ", "")
    assert "(9.38)" not in shown
    assert "(12.95)" in shown
    assert WHOLE not in shown
