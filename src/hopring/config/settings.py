"""The tuning keys of the file, with their limits and the fields they fill; and tables that are read key by key.

Each value is checked, and an error names its full path.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, NoReturn, TypeVar

from hopring.config.error import ConfigError
from hopring.config.model import LinkProtocol
from hopring.config.units import DURATION, RATE, SIZE, Quantity

_SECOND_US: Final = 1_000_000
_HOUR_US: Final = 3_600 * _SECOND_US
_KIB: Final = 2**10
_GIB: Final = 2**30
_BOTH: Final = frozenset(LinkProtocol)
_HOP_ONLY: Final = frozenset({LinkProtocol.HOP})


_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN_MAX: Final = 60
Choice = TypeVar("Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class TuningKey:
    """One key: a quantity with a unit, or a plain count."""

    key: str
    field: str
    kind: Quantity | None
    low: int
    high: int
    protocols: frozenset[LinkProtocol] = _BOTH

    def write(self, value: int) -> str:
        """The value in the notation of TOML."""
        return str(value) if self.kind is None else f'"{self.kind.write(value)}"'


LINK_SETTINGS: Final = (
    TuningKey("rate", "rate_bytes_per_second", RATE, 1_000, 10**11, _HOP_ONLY),
    TuningKey("burst", "burst_bytes", SIZE, _KIB, _GIB, _HOP_ONLY),
    TuningKey("window", "window_bytes", SIZE, 64 * _KIB, _GIB, _HOP_ONLY),
    TuningKey("segment", "segment_bytes", SIZE, 500, 65_000, _HOP_ONLY),
    TuningKey("backlog", "backlog_bytes_max", SIZE, 64 * _KIB, 16 * _GIB),
    TuningKey("nacks_max", "nacks_max", None, 1, 1_000, _HOP_ONLY),
    TuningKey("round_trip", "initial_round_trip_us", DURATION, 10, 60 * _SECOND_US, _HOP_ONLY),
    TuningKey("lazy", "lazy_us", DURATION, 0, _SECOND_US),
    TuningKey("heartbeat", "heartbeat_us", DURATION, 1_000, _HOUR_US),
    TuningKey("silence", "silence_us", DURATION, 1_000, _HOUR_US),
)

RING_SETTINGS: Final = (
    TuningKey("segment", "segment_bytes", SIZE, 500, 65_000),
    TuningKey("packet", "packet_segments_max", None, 1, 46),
    TuningKey("personal_window", "personal_window_segments", None, 1, 1_000_000),
    TuningKey("global_window", "global_window_segments", None, 1, 1_000_000),
    TuningKey("queue", "queue_bytes_max", SIZE, 64 * _KIB, 16 * _GIB),
    TuningKey("token_resend", "token_resend_us", DURATION, 100, 60 * _SECOND_US),
    TuningKey("token_loss", "token_loss_us", DURATION, 1_000, _HOUR_US),
    TuningKey("hold", "hold_us", DURATION, 0, 60 * _SECOND_US),
    TuningKey("hurry_resend", "hurry_resend_us", DURATION, 100, 60 * _SECOND_US),
    TuningKey("free_rotation", "free_rotation_us", DURATION, 0, 60 * _SECOND_US),
)

MEMBERSHIP_SETTINGS: Final = (
    TuningKey("update_delta", "update_delta_us", DURATION, 100, 10 * _SECOND_US),
    TuningKey("update_hurry", "update_hurry_bytes", SIZE, _KIB, _GIB),
    TuningKey("update_floor", "update_floor_us", DURATION, 10_000, _HOUR_US),
    TuningKey("window", "window_bytes", SIZE, 64 * _KIB, 64 * _KIB * _KIB),
    TuningKey("window_bundles", "window_bundles", None, 16, 65_536),
    TuningKey("queue", "queue_bytes_max", SIZE, 64 * _KIB, 16 * _GIB),
    TuningKey("probe", "probe_us", DURATION, 100_000, _HOUR_US),
    TuningKey("statetrans", "statetrans_us", DURATION, 100_000, 600 * _SECOND_US),
    TuningKey("attempt_max", "attempt_us_max", DURATION, _SECOND_US, _HOUR_US),
    TuningKey("round_trip", "round_trip_us", DURATION, 1_000, 60 * _SECOND_US),
    TuningKey("flap", "flap_us", DURATION, 0, _HOUR_US),
    TuningKey("back_off", "back_off_us", DURATION, 10_000, _HOUR_US),
    TuningKey("back_off_max", "back_off_us_max", DURATION, 10_000, 24 * _HOUR_US),
    TuningKey("mend", "mend_us", DURATION, _SECOND_US, 7 * 24 * _HOUR_US),
)

WINDOW_DEFAULTS: Final = {"window_bytes": 2 * _KIB * _KIB, "window_bundles": 1_024}
"""Of membership; each daemon makes room for the windows of all, so these have to be alike everywhere."""

CLIENT_SETTINGS: Final = (
    TuningKey("sessions_max", "sessions_max", None, 1, 100_000),
    TuningKey("strangers_max", "strangers_max", None, 1, 100_000),
    TuningKey("hello", "hello_us", DURATION, 10_000, 600 * _SECOND_US),
    TuningKey("groups_max", "groups_max", None, 1, 1_000_000),
    TuningKey("joins_max", "joins_max", None, 1, 100_000_000),
    TuningKey("known_groups_max", "known_groups_max", None, 1, 100_000_000),
    TuningKey("window", "window_bytes", SIZE, 4 * _KIB, 4096 * _KIB),
    TuningKey("backlog", "backlog_bytes_max", SIZE, 64 * _KIB, 16 * _GIB),
    TuningKey("spread_backlog", "spread_messages_max", None, 1, 1_000_000_000),
)

LOG_SETTINGS: Final = (
    TuningKey("burst", "burst_lines", None, 1, 1_000_000),
    TuningKey("every", "every_us", DURATION, 1_000, _HOUR_US),
)


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """Two keys of which one has to be well below the other, with their defaults."""

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
LINK_ORDER: Final = (KeyOrder("heartbeat", 0, "silence", 1_200_000, times=3),)
RING_ORDER: Final = (
    KeyOrder("token_resend", 10_000, "token_loss", 300_000, times=3),
    KeyOrder("hold", 50_000, "token_loss", 300_000, times=2),
)
MEMBERSHIP_ORDER: Final = (
    KeyOrder("update_delta", 20_000, "update_floor", 5_000_000, times=1),
    KeyOrder("statetrans", 400_000, "attempt_max", 60_000_000, times=1),
    KeyOrder("back_off", 2_000_000, "back_off_max", 16_000_000, times=1),
)


def quote_key(key: str) -> str:
    """A key as TOML spells it."""
    return key if _BARE_KEY.fullmatch(key) else f'"{key}"'


def show(value: object) -> str:
    """A value for a message, shortened."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."


@dataclass(frozen=True, slots=True)
class ConfigTable:
    """One table of the file, with its path."""

    file: str
    path: str
    values: dict[str, Any]

    def refuse(self, key: str, problem: str, remedy: str) -> NoReturn:
        """Raises the error for a key of this table."""
        raise ConfigError(self.file, self.path_of(key), problem, remedy)

    def path_of(self, key: str) -> str:
        """The full path of a key."""
        return f"{self.path}.{quote_key(key)}" if self.path else quote_key(key)

    def allow(self, known: Collection[str]) -> None:
        """Refuses every key but these."""
        for key in self.values:
            if key not in known:
                near = get_close_matches(key, known, n=1)
                remedy = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
                self.refuse(key, "unknown key", remedy)

    def text(self, key: str, default: str | None = None) -> str:
        """A string; required if there is no default."""
        value = self.values.get(key, default)
        if value is None:
            self.refuse(key, "missing", f'add {key} = "..."')
        if not isinstance(value, str):
            self.refuse(key, f"{show(value)} is not a string", f'write {key} = "..."')
        return value

    def number(self, key: str, what: str, low: int, high: int, default: int | None = None) -> int | None:
        """An integer within limits, or the default if the key is absent."""
        value = self.values.get(key, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(key, f"{show(value)} is not a {what}", f"choose {low} to {high}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """A boolean value, or the default."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            self.refuse(key, f"{show(value)} is neither true nor false", f"write {key} = true or {key} = false")
        return value

    def choice(self, key: str, default: Choice) -> Choice:
        """One of the values of an enumeration."""
        value = self.values.get(key, default.value)
        words = [word.value for word in type(default)]
        if value not in words:
            self.refuse(key, f"{show(value)} is not known", "choose " + " or ".join([f'"{w}"' for w in words]))
        return type(default)(value)

    def setting(self, setting: TuningKey) -> int | None:
        """A tuning key, or None if it is absent."""
        key, kind = setting.key, setting.kind
        if kind is None:
            return self.number(key, "count", setting.low, setting.high)
        if key not in self.values:
            return None
        text = self.values[key]
        if not isinstance(text, str):
            self.refuse(key, f"{show(text)} is not a {kind.name}", f'write it with a unit, as "{kind.example}"')
        try:
            value = kind.read(text)
        except ValueError as wrong:
            units = ", ".join(kind.units)
            self.refuse(key, f"{show(text)} {wrong}", f'write a number and one of {units}, as "{kind.example}"')
        if not setting.low <= value <= setting.high:
            limits = f"{kind.write(setting.low)} to {kind.write(setting.high)}"
            self.refuse(key, f"{text} is out of range", f"choose {limits}")
        return value

    def tuning(self, settings: tuple[TuningKey, ...], orders: tuple[KeyOrder, ...]) -> dict[str, int | None]:
        """All tuning keys, by the fields they fill."""
        values = {setting.key: self.setting(setting) for setting in settings}
        for order in orders:
            if order.broken_by(values):
                key = order.small if values[order.small] is not None else order.large
                problem = f"{order.small} is not {'well ' * (order.times > 1)}below {order.large}"
                remedy = f"make {order.large} at least {order.times} times {order.small}"
                default = f"{order.large} is {DURATION.write(order.large_default_us)} if not given"
                self.refuse(key, problem, f"{remedy}; {default}")
        return {setting.field: values[setting.key] for setting in settings}

    def table(self, key: str) -> "ConfigTable":
        """The table under a key; an absent one is empty."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self.refuse(key, f"{show(value)} is not a table", f"write [{self.path_of(key)}]")
        return ConfigTable(self.file, self.path_of(key), value)

    def tables(self, key: str) -> list["ConfigTable"]:
        """The array of tables under a key; an absent one is empty."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            self.refuse(key, "not an array of tables", f"write [[{self.path_of(key)}]]")
        return [ConfigTable(self.file, f"{self.path_of(key)}[{at}]", one) for at, one in enumerate(value)]
