"""The audit file: its mode, its rate, a full disk, and a file that was moved away."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from hopring.credentials.files import CredentialError
from hopring.daemon.process.audit import LINES_BURST, AuditFile


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_file_is_made_for_its_owner_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    for _ in range(2):
        audit = AuditFile(path, "eu1", lambda: 0)
        audit.write("connect", identity="anna", name="x" * 1_000, session=7)
        audit.close()

    assert path.stat().st_mode & 0o777 == 0o600
    first, second = lines(path)
    assert (first["event"], first["daemon"], first["identity"], first["session"]) == (
        "connect",
        "eu1",
        "anna",
        7,
    )
    assert len(str(second["name"])) == 256


@pytest.mark.parametrize("kind", ["readable", "link", "directory", "pipe"])
def test_a_file_that_others_could_read_or_replace_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit"
    if kind == "readable":
        path.touch(0o644)
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(path, 0o600)

    with pytest.raises(CredentialError):
        AuditFile(path, "eu1", lambda: 0)


def test_lines_of_one_event_are_limited_in_rate_and_counted(tmp_path: Path) -> None:
    now_us = [0]
    audit = AuditFile(tmp_path / "audit", "eu1", lambda: now_us[0])
    for _ in range(LINES_BURST + 100):
        audit.write("refused")
    audit.write("connect")
    now_us[0] += 1_000_000
    audit.write("refused")

    found = lines(tmp_path / "audit")
    assert LINES_BURST <= sum(line["event"] == "refused" for line in found) <= LINES_BURST + 2
    assert found[-2]["event"] == "connect"
    assert int(str(found[-1]["held_back"])) >= 98


def test_a_moved_file_is_made_again_by_a_reload(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    audit = AuditFile(path, "eu1", lambda: 0)
    audit.write("one")
    path.rename(tmp_path / "old")
    audit.reopen()
    audit.write("two")

    assert [line["event"] for line in lines(path)] == ["two"]


FULL = f"""
import resource, sys
from pathlib import Path
from hopring.daemon.process.audit import AuditFile
path = Path(sys.argv[1])
audit = AuditFile(path, "eu1", lambda: 0)
audit.write("one")
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, {resource.RLIM_INFINITY}))
audit.write("two")
audit.write("three")
print(audit.lost, audit.failing)
resource.setrlimit(resource.RLIMIT_FSIZE, ({resource.RLIM_INFINITY}, {resource.RLIM_INFINITY}))
audit.write("four")
print(audit.lost, audit.failing)
"""


def test_a_full_disk_loses_lines_and_the_next_one_says_how_many(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)

    assert done.stdout == "2 True\n2 False\n"
    whole = [line for line in path.read_text().splitlines() if line.endswith("}")]
    assert [json.loads(line)["event"] for line in whole] == ["one", "four"]
    assert json.loads(whole[-1])["lost"] == 2
