"""The verbs of `hop spool` that need no daemon."""

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Hop

from hopring.ids import Place
from hopring.services import Service
from hopring.spool.files import index_path, log_path
from hopring.spool.format import INDEX_HEAD_BYTES
from hopring.spool.record import NO_VIEW, RecordHeader, RecordKind, run_of
from hopring.spool.retention import permit
from hopring.spool.writer import SpoolOptions, SpoolWriter
from hopring.spooler import away


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A spool with three messages in two sealed segments, and a gap in the last."""
    header = RecordHeader(
        RecordKind.MESSAGE, 1_700_000_000_000_000, "#anna#eu1", ("trades",), Service.SAFE, Place(NO_VIEW, 9, 1)
    )
    with SpoolWriter(tmp_path, "trades", SpoolOptions(segment_bytes=1)) as writer:
        writer.append([run_of(header, [b"one", b"\xff"])])
        writer.append([run_of(header, [b"three"], [7])])
        writer.append([away("trades", "the spooler was not running", 1, 2, None)])
    return tmp_path


def test_ls_describes_each_spool(hop: Hop, filled: Path) -> None:
    permit(filled / "trades", "job", 2)

    shown = hop("spool", "ls", "--spool", filled)
    (row,) = json.loads(hop("spool", "ls", "--spool", filled, "--json").output)

    assert shown.exit_code == 0
    assert shown.output.startswith("trades  0..4  3 segments  ")
    assert (row["group"], row["start"], row["end"], row["consumers"]) == ("trades", 0, 4, {"job": 2})


def test_replay_prints_messages_and_gaps_in_their_order(hop: Hop, filled: Path) -> None:
    shown = hop("spool", "replay", "trades", "--spool", filled, "--from", "1")

    assert shown.output.splitlines() == [
        "\ufffd",
        "three",
        "-- messages may be missing here: the spooler was not running",
    ]


def test_replay_as_json_has_all_fields(hop: Hop, filled: Path) -> None:
    shown = hop("spool", "replay", "trades", "--spool", filled, "--json")

    rows = [json.loads(line) for line in shown.output.splitlines()]
    assert rows[2] == {
        "offset": 2,
        "kind": "message",
        "time_us": 1_700_000_000_000_000,
        "view": {"id": [0, 0, 0], "step": 0},
        "sender": "#anna#eu1",
        "groups": ["trades"],
        "service": "safe",
        "type": 7,
        "place": {"view": [0, 0, 0], "lts": 9, "site": 1},
        "number": 0,
        "data": "three",
    }
    assert rows[1]["data_base64"] == "/w=="
    assert (rows[3]["kind"], rows[3]["reason"]) == ("gap", "the spooler was not running")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "9"], "offset 9 is not written yet; the spool ends before 4"),
        (["--from", "2", "--to", "7"], "offset 6 is not written yet"),
    ],
)
def test_an_offset_that_is_not_there_is_an_error(
    hop: Hop, filled: Path, arguments: list[str], said: str
) -> None:
    shown = hop("spool", "replay", "trades", "--spool", filled, *arguments)

    assert shown.exit_code == 1
    assert said in shown.output


def test_a_group_without_a_spool_is_an_error(hop: Hop, filled: Path) -> None:
    for verb in ("replay", "verify", "archive"):
        shown = hop("spool", verb, "news", "--spool", filled)
        assert shown.exit_code == 1
        assert "there is no spool; list the spools with `hop spool ls`" in shown.output


def test_verify_names_damage_and_ends_with_one(hop: Hop, filled: Path) -> None:
    assert hop("spool", "verify", "--spool", filled).exit_code == 0
    log = log_path(filled / "trades", 2)
    whole = bytearray(log.read_bytes())
    whole[-2] ^= 1
    log.write_bytes(whole)

    shown = hop("spool", "verify", "--spool", filled)
    told = hop("spool", "verify", "trades", "--spool", filled, "--json")

    assert shown.exit_code == told.exit_code == 1
    assert "its CRC is wrong; records 2 to before 3 are lost" in shown.output
    (finding,) = json.loads(told.output.splitlines()[0])["findings"]
    assert (finding["start"], finding["end"]) == (2, 3)
    refused = hop("spool", "replay", "trades", "--spool", filled)
    assert refused.exit_code == 1
    assert "records from 2 to 2 are damaged" in refused.output
    passed = hop("spool", "replay", "trades", "--spool", filled, "--skip-damaged")
    assert passed.output.splitlines()[0] == "one"
    assert passed.exit_code == 0


@pytest.mark.parametrize(
    ("order", "said"),
    [((0, 0), "entry 1 does not follow the one before"), ((), "1 blocks of the log are not in it")],
)
def test_verify_names_an_index_with_repeated_or_lost_entries(
    hop: Hop, filled: Path, order: tuple[int, ...], said: str
) -> None:
    before = hop("spool", "replay", "trades", "--spool", filled).output
    for base in (0, 3):  # A sealed one, and the last one.
        index = index_path(filled / "trades", base)
        good = index.read_bytes()
        entry = good[INDEX_HEAD_BYTES:]
        index.write_bytes(good[:INDEX_HEAD_BYTES] + entry * len(order))

        shown = hop("spool", "verify", "--spool", filled)

        assert shown.exit_code == 1
        assert f"{index.name}: {said}" in shown.output
        assert hop("spool", "replay", "trades", "--spool", filled).output == before
        index.write_bytes(good)


def test_archive_writes_parquet(hop: Hop, filled: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")

    shown = hop("spool", "archive", "--spool", filled)

    assert shown.exit_code == 0
    assert len(shown.output.splitlines()) == 2
    assert hop("spool", "archive", "--spool", filled).output == ""


def test_amounts_need_their_units(hop: Hop, tmp_path: Path) -> None:
    shown = hop("spool", "run", "--group", "g", "--spool", tmp_path, "--sync", "fast")

    assert shown.exit_code == 2
    assert "write one as 200ms" in shown.output


def test_an_unreachable_daemon_is_an_error(hop: Hop, tmp_path: Path) -> None:
    shown = hop("spool", "run", "--group", "g", "--spool", tmp_path, "--at", "hop+unix:///nowhere/sock")

    assert shown.exit_code == 3
