"""Valid configurations are read with all their settings."""

from pathlib import Path

import pytest

from hopring.config import (
    ClientRight,
    ClientTuning,
    Config,
    ConfigError,
    Daemon,
    LinkConfig,
    LinkProtocol,
    LinkTuning,
    MulticastConfig,
    RingTuning,
    Site,
    SpreadSlow,
    Weights,
    dump_toml,
    load_config,
    parse_config,
)
from hopring.ids import DaemonId, SiteId

FULL = """
cluster = "trading"
weights = "measured"
mesh = false
default_weight = "30ms"
default_protocol = "tcp"

[sites.us]
daemons = [{ name = "anna", address = "10.0.1.1", port = 4900, client_port = 4901 }]

[sites.eu]
multicast = { group = "239.1.2.3", port = 4910, ttl = 3 }
ring = { token_loss = "0.5s", personal_window = 100 }

[[sites.eu.daemons]]
name = "zoe"
address = "10.0.0.2"

[[sites.eu.daemons]]
name = "bert"
address = "10.0.0.1"

[[links]]
between = ["us", "eu"]
weight = 40
protocol = "hop"
rate = "20Mbit/s"
window = "1MiB"
segment = "1400B"
silence = "3s"
nacks_max = 5
"""


def test_a_full_configuration_is_read_as_written_and_sorted_by_name() -> None:
    assert parse_config(FULL) == Config(
        cluster="trading",
        sites=(
            Site(
                name="eu",
                daemons=(Daemon("bert", "10.0.0.1"), Daemon("zoe", "10.0.0.2")),
                multicast=MulticastConfig("239.1.2.3", 4910, ttl=3),
                ring=RingTuning(token_loss_us=500_000, personal_window_segments=100),
            ),
            Site(name="us", daemons=(Daemon("anna", "10.0.1.1", 4900, 4901),)),
        ),
        links=(
            LinkConfig(
                sites=("eu", "us"),
                weight=40,
                protocol=LinkProtocol.HOP,
                tuning=LinkTuning(
                    rate_bytes_per_second=2_500_000,
                    window_bytes=1_048_576,
                    segment_bytes=1400,
                    silence_us=3_000_000,
                    nacks_max=5,
                ),
            ),
        ),
        mesh=False,
        default_weight=30_000,
        default_protocol=LinkProtocol.TCP,
        weights=Weights.MEASURED,
    )


def test_numbers_are_places_in_the_sorted_lists() -> None:
    config = parse_config(FULL)

    assert [daemon.name for daemon in config.daemons] == ["anna", "bert", "zoe"]
    assert config.site_of == (SiteId(1), SiteId(0), SiteId(0))
    assert (config.daemon_id("bert"), config.site_id("us")) == (DaemonId(1), SiteId(1))


def test_everything_but_sites_and_daemons_has_a_default() -> None:
    config = parse_config('[sites.eu]\ndaemons = [{ name = "a", address = "::1" }]')

    assert config == Config(cluster="hopring", sites=(Site("eu", (Daemon("a", "::1", 4892),)),))
    assert (config.mesh, config.weights, config.default_weight) == (True, Weights.FIXED, 50_000)


def test_in_a_mesh_every_pair_that_is_not_listed_is_a_link_by_default() -> None:
    config = parse_config(
        """
        default_weight = 7
        sites.a.daemons = [{ name = "a1", address = "10.0.0.1" }]
        sites.b.daemons = [{ name = "b1", address = "10.0.0.2" }]
        sites.c.daemons = [{ name = "c1", address = "10.0.0.3" }]
        links = [{ between = ["c", "a"], weight = 3 }]
        """
    )

    assert config.all_links == (LinkConfig(("a", "b"), 7), LinkConfig(("a", "c"), 3), LinkConfig(("b", "c"), 7))


def test_addresses_are_kept_in_their_usual_spelling() -> None:
    config = parse_config('[sites.eu]\ndaemons = [{ name = "a", address = "2001:DB8:0:0::1" }]')

    assert config.daemons[0].address == "2001:db8::1"


def test_a_listed_link_takes_the_default_protocol_and_weight() -> None:
    config = parse_config(
        """
        default_weight = 9
        default_protocol = "tcp"
        sites.a.daemons = [{ name = "a1", address = "10.0.0.1" }]
        sites.b.daemons = [{ name = "b1", address = "10.0.0.2" }]
        links = [{ between = ["a", "b"], heartbeat = "100ms" }]
        """
    )

    assert config.links == (LinkConfig(("a", "b"), 9, LinkProtocol.TCP, LinkTuning(heartbeat_us=100_000)),)


def test_a_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "hop.toml"
    path.write_text(FULL)

    assert load_config(path) == load_config(str(path)) == parse_config(FULL)


def test_an_absent_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^nowhere/hop\.toml: cannot be read .*; check the path"):
        load_config("nowhere/hop.toml")


def test_a_file_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "hop.toml"
    path.write_bytes(b'cluster = "x"\n# \xff\n')

    with pytest.raises(ConfigError, match=r"hop\.toml:2: not UTF-8"):
        load_config(path)


def test_a_file_that_is_far_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hop.toml"
    path.write_bytes(b"#" * (4 * 2**20 + 1))

    with pytest.raises(ConfigError, match="larger than 4194304 bytes"):
        load_config(path)


SPREAD = """
[clients]
allow = ["priority", "block"]
spread_backlog = 5000
spread_slow = "drop"
spread_access = ["10.0.0.0/8", "2001:db8::/32"]

[sites.us]
daemons = [{ name = "anna", address = "10.0.1.1", spread_port = 4803 }]

[sites.eu]
daemons = [{ name = "zoe", address = "10.0.0.2" }, { name = "bert", address = "10.0.0.1" }]
"""


def test_settings_for_spread_clients_are_read() -> None:
    config = parse_config(SPREAD)

    assert [one.spread_port for one in config.daemons] == [4803, None, None]
    assert config.clients == ClientTuning(
        allow=(ClientRight.BLOCK, ClientRight.PRIORITY),
        spread_messages_max=5000,
        spread_slow=SpreadSlow.DROP,
        spread_access=("10.0.0.0/8", "2001:db8::/32"),
    )


def test_daemons_have_an_order_in_the_file_and_keep_it_when_it_is_written() -> None:
    for config in (parse_config(SPREAD), parse_config(dump_toml(parse_config(SPREAD)))):
        assert [config.daemons[at].name for at in config.order] == ["anna", "zoe", "bert"]
