"""A written configuration reads back the same; equivalent configurations have the same hash."""

from dataclasses import fields, replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopring.config import (
    AdminTuning,
    AdminVerb,
    ClientRight,
    ClientTuning,
    Config,
    Daemon,
    GrantConfig,
    LinkConfig,
    LinkProtocol,
    LinkTuning,
    LogFormat,
    LogLevel,
    LogTuning,
    MembershipTuning,
    MulticastConfig,
    RingTuning,
    SecurityTuning,
    Site,
    SpoolTuning,
    SpreadSlow,
    UserConfig,
    Weights,
    cluster_hash,
    dump_toml,
    local_config,
    parse_config,
)
from hopring.config.settings import (
    CLIENT_SETTINGS,
    LINK_ORDER,
    LINK_SETTINGS,
    LOG_SETTINGS,
    MEMBERSHIP_ORDER,
    MEMBERSHIP_SETTINGS,
    RING_ORDER,
    RING_SETTINGS,
    WINDOW_DEFAULTS,
    KeyOrder,
    TuningKey,
)
from hopring.config.spooling import SPOOL_SETTINGS
from hopring.links.hop.hop import HopOptions
from hopring.links.ring.options import RingOptions
from hopring.links.tcp import TcpOptions
from hopring.membership.options import MembershipOptions

NAMES = st.text("abz09AZ-_.", min_size=1, max_size=32).filter(lambda name: name[0] not in "-_.")
PORTS = st.integers(1, 65_535)
WEIGHTS = st.integers(1, 2**32 - 1)


def tunings(
    settings: tuple[TuningKey, ...], orders: tuple[KeyOrder, ...]
) -> st.SearchStrategy[dict[str, int | None]]:
    keys = {setting.key: st.none() | st.integers(setting.low, setting.high) for setting in settings}

    def in_order(values: dict[str, int | None]) -> dict[str, int | None]:
        if any(order.broken_by(values) for order in orders):
            values |= dict.fromkeys([key for order in orders for key in (order.small, order.large)])
        return {setting.field: values[setting.key] for setting in settings}

    return st.fixed_dictionaries(keys).map(in_order)


@st.composite
def links(draw: st.DrawFn, ends: tuple[str, str]) -> LinkConfig:
    protocol = draw(st.sampled_from(LinkProtocol))
    settings = tuple([setting for setting in LINK_SETTINGS if protocol in setting.protocols])
    tuning = LinkTuning(**draw(tunings(settings, LINK_ORDER)))
    return LinkConfig(ends, draw(WEIGHTS), protocol, tuning)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    names = sorted(draw(st.sets(NAMES, min_size=1, max_size=4)))
    daemons = draw(st.lists(NAMES, min_size=len(names), max_size=8, unique=True))
    base = draw(st.sampled_from(["10.0.0.", "2001:db8::"]))
    group = "239.0.0." if base == "10.0.0." else "ff15::"
    # Client ports repeat port + 1 only on different addresses, so nothing clashes.
    made = [
        Daemon(name, f"{base}{at + 1}", port, draw(st.sampled_from([None, port % 65_535 + 1])))
        for at, name in enumerate(daemons)
        for port in [draw(PORTS)]
    ]
    sites = []
    for at, name in enumerate(names):
        members = tuple(sorted(made[at :: len(names)], key=lambda daemon: daemon.name))
        port = draw(st.none() | PORTS)
        multicast = (
            None
            if port is None
            else MulticastConfig(f"{group}{at + 1}", port, draw(st.sampled_from([1, 2, 255])))
        )
        sites.append(Site(name, members, multicast, RingTuning(**draw(tunings(RING_SETTINGS, RING_ORDER)))))
    pairs = list(combinations(names, 2))
    mesh = draw(st.booleans())
    listed = draw(st.sets(st.sampled_from(pairs))) if pairs and mesh else set(pairs)
    return Config(
        cluster=draw(NAMES),
        sites=tuple(sites),
        links=tuple([draw(links(ends)) for ends in sorted(listed)]),
        mesh=mesh,
        default_weight=draw(WEIGHTS),
        default_protocol=draw(st.sampled_from(LinkProtocol)),
        weights=draw(st.sampled_from(Weights)),
        membership=MembershipTuning(**draw(tunings(MEMBERSHIP_SETTINGS, MEMBERSHIP_ORDER))),
        clients=replace(
            ClientTuning(**draw(tunings(CLIENT_SETTINGS, ()))),  # type: ignore[arg-type]
            allow=draw(st.sampled_from([None, (), (ClientRight.PRIORITY,), tuple(ClientRight)])),
            spread_slow=draw(st.sampled_from([None, *SpreadSlow])),
            spread_access=draw(st.sampled_from([None, (), ("10.0.0.0/8", "2001:db8::/32")])),
        ),
        log=LogTuning(
            draw(st.sampled_from(LogFormat)),
            draw(st.sampled_from(LogLevel)),
            **draw(tunings(LOG_SETTINGS, ())),
        ),
        admin=AdminTuning(
            draw(st.sampled_from([None, "/run/hopring/{cluster}.{name}.admin"])),
            draw(st.sampled_from([0o600, 0o660])),
            tuple(verb for verb in AdminVerb if draw(st.booleans())),
        ),
        spool=SpoolTuning()
        if draw(st.booleans())
        else SpoolTuning(
            draw(st.sampled_from(["/var/spool/{cluster}/{name}", "spool"])),
            draw(st.sampled_from([("trades.*",), ("a", 'quo"te\\')])),
            draw(st.sampled_from([None, (), tuple(daemons[:2])])),
            retain_until_archived=draw(st.booleans()),
            **draw(tunings(SPOOL_SETTINGS, ())),
        ),
    )


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(configs())
def test_a_written_configuration_reads_back_the_same(config: Config) -> None:
    again = parse_config(dump_toml(config))

    assert again == config
    assert cluster_hash(again) == cluster_hash(config)


CONFIG = local_config({"eu": 2, "us": 1}, {("eu", "us"): 40})


def test_an_example_reads_the_same() -> None:
    assert parse_config(dump_toml(CONFIG)) == CONFIG


def test_the_hash_is_the_same_on_every_machine() -> None:
    assert cluster_hash(CONFIG) == 0xEBB45D3A


def test_the_hash_covers_settings_that_must_be_equal() -> None:
    eu, us = CONFIG.sites
    first = eu.daemons[0]
    changed = [
        replace(CONFIG, cluster="other"),
        replace(CONFIG, weights=Weights.MEASURED),
        replace(CONFIG, links=(LinkConfig(("eu", "us"), 41),)),
        replace(CONFIG, links=(LinkConfig(("eu", "us"), 40, LinkProtocol.TCP),)),
        replace(CONFIG, sites=(eu, replace(us, name="usa"))),
        replace(CONFIG, sites=(eu, replace(us, multicast=MulticastConfig("239.0.0.1", 1)))),
        replace(CONFIG, sites=(eu, replace(us, multicast=MulticastConfig("239.0.0.1", 1, ttl=2)))),
        replace(CONFIG, sites=(eu, replace(us, ring=RingTuning(segment_bytes=9_000)))),
        replace(CONFIG, membership=MembershipTuning(window_bytes=1 << 20)),
        replace(CONFIG, membership=MembershipTuning(window_bundles=512)),
        *[
            replace(CONFIG, sites=(replace(eu, daemons=(daemon, *eu.daemons[1:])), us))
            for daemon in (
                replace(first, name="eu0"),
                replace(first, address="127.0.0.2"),
                replace(first, port=first.port + 100),
            )
        ],
    ]

    hashes = {cluster_hash(config) for config in changed}

    assert len(hashes) == len(changed)
    assert cluster_hash(CONFIG) not in hashes


def test_the_hash_leaves_out_settings_that_each_daemon_may_choose() -> None:
    eu, us = CONFIG.sites
    tuned = replace(
        CONFIG,
        links=(LinkConfig(("eu", "us"), 40, tuning=LinkTuning(silence_us=5_000_000)),),
        sites=(
            replace(eu, ring=RingTuning(hold_us=1)),
            replace(us, daemons=(replace(us.daemons[0], client_port=9),)),
        ),
        membership=MembershipTuning(update_delta_us=1_000, window_bytes=2 << 20, window_bundles=1024),
        admin=AdminTuning("/run/{name}.admin", 0o660, (AdminVerb.CUT,)),
        spool=SpoolTuning("spool", ("trades",)),
    )

    assert cluster_hash(tuned) == cluster_hash(CONFIG)


def test_users_and_grants_are_written_as_they_are_read() -> None:
    config = replace(
        CONFIG,
        security=SecurityTuning(audit="audit.jsonl", revoked=("ab" * 32, "01" * 32)),
        clients=ClientTuning(spread_identity="old"),
        users=(UserConfig("anna", "ssh-ed25519 AAAA anna"), UserConfig("", "a.pub", "login", "x")),
        grants=(
            GrantConfig("*", ("a*", 'quo"te'), deny_send=("\\",), priority=False),
            GrantConfig("uid:root", slow=("block",), sessions_max=0, rate_bytes_per_second=125_000),
        ),
    )

    assert parse_config(dump_toml(config)) == config
    assert parse_config(dump_toml(replace(config, grants=()))).grants == ()
    assert cluster_hash(config) == cluster_hash(CONFIG)


def test_a_link_listed_with_default_values_does_not_change_the_hash() -> None:
    listed = local_config({"eu": 1, "us": 1}, {("eu", "us"): 50_000})

    assert cluster_hash(listed) == cluster_hash(local_config({"eu": 1, "us": 1}))


def test_tuning_fits_the_options_of_the_links() -> None:
    hop = {setting.field for setting in LINK_SETTINGS}
    tcp = {setting.field for setting in LINK_SETTINGS if LinkProtocol.TCP in setting.protocols}

    replace(HopOptions(), **dict.fromkeys(hop, 1))
    replace(TcpOptions(), **dict.fromkeys(tcp, 1))
    replace(RingOptions(), **RingTuning(token_loss_us=400_000, hold_us=1).given())
    assert {setting.field for setting in RING_SETTINGS} <= {field.name for field in fields(RingOptions)}
    assert {field.name for field in fields(MembershipTuning)} == {one.field for one in MEMBERSHIP_SETTINGS}
    assert all(getattr(MembershipOptions(), field) == value for field, value in WINDOW_DEFAULTS.items())


def test_the_defaults_behind_an_order_are_those_of_the_links() -> None:
    for options, orders, keys in (
        (HopOptions(), LINK_ORDER, LINK_SETTINGS),
        (TcpOptions(), LINK_ORDER, LINK_SETTINGS),
        (RingOptions(), RING_ORDER, RING_SETTINGS),
        (MembershipOptions(), MEMBERSHIP_ORDER, MEMBERSHIP_SETTINGS),
    ):
        fields = {setting.key: setting.field for setting in keys}
        for order in orders:
            assert getattr(options, fields[order.small]) == order.small_default_us
            assert getattr(options, fields[order.large]) == order.large_default_us
