"""Timers and limits of the membership. Windows must be the same at all daemons; timers may differ.

`config/settings.py` lists those that `[membership]` of the configuration sets; the others are tuned to each
other.
"""

from dataclasses import dataclass
from typing import Final

OWN_BUNDLES: Final = 16_384
"""Default of `own_bundles`: more than a daemon's clients join, leave and die in one round of promises."""

LEAVE_COPIES: Final = 3
"""LEAVE is sent this many times, since datagrams may be lost."""

TIMEOUTS_MAX: Final = 4
"""How many times the timeout of attempts doubles after consecutive timeouts."""

REFUSALS_MAX: Final = 2
"""After this many refused recovery messages a daemon ends its old view alone.

The first refusal leaves the sender out, so that the others may still end the view together.
"""


@dataclass(frozen=True, slots=True)
class MembershipOptions:
    """Timers and limits; those that must span a round trip between sites grow with the measured one."""

    alive_us: int = 15_000
    seg_us: int = 45_000  # Duration of a search in the own site.
    join_us: int = 25_000
    gather_us: int = 75_000  # Duration of a search among sites, beyond two round trips.
    # A daemon that has not heard its representative for this long searches again.
    represented_us: int = 300_000
    statetrans_us: int = 400_000  # An attempt without progress is given up after this and four round trips.
    attempt_us_max: int = 60_000_000  # Limit of an attempt, even with progress.
    newmemb_us: int = 30_000  # Interval of NEWMEMB to members that have not answered.
    probe_us: int = 2_000_000  # Interval at which a whole view looks for daemons outside.
    # Least time between two promises of a site, unless they are urgent; shorter between near sites.
    update_delta_us: int = 20_000
    # Promises are urgent after this many bytes from other sites, times the sites of the view.
    update_hurry_bytes: int = 32 * 1024
    update_floor_us: int = 5_000_000  # Interval of promises that have no news.
    round_trip_us: int = 100_000  # Estimate between sites before any was measured.
    measure_us: int = 500_000  # Interval of measurements of links, if weights are measured.
    flap_us: int = 5_000_000  # A link that fails sooner after the start of its network is suspect.
    # How long a link that is suspect twice is left out; doubles with each failure.
    back_off_us: int = 2_000_000
    back_off_us_max: int = 16_000_000  # The limit of the doubling.
    mend_us: int = 600_000_000  # A view without a suspect link tries it again after this time.
    # Bundles of a daemon's own messages that may be sent and not stable, in addition to the window.
    own_bundles: int = OWN_BUNDLES
    counter_ahead_max: int = 1 << 32  # The most that a view counter is raised at once (view_counter.py).
    window_bytes: int = 2 * 1024 * 1024  # Of own bundles that are sent and not stable.
    window_bundles: int = 1_024
    queue_bytes_max: int = 64 * 1024 * 1024  # Of messages that are submitted and not sent.

    def in_flight_max(self, members: int) -> int:
        """The most bundles that this many daemons may have sent and that are not stable: all their windows."""
        return members * (self.window_bundles + self.own_bundles)
