"""Identifiers of daemons, sites, views and groups, shared by all packages.

Daemons and sites have names in the configuration. Packets and tables carry numbers instead: the index in the
configuration sorted by name, which is the same everywhere because the cluster hash covers the configuration.

The layers below the drivers know numbers only: their reasons say `daemon 2` or `site 1`. Drivers pass such a
text through `named` before they show it to people.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, NewType

DaemonId = NewType("DaemonId", int)
"""The index of a daemon in the sorted configuration."""

SiteId = NewType("SiteId", int)
"""The index of a site in the sorted configuration; it also breaks ties of the order."""

Incarnation = NewType("Incarnation", int)
"""The 64-bit nonce that one start of a daemon draws. Nonces tell starts apart and cannot be ordered."""

Generation = NewType("Generation", int)
"""The 64-bit id of the attempt that a link belongs to; packets of another one are stale."""

SiteMask = NewType("SiteMask", int)
"""A set of sites as bits: site s is bit 1 << s."""

GroupName = NewType("GroupName", str)
"""The name of a group, as applications use it."""

NOBODY: Final = DaemonId(0xFFFF)
"""The modifier of an ARU that no member has lowered."""

SITES_MAX: Final = 64
DAEMONS_MAX: Final = 4096

NUMBER_MAX: Final = 2**64 - 2**32
"""The largest sequence, stamp or view counter; sums with it still fit the 64 bits of the wire."""

EPOCH_MAX: Final = 2**48
"""The last place in the chain of primary views; an operator's word takes 1,024 of them."""

NEVER: Final = 2**62 - 1
"""A deadline that never comes, in microseconds; small enough for a machine integer of compiled code."""


class Process(NamedTuple):
    """One life of a daemon: after a restart the same daemon is another process."""

    daemon: DaemonId
    incarnation: Incarnation


class ViewId(NamedTuple):
    """The id of an attempt and of the view it becomes; compared from left to right.

    The counter only grows, and a representative never uses it twice in one life, so no two views share an id.
    """

    counter: int
    representative: DaemonId
    nonce: Incarnation


class Place(NamedTuple):
    """The place of a bundle in the one order of all groups; compared from left to right within a view."""

    view: ViewId
    lts: int
    site: int


def mask_of(*sites: SiteId) -> SiteMask:
    """The mask that holds exactly these sites."""
    mask = 0
    for site in sites:
        mask |= 1 << site
    return SiteMask(mask)


_NUMBER: Final = re.compile(r"\b(daemon|site) (\d+)\b")


def named(text: str, daemons: Mapping[DaemonId, str], sites: Sequence[str] = ()) -> str:
    """`link with daemon 2` becomes `link with us1`, `site 1` becomes `site us`; unknown numbers stay."""

    def name_of(found: re.Match[str]) -> str:
        number = int(found[2])
        if found[1] == "daemon":
            return daemons.get(DaemonId(number), found[0])
        return f"site {sites[number]}" if number < len(sites) else found[0]

    return _NUMBER.sub(name_of, text)
