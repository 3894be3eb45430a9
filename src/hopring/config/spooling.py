"""The table `[spool]` of the configuration, read and written: groups whose events daemons write to spools."""

import json
from typing import Final

from hopring.config.model import SpoolTuning
from hopring.config.settings import ConfigTable, TuningKey, show
from hopring.config.units import DURATION, SIZE

GROUPS_MAX: Final = 256
"""Limit of the patterns in `groups`."""

_SECOND_US: Final = 1_000_000
_DAY_US: Final = 24 * 3_600 * _SECOND_US
SPOOL_SETTINGS: Final = (
    TuningKey("sync", "sync_us", DURATION, 0, 3_600 * _SECOND_US),
    TuningKey("segment", "segment_bytes", SIZE, 4 * 2**10, 64 * 2**30),
    TuningKey("segment_age", "segment_age_us", DURATION, _SECOND_US, 3_650 * _DAY_US),
    TuningKey("retain", "retain_bytes", SIZE, 4 * 2**10, 2**49),
    TuningKey("retain_age", "retain_age_us", DURATION, _SECOND_US, 10_000 * _DAY_US),
)
_KEYS: Final = ("directory", "groups", "daemons", "retain_until_archived")
_EXAMPLE: Final = 'write directory = "/var/lib/hopring/spool/{name}"'
_PLACEHOLDERS: Final = ("{name}", "{cluster}")


def read_spool(table: ConfigTable, daemons: tuple[str, ...]) -> SpoolTuning:
    """The settings in a table; ConfigError says what is wrong with them."""
    table.allow([*_KEYS, *[setting.key for setting in SPOOL_SETTINGS]])
    if not table.values:
        return SpoolTuning()
    return SpoolTuning(
        _directory(table),
        _patterns(table),
        _daemons(table, daemons),
        retain_until_archived=table.flag("retain_until_archived", False),
        **table.tuning(SPOOL_SETTINGS, ()),
    )


def write_spool(spool: SpoolTuning) -> list[str]:
    """The lines of the table; none for the defaults."""
    if spool == SpoolTuning():
        return []
    lines = ["", "[spool]", f"directory = {_text(spool.directory or '')}", f"groups = {_list(spool.groups)}"]
    lines += [] if spool.daemons is None else [f"daemons = {_list(spool.daemons)}"]
    lines += ["retain_until_archived = true"] if spool.retain_until_archived else []
    given = [(one, getattr(spool, one.field)) for one in SPOOL_SETTINGS]
    return lines + [f"{one.key} = {one.write(value)}" for one, value in given if value is not None]


def _directory(table: ConfigTable) -> str:
    directory = table.text("directory")
    plain = directory
    for placeholder in _PLACEHOLDERS:
        plain = plain.replace(placeholder, "")
    if not plain.strip("/. ") or set(plain) & set('{}"\\') or not directory.isprintable():
        table.refuse("directory", f"{show(directory)} is no directory", _EXAMPLE)
    return directory


def _patterns(table: ConfigTable) -> tuple[str, ...]:
    found = _names(table, "groups", 'write groups = ["trades.*"]')
    if not found or len(found) > GROUPS_MAX:
        table.refuse("groups", f"{len(found)} patterns", f"give 1 to {GROUPS_MAX} of them")
    return found


def _daemons(table: ConfigTable, known: tuple[str, ...]) -> tuple[str, ...] | None:
    if "daemons" not in table.values:
        return None
    found = _names(table, "daemons", 'write daemons = ["eu1"]')
    for one in found:
        if one not in known:
            table.refuse("daemons", f"there is no daemon {show(one)}", "name those of [sites]")
    return found


def _names(table: ConfigTable, key: str, remedy: str) -> tuple[str, ...]:
    given = table.values.get(key)
    if given is None:
        table.refuse(key, "missing", remedy)
    if not isinstance(given, list):
        table.refuse(key, f"{show(given)} is no list", remedy)
    for one in given:
        if not isinstance(one, str) or not one or not one.isprintable():
            table.refuse(key, f"{show(one)} is no name", remedy)
    return tuple(given)


def _list(names: tuple[str, ...]) -> str:
    return f"[{', '.join([_text(one) for one in names])}]"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
