"""The cluster hash: two daemons talk only if it is the same at both.

It covers what has to be alike everywhere, because the numbers of sites and daemons and all trees follow from
it: the cluster's name, sites, daemons and their addresses, multicast groups with their TTL, and for every pair
of sites whether there is a link, its weight and protocol. Of the tuning it covers the segment of a ring, by
which all its members have to cut, and the window of membership, for which all daemons make room. The rest, and
client ports, each daemon may choose for itself.

Two spellings of the same thing, such as a listed link that is as the defaults would have it, hash alike.
"""

import json
from hashlib import sha256

from hopring.config.model import Config, Multicast
from hopring.config.tuning import WINDOW_DEFAULTS


def cluster_hash(config: Config) -> int:
    """32 bits for the head of every datagram."""
    shared: dict[str, object] = {
        "cluster": config.cluster,
        "weights": config.weights,
        "sites": [[site.name, _group(site.multicast), site.ring.segment_bytes] for site in config.sites],
        "daemons": [[daemon.name, daemon.address, daemon.port] for daemon in config.daemons],
        "site_of": config.site_of,
        "links": [[link.sites, link.weight, link.protocol] for link in config.all_links],
    }
    given = config.membership.given()
    window = {key: given[key] for key, default in WINDOW_DEFAULTS.items() if given.get(key, default) != default}
    shared |= {"window": window} if window else {}
    text = json.dumps(shared, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(sha256(text.encode()).digest()[:4], "big")


def _group(multicast: Multicast | None) -> list[str | int]:
    if multicast is None:
        return []
    # A TTL of 1 is left out, so that the hash is that of versions that knew no other.
    return [multicast.group, multicast.port, *([multicast.ttl] if multicast.ttl != 1 else [])]
