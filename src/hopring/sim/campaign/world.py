"""The world that a seed stands for: daemons, network, load and fault schedule, all drawn before the run."""

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from hopring.config.builder import local_config
from hopring.config.model import Config, LinkConfig, LinkProtocol, LinkTuning, Weights
from hopring.links.ring.options import RingOptions
from hopring.membership.options import REFUSALS_MAX, MembershipOptions
from hopring.services import Service
from hopring.sim.campaign.fault_schedule import (
    CHAOS_US,
    DAEMONS_MIN,
    Fault,
    FaultTargets,
    draw_lasting,
    draw_relapses,
    draw_schedule,
    draw_shuffle,
)
from hopring.sim.engine import generator
from hopring.sim.faulty_daemon import FaultyPlan
from hopring.sim.path import Quality
from hopring.stack_events import StackOptions

SITES: Final = ("ams", "ber", "cai", "del", "edi")
HOP, TCP = LinkProtocol.HOP, LinkProtocol.TCP

# Timers scaled to a world of five seconds.
LINK: Final = LinkTuning(
    silence_us=250_000, heartbeat_us=60_000, initial_round_trip_us=20_000, lazy_us=4_000, nacks_max=12
)


def targets_of(config: Config) -> FaultTargets:
    """The daemons and sites that faults can strike."""
    return FaultTargets(
        daemons=tuple(daemon.name for daemon in config.daemons),
        sites=tuple(site.name for site in config.sites),
        first=tuple(site.daemons[0].name for site in config.sites),
    )


def draw_sites(dice: Random, protocols: Random) -> Config:
    """One to four sites, two to nine daemons, random weights: a route may lead through another site."""
    site_count = dice.randint(1, 4)
    counts = dict.fromkeys(SITES[:site_count], 1)
    for _ in range(dice.randint(max(0, 2 - site_count), 9 - site_count)):
        counts[dice.choice(sorted(counts))] += 1
    return _draw_links(dice, protocols, counts, (1, 9))


def draw_small_sites(dice: Random, protocols: Random) -> Config:
    """Sites for relapses: the direct link is always the shortest route, so losses affect one site alone."""
    counts = dict.fromkeys(SITES[: dice.choice([3, 4, 5, 5])], 1)
    for _ in range(dice.randint(max(0, DAEMONS_MIN - len(counts)), 2)):
        counts[dice.choice(sorted(counts))] += 1
    return _draw_links(dice, protocols, counts, (4, 7))


def _draw_links(dice: Random, protocols: Random, counts: dict[str, int], weights: tuple[int, int]) -> Config:
    names = sorted(counts)
    config = local_config(counts)
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    share = 0.5 if protocols.random() < 0.15 else 0.0
    links: list[LinkConfig] = []
    for ends in pairs:
        protocol = TCP if protocols.random() < share else HOP
        links.append(LinkConfig(ends, dice.randint(*weights) * 1_000, protocol, tuning=LINK))
    return Config(config.cluster, config.sites, tuple(links))


DRAW: Final = 4
"""Changes whenever a seed comes to mean another world; `tests/seeds.txt` says of which draw its seeds are."""

FAULTY: Final = (0, 4)
"""Remainder and divisor of the seeds whose sealed worlds have a faulty daemon."""

HEALED_US: Final = 2_000_000
TCP_BACK_OFF_US: Final = 1_400_000
REST_US: Final = 200_000
"""The longest time that the messages of a view need, where each site is one link away from all others."""

GROUPS_REST_US: Final = 600_000
"""The extra time of a world with clients: a join takes a Safe message and an Agreed one after the view."""

RELAPSES: Final = (5, 8)
"""The seeds that draw relapses instead of faults of all kinds: those with this remainder by that number."""

MEASURED: Final = (0, 10)
"""The seeds whose worlds have measured weights, and paths with different and changing delays."""

DISKS: Final = (4, 5)
"""The seeds whose daemons have disks, and so may found a primary view before all of them are there."""

MARK_US: Final = 2_000
MEASURE_US: Final = 10_000
PATHS_CHANGE_US: Final = (0, CHAOS_US // 3, 2 * CHAOS_US // 3)
NEARNESS: Final = (5, 2, 1)
"""The delay of such a path is the maximum delay between sites divided by one of these."""

# Timers scaled to a world of five seconds.
RING: Final = RingOptions(
    token_loss_us=130_000,
    token_resend_us=15_000,
    hold_us=60_000,
    hurry_resend_us=8_000,
    asked_visits_max=400,
    free_rotation_us=0,
    lone_visit_us=2_000,
)
MEMBERSHIP: Final = MembershipOptions(
    alive_us=12_000,
    seg_us=35_000,
    join_us=20_000,
    gather_us=50_000,
    represented_us=150_000,
    statetrans_us=150_000,
    newmemb_us=25_000,
    probe_us=200_000,
    update_delta_us=8_000,
    update_floor_us=250_000,
    round_trip_us=20_000,
    flap_us=200_000,
    back_off_us=100_000,
    back_off_us_max=250_000,
)
STACK: Final = StackOptions(ring=RING)

GROUPS: Final = ("red", "green", "blue", "pink", "grey")
ALL: Final = tuple(Service)
MOSTLY_SAFE: Final = (*ALL, *[Service.SAFE] * 5)
SMALL: Final = (10, 10, 100, 100, 1_000, 3_000)
LARGE: Final = (10, 10, 100, 100, 100, 100, 1_000, 20_000, 20_000, 60_000)


@dataclass(frozen=True, slots=True)
class Load:
    """Messages that daemons send during the run."""

    per_second: int  # Of all daemons together, until the heal; a third of it for a second after.
    burst: int = 0  # Additional messages just before each break.
    services: tuple[Service, ...] = ALL
    sizes: tuple[int, ...] = SMALL
    sessions: int = 1  # At each daemon.


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """Clients of the daemons: sessions that connect, join, send to groups and end."""

    groups: tuple[str, ...]
    sessions: int = 2  # The usual number at each daemon.
    changes: float = 0.3  # The share of joins, leaves and ends; the rest are messages.
    linger_us: int = 120_000_000  # Of interest without members.
    groups_bytes_max: int = 48 * 1024  # Of one part of GROUPS.


@dataclass(frozen=True, slots=True)
class PathDelay:
    """The delay of the path between two sites, from this moment on."""

    at_us: int
    sites: tuple[str, str]
    delay_us: int


@dataclass(frozen=True, slots=True)
class SimWorld:
    """Everything that a seed decides."""

    seed: int
    config: Config
    quality: Quality
    wide_delay_us: int  # Between sites, at most.
    load: Load
    schedule: tuple[Fault, ...]
    starts_us: tuple[tuple[str, int], ...] = ()  # Daemons that start later than the others.
    lasting: tuple[Fault, ...] = ()  # Cuts that remain after the heal.
    membership: MembershipOptions = MEMBERSHIP
    stack: StackOptions = STACK
    clients: ClientLoad | None = None  # None: the daemons send the load themselves.
    paths: tuple[PathDelay, ...] = ()  # Paths whose delay differs from the others'.
    sealed: bool = False  # Datagrams are sealed, and an attacker without the key is on the network.
    faulty: FaultyPlan | None = None  # A daemon that has the key and sends wrong packets.
    mark_us: int | None = None  # How long disks take to write a mark; None: daemons have no disks.
    resilient: bool = False  # Messages ask for holders.
    blocks: tuple[str, ...] = ()  # Kinds of agents.
    agents: int = 0  # Of each kind.

    @property
    def settle_us(self) -> int:
        """The time after the heal within which all daemons share a view: T in docs/campaign.md."""
        options = self.membership
        wide_us = self.wide_delay_us if len(self.config.sites) > 1 else 0
        there_us = max(wide_us, self.quality.delay_us) + self.quality.jitter_us
        # Half as much again as the least that was measured, or the guess if nothing was.
        round_trip_us = max(options.round_trip_us, 3 * there_us)
        search_us = options.seg_us + options.gather_us + 2 * round_trip_us
        exchange_us = 4 * (there_us + self._detour_us)
        attempt_us = self._detect_us + search_us + exchange_us
        # After lies, members that contradict each other fail and leave each other out before they end alone.
        refused_us = 0 if self.faulty is None else REFUSALS_MAX * (attempt_us + options.back_off_us_max)
        return 2 * attempt_us + refused_us + options.probe_us + options.back_off_us_max + self._tcp_us

    @property
    def healed_us(self) -> int:
        """How long the world lasts after the heal: two seconds, or until convergence can be judged."""
        return max(HEALED_US, self.settle_us + self.rest_us) + (0 if self.clients is None else GROUPS_REST_US)

    @property
    def rest_us(self) -> int:
        """The end counts as quiet if all daemons share a view this long before it."""
        return REST_US + 3 * self._detour_us

    @property
    def _detour_us(self) -> int:
        """How much longer than the direct route a route through the trees may be.

        Weights that were measured before paths changed may lead over all other sites.
        """
        return (len(self.config.sites) - 2) * self.wide_delay_us if self.paths else 0

    @property
    def _tcp_us(self) -> int:
        """Extra time where a link is TCP: it retransmits after 200 ms, then 400 ms, then 800 ms."""
        return TCP_BACK_OFF_US if any(link.protocol is LinkProtocol.TCP for link in self.config.links) else 0

    @property
    def _detect_us(self) -> int:
        """The time to detect a dead link: up to four times its silence if it is slow or has late duplicates."""
        token_loss_us = self.stack.ring.token_loss_us
        silences_us = [link.tuning.silence_us or 0 for link in self.config.links]
        if not silences_us:
            return token_loss_us
        slow_us = 16 * (self.wide_delay_us + self.quality.jitter_us)
        patience_us = 4 * max(silences_us) if self.quality.duplicate_delay_us else slow_us
        return max(token_loss_us, *silences_us, min(patience_us, 4 * max(silences_us)))


DAEMONS_WORLD: Final = "daemons"
RMP_WORLD: Final = "rmp"
WIDE_WORLD: Final = "wide"
DEPLOYMENT_WORLD: Final = "deployment"


@dataclass(frozen=True, slots=True)
class WorldKind:
    """What is added to the daemons and paths that a seed draws; or another world than that of daemons."""

    clients: bool = False
    sealed: bool = False  # Cluster keys, and an attacker who has none.
    blocks: tuple[str, ...] = ()  # Clients, and agents of some of these kinds.
    resilient: bool = False  # Messages ask for holders.
    world: str = DAEMONS_WORLD

    @property
    def calls(self) -> bool:
        """Whether its agents call each other, and do nothing else."""
        return self.blocks == CALLS_ONLY

    @property
    def options(self) -> str:
        """The options of `hop sim` for it."""
        if self.world != DAEMONS_WORLD:
            return f" --world {self.world}"
        blocks = " --calls" if self.calls else f" --blocks {','.join(self.blocks)}"
        more = " --sealed" * self.sealed + " --resilient" * self.resilient
        return (blocks if self.blocks else " --clients" * self.clients) + more


PLAIN: Final = WorldKind()
PEERS_OF_RMP: Final = WorldKind(world=RMP_WORLD)
WITH_CLIENTS: Final = WorldKind(clients=True)
CALLS_ONLY: Final = ("calls",)
WITH_CALLS: Final = WorldKind(clients=True, blocks=CALLS_ONLY)
AGENTS: Final = (2, 4, 6)
LOCKING: Final = frozenset({"locks", "handlers"})
"""Kinds of agents that use locks."""

BLOCKS_MAX: Final = 3
"""The most kinds of agents in one world."""


def draw_world(seed: int, kind: WorldKind = PLAIN) -> SimWorld:
    """The world of a seed; all kinds of it have the same daemons and paths."""
    clients = kind.clients or bool(kind.blocks)
    world = replace(
        _draw_daemons(seed),
        sealed=kind.sealed,
        resilient=kind.resilient,
        mark_us=MARK_US if _has(DISKS, seed) else None,
    )
    if _has(MEASURED, seed):
        world = _with_measured_weights(world)
    if kind.sealed and _has(FAULTY, seed):
        world = _with_faulty_daemon(world, clients)
    if clients:
        world = _with_clients(world)
    return _with_agents(world, kind.blocks) if kind.blocks else world


def _with_agents(world: SimWorld, kinds: tuple[str, ...]) -> SimWorld:
    """Agents of some of these kinds, in addition to the other clients, whose load is small then."""
    assert world.clients is not None, "a world with clients"
    dice = generator(world.seed, "blocks")
    blocks = tuple(sorted(dice.sample(kinds, dice.randint(1, min(BLOCKS_MAX, len(kinds))))))
    agents = generator(world.seed, "agents").choice(AGENTS)
    clients = replace(world.clients, sessions=1)
    load = replace(world.load, per_second=10, sizes=SMALL)
    # Without disks, no place in the chain of primary views is sure, and no lock is granted.
    mark_us = MARK_US if LOCKING.intersection(blocks) else world.mark_us
    return replace(world, blocks=blocks, agents=agents, clients=clients, load=load, mark_us=mark_us)


def _with_faulty_daemon(world: SimWorld, clients: bool) -> SimWorld:
    dice = generator(world.seed, "which daemon is faulty")
    name = dice.choice(targets_of(world.config).daemons)
    return replace(world, faulty=FaultyPlan(name, dice.choice([5, 10, 20]), CHAOS_US, clients))


def _with_measured_weights(world: SimWorld) -> SimWorld:
    """Every path has a delay of its own, which changes twice: so do the shortest routes."""
    dice = generator(world.seed, "paths")
    paths = [
        PathDelay(at_us, link.sites, world.wide_delay_us // dice.choice(NEARNESS))
        for at_us in PATHS_CHANGE_US
        for link in world.config.links
    ]
    config = replace(world.config, weights=Weights.MEASURED)
    membership = replace(world.membership, measure_us=MEASURE_US)
    return replace(world, config=config, membership=membership, paths=tuple(paths))


def _with_clients(world: SimWorld) -> SimWorld:
    """Draws clients apart from the rest, and a fault that aims at groups: partitions in quick succession."""
    dice = generator(world.seed, "clients")
    clients = _draw_clients(dice)
    load = world.load
    if load.sizes != LARGE:
        load = replace(load, per_second=dice.choice([30, 80, 150]))
    shuffle = draw_shuffle(generator(world.seed, "shuffle"), targets_of(world.config))
    schedule = dice.choice([world.schedule, shuffle, (*world.schedule, *shuffle)])
    in_order = tuple(sorted(schedule, key=lambda fault: fault.at_us))
    return replace(world, clients=clients, load=load, schedule=in_order)


def _draw_clients(dice: Random) -> ClientLoad:
    return ClientLoad(
        groups=GROUPS[: dice.choice([1, 2, 3, 3, 5])],
        sessions=dice.choice([1, 2, 2, 3]),
        changes=dice.choice([0.1, 0.3, 0.3, 0.6]),
        linger_us=dice.choice([5_000, 100_000, 120_000_000]),
        groups_bytes_max=dice.choice([200, 48 * 1024]),
    )


def _draw_daemons(seed: int) -> SimWorld:
    dice = generator(seed, "world")
    config = draw_sites(dice, generator(seed, "protocols"))
    if _has(RELAPSES, seed) or _has(MEASURED, seed):
        config = draw_small_sites(generator(seed, "small sites"), generator(seed, "protocols"))
    places = targets_of(config)
    quality, load = _draw_quality(dice), _draw_load(dice)
    # Large messages over long delays would take longer to recover than a world lasts.
    far_us = 15_000 if load.sizes == LARGE else 40_000
    wide_us = dice.choice([2_000, 5_000, 5_000, 15_000, 15_000, far_us])
    return SimWorld(
        seed=seed,
        config=config,
        quality=quality,
        wide_delay_us=wide_us,
        load=load,
        schedule=_draw_faults(seed, places),
        starts_us=_draw_starts(generator(seed, "starts"), places.daemons),
        lasting=draw_lasting(generator(seed, "lasting"), places),
        # With a low guess, searches end before distant daemons can have answered.
        membership=replace(MEMBERSHIP, round_trip_us=max(MEMBERSHIP.round_trip_us, 3 * wide_us)),
    )


def _has(which: tuple[int, int], seed: int) -> bool:
    remainder, number = which
    return seed % number == remainder


def _draw_faults(seed: int, places: FaultTargets) -> tuple[Fault, ...]:
    if _has(RELAPSES, seed):
        return draw_relapses(generator(seed, "relapses"), places)
    return draw_schedule(generator(seed, "faults"), places)


def _draw_quality(dice: Random) -> Quality:
    quality = Quality(
        delay_us=dice.choice([500, 1_500, 4_000]),
        jitter_us=dice.choice([0, 300, 3_000]),
        loss=dice.choice([0, 0, 0.005, 0.02, 0.08]),
        duplicate=dice.choice([0, 0, 0.02]),
        reorder=dice.choice([0, 0, 0.02]),
        reorder_delay_us=8_000,
    )
    if dice.random() < 0.15:
        # Late duplicates: copies arrive when the network that sent them may have ended.
        return replace(quality, duplicate=0.1, duplicate_delay_us=600_000)
    return quality


def _draw_load(dice: Random) -> Load:
    load = Load(
        per_second=dice.choice([10, 30, 80]),
        burst=dice.choice([4, 8, 16]),
        services=dice.choice([ALL, MOSTLY_SAFE]),
        sessions=dice.choice([1, 1, 3]),
    )
    return replace(load, per_second=10, burst=4, sizes=LARGE) if dice.random() < 0.04 else load


def _draw_starts(dice: Random, names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    if dice.random() < 0.9:
        return ()
    late = [name for name in names[1:] if dice.random() < 0.5]
    return tuple((name, dice.randint(10_000, CHAOS_US // 2)) for name in late)
