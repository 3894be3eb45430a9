"""The timers and limits of membership; windows are the same at all daemons, timers may differ.

Those that `[membership]` of the configuration sets are in `config.tuning`; the others fit each other and stay.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MembershipOptions:
    """What can be tuned. Times that have to span a round trip between sites grow with the measured one."""

    alive_us: int = 15_000
    seg_us: int = 45_000  # How long a daemon looks for others in its site.
    join_us: int = 25_000
    gather_us: int = 75_000  # How long a representative looks for others, beyond two round trips.
    represented_us: int = 300_000  # Without a word of its representative, a daemon looks around again.
    statetrans_us: int = 400_000  # Without news, an attempt is given up; beyond four round trips.
    attempt_us_max: int = 60_000_000  # However busy its network is, an attempt takes no longer.
    newmemb_us: int = 30_000  # How often NEWMEMB is repeated to those that have not answered.
    probe_us: int = 2_000_000  # How often a whole view looks for daemons outside.
    # The least time between two promises of a site, unless there is reason to hurry; less between near sites.
    update_delta_us: int = 20_000
    # So much from other sites, for each site of the view, is such a reason.
    update_hurry_bytes: int = 32 * 1024
    update_floor_us: int = 5_000_000  # A promise at least so often, be there news or not.
    round_trip_us: int = 100_000  # Guess between sites before any was measured.
    measure_us: int = 500_000  # How often links are measured, if their weights are.
    flap_us: int = 5_000_000  # A network that fails sooner after its start makes the link suspect that failed.
    back_off_us: int = 2_000_000  # How long a link is left out that failed so twice; doubles up to
    back_off_us_max: int = 16_000_000
    mend_us: int = 600_000_000  # A view that does without a suspect link tries it again after so long.
    counter_ahead_max: int = 1 << 32  # A view counter further ahead than this is a fault or an attack.
    window_bytes: int = 2 * 1024 * 1024  # Own bundles that not everybody is known to have.
    window_bundles: int = 1_024
    queue_bytes_max: int = 64 * 1024 * 1024  # Submitted, and not yet stamped.
