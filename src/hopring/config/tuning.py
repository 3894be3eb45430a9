"""The tuning keys: how each is spelled in the file, what it may be, which field it fills."""

from dataclasses import dataclass
from typing import Final

from hopring.config.model import LinkProtocol
from hopring.config.units import DURATION, RATE, SIZE, Quantity

_SECOND_US: Final = 1_000_000
_HOUR_US: Final = 3_600 * _SECOND_US
_KIB: Final = 2**10
_GIB: Final = 2**30
_BOTH: Final = frozenset(LinkProtocol)
_HOP_ONLY: Final = frozenset({LinkProtocol.HOP})


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: a quantity with a unit, or a plain count."""

    key: str
    field: str
    kind: Quantity | None
    low: int
    high: int
    protocols: frozenset[LinkProtocol] = _BOTH

    def write(self, value: int) -> str:
        """The value as TOML."""
        return str(value) if self.kind is None else f'"{self.kind.write(value)}"'


LINK_SETTINGS: Final = (
    Setting("rate", "rate_bytes_per_second", RATE, 1_000, 10**11, _HOP_ONLY),
    Setting("burst", "burst_bytes", SIZE, _KIB, _GIB, _HOP_ONLY),
    Setting("window", "window_bytes", SIZE, 64 * _KIB, _GIB, _HOP_ONLY),
    Setting("segment", "segment_bytes", SIZE, 500, 65_000, _HOP_ONLY),
    Setting("backlog", "backlog_bytes_max", SIZE, 64 * _KIB, 16 * _GIB),
    Setting("nacks_max", "nacks_max", None, 1, 1_000, _HOP_ONLY),
    Setting("round_trip", "initial_round_trip_us", DURATION, 10, 60 * _SECOND_US, _HOP_ONLY),
    Setting("lazy", "lazy_us", DURATION, 0, _SECOND_US),
    Setting("heartbeat", "heartbeat_us", DURATION, 1_000, _HOUR_US),
    Setting("silence", "silence_us", DURATION, 1_000, _HOUR_US),
)

RING_SETTINGS: Final = (
    Setting("segment", "segment_bytes", SIZE, 500, 65_000),
    Setting("packet", "packet_segments_max", None, 1, 46),
    Setting("personal_window", "personal_window_segments", None, 1, 1_000_000),
    Setting("global_window", "global_window_segments", None, 1, 1_000_000),
    Setting("queue", "queue_bytes_max", SIZE, 64 * _KIB, 16 * _GIB),
    Setting("token_resend", "token_resend_us", DURATION, 100, 60 * _SECOND_US),
    Setting("token_loss", "token_loss_us", DURATION, 1_000, _HOUR_US),
    Setting("hold", "hold_us", DURATION, 0, 60 * _SECOND_US),
    Setting("hurry_resend", "hurry_resend_us", DURATION, 100, 60 * _SECOND_US),
    Setting("free_rotation", "free_rotation_us", DURATION, 0, 60 * _SECOND_US),
)

MEMBERSHIP_SETTINGS: Final = (
    Setting("update_delta", "update_delta_us", DURATION, 100, 10 * _SECOND_US),
    Setting("update_hurry", "update_hurry_bytes", SIZE, _KIB, _GIB),
    Setting("update_floor", "update_floor_us", DURATION, 10_000, _HOUR_US),
    Setting("window", "window_bytes", SIZE, 64 * _KIB, 64 * _KIB * _KIB),
    Setting("window_bundles", "window_bundles", None, 16, 65_536),
    Setting("queue", "queue_bytes_max", SIZE, 64 * _KIB, 16 * _GIB),
    Setting("probe", "probe_us", DURATION, 100_000, _HOUR_US),
    Setting("statetrans", "statetrans_us", DURATION, 100_000, 600 * _SECOND_US),
    Setting("attempt_max", "attempt_us_max", DURATION, _SECOND_US, _HOUR_US),
    Setting("round_trip", "round_trip_us", DURATION, 1_000, 60 * _SECOND_US),
    Setting("flap", "flap_us", DURATION, 0, _HOUR_US),
    Setting("back_off", "back_off_us", DURATION, 10_000, _HOUR_US),
    Setting("back_off_max", "back_off_us_max", DURATION, 10_000, 24 * _HOUR_US),
    Setting("mend", "mend_us", DURATION, _SECOND_US, 7 * 24 * _HOUR_US),
)

WINDOW_DEFAULTS: Final = {"window_bytes": 2 * _KIB * _KIB, "window_bundles": 1_024}
"""Of membership; each daemon makes room for the windows of all, so these have to be alike everywhere."""

CLIENT_SETTINGS: Final = (
    Setting("sessions_max", "sessions_max", None, 1, 100_000),
    Setting("strangers_max", "strangers_max", None, 1, 100_000),
    Setting("hello", "hello_us", DURATION, 10_000, 600 * _SECOND_US),
    Setting("groups_max", "groups_max", None, 1, 1_000_000),
    Setting("window", "window_bytes", SIZE, 4 * _KIB, 4096 * _KIB),
    Setting("backlog", "backlog_bytes_max", SIZE, 64 * _KIB, 16 * _GIB),
    Setting("spread_backlog", "spread_messages_max", None, 1, 1_000_000_000),
)

LOG_SETTINGS: Final = (
    Setting("burst", "burst_lines", None, 1, 1_000_000),
    Setting("every", "every_us", DURATION, 1_000, _HOUR_US),
)


@dataclass(frozen=True, slots=True)
class Order:
    """Two keys of which one has to be well below the other, with what they are if not given."""

    small: str
    small_default_us: int
    large: str
    large_default_us: int
    times: int

    def broken_by(self, values: dict[str, int | None]) -> bool:
        """Whether these values, by key, are out of order."""
        small = values[self.small]
        large = values[self.large]
        small_us = self.small_default_us if small is None else small
        large_us = self.large_default_us if large is None else large
        return self.times * small_us > large_us


# The defaults are those of the options; a test holds them together.
LINK_ORDER: Final = (Order("heartbeat", 0, "silence", 1_200_000, times=3),)
RING_ORDER: Final = (
    Order("token_resend", 10_000, "token_loss", 300_000, times=3),
    Order("hold", 50_000, "token_loss", 300_000, times=2),
)
MEMBERSHIP_ORDER: Final = (
    Order("update_delta", 20_000, "update_floor", 5_000_000, times=1),
    Order("statetrans", 400_000, "attempt_max", 60_000_000, times=1),
    Order("back_off", 2_000_000, "back_off_max", 16_000_000, times=1),
)
