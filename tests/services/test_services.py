"""The table of services, and a seventh row that every layer supports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hopring.services import Service, services_with


def test_capabilities_grow_with_the_number_of_the_service() -> None:
    for weaker, stronger in zip(list(Service), list(Service)[1:], strict=False):
        assert stronger.promises(weaker)


def test_every_reliable_service_has_one_moment_of_delivery() -> None:
    assert services_with("loose") == (Service.UNRELIABLE,)
    assert services_with("at_once") == (Service.RELIABLE,)
    assert services_with("by_session") == (Service.FIFO,)
    assert services_with("total") == (Service.CAUSAL, Service.AGREED, Service.SAFE)
    assert services_with("stable") == (Service.SAFE,)


@pytest.mark.slow
def test_a_seventh_service_works_in_order_groups_and_both_checkers() -> None:
    story("core")


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.slow
def test_a_seventh_service_works_in_a_query(tmp_path: Path) -> None:
    story("spark", str(tmp_path))


def story(*arguments: str) -> None:
    """Runs the checks in a process that has seven services."""
    command = [sys.executable, "-m", "tests.services.story", *arguments]
    done = subprocess.run(
        command,
        env={**os.environ, "HOPRING_PURE": "1", "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
        capture_output=True,
        text=True,
        timeout=600,  # Spark plans all queries for a Java that is cold.
        check=False,
    )
    assert done.returncode == 0, done.stderr
