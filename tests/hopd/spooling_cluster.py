"""Daemons as processes with spoolers beside them."""

import os
import subprocess
import sys
from pathlib import Path

from tests.hopd.served_cluster import SECONDS_MAX

from hopring import sync
from hopring.spool.errors import NoSpool
from hopring.spool.reading import bounds, read
from hopring.spool.record import RecordKind, SpoolRecord


class SpoolingCluster:
    """A `hop spool run` that ends with the test."""

    def __init__(self, root: Path, url: str, *arguments: str) -> None:
        self.root = root
        command = [sys.executable, "-m", "hopring.cli.main", "spool", "run", "--spool", str(root), "--at", url]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        command += ["--sync", "20ms", *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)

    def records(self, group: str = "trades") -> list[SpoolRecord]:
        try:
            known = bounds(self.root / group)
        except NoSpool:
            return []
        return list(read(self.root / group, known.start, known.end))

    def messages(self, group: str = "trades") -> list[bytes]:
        return [one.data for one in self.records(group) if one.header.kind is RecordKind.MESSAGE]

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode

    def __enter__(self) -> "SpoolingCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=SECONDS_MAX)


def both_are_in(session: sync.Session, group: str, members: int) -> bool:
    return len(session.members(group).members) == members
