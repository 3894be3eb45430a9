"""`hop keys new` and `hop up --keys`, as a user types them, with `hop sub` and `hop pub` beside them."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.free_ports import free_base_port
from tests.support.waiting import until

pytestmark = pytest.mark.slow

HOP = [sys.executable, "-m", "hopring.cli.main"]


def test_a_cluster_with_keys_of_a_user_carries_messages_and_reports_the_key(tmp_path: Path) -> None:
    made = subprocess.run(
        [*HOP, "keys", "new", "--out", "keys"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    shown = [*HOP, "keys", "show", "keys", "--json"]
    key = json.loads(subprocess.check_output(shown, cwd=tmp_path, timeout=60))["keys"][0]["id"]
    assert key in made.stdout
    port = str(free_base_port(1))
    url = f"hop://127.0.0.1:{port}"
    command = [*HOP, "up", "--sites", "eu=2,us=2", "--keys", "keys", "--port", port, "--out", "out"]
    with (
        (tmp_path / "up.log").open("w") as log,
        subprocess.Popen(
            [*command, "--json"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True
        ) as up,
    ):
        try:
            assert up.stdout is not None
            urls = json.loads(up.stdout.readline())
            listen = [*HOP, "sub", "news", "--at", urls["us2"], "--count", "1"]
            with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as sub:
                members = [*HOP, "members", "news", "--at", url]
                until(
                    lambda: "us2" in subprocess.run(members, capture_output=True, text=True, check=False).stdout
                )
                subprocess.run([*HOP, "pub", "news", "hello", "--at", url], timeout=60, check=True)
                assert sub.communicate(timeout=60)[0] == "hello\n"
            logs = [(tmp_path / "out" / f"{name}.log").read_text() for name in urls]
            assert all(f" key={key} " in log_text for log_text in logs)
        finally:
            up.send_signal(signal.SIGINT)
        assert up.wait(60) == 0
