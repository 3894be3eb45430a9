"""Inputs and options of a pipeline run, checked before anything is started. No pyspark."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from hopring.config import Config
from hopring.spark.audit.reading import Ends
from hopring.spark.errors import ForeignInput
from hopring.spark.source.inventory import all_spools

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class SpoolRoot(msgspec.Struct, frozen=True):
    """The spools of one spooler: a name, and a root with a directory for each group."""

    name: str
    path: str


class PipelineOptions(msgspec.Struct, frozen=True):
    """Options of a run; it needs spools, a trace, or both."""

    out: Path
    spools: tuple[SpoolRoot, ...] = ()
    trace: Path | None = None
    sites: Mapping[str, str] = {}  # By daemon; the default is a daemon's name without its digits.
    ends: Ends = Ends()
    stream: bool = False
    until_idle: bool = False  # A stream ends when it has read the records that existed at its start.
    report: bool = True


def named_spools(arguments: Iterable[str]) -> tuple[SpoolRoot, ...]:
    """Spools from arguments `DIR` or `NAME=DIR`; ForeignInput if one has no spools, or two share a name."""
    found: dict[str, SpoolRoot] = {}
    for argument in arguments:
        spool = _named(argument)
        if spool.name in found:
            raise ForeignInput(
                f"two spools have the name {spool.name}: {found[spool.name].path} and {spool.path}",
                "name them: --spool NAME=DIR",
            )
        found[spool.name] = spool
    return tuple(found.values())


def _named(argument: str) -> SpoolRoot:
    name, equals, path = argument.partition("=")
    if not equals or Path(argument).is_dir():
        name, path = Path(argument).resolve().name, argument
    if not _NAME.fullmatch(name):
        raise ForeignInput(f"{name!r} cannot be the name of a spool", "name it: --spool NAME=DIR")
    if not Path(path).is_dir():
        raise ForeignInput(f"{path}: no such directory", "give the directory that hop spool run writes to")
    if not all_spools(Path(path)):
        raise ForeignInput(f"{path}: has no spool", "give the directory that hop spool run writes to")
    return SpoolRoot(name, str(Path(path).resolve()))


def sites_of(config: Config) -> dict[str, str]:
    """The site of each daemon, by name."""
    return {daemon.name: site.name for site in config.sites for daemon in site.daemons}
