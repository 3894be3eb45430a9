"""The admin channel as configured in the file: its socket, its mode, and the verbs that it allows."""

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.monitor.fleet import SECONDS_MAX, Fleet, wait

from hopring.config import AdminTuning, AdminVerb

pytestmark = pytest.mark.slow

NOBODY_UID = 65534
ONE = {"eu": ["eu1"]}


def in_file(fleet: Fleet, **changes: object) -> Fleet:
    """The configuration of a socket for each daemon, in the directory of the fleet."""
    fleet.admin = replace(AdminTuning(f"{fleet.directory}/{{name}}.admin"), **changes)  # type: ignore[arg-type]
    fleet.write(ONE)
    return fleet


def asked_by(fleet: Fleet, uid: int, gid: int, verb: str) -> str:
    """The reply to a request of another user."""
    script = f"""if True:
        import contextlib, os, socket
        os.setgroups([]), os.setgid({gid}), os.setuid({uid})
        s = socket.socket(socket.AF_UNIX)
        s.connect({str(fleet.directory / "eu1.admin")!r})
        with contextlib.suppress(BrokenPipeError):  # Whoever is refused is told why all the same.
            s.sendall(b'{{"verb": "{verb}"}}\\n')
        print(s.makefile().readline(), end='')"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    return told.stdout or told.stderr


def test_the_file_names_the_socket_and_the_verbs_that_are_allowed() -> None:
    with in_file(Fleet(arguments=()), allow=(AdminVerb.CUT, AdminVerb.RELOAD)) as fleet:
        fleet.start("eu1")
        fleet.meet("eu1")
        assert fleet.hop("heal").exit_code == 0
        refused = fleet.hop("terminate", "eu1")
        assert refused.exit_code == 6
        assert 'this daemon does not allow terminate; add "terminate" to allow of [admin]' in refused.stderr

        in_file(fleet, allow=(AdminVerb.TERMINATE, AdminVerb.RELOAD), mode=0o660)
        reloaded = fleet.hop("reload")
        assert reloaded.stdout == "eu1  changed=admin.allow needs_restart=admin.mode\n"
        assert fleet.hop("heal").exit_code == 6
        assert fleet.hop("terminate", "eu1").exit_code == 0
        assert fleet.processes["eu1"].wait(SECONDS_MAX) == 0


def test_a_flag_overrides_the_file() -> None:
    with in_file(Fleet(arguments=("--no-admin",))) as fleet:
        fleet.start("eu1")
        wait(lambda: "size=1" in fleet.log("eu1"))
        assert not (fleet.directory / "eu1.admin").exists()

    with in_file(Fleet(arguments=("--dangerous",))) as fleet:
        fleet.start("eu1")
        fleet.meet("eu1")
        assert fleet.hop("heal").exit_code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_the_mode_lets_the_group_of_the_socket_in_and_nobody_else() -> None:
    with in_file(Fleet(arguments=()), mode=0o660) as fleet:
        fleet.directory.chmod(0o755)
        fleet.start("eu1")
        fleet.meet("eu1")
        path = fleet.directory / "eu1.admin"
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        gid = path.stat().st_gid
        assert json.loads(asked_by(fleet, NOBODY_UID, gid, "status"))["ok"] is True
        assert "PermissionError" in asked_by(fleet, NOBODY_UID, NOBODY_UID, "status")

        path.chmod(0o666)  # So that the daemon refuses him, not the file system.
        assert json.loads(asked_by(fleet, NOBODY_UID, NOBODY_UID, "status"))["denied"] is True
