"""Registers GoBackN under its own name and uses it: `python -m tests.link_kinds.named`.

This runs in its own process. Before anything else of hopring is imported, the kind gets a name (two lines of
config/model.py); then the table gets one more row. Nothing else is edited.
"""

# ruff: noqa: E402  hopring is imported once the name is there.

import sys
from pathlib import Path
from types import ModuleType
from typing import cast

NAMES = Path(__file__).parents[2] / "src" / "hopring" / "config" / "model.py"
LINES = {
    '    TCP = "tcp"\n': '    TCP = "tcp"\n    GO_BACK_N = "gbn"\n',
    'LinkName = Literal["hop", "tcp"]\n': 'LinkName = Literal["hop", "tcp", "gbn"]\n',
}


def install() -> None:
    """Replaces the module of the product by one with the additional name."""
    assert "hopring.config" not in sys.modules, "hopring.config is already imported"
    source = NAMES.read_text()
    for line, edited in LINES.items():
        assert source.count(line) == 1, f"the module has no line {line!r}"
        source = source.replace(line, edited)
    module = ModuleType("hopring.config.model")
    module.__file__ = str(NAMES)
    sys.modules[module.__name__] = module
    exec(compile(source, str(NAMES), "exec"), module.__dict__)


install()

from dataclasses import replace

import msgspec
from tests.link_kinds.go_back_n import make, object_bytes_max

from hopring.config import Config, LinkProtocol, dump_toml, parse_config
from hopring.config.model import LinkName
from hopring.daemon.engines.membership_host import stack_options
from hopring.ids import DaemonId
from hopring.links.kinds import KINDS, LinkKind, LinkSetup
from hopring.links.link import Link
from hopring.session.protocol import LinkLine
from hopring.sim.campaign.runner import run_world
from hopring.sim.campaign.world import MEMBERSHIP, STACK, draw_world
from hopring.sim.cluster import SimCluster

GBN = LinkProtocol("gbn")
FILE = """
cluster = "named"
default_protocol = "gbn"
[[sites.ams.daemons]]
name = "ams1"
address = "127.0.0.1"
[[sites.ber.daemons]]
name = "ber1"
address = "127.0.0.2"
[[links]]
between = ["ams", "ber"]
silence = "300ms"
"""


def make_named(setup: LinkSetup) -> Link:
    """Makes a link: the first column of the row."""
    link = make(setup)
    link.kind = cast(LinkName, "gbn")
    return link


def in_the_configuration() -> Config:
    """A configuration file may name the kind, and a written configuration reads back the same."""
    config = parse_config(FILE)
    assert [link.protocol for link in config.all_links] == [GBN]
    assert parse_config(dump_toml(config)) == config
    assert stack_options(config, DaemonId(0)).object_bytes_max <= object_bytes_max(config.links[0].tuning)
    return config


def in_a_snapshot(config: Config) -> None:
    """Daemons of that configuration form a view over it, and the snapshot for clients names it."""
    cluster = SimCluster(config, 1, None, MEMBERSHIP, STACK)
    cluster.start("ams1", "ber1")
    cluster.run_for(2_000_000)
    assert cluster.settled()
    (link,) = cluster.hosts["ams1"].snapshot().links
    assert str(link.protocol) == "gbn"
    assert link.counters.received > 0
    line = LinkLine("ber1", link.protocol, 1, 1, 0, 0, 0, 0, 0)
    assert msgspec.json.decode(msgspec.json.encode(line), type=LinkLine) == line


def in_the_campaign() -> None:
    """Worlds of the campaign with this kind instead of Hop; TCP links stay."""
    for seed in range(1, 4):
        world = draw_world(seed)
        links = [
            replace(link, protocol=GBN) if link.protocol is LinkProtocol.HOP else link
            for link in world.config.links
        ]
        outcome = run_world(replace(world, config=replace(world.config, links=tuple(links))))
        assert not outcome.broken, f"seed {seed}: {outcome.broken}"


if __name__ == "__main__":
    KINDS[GBN] = LinkKind(make_named, object_bytes_max)
    in_a_snapshot(in_the_configuration())
    in_the_campaign()
