"""What goes into a run of the pipeline, checked before anything is started. No pyspark here."""

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
    """The stock of one spooler: a root with a directory for each group."""

    name: str
    path: str


class PipelineOptions(msgspec.Struct, frozen=True):
    """What is to be done; of spools and trace one may be missing."""

    out: Path
    spools: tuple[SpoolRoot, ...] = ()
    trace: Path | None = None
    sites: Mapping[str, str] = {}  # By daemon; of others it is the name without its digits.
    ends: Ends = Ends()
    stream: bool = False
    until_idle: bool = False  # Of a stream: it ends when it has read what was there as it began.
    report: bool = True


def named_spools(words: Iterable[str]) -> tuple[SpoolRoot, ...]:
    """Of `DIR`, which has its own name, and `NAME=DIR`; ForeignInput if there is none, or two share a name."""
    found: dict[str, SpoolRoot] = {}
    for word in words:
        spool = _named(word)
        if spool.name in found:
            raise ForeignInput(
                f"two spools are called {spool.name}: {found[spool.name].path} and {spool.path}",
                "name them: --spool NAME=DIR",
            )
        found[spool.name] = spool
    return tuple(found.values())


def _named(word: str) -> SpoolRoot:
    name, equals, path = word.partition("=")
    if not equals or Path(word).is_dir():
        name, path = Path(word).resolve().name, word
    if not _NAME.fullmatch(name):
        raise ForeignInput(f"{name!r} cannot be the name of a spool", "name it: --spool NAME=DIR")
    if not Path(path).is_dir():
        raise ForeignInput(f"{path}: no such directory", "give the directory that hop spool run writes to")
    if not all_spools(Path(path)):
        raise ForeignInput(f"{path}: holds no spool", "give the directory that hop spool run writes to")
    return SpoolRoot(name, str(Path(path).resolve()))


def sites_of(config: Config) -> dict[str, str]:
    """By daemon, its site."""
    return {daemon.name: site.name for site in config.sites for daemon in site.daemons}
