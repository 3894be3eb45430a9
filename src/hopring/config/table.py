"""A table of the file, read key by key: each value is checked, and an error names its full path."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, NoReturn, TypeVar

from hopring.config.error import ConfigError
from hopring.config.tuning import Order, Setting
from hopring.config.units import DURATION

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN_MAX: Final = 60

Choice = TypeVar("Choice", bound=StrEnum)


def quote_key(key: str) -> str:
    """A key as TOML spells it."""
    return key if _BARE_KEY.fullmatch(key) else f'"{key}"'


def show(value: object) -> str:
    """A value for a message, shortened."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."


@dataclass(frozen=True, slots=True)
class Table:
    """One table, with the way to it."""

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
        """A string; without a default it has to be there."""
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
        """A boolean."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            self.refuse(key, f"{show(value)} is neither true nor false", f"write {key} = true or {key} = false")
        return value

    def choice(self, key: str, default: Choice) -> Choice:
        """One of the words of an enumeration."""
        value = self.values.get(key, default.value)
        words = [word.value for word in type(default)]
        if value not in words:
            self.refuse(key, f"{show(value)} is not known", "choose " + " or ".join([f'"{w}"' for w in words]))
        return type(default)(value)

    def setting(self, setting: Setting) -> int | None:
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

    def tuning(self, settings: tuple[Setting, ...], orders: tuple[Order, ...]) -> dict[str, int | None]:
        """All tuning keys by the fields that they fill."""
        values = {setting.key: self.setting(setting) for setting in settings}
        for order in orders:
            if order.broken_by(values):
                key = order.small if values[order.small] is not None else order.large
                problem = f"{order.small} is not {'well ' * (order.times > 1)}below {order.large}"
                remedy = f"make {order.large} at least {order.times} times {order.small}"
                default = f"{order.large} is {DURATION.write(order.large_default_us)} if not given"
                self.refuse(key, problem, f"{remedy}; {default}")
        return {setting.field: values[setting.key] for setting in settings}

    def table(self, key: str) -> "Table":
        """The table under a key; an absent one is empty."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self.refuse(key, f"{show(value)} is not a table", f"write [{self.path_of(key)}]")
        return Table(self.file, self.path_of(key), value)

    def tables(self, key: str) -> list["Table"]:
        """The array of tables under a key; an absent one is empty."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            self.refuse(key, "not an array of tables", f"write [[{self.path_of(key)}]]")
        return [Table(self.file, f"{self.path_of(key)}[{at}]", one) for at, one in enumerate(value)]
