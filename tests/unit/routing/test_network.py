"""The overlay network at one daemon: its neighbours, what it forwards, and what it refuses."""

from dataclasses import replace

import pytest

from hopring.config import LinkProtocol, LinkTuning, local_config, parse_config
from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, SiteId, SiteMask, mask_of
from hopring.reason import LossFacts, ReasonKind
from hopring.routing.network import (
    Failed,
    FromLink,
    FromRing,
    Input,
    Neighbour,
    Network,
    NetworkFailed,
    Originate,
    ToLink,
    ToRing,
    Up,
)
from hopring.routing.trees import LinkPlan, Topology, topology_of
from hopring.wire.routed import Meta, Routed
from hopring.wire.unreliable import Unreliable

# Three sites of two daemons each, in a chain a - b - c.
A, B, C = (SiteId(at) for at in range(3))
A1, A2, B1, B2, C1, C2 = EVERYBODY = [DaemonId(at) for at in range(6)]
CHAIN = Topology((A, A, B, B, C, C), {(A, B): LinkPlan(10), (B, C): LinkPlan(10), (A, C): LinkPlan(100)})
ALL = mask_of(A, B, C)


def make_network(me: DaemonId, members: list[DaemonId] = EVERYBODY) -> Network:
    return Network(CHAIN, me, members)


def originated(network: Network, fragment: Routed) -> list[ToLink | ToRing]:
    """What the stack sends of an own fragment."""
    part = network.ring_part(fragment)
    return [*network.forward_own(fragment), *([] if part is None else [ToRing(part)])]


def bundle(source: SiteId, mask: SiteMask, index: int = 0, count: int = 1) -> Routed:
    return Routed(source, seq=1, lts=7, mask=mask, index=index, count=count, chunk=b"body")


def test_the_lowest_daemon_of_a_site_represents_it() -> None:
    network = make_network(B2, [C2, B2, B1, A2])

    assert network.representatives == {A: A2, B: B1, C: C2}
    assert (network.sites, network.ring, network.is_representative) == ((A, B, C), (B1, B2), False)


def test_only_a_representative_has_neighbours_and_only_over_links_that_trees_use() -> None:
    assert [one.daemon for one in make_network(A1).neighbours] == [B1]
    assert [one.daemon for one in make_network(B1).neighbours] == [A1, C1]
    assert make_network(B2).neighbours == ()


def test_with_measured_weights_a_representative_has_links_that_no_tree_uses() -> None:
    measured = replace(CHAIN, measured=True)

    assert [one.daemon for one in Network(measured, A1, EVERYBODY).spares] == [C1]
    assert [one.daemon for one in Network(measured, A1, EVERYBODY).neighbours] == [B1]
    assert Network(measured, A1, EVERYBODY, [(A, C)]).spares == ()  # Cut.
    assert Network(measured, A2, EVERYBODY).spares == ()
    assert Network(measured, A1, [A1, B1]).spares == ()
    assert make_network(A1).spares == ()


def test_neighbours_come_with_the_protocol_and_tuning_of_the_configuration() -> None:
    config = parse_config(
        """
        [sites.eu]
        daemons = [{ name = "eu1", address = "10.0.0.1" }]
        [sites.us]
        daemons = [{ name = "us1", address = "10.0.1.1" }]
        [[links]]
        between = ["us", "eu"]
        rate = "8Mbit"
        """
    )

    network = Network(topology_of(config), config.daemon_id("us1"), [DaemonId(0), DaemonId(1)])

    tuning = LinkTuning(rate_bytes_per_second=1_000_000)
    assert network.neighbours == (Neighbour(DaemonId(0), SiteId(0), LinkProtocol.HOP, tuning),)


def test_the_topology_of_a_configuration_has_all_pairs_by_number() -> None:
    config = local_config({"us": 2, "eu": 1}, {("us", "eu"): 7}, protocol=LinkProtocol.TCP)

    topology = topology_of(config)

    assert topology.site_of == (SiteId(0), SiteId(1), SiteId(1))
    assert topology.links == {(SiteId(0), SiteId(1)): LinkPlan(7, LinkProtocol.TCP)}


def test_measured_weights_replace_those_of_the_configuration() -> None:
    network = Network(CHAIN.reweighted({(A, C): 5, (A, B): 6}), A1, EVERYBODY)

    assert [one.daemon for one in network.neighbours] == [B1, C1]
    assert network.trees[A].distance == {A: 0, B: 6, C: 5}


def test_cut_links_are_left_out() -> None:
    network = Network(CHAIN, A1, EVERYBODY, cut=[(A, B)])

    assert [one.daemon for one in network.neighbours] == [C1]


def test_a_daemon_that_comes_or_goes_inside_a_site_leaves_the_trees_alone() -> None:
    full, without = make_network(A1), make_network(A1, [A1, B2, C1, C2])

    assert full.trees == without.trees
    assert [one.site for one in full.neighbours] == [one.site for one in without.neighbours]


def test_what_a_representative_originates_goes_to_its_links_and_its_ring() -> None:
    routed = bundle(A, ALL)

    assert originated(make_network(A1), routed) == [ToLink(B1, routed), ToRing(routed)]


def test_what_another_daemon_originates_goes_to_the_ring_and_from_there_to_the_links() -> None:
    routed = bundle(A, ALL)

    assert originated(make_network(A2), routed) == [ToRing(routed)]
    assert make_network(A1).step(FromRing(routed)) == [ToLink(B1, routed), Up(routed)]


def test_what_comes_from_the_parent_goes_on_to_children_ring_and_up() -> None:
    routed = bundle(A, ALL)

    assert make_network(B1).step(FromLink(A1, routed)) == [ToLink(C1, routed), ToRing(routed), Up(routed)]
    assert make_network(B2).step(FromRing(routed)) == [Up(routed)]


def test_a_branch_without_a_site_of_the_mask_gets_meta_data_once_per_bundle() -> None:
    first, second = (bundle(A, mask_of(A, B), index, count=2) for index in range(2))
    network = make_network(B1)

    assert network.step(FromLink(A1, second)) == [ToRing(second), Up(second)]
    assert network.step(FromLink(A1, first)) == [ToLink(C1, first.meta()), ToRing(first), Up(first)]


def test_a_site_outside_the_mask_gets_meta_data_while_the_body_goes_on() -> None:
    first, second = (bundle(A, mask_of(C), index, count=2) for index in range(2))
    network = make_network(B1)

    assert network.step(FromLink(A1, first)) == [ToLink(C1, first), ToRing(first.meta()), Up(first.meta())]
    assert network.step(FromLink(A1, second)) == [ToLink(C1, second)]


def test_meta_data_is_forwarded_as_it_is() -> None:
    meta = Meta(A, seq=1, lts=7, mask=mask_of(A))

    assert make_network(B1).step(FromLink(A1, meta)) == [ToLink(C1, meta), ToRing(meta), Up(meta)]
    assert make_network(C2).step(FromRing(meta)) == [Up(meta)]


def test_a_source_that_does_not_want_its_own_bundle_shows_the_body_only_to_its_representative() -> None:
    routed = bundle(A, mask_of(C))

    assert originated(make_network(A1), routed) == [ToLink(B1, routed), ToRing(routed.meta())]
    assert originated(make_network(A2), routed) == [ToRing(routed)]
    assert make_network(A1).step(FromRing(routed)) == [ToLink(B1, routed), Up(routed.meta())]


def test_a_bundle_for_nobody_is_all_meta_data() -> None:
    routed = bundle(A, SiteMask(0))

    assert originated(make_network(A2), routed) == [ToRing(routed.meta())]
    assert make_network(A1).step(FromRing(routed.meta())) == [ToLink(B1, routed.meta()), Up(routed.meta())]


def test_a_daemon_alone_at_its_site_has_no_ring_output() -> None:
    routed = bundle(B, ALL)
    network = make_network(B2, [A1, B2, C1])

    assert originated(network, routed) == [ToLink(A1, routed), ToLink(C1, routed)]


def test_a_daemon_alone_in_the_world_sends_nothing() -> None:
    routed = bundle(B, ALL)

    assert originated(make_network(B2, [B2]), routed) == []


def test_forwarders_obey_the_mask_and_ignore_sites_that_are_not_in_the_view() -> None:
    routed = bundle(A, mask_of(A, SiteId(63)))

    assert originated(make_network(A1), routed) == [ToLink(B1, routed.meta()), ToRing(routed)]


META_FOR_ALL = bundle(A, ALL).meta()
STRANGER = SiteId(9)


@pytest.mark.parametrize(
    ("me", "event", "reason"),
    [
        pytest.param(B1, FromLink(C1, bundle(A, ALL)), Drop.FOREIGN_SENDER, id="not from the parent"),
        pytest.param(B1, FromLink(A2, bundle(A, ALL)), Drop.FOREIGN_SENDER, id="not a representative"),
        pytest.param(A1, FromLink(B1, bundle(A, ALL)), Drop.FOREIGN_SENDER, id="claims my own site"),
        pytest.param(B2, FromLink(A1, bundle(A, ALL)), Drop.FOREIGN_SENDER, id="I am no representative"),
        pytest.param(B1, FromLink(A1, bundle(STRANGER, ALL)), Drop.INCONSISTENT, id="site not in the view"),
        pytest.param(B1, FromLink(A1, META_FOR_ALL), Drop.INCONSISTENT, id="body withheld"),
        pytest.param(B1, FromLink(A1, bundle(A, mask_of(A))), Drop.INCONSISTENT, id="body nobody wants"),
        pytest.param(
            B1, FromRing(bundle(A, ALL)), Drop.FOREIGN_SENDER, id="remote bundle on the ring of its bringer"
        ),
        pytest.param(B2, FromRing(bundle(STRANGER, ALL)), Drop.INCONSISTENT, id="stranger on the ring"),
        pytest.param(B2, FromRing(META_FOR_ALL), Drop.INCONSISTENT, id="body withheld on the ring"),
        pytest.param(B2, FromRing(bundle(A, mask_of(C))), Drop.INCONSISTENT, id="body not for this ring"),
        pytest.param(A1, FromRing(META_FOR_ALL), Drop.INCONSISTENT, id="nothing to forward"),
    ],
)
def test_invalid_input_is_refused_and_changes_nothing(me: DaemonId, event: Input, reason: Drop) -> None:
    network = make_network(me)

    with pytest.raises(PeerError) as refused:
        network.step(event)

    assert refused.value.reason == reason
    assert network == make_network(me)


def test_after_a_failure_nothing_comes_out_any_more() -> None:
    network = make_network(B1)

    silent = "link to C1 is silent", ReasonKind.LINK, LossFacts(DaemonId(3), 1_200_000, True)
    assert network.step(Failed(*silent)) == [NetworkFailed(*silent)]

    assert network.step(Failed("again")) == []
    assert network.forward_own(bundle(B, ALL)) == []
    assert network.step(Originate(loose(B, ALL))) == []
    assert network.step(FromLink(A1, bundle(A, ALL))) == []
    assert network.step(FromRing(bundle(B, ALL))) == []
    assert network.failure == "link to C1 is silent"


def test_a_view_that_is_not_connected_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="membership leaves out"):
        Network(CHAIN, A1, EVERYBODY, cut=[(A, B), (A, C)])


def loose(source: SiteId, mask: SiteMask) -> Unreliable:
    return Unreliable(source, DaemonId(9), 1, mask, 0, 1, b"body")


def test_an_unreliable_fragment_goes_to_the_mask_without_meta_data_elsewhere() -> None:
    assert make_network(A1).step(Originate(loose(A, mask_of(C)))) == [ToLink(B1, loose(A, mask_of(C)))]
    assert make_network(A1).step(Originate(loose(A, mask_of(A)))) == [ToRing(loose(A, mask_of(A)))]
    assert make_network(A2).step(Originate(loose(A, ALL))) == [ToRing(loose(A, ALL))]
    # b has no daemon in the mask: its representative forwards it, and its ring does not get it.
    assert make_network(B1).step(FromLink(A1, loose(A, mask_of(C)))) == [ToLink(C1, loose(A, mask_of(C)))]
    assert make_network(C1).step(FromLink(B1, loose(A, ALL))) == [ToRing(loose(A, ALL)), Up(loose(A, ALL))]
    assert make_network(A1).step(FromRing(loose(A, mask_of(C)))) == [ToLink(B1, loose(A, mask_of(C)))]
    assert make_network(A2).step(FromRing(loose(A, mask_of(C)))) == []


def test_an_unreliable_fragment_from_a_wrong_neighbour_is_refused() -> None:
    with pytest.raises(PeerError) as caught:
        make_network(C1).step(FromLink(B1, loose(A, mask_of(B))))
    assert caught.value.reason is Drop.INCONSISTENT
    with pytest.raises(PeerError) as caught:
        make_network(C1).step(FromLink(B1, loose(C, ALL)))
    assert caught.value.reason is Drop.FOREIGN_SENDER
