"""Users and grants in the configuration: `[[users]]` and `[grants]`, as values, read and written.

A pattern is text in which `*` stands for any characters, none included; nothing else in it is special.
"""

import json
from dataclasses import dataclass, fields
from typing import Any, Final

from hopring.config.settings import ConfigTable, TuningKey, quote_key, show
from hopring.config.units import RATE

ANONYMOUS: Final = "anonymous"
"""The identity of clients without credentials; no pattern but this word itself stands for them."""

UID_PREFIX: Final = "uid:"
"""Identities of users of the host, known by the Unix socket, begin with this."""

IDENTITY_BYTES_MAX: Final = 128
PATTERNS_MAX: Final = 1_000
"""Limit of the patterns in one list, and of users and grants."""

KEY_LINE: Final = "ssh-ed25519 "
"""A public key in the configuration itself begins with this; other values are names of files."""

SLOW_DEFAULT: Final = ("kick", "spill", "drop")
_SLOW: Final = (*SLOW_DEFAULT, "block")
_LISTS: Final = ("names", "join", "send", "see", "lock", "serve", "apps", "slow")
_DENIED: Final = tuple([f"deny_{key}" for key in _LISTS])
_COUNTS: Final = (
    TuningKey("sessions_max", "sessions_max", None, 0, 100_000),
    TuningKey("groups_max", "groups_max", None, 0, 1_000_000),
    TuningKey("rate", "rate_bytes_per_second", RATE, 1_000, 10**11),
)


@dataclass(frozen=True, slots=True)
class UserConfig:
    """A user with a key, or an issuer of tokens."""

    name: str  # Of the user; empty for an issuer.
    key: str  # A public key in one line, or the name of its file.
    issuer: str = ""  # The claim `iss` of its tokens.
    audience: str = ""  # The claim `aud` of its tokens; empty is the cluster's name.


@dataclass(frozen=True, slots=True)
class GrantConfig:
    """The rights of all identities that match a pattern."""

    identity: str
    names: tuple[str, ...] = ()
    join: tuple[str, ...] = ()
    send: tuple[str, ...] = ()
    see: tuple[str, ...] = ()
    lock: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    deny_names: tuple[str, ...] = ()
    deny_join: tuple[str, ...] = ()
    deny_send: tuple[str, ...] = ()
    deny_see: tuple[str, ...] = ()
    deny_lock: tuple[str, ...] = ()
    deny_serve: tuple[str, ...] = ()
    deny_apps: tuple[str, ...] = ()
    deny_slow: tuple[str, ...] = ()
    priority: bool | None = None  # False denies it; None leaves it to other entries.
    sessions_max: int | None = None
    groups_max: int | None = None  # Of all sessions of one identity.
    rate_bytes_per_second: int | None = None


def read_users(tables: list[ConfigTable]) -> tuple[UserConfig, ...]:
    """The users and issuers of `[[users]]`."""
    users: list[UserConfig] = []
    for table in tables:
        table.allow(("name", "key", "issuer", "audience"))
        if ("name" in table.values) == ("issuer" in table.values):
            table.refuse(
                "name", "neither or both of name and issuer", "give one: a user, or an issuer of tokens"
            )
        if "audience" in table.values and "issuer" not in table.values:
            table.refuse("audience", "without issuer", "only tokens have an audience")
        name, issuer = table.text("name", ""), table.text("issuer", "")
        key = table.text("key")
        _check_text(table, "key", key)
        if "issuer" in table.values:
            _check_text(table, "issuer", issuer)
        elif not is_user(name):
            remedy = (
                f"choose 1 to {IDENTITY_BYTES_MAX} printable bytes without *, not {ANONYMOUS} or {UID_PREFIX}"
            )
            table.refuse("name", f"{show(name)} is no name of a user", remedy)
        if "audience" in table.values:
            _check_text(table, "audience", table.text("audience"))
        if any((one.name, one.issuer) == (name, issuer) for one in users):
            table.refuse("name" if name else "issuer", f"{show(name or issuer)} is there twice", "remove one")
        users.append(UserConfig(name, key, issuer, table.text("audience", "")))
    return tuple(users)


def is_user(name: str) -> bool:
    """Whether this may be the name of a user, by key or by token."""
    plain = name.isprintable() and "*" not in name and name.strip() == name
    reserved = name == ANONYMOUS or name.startswith(UID_PREFIX)
    return 0 < len(name.encode("utf-8", "replace")) <= IDENTITY_BYTES_MAX and plain and not reserved


def read_grants(table: ConfigTable) -> tuple[GrantConfig, ...]:
    """The grants by identity, in the order of the file."""
    if len(table.values) > PATTERNS_MAX:
        table.refuse(next(iter(table.values)), f"more than {PATTERNS_MAX} entries", "use patterns")
    return tuple([_read_grant(table, identity) for identity in table.values])


def _read_grant(table: ConfigTable, identity: str) -> GrantConfig:
    its = table.table(identity)
    if (
        not identity
        or not identity.isprintable()
        or len(identity.encode("utf-8", "replace")) > IDENTITY_BYTES_MAX
    ):
        table.refuse(
            identity, "no identity", f"name a user, {UID_PREFIX}NAME, {ANONYMOUS}, or a pattern with *"
        )
    its.allow([*_LISTS, *_DENIED, "priority", *[setting.key for setting in _COUNTS]])
    lists: dict[str, Any] = {key: _patterns(its, key) for key in (*_LISTS, *_DENIED)}
    for key in ("slow", "deny_slow"):
        for one in lists[key]:
            if one not in _SLOW:
                its.refuse(key, f"{show(one)} is no policy", f"choose of {', '.join(_SLOW)}")
    priority = its.flag("priority", False) if "priority" in its.values else None
    return GrantConfig(identity, priority=priority, **(lists | its.tuning(_COUNTS, ())))


def _patterns(table: ConfigTable, key: str) -> tuple[str, ...]:
    given = table.values.get(key, [])
    if not isinstance(given, list) or not all(isinstance(one, str) and one for one in given):
        table.refuse(key, f"{show(given)} is no list of patterns", f'write {key} = ["one", "two.*"]')
    if len(given) > PATTERNS_MAX:
        table.refuse(key, f"more than {PATTERNS_MAX} patterns", "use * to say the same with fewer")
    return tuple(given)


def _check_text(table: ConfigTable, key: str, text: str) -> None:
    if not text or not text.isprintable():
        table.refuse(key, f"{show(text)} is empty, or not printable", f'write {key} = "..."')


def write_users(users: tuple[UserConfig, ...]) -> list[str]:
    """The lines of `[[users]]` as TOML."""
    lines: list[str] = []
    for user in users:
        lines += ["", "[[users]]"]
        lines += [
            f"{one.name} = {_quoted(value)}" for one in fields(user) if (value := getattr(user, one.name))
        ]
    return lines


def write_grants(grants: tuple[GrantConfig, ...]) -> list[str]:
    """The lines of `[grants]` as TOML."""
    lines = ["", "[grants]"]
    for grant in grants:
        key = quote_key(grant.identity)
        lines += ["", f"[grants.{_quoted(grant.identity) if key != grant.identity else key}]"]
        for name in (*_LISTS, *_DENIED):
            if patterns := getattr(grant, name):
                lines.append(f"{name} = [{', '.join([_quoted(one) for one in patterns])}]")
        if grant.priority is not None:
            lines.append(f"priority = {str(grant.priority).lower()}")
        for setting in _COUNTS:
            if (value := getattr(grant, setting.field)) is not None:
                lines.append(f"{setting.key} = {setting.write(value)}")
    return lines


def _quoted(text: str) -> str:
    """A basic string of TOML: its escapes are those of JSON; DEL, which TOML escapes as well, is one more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
