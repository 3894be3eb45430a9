"""Every key of the configuration has an effect: code outside `config/` reads its value."""

import ast
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import hopring
from hopring.config import (
    AdminTuning,
    ClientTuning,
    Config,
    Daemon,
    LinkConfig,
    LinkTuning,
    LogTuning,
    MembershipTuning,
    MulticastConfig,
    RingTuning,
    Site,
    local_config,
)
from hopring.config.settings import LINK_SETTINGS, MEMBERSHIP_SETTINGS, RING_SETTINGS
from hopring.daemon.engines.membership_host import membership_options, stack_options
from hopring.ids import DaemonId
from hopring.links.hop.hop import HopOptions
from hopring.links.ring.options import RingOptions
from hopring.links.tcp import TcpOptions
from hopring.membership.options import MembershipOptions
from hopring.session.options import SessionOptions

SOURCES = Path(hopring.__file__).parent

NO_EFFECT = ("config/", "cli/config.py", "daemon/process/config_changes.py", "local/plan.py", "sim/")
"""Modules that only write, show, copy or compare a configuration."""

IN_CONFIG = {"links", "mesh", "default_weight", "default_protocol", "listed"}
"""Fields that the model itself reads, for `all_links` and `order`."""

NAMES: dict[type[Any], tuple[str, ...]] = {
    Config: ("config", "_config"),
    Site: ("site",),
    Daemon: ("daemon", "own"),
    LinkConfig: ("link",),
    MulticastConfig: ("multicast",),
    LogTuning: ("tuning", "_tuning"),
    AdminTuning: ("admin",),
}
"""Names under which readers have a value of this class."""


@cache
def reads(places: tuple[str, ...] = ("",), besides: tuple[str, ...] = NO_EFFECT) -> frozenset[tuple[str, str]]:
    """All pairs of a name and an attribute that is read from it: `config.sites` and `self.config.sites`."""
    found = set()
    for path in sorted(SOURCES.rglob("*.py")):
        place = path.relative_to(SOURCES).as_posix()
        if place.startswith(besides) or not place.startswith(places):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found |= {(owner, node.attr) for owner in _called(node.value)}
    return frozenset(found)


def _called(value: ast.expr) -> set[str]:
    """The name of a value: its own, or that of the value to which it belongs (`config.daemons[me]`)."""
    match value:
        case ast.Name(name):
            return {name}
        case ast.Attribute(_, name):
            return {name}
        case ast.Subscript(ast.Attribute(_, name)):
            return {name.removesuffix("s")}
    return set()


def parts() -> list[Any]:
    """Every field of every class."""
    return [
        pytest.param(kind, field.name, id=f"{kind.__name__}.{field.name}")
        for kind in NAMES
        for field in fields(kind)
        if kind is not Config or field.name not in IN_CONFIG
    ]


@pytest.mark.parametrize(("kind", "field"), parts())
def test_every_field_of_a_configuration_is_read_by_code_that_uses_it(kind: type[Any], field: str) -> None:
    assert {(name, field) for name in NAMES[kind]} & reads()


@pytest.mark.parametrize(
    ("tuning", "options", "places"),
    [
        (LinkTuning, HopOptions, ("links/",)),
        (
            RingTuning,
            RingOptions,
            ("links/", "stack.py", "daemon/net/peer_sockets.py", "daemon/engines/membership_host.py"),
        ),
        (MembershipTuning, MembershipOptions, ("membership/",)),
        (ClientTuning, SessionOptions, ("session/", "spread/", "daemon/")),
    ],
)
def test_every_tuning_fills_an_option_that_is_read(
    tuning: type[Any], options: type[Any], places: tuple[str, ...]
) -> None:
    read = {attribute for name, attribute in reads(places, ()) if name in ("options", "_options", "o")}
    filled = {field.name for field in fields(tuning)}

    assert filled <= {field.name for field in fields(options)}
    assert filled <= read


def test_settings_reach_the_options_of_a_daemon() -> None:
    config = local_config({"eu": 1, "us": 1})
    ring = {one.field: one.high for one in RING_SETTINGS}
    membership = {one.field: one.high for one in MEMBERSHIP_SETTINGS}
    sites = tuple([replace(site, ring=RingTuning(**ring)) for site in config.sites])
    tuned = replace(config, sites=sites, membership=MembershipTuning(**membership))

    options = stack_options(tuned, DaemonId(0)).ring
    assert {field: getattr(options, field) for field in ring} == ring
    assert {field: getattr(membership_options(tuned), field) for field in membership} == membership
    assert membership_options(config) == MembershipOptions()


def test_a_link_of_tcp_has_all_options_that_are_not_for_hop_only() -> None:
    shared = {one.field for one in LINK_SETTINGS if len(one.protocols) == 2}

    assert shared <= {field.name for field in fields(TcpOptions)}
