"""The page on joined clusters: its program runs as it is printed, its file is read, its commands are there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click import Group

from hopring import wide
from hopring.cli.wide.command import wide as hop_wide
from hopring.haul.ids import ClusterId, ClusterMask
from hopring.haul.link.frames import LinkGeneration
from hopring.haul.status import WideLinkStatus, WideSetStatus, WideSpoolStatus, WideStatus
from hopring.wide import errors, sync
from hopring.wide.clusters_file import parse_clusters, read_schedule
from hopring.wide.process.metrics import metrics_text

PAGE = (Path(__file__).parents[2] / "docs" / "wide.md").read_text()


def block(kind: str) -> str:
    (code,) = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(code)


@pytest.mark.slow
def test_the_program_prints_the_message(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(block("python"))
    command = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "hub.1 anna b'3 left'\n"


def test_the_file_of_the_page_is_read() -> None:
    file = parse_clusters(block("toml"), "clusters.toml")

    assert [one.name for one in file.clusters] == ["hub", "norway"]
    assert file.keys == Path("keys")


def test_the_schedules_of_the_page_are_schedules() -> None:
    table = PAGE[PAGE.index("`schedule` is one of") :].split("\n\n")[1]
    written = re.findall(r'^\| `"([^"]+)"`', table, re.MULTILINE)

    assert len(written) == 4
    assert None not in [read_schedule(one) for one in written]


def test_the_page_has_all_commands_and_errors() -> None:
    assert isinstance(hop_wide, Group)
    assert [name for name in hop_wide.commands if f"hop wide {name}" not in PAGE] == []
    kinds = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__ and name != "LongHaulRefused"
    }
    assert [name for name in sorted(kinds) if f"`{name}`" not in PAGE] == []


def test_every_public_name_is_there() -> None:
    assert [name for name in wide.__all__ if getattr(wide, name, None) is None] == []
    assert [name for name in sync.__all__ if getattr(sync, name, None) is None] == []
    assert wide.local is wide.AioLocalWide
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        wide.nothing  # noqa: B018


def test_the_table_of_metrics_is_the_page_of_a_member() -> None:
    link = WideLinkStatus(ClusterId(2), True, False, "", LinkGeneration(0, 0))
    of_set = WideSetStatus("s", "g", ClusterMask(3), 5, 4, 0, 1, (), "h1", ())
    spools = [WideSpoolStatus("s", to, True, 1, 153, 0) for to in (ClusterId(2), None)]
    status = WideStatus(ClusterId(1), "h1", True, 3, ("h1",), (link,), (of_set,), tuple(spools))
    text = metrics_text("ims", status, lambda one: {1: "hub", 2: "norway"}[one], {"certificate": 2})

    assert 'hopring_wide_info{wide="ims",cluster="hub",member="h1"} 1' in text
    assert 'hopring_wide_link_open{to="norway"} 0.0' in text
    assert 'hopring_wide_spool_bytes{set="s",to=""} 153.0' in text
    assert 'hopring_wide_refused_total{reason="certificate"} 2' in text
    named = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    assert named == set(re.findall(r"`(hopring_wide_\w+)`", PAGE))
