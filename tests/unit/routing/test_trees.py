"""Shortest-path trees: correct, the same at every daemon, and of the shapes in the papers."""

from itertools import pairwise
from random import Random

import networkx as nx
import pytest

from hopring.ids import SITES_MAX, SiteId, SiteMask, mask_of
from hopring.routing.trees import Branch, Pair, Tree, build_trees, edges_used, islands, pair

Weights = dict[Pair, int]

MAE_EAST, UCSB, OSU, RUTGERS, CNDS, HOPKINS = SIX = [SiteId(at) for at in range(6)]


def full_mesh(sites: list[SiteId], weight: int) -> Weights:
    return {(one, other): weight for one in sites for other in sites if one < other}


def random_graph(random: Random, sites_max: int) -> tuple[list[SiteId], Weights]:
    """Any graph: sparse or full, with many equal weights or few, on scattered site ids, often in pieces."""
    count = random.randint(1, sites_max)
    sites = sorted([SiteId(site) for site in random.sample(range(SITES_MAX), count)])
    density = random.choice([0.05, 0.2, 0.5, 1.0])
    heaviest = random.choice([1, 3, 100, 1_000_000])
    return sites, {
        ends: random.randint(1, heaviest) for ends in full_mesh(sites, 1) if random.random() < density
    }


def path(tree: Tree, site: SiteId) -> list[SiteId]:
    """The path from a site up to the source; fails on a loop."""
    steps = [site]
    while steps[-1] != tree.source:
        steps.append(tree.parent[steps[-1]])
        assert len(steps) <= SITES_MAX
    return steps


def check_is_tree(tree: Tree) -> None:
    reached = sorted(tree.distance)
    assert tree.reached == mask_of(*reached)
    assert sorted([tree.source, *tree.parent]) == reached
    children = [branch for site in reached for branch in tree.branches(site)]
    assert sorted([branch.site for branch in children]) == sorted(tree.parent)
    for branch in children:
        assert branch.below == mask_of(*[site for site in reached if branch.site in path(tree, site)])


def check_against_networkx(sites: list[SiteId], weights: Weights, sources: list[SiteId]) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(sites)
    graph.add_weighted_edges_from([(one, other, weight) for (one, other), weight in weights.items()])
    trees = build_trees(sites, weights)
    for source in sources:
        assert trees[source].distance == nx.single_source_dijkstra_path_length(graph, source)
        for site in trees[source].distance:
            steps = path(trees[source], site)
            assert trees[source].distance[site] == sum(weights[pair(a, b)] for a, b in pairwise(steps))


def test_distances_are_those_of_networkx() -> None:
    for seed in range(100):
        sites, weights = random_graph(Random(seed), sites_max=12)
        check_against_networkx(sites, weights, sources=sites)


@pytest.mark.slow
def test_distances_are_those_of_networkx_on_a_thousand_graphs() -> None:
    for seed in range(1_000):
        random = Random(seed)
        sites, weights = random_graph(random, sites_max=SITES_MAX)
        check_against_networkx(sites, weights, sources=random.sample(sites, min(3, len(sites))))


def test_every_site_is_in_each_tree_once() -> None:
    for seed in range(50):
        sites, weights = random_graph(Random(seed), sites_max=16)
        for tree in build_trees(sites, weights).values():
            check_is_tree(tree)


def test_everybody_computes_the_same_trees_whatever_the_order_of_the_tables() -> None:
    for seed in range(50):
        random = Random(seed)
        sites, weights = random_graph(random, sites_max=16)
        trees = build_trees(sites, weights)
        links = list(weights.items())
        random.shuffle(links)
        random.shuffle(sites)
        assert build_trees(sites, dict(links)) == trees


def test_ties_fall_as_documented() -> None:
    for seed in range(50):
        sites, weights = random_graph(Random(seed), sites_max=12)
        lengths = {ends: weight * 1_000 + 1 for ends, weight in weights.items()}
        graph = nx.Graph()
        graph.add_nodes_from(sites)
        graph.add_weighted_edges_from([(*ends, length) for ends, length in lengths.items()])
        for source, tree in build_trees(sites, weights).items():
            length = nx.single_source_dijkstra_path_length(graph, source)
            for site, parent in tree.parent.items():
                ways = [via for via in graph[site] if length[via] + lengths[pair(via, site)] == length[site]]
                assert parent == min(ways)


def test_of_equal_distances_the_one_with_fewer_links_wins() -> None:
    a, b, c = SIX[:3]

    trees = build_trees([a, b, c], {(a, b): 1, (b, c): 1, (a, c): 2})

    assert trees[a].parent == {b: a, c: a}


def test_of_equal_paths_the_one_through_the_lowest_parent_wins() -> None:
    a, b, c, d = SIX[:4]

    trees = build_trees([a, b, c, d], {(a, b): 1, (a, c): 1, (b, d): 1, (c, d): 1})

    assert trees[a].parent == {b: a, c: a, d: b}
    assert trees[d].parent == {b: d, c: d, a: b}


def test_equal_weights_make_a_fan_out() -> None:
    trees = build_trees(SIX, full_mesh(SIX, 10))

    for source, tree in trees.items():
        assert tree.branches(source) == tuple([Branch(site, mask_of(site)) for site in SIX if site != source])
    assert edges_used(trees) == set(full_mesh(SIX, 1))


def test_one_cheap_tree_is_shared_by_all_sources() -> None:
    shared = {(MAE_EAST, UCSB), (MAE_EAST, OSU), (MAE_EAST, RUTGERS), (RUTGERS, CNDS), (CNDS, HOPKINS)}

    trees = build_trees(SIX, full_mesh(SIX, 100) | dict.fromkeys(shared, 10))

    assert edges_used(trees) == shared
    assert trees[UCSB].branches(MAE_EAST) == (
        Branch(OSU, mask_of(OSU)),
        Branch(RUTGERS, mask_of(RUTGERS, CNDS, HOPKINS)),
    )
    assert trees[HOPKINS].branches(MAE_EAST) == (Branch(UCSB, mask_of(UCSB)), Branch(OSU, mask_of(OSU)))


def test_cheap_links_in_a_row_make_the_chain_of_the_latency_test() -> None:
    chain = set(pairwise(SIX))

    trees = build_trees(SIX, full_mesh(SIX, 1_000) | dict.fromkeys(chain, 10))

    assert edges_used(trees) == chain
    assert path(trees[MAE_EAST], HOPKINS) == [HOPKINS, CNDS, RUTGERS, OSU, UCSB, MAE_EAST]


def test_a_source_has_its_own_tree_where_weights_differ() -> None:
    weights = full_mesh(SIX, 10) | {(UCSB, site): 60 for site in SIX[2:]} | {(MAE_EAST, UCSB): 40}

    trees = build_trees(SIX, weights)

    assert trees[CNDS].branches(CNDS) == (
        Branch(MAE_EAST, mask_of(MAE_EAST, UCSB)),
        *[Branch(site, mask_of(site)) for site in (OSU, RUTGERS, HOPKINS)],
    )
    assert [branch.site for branch in trees[UCSB].branches(UCSB)] == [MAE_EAST]


def test_a_cut_link_is_routed_around() -> None:
    trees = build_trees(SIX, full_mesh(SIX, 10), cut={(CNDS, HOPKINS)})

    assert (CNDS, HOPKINS) not in edges_used(trees)
    assert trees[CNDS].parent[HOPKINS] == MAE_EAST
    assert trees[CNDS].distance[HOPKINS] == 20
    assert islands(trees) == (mask_of(*SIX),)


def test_sites_that_cannot_be_reached_are_reported_as_islands() -> None:
    west, east = {MAE_EAST, UCSB}, {OSU, RUTGERS, CNDS, HOPKINS}
    between = {pair(one, other) for one in west for other in east}

    trees = build_trees(SIX, full_mesh(SIX, 10), cut=between)

    assert islands(trees) == (mask_of(*west), mask_of(*east))
    assert trees[UCSB].reached == mask_of(*west)
    assert OSU not in trees[UCSB].parent


def test_absent_sites_are_on_no_path() -> None:
    chain = dict.fromkeys(pairwise(SIX), 10)

    trees = build_trees([MAE_EAST, UCSB, RUTGERS], full_mesh(SIX, 1_000) | chain)

    assert set(trees) == {MAE_EAST, UCSB, RUTGERS}
    assert path(trees[MAE_EAST], RUTGERS) == [RUTGERS, MAE_EAST]


def test_a_single_site_has_a_tree_without_branches() -> None:
    (tree,) = build_trees([OSU], {}).values()

    assert (tree.reached, tree.branches(OSU), edges_used({OSU: tree})) == (mask_of(OSU), (), frozenset())


def test_no_sites_have_no_trees() -> None:
    assert build_trees([], {}) == {}
    assert islands({}) == ()


def test_masks_hold_the_highest_site() -> None:
    low, high = SiteId(0), SiteId(SITES_MAX - 1)

    trees = build_trees([low, high], {(low, high): 1})

    assert trees[low].branches(low) == (Branch(high, SiteMask(1 << 63)),)


def test_weights_at_the_limit_do_not_overflow_into_each_other() -> None:
    sites = [SiteId(site) for site in range(SITES_MAX)]
    chain = dict.fromkeys(pairwise(sites), 2**32 - 1)

    tree = build_trees(sites, chain)[sites[0]]

    assert tree.distance[sites[-1]] == 63 * (2**32 - 1)
    assert tree.parent == {site: SiteId(site - 1) for site in sites[1:]}
