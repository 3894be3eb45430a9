"""Configurations of clusters on one machine."""

import pytest

from hopring.config import ConfigError, Daemon, LinkConfig, LinkProtocol, Site, local_config


def test_daemons_are_named_by_site_and_number_with_two_ports_each() -> None:
    config = local_config({"eu": 2, "us": 1}, base_port=5_000)

    assert config.sites == (
        Site("eu", (Daemon("eu1", "127.0.0.1", 5000, 5001), Daemon("eu2", "127.0.0.1", 5002, 5003))),
        Site("us", (Daemon("us1", "127.0.0.1", 5004, 5005),)),
    )


def test_links_have_a_weight_or_a_delay() -> None:
    config = local_config(
        {"a": 1, "b": 1, "c": 1}, {("a", "b"): 7, ("c", "a"): "40ms"}, protocol=LinkProtocol.TCP
    )

    assert config.links == (
        LinkConfig(("a", "b"), 7, LinkProtocol.TCP),
        LinkConfig(("a", "c"), 40_000, LinkProtocol.TCP),
    )


@pytest.mark.parametrize(
    ("sites", "links", "base_port", "message"),
    [
        ({}, {}, 5_000, "local cluster: there are no sites; "),
        ({"eu": 0}, {}, 5_000, "local cluster: sites.eu: site eu has no daemons; "),
        ({"eu": 2}, {}, 65_533, "65535 and the next are not ports; choose a lower base_port"),
        ({"eu": 1}, {("eu", "us"): 1}, 5_000, "there is no site 'us'; "),
        ({"eu": 1, "us": 1}, {("eu", "us"): 0}, 5_000, "0 is not a weight; "),
        ({"eu": 1, "us": 1}, {("eu", "us"): "soon"}, 5_000, "'soon' is not a duration; "),
        ({"e": 11, "e1": 1}, {}, 5_000, "daemon e11 exists already at "),
    ],
)
def test_mistakes_are_config_errors(
    sites: dict[str, int], links: dict[tuple[str, str], int | str], base_port: int, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        local_config(sites, links, base_port)

    assert message in str(refused.value)
