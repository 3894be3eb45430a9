"""The page on joined clusters: its program runs as it is printed, its file is read, its commands are there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click import Group

from hopring import wide
from hopring.cli.wide.command import wide as hop_wide
from hopring.wide import errors, sync
from hopring.wide.clusters_file import parse_clusters, read_schedule

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
