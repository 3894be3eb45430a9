"""Plans of clusters, and requests that cannot be fulfilled."""

import pytest

from hopring.config import ConfigError, LinkProtocol
from hopring.local.aio import local_cluster
from hopring.local.plan import ClusterPlan, daemons_of, sides_of, with_ports


def plan() -> ClusterPlan:
    return ClusterPlan(
        {"eu": 2, "us": 2, "ap": 1}, {("us", "eu"): "40ms"}, patience="3s", protocol=LinkProtocol.TCP
    )


def test_all_sites_are_linked_with_long_timeouts_and_weights_equal_to_their_delays() -> None:
    config = plan().config()

    assert [(link.sites, link.weight) for link in config.links] == [
        (("ap", "eu"), 1_000),
        (("ap", "us"), 1_000),
        (("eu", "us"), 40_000),
    ]
    assert {link.tuning.silence_us for link in config.links} == {3_000_000}
    assert {link.protocol for link in config.links} == {LinkProtocol.TCP}
    assert {site.ring.token_loss_us for site in config.sites} == {3_000_000}
    assert {site.multicast for site in config.sites} == {None}


def test_a_daemon_may_have_another_port_for_clients() -> None:
    config = with_ports(plan().config(), "us2", client_port=4893)

    assert [one.name for one in config.daemons if one.client_port == 4893] == ["us2"]


def test_names_mean_sites_or_daemons() -> None:
    config = plan().config()

    assert daemons_of(config, "eu") == ["eu1", "eu2"]
    assert daemons_of(config, ["us2", "eu", "eu1"]) == ["eu1", "eu2", "us2"]
    with pytest.raises(ValueError, match="did you mean us1"):
        daemons_of(config, "us11")


def test_daemons_that_are_not_named_form_another_side() -> None:
    config = plan().config()

    assert sides_of(config, [{"eu"}]) == [{"eu1", "eu2"}, {"ap1", "us1", "us2"}]
    assert sides_of(config, ["eu1", {"eu2", "us"}]) == [{"eu1"}, {"eu2", "us1", "us2"}, {"ap1"}]
    assert sides_of(config, []) == [{"ap1", "eu1", "eu2", "us1", "us2"}]
    with pytest.raises(ValueError, match="eu1 would be on two sides"):
        sides_of(config, ["eu", "eu1"])


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"patience": "100ms"}, "at least 500ms"),
        ({"patience": "soon"}, "is not a duration"),
        ({"links": {("eu", "us"): "far"}}, 'write it as "200ms"'),
    ],
)
def test_impossible_requests_are_refused_with_a_remedy(wishes: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ClusterPlan({"eu": 1, "us": 1}, **wishes).config()  # type: ignore[arg-type]


def test_a_link_to_an_unknown_site_is_refused() -> None:
    with pytest.raises(ConfigError, match="as"):
        ClusterPlan({"eu": 1, "us": 1}, {("eu", "as"): "1ms"}).config()


def test_using_a_cluster_that_was_not_started_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="context manager"):
        local_cluster().url("local1")
