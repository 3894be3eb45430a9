"""Configuration files, and a fixture that calls `hop`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hopring.cli.main import cli

Hop = Callable[..., Result]

TRIANGLE = """\
cluster = "triangle"

[[sites.eu.daemons]]
name = "eu1"
address = "10.1.0.1"

[[sites.eu.daemons]]
name = "eu2"
address = "10.1.0.2"

[[sites.us.daemons]]
name = "us1"
address = "10.2.0.1"

[[sites.ap.daemons]]
name = "ap1"
address = "10.3.0.1"

[[links]]
between = ["eu", "us"]
weight = "40ms"

[[links]]
between = ["us", "ap"]
weight = "60ms"
protocol = "tcp"

[[links]]
between = ["eu", "ap"]
weight = "80ms"
"""


@pytest.fixture
def hop() -> Hop:
    """Calls `hop` with these arguments."""

    def call(*arguments: str | Path) -> Result:
        return CliRunner().invoke(cli, [str(one) for one in arguments], prog_name="hop")

    return call


@pytest.fixture
def triangle(tmp_path: Path) -> Path:
    """A file with three sites, all linked."""
    file = tmp_path / "hop.toml"
    file.write_text(TRIANGLE)
    return file
