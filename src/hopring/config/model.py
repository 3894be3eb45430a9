"""The configuration as frozen values.

Sites and daemons are sorted by name: a `SiteId` is an index into `Config.sites`, a `DaemonId` one into
`Config.daemons`. The fields of a tuning have the names of the options of Hop, Ring and membership; None means
their default.
"""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from hopring.ids import DaemonId, SiteId

if TYPE_CHECKING:
    from hopring.config.access import GrantConfig, UserConfig

PORT_DEFAULT: Final = 4892
WEIGHT_DEFAULT: Final = 50_000
WEIGHT_MAX: Final = 2**32 - 1
VOTES_MAX: Final = 1_000


class LinkProtocol(StrEnum):
    """The protocol between the two representatives of a link."""

    HOP = "hop"
    TCP = "tcp"


LinkName = Literal["hop", "tcp"]
"""The values of LinkProtocol, as answers and snapshots have them."""


class Weights(StrEnum):
    """The source of link weights."""

    FIXED = "fixed"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class LinkTuning:
    """Settings of one link, at this end."""

    rate_bytes_per_second: int | None = None
    burst_bytes: int | None = None
    window_bytes: int | None = None
    segment_bytes: int | None = None
    backlog_bytes_max: int | None = None
    nacks_max: int | None = None
    lazy_us: int | None = None
    heartbeat_us: int | None = None
    silence_us: int | None = None
    initial_round_trip_us: int | None = None

    def given(self) -> dict[str, int]:
        """The fields that are set; for `dataclasses.replace` on a link's options."""
        return _given(self)


UNTUNED: Final = LinkTuning()


@dataclass(frozen=True, slots=True)
class RingTuning:
    """Settings of the ring of one site."""

    segment_bytes: int | None = None
    packet_segments_max: int | None = None
    personal_window_segments: int | None = None
    global_window_segments: int | None = None
    queue_bytes_max: int | None = None
    token_resend_us: int | None = None
    token_loss_us: int | None = None
    hold_us: int | None = None
    hurry_resend_us: int | None = None
    free_rotation_us: int | None = None

    def given(self) -> dict[str, int]:
        """The fields that are set; for `dataclasses.replace` on a ring's options."""
        return _given(self)


@dataclass(frozen=True, slots=True)
class MembershipTuning:
    """Settings of promises, views and the window of a daemon's own messages."""

    update_delta_us: int | None = None
    update_hurry_bytes: int | None = None
    update_floor_us: int | None = None
    window_bytes: int | None = None
    window_bundles: int | None = None
    queue_bytes_max: int | None = None
    probe_us: int | None = None
    statetrans_us: int | None = None
    attempt_us_max: int | None = None
    round_trip_us: int | None = None
    flap_us: int | None = None
    back_off_us: int | None = None
    back_off_us_max: int | None = None
    mend_us: int | None = None

    def given(self) -> dict[str, int]:
        """The fields that are set; for `dataclasses.replace` on the membership's options."""
        return _given(self)


class SpreadSlow(StrEnum):
    """The policy for Spread clients that do not keep up; they cannot choose one."""

    KICK = "kick"
    BLOCK = "block"
    DROP = "drop"


class ClientRight(StrEnum):
    """Requests of clients that cost other clients something, and so are refused unless they are allowed."""

    BLOCK = "block"  # The policy for slow receivers that lets senders wait.
    PRIORITY = "priority"


@dataclass(frozen=True, slots=True)
class ClientTuning:
    """Settings for the clients of this daemon."""

    sessions_max: int | None = None
    strangers_max: int | None = None
    hello_us: int | None = None
    groups_max: int | None = None
    joins_max: int | None = None
    known_groups_max: int | None = None
    window_bytes: int | None = None
    backlog_bytes_max: int | None = None
    spread_messages_max: int | None = None
    allow: tuple[ClientRight, ...] | None = None
    spread_slow: SpreadSlow | None = None
    spread_access: tuple[str, ...] | None = None
    spread_identity: str | None = None  # Of Spread clients by TCP.

    def given(self) -> dict[str, Any]:
        """The fields that are set; for `dataclasses.replace` on the options of sessions."""
        return _given(self)


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """Whether the log has everything or only what needs attention."""

    INFO = "info"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class LogTuning:
    """Settings of this daemon's log."""

    format: LogFormat = LogFormat.TEXT
    level: LogLevel = LogLevel.INFO
    burst_lines: int | None = None
    every_us: int | None = None


class AdminVerb(StrEnum):
    """Requests that the admin channel may allow; status is always allowed."""

    CUT = "cut"  # And heal.
    SHAPE = "shape"
    WINDOW = "window"
    RELOAD = "reload"
    TERMINATE = "terminate"
    PRIMARY = "primary"


@dataclass(frozen=True, slots=True)
class AdminTuning:
    """The admin channel of each daemon: its socket, who may open it, and the allowed requests."""

    socket: str | None = None  # `{name}` and `{cluster}` stand for the daemon's; None is no channel.
    mode: int = 0o600
    allow: tuple[AdminVerb, ...] = ()


@dataclass(frozen=True, slots=True)
class SecurityTuning:
    """Where this daemon's keys are, and whether it may run without any."""

    keys: str | None = None  # The directory that `hop keys new` made, relative to the configuration file.
    insecure: bool = False  # Whether addresses beyond loopback may be used without keys.
    audit: str | None = None  # The file of the audit, relative to the configuration file.
    revoked: tuple[str, ...] = ()  # SHA-256 digests of users' certificates that are not accepted any more.


@dataclass(frozen=True, slots=True)
class SpoolTuning:
    """Which groups daemons write to spools, and where; without a directory none does."""

    directory: str | None = (
        None  # Relative to the configuration file; `{name}` and `{cluster}` are the daemon's.
    )
    groups: tuple[str, ...] = ()  # Names, and patterns with * ? [] as for file names.
    daemons: tuple[str, ...] | None = None  # Those that spool; None is all.
    sync_us: int | None = None
    segment_bytes: int | None = None
    segment_age_us: int | None = None
    retain_bytes: int | None = None
    retain_age_us: int | None = None
    retain_until_archived: bool = False


@dataclass(frozen=True, slots=True)
class MulticastConfig:
    """The multicast group of a site."""

    group: str
    port: int
    ttl: int = 1  # How many networks a packet may cross, and so one more than the routers on its way.


@dataclass(frozen=True, slots=True)
class Daemon:
    """One daemon: its address for other daemons, and its ports for clients."""

    name: str
    address: str
    port: int = PORT_DEFAULT
    client_port: int | None = None
    spread_port: int | None = None  # For clients of Spread.
    tls_port: int | None = None  # For clients with TLS, at the daemon's own address.
    votes: int = 1  # Its weight in the decision which view is primary.


@dataclass(frozen=True, slots=True)
class Site:
    """The daemons of one local network."""

    name: str
    daemons: tuple[Daemon, ...]  # By name.
    multicast: MulticastConfig | None = None  # Without it, each daemon of the ring is sent to singly.
    ring: RingTuning = RingTuning()


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """A link between two sites."""

    sites: tuple[str, str]  # By name.
    weight: int = WEIGHT_DEFAULT
    protocol: LinkProtocol = LinkProtocol.HOP
    tuning: LinkTuning = UNTUNED


@dataclass(frozen=True)
class Config:
    """The configuration of a whole cluster."""

    cluster: str
    sites: tuple[Site, ...]  # By name.
    links: tuple[LinkConfig, ...] = ()  # Those listed, by the names of their ends.
    mesh: bool = True  # Whether pairs that are not listed are links too.
    default_weight: int = WEIGHT_DEFAULT
    default_protocol: LinkProtocol = LinkProtocol.HOP
    weights: Weights = Weights.FIXED
    tie_site: str | None = None  # Of two halves with equal votes, the one with most of this site is primary.
    membership: MembershipTuning = MembershipTuning()
    clients: ClientTuning = ClientTuning()
    log: LogTuning = LogTuning()
    admin: AdminTuning = AdminTuning()
    security: SecurityTuning = SecurityTuning()
    spool: SpoolTuning = SpoolTuning()
    users: "tuple[UserConfig, ...]" = ()
    grants: "tuple[GrantConfig, ...] | None" = None  # None: there are no grants, and clients may do all but
    # what `clients.allow` is for.
    listed: tuple[str, ...] = field(default=(), compare=False)  # Daemons as the file has them.

    @cached_property
    def daemons(self) -> tuple[Daemon, ...]:
        return tuple([daemon for daemon, _ in self._placed])

    @cached_property
    def order(self) -> tuple[DaemonId, ...]:
        """All daemons in the order of the file; those that are not in it come last."""
        place = {name: at for at, name in enumerate(self.listed)}
        by_place = sorted(self.daemons, key=lambda one: (place.get(one.name, len(place)), one.name))
        return tuple([self.daemon_id(one.name) for one in by_place])

    @property
    def order_names(self) -> list[str]:
        """The names of all daemons in the order of the file."""
        return [self.daemons[daemon].name for daemon in self.order]

    @cached_property
    def site_of(self) -> tuple[SiteId, ...]:
        """The site of each daemon, by DaemonId."""
        return tuple([site for _, site in self._placed])

    @cached_property
    def all_links(self) -> tuple[LinkConfig, ...]:
        """Every link, listed or not, sorted by the names of its ends."""
        links = {link.sites: link for link in self.links}
        names = [site.name for site in self.sites]
        if self.mesh:
            for at, one in enumerate(names):
                for other in names[at + 1 :]:
                    links.setdefault(
                        (one, other), LinkConfig((one, other), self.default_weight, self.default_protocol)
                    )
        return tuple([links[ends] for ends in sorted(links)])

    def site_id(self, name: str) -> SiteId:
        """The number of a site; KeyError if the name is unknown."""
        return self._site_ids[name]

    def daemon_id(self, name: str) -> DaemonId:
        """The number of a daemon; KeyError if the name is unknown."""
        return self._daemon_ids[name]

    @cached_property
    def _placed(self) -> list[tuple[Daemon, SiteId]]:
        placed = [(daemon, SiteId(at)) for at, site in enumerate(self.sites) for daemon in site.daemons]
        return sorted(placed, key=lambda one: one[0].name)

    @cached_property
    def _site_ids(self) -> dict[str, SiteId]:
        return {site.name: SiteId(at) for at, site in enumerate(self.sites)}

    @cached_property
    def _daemon_ids(self) -> dict[str, DaemonId]:
        return {daemon.name: DaemonId(at) for at, daemon in enumerate(self.daemons)}


def _given(tuning: LinkTuning | RingTuning | MembershipTuning | ClientTuning) -> dict[str, Any]:
    values = {one.name: getattr(tuning, one.name) for one in fields(tuning)}
    return {name: value for name, value in values.items() if value is not None}
