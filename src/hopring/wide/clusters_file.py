"""The file `clusters.toml`: the clusters that the long-haul service joins, and the links between them.

    wide = "ims"

    [clusters.hub]
    id = 1
    members = ["h1", "h2", "h3"]
    access = ["192.0.2.1:4990", "192.0.2.2:4990", "192.0.2.3:4990"]
    daemons = ["hop://127.0.0.1:4893"]

    [[links]]
    between = ["hub", "norway"]
    schedule = "every 15min for 2min"

    [security]
    keys = "keys"

Each process gets the same file. Two clusters compare what concerns their link, by a digest in the greeting.
"""

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

from hopring.client.arguments import parse_url
from hopring.config.builder import NAME_REMEDY, is_name
from hopring.config.error import ConfigError, find_line, read_limited
from hopring.config.settings import ConfigTable, quote_key, show
from hopring.config.toml_file import parse_toml
from hopring.config.units import DURATION, SIZE
from hopring.haul.ids import CLUSTERS_MAX, ClusterId, ClusterMask, clusters_mask
from hopring.haul.link.schedule import DAY_US, Always, LinkSchedule, OnDemand, Windows

FILE_NAME: Final = "clusters.toml"
PORT_DEFAULT: Final = 4990
MEMBER_COUNTS: Final = (1, 3, 5)
PORT_MAX: Final = 65_535
BOTH: Final = "both"
DAEMONS_EXAMPLE: Final = 'daemons = ["hop://127.0.0.1:4893"]'

_ACCESS: Final = re.compile(r"\[([0-9A-Fa-f:.%]+)\](?::(\d{1,5}))?|([^:\[\]\s]+)(?::(\d{1,5}))?")
_EVERY: Final = re.compile(r"every (\S+) for (\S+)")
_HOURS: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_DEMAND: Final = re.compile(r"on demand, after (\S+) or (\S+)")
SCHEDULE_REMEDY: Final = (
    'write "always", "every 15min for 2min", "22:00-06:00" (UTC) or "on demand, after 1MiB or 10min"'
)


class AccessPoint(NamedTuple):
    """Where a member accepts connections of other clusters."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class WideCluster:
    """One cluster: the members of the service in it, and how they are reached."""

    name: str
    id: ClusterId
    members: tuple[str, ...]
    access: tuple[AccessPoint, ...]  # One for each member, in their order.
    daemons: tuple[str, ...] = ()  # URLs for members and commands; empty: the default, or --at.

    def access_of(self, member: str) -> AccessPoint:
        """Where a member accepts connections."""
        return self.access[self.members.index(member)]


@dataclass(frozen=True, slots=True)
class WideLink:
    """A link whose use differs from the default."""

    between: tuple[str, str]
    dial: str = ""  # The cluster that dials, or both; empty: the one with the smaller id.
    schedule: LinkSchedule = field(default_factory=Always)
    written: str = "always"  # The schedule as it is in the file.


@dataclass(frozen=True, slots=True)
class ClustersFile:
    """All of the file; `clusters` are in the order of their ids."""

    wide: str
    clusters: tuple[WideCluster, ...]
    links: tuple[WideLink, ...] = ()
    keys: Path | None = None  # The directory of the certificates.

    def cluster(self, name: str) -> WideCluster | None:
        """The cluster of a name; None if there is none."""
        return next((one for one in self.clusters if one.name == name), None)

    def name_of(self, number: ClusterId) -> str:
        """The name of a cluster, by its number."""
        return next((one.name for one in self.clusters if one.id == number), str(number))

    def peers_of(self, name: str) -> ClusterMask:
        """The mask of all other clusters."""
        return clusters_mask([one.id for one in self.clusters if one.name != name])

    def link(self, one: str, other: str) -> WideLink:
        """The link between two clusters."""
        both = {one, other}
        return next((link for link in self.links if set(link.between) == both), WideLink((one, other)))

    def dials(self, name: str) -> ClusterMask:
        """The peers that a cluster dials."""
        me = self.cluster(name)
        assert me is not None, "look it up first"
        return clusters_mask([one.id for one in self.clusters if one is not me and self._dials(me, one)])

    def _dials(self, me: WideCluster, peer: WideCluster) -> bool:
        dial = self.link(me.name, peer.name).dial
        return dial in (me.name, BOTH) or (not dial and me.id < peer.id)

    def schedules(self, name: str) -> dict[ClusterId, LinkSchedule]:
        """The schedules of a cluster's links, where they are not always open."""
        found = {one.id: self.link(name, one.name).schedule for one in self.clusters if one.name != name}
        return {number: one for number, one in found.items() if not isinstance(one, Always)}

    def digest(self, one: str, other: str) -> bytes:
        """The digest of what two clusters have to have alike: names, ids, who dials, and when."""
        ends = sorted([(here.id, here.name) for here in self.clusters if here.name in (one, other)])
        link = self.link(one, other)
        facts = [self.wide, ends, link.dial, link.written]
        return sha256(json.dumps(facts).encode()).digest()

    def digests(self, name: str) -> dict[ClusterId, bytes]:
        """The digests of a cluster's links, by the cluster at the other end."""
        return {one.id: self.digest(name, one.name) for one in self.clusters if one.name != name}

    @property
    def whole_digest(self) -> str:
        """A digest of names, ids, members, access points and links: of what all clusters should agree on."""
        clusters = [(one.id, one.name, one.members, [str(at) for at in one.access]) for one in self.clusters]
        links = sorted([(sorted(one.between), one.dial, one.written) for one in self.links])
        return sha256(json.dumps([self.wide, clusters, links]).encode()).hexdigest()


def load_clusters(path: Path | str) -> ClustersFile:
    """The clusters of a file; ConfigError says what is wrong with it."""
    file = str(path)
    try:
        text = read_limited(file).decode()
    except UnicodeDecodeError:
        raise ConfigError(file, "", "not UTF-8", "save the file as UTF-8") from None
    return parse_clusters(text, file)


def parse_clusters(text: str, file: str = FILE_NAME) -> ClustersFile:
    """The clusters of a text; `file` is its name in errors."""
    values = parse_toml(text, file)
    try:
        return _read(ConfigTable(file, "", values))
    except ConfigError as error:
        raise error.on_line(find_line(text, error.where)) from None


def _read(top: ConfigTable) -> ClustersFile:
    top.allow(("wide", "clusters", "links", "security"))
    wide = top.text("wide")
    _check_name(top, "wide", wide)
    table = top.table("clusters")
    clusters = [_read_cluster(table.table(name), name) for name in table.values]
    if not 1 < len(clusters) <= CLUSTERS_MAX:
        top.refuse("clusters", f"{len(clusters)} clusters", f"give 2 to {CLUSTERS_MAX}: [clusters.NAME]")
    _check_unique(table, clusters)
    clusters.sort(key=lambda one: one.id)
    links = [_read_link(one, {cluster.name for cluster in clusters}) for one in top.tables("links")]
    for one, other in combinations(links, 2):
        if set(one.between) == set(other.between):
            top.refuse("links", f"two links between {' and '.join(one.between)}", "give one")
    security = top.table("security")
    security.allow(("keys",))
    keys = Path(top.file).parent / security.text("keys") if "keys" in security.values else None
    return ClustersFile(wide, tuple(clusters), tuple(links), keys)


def _check_name(table: ConfigTable, key: str, name: str) -> None:
    if not is_name(name):
        table.refuse(key, f"{show(name)} is no name", NAME_REMEDY)


def _read_cluster(table: ConfigTable, name: str) -> WideCluster:
    table.allow(("id", "members", "access", "daemons"))
    if not is_name(name) or name == BOTH:
        table.refuse("id", f"a cluster cannot be called {show(name)}", NAME_REMEDY)
    number = table.number("id", "cluster id", 1, CLUSTERS_MAX)
    if number is None:
        table.refuse("id", "missing", f"give each cluster one for ever, 1 to {CLUSTERS_MAX}: id = 1")
    members = _texts(table, "members", 'members = ["h1", "h2", "h3"]')
    for one in members:
        _check_name(table, "members", one)
    if len(members) not in MEMBER_COUNTS or len(set(members)) < len(members):
        table.refuse("members", f"{len(members)} names", "give 1, 3 or 5 different ones: a majority serves")
    access = tuple([_access_point(table, one) for one in _texts(table, "access", 'access = ["host:4990"]')])
    if len(access) != len(members):
        table.refuse(
            "access", f"{len(access)} access points for {len(members)} members", "give one for each, in order"
        )
    twice = [point for point in access if access.count(point) > 1]
    if twice:
        table.refuse("access", f"two members at {twice[0]}", "give each its own")
    daemons = _texts(table, "daemons", DAEMONS_EXAMPLE) if "daemons" in table.values else ()
    for url in daemons:
        try:
            parse_url(url)
        except ValueError as error:
            table.refuse("daemons", str(error), f"write {DAEMONS_EXAMPLE}")
    return WideCluster(name, ClusterId(number), members, access, daemons)


def _check_unique(table: ConfigTable, clusters: list[WideCluster]) -> None:
    for one, other in combinations(clusters, 2):
        if one.id == other.id:
            table.table(other.name).refuse("id", f"{one.name} has the id {one.id} too", "ids are never reused")
        both = set(one.access) & set(other.access)
        if both:
            table.table(other.name).refuse("access", f"{one.name} has {min(both)} too", "give each its own")


def _texts(table: ConfigTable, key: str, example: str) -> tuple[str, ...]:
    value = table.values.get(key)
    if value is None:
        table.refuse(key, "missing", f"add {example}")
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        table.refuse(key, f"{show(value)} is no list of strings", f"write {example}")
    return tuple(value)


def _access_point(table: ConfigTable, text: str) -> AccessPoint:
    found = _ACCESS.fullmatch(text)
    port = int((found and (found[2] or found[4])) or PORT_DEFAULT)
    if found is None or not 0 < port <= PORT_MAX:
        table.refuse("access", f"{show(text)} is no access point", 'write "host:4990"')
    return AccessPoint(found[1] or found[3], port)


def _read_link(table: ConfigTable, names: set[str]) -> WideLink:
    table.allow(("between", "dial", "schedule"))
    ends = _texts(table, "between", 'between = ["hub", "norway"]')
    if len(ends) != len({*ends} & names) or len(ends) != 2:
        remedy = f"choose of {', '.join(sorted(names))}"
        table.refuse("between", f"{show(list(ends))} are no two clusters", remedy)
    written = table.text("schedule", "always")
    schedule = read_schedule(written)
    if schedule is None:
        table.refuse("schedule", f"{show(written)} is no schedule", SCHEDULE_REMEDY)
    on_demand = isinstance(schedule, OnDemand)
    dial = table.text("dial", BOTH if on_demand else "")
    if dial and dial not in (*ends, BOTH):
        table.refuse("dial", f"{show(dial)} is not at this link", f'write one of its ends, or "{BOTH}"')
    if on_demand and dial != BOTH:
        table.refuse("dial", "what waits at the other end is not known", f'on demand takes dial = "{BOTH}"')
    return WideLink((ends[0], ends[1]), dial, schedule, written)


def read_schedule(text: str) -> LinkSchedule | None:
    """The schedule of a link; None if the text is none."""
    if text == "always":
        return Always()
    try:
        if found := _EVERY.fullmatch(text):
            return _windows(DURATION.read(found[1]), DURATION.read(found[2]), 0)
        if found := _DEMAND.fullmatch(text):
            return OnDemand(SIZE.read(found[1]), DURATION.read(found[2]))
    except ValueError:
        return None
    if found := _HOURS.fullmatch(text):
        begin, end = [(int(found[at]) * 60 + int(found[at + 1])) * 60_000_000 for at in (1, 3)]
        return _windows(DAY_US, (end - begin) % DAY_US, begin)
    return None


def _windows(period_us: int, open_us: int, begin_us: int) -> Windows | None:
    return Windows(period_us, open_us, begin_us) if 0 < open_us < period_us else None


def dump_clusters(file: ClustersFile) -> str:
    """The text of a file that reads as these clusters."""
    lines = [f"wide = {json.dumps(file.wide)}"]
    for one in file.clusters:
        lines += ["", f"[clusters.{quote_key(one.name)}]", f"id = {one.id}"]
        lines += [f"members = {json.dumps(one.members)}"]
        lines += [f"access = {json.dumps([str(at) for at in one.access])}"]
        lines += [f"daemons = {json.dumps(one.daemons)}"] if one.daemons else []
    for link in file.links:
        lines += ["", "[[links]]", f"between = {json.dumps(link.between)}"]
        lines += [f"dial = {json.dumps(link.dial)}"] if link.dial else []
        lines += [f"schedule = {json.dumps(link.written)}"]
    if file.keys is not None:
        lines += ["", "[security]", f"keys = {json.dumps(str(file.keys))}"]
    return "\n".join(lines) + "\n"
