"""Cluster keys for daemons of tests: what they send to each other is encrypted, as it is for users."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from hopring.config import Config, SecurityTuning
from hopring.credentials.directory import KeyDirectory

DAYS = 90  # More than those for which `hop doctor` warns of their end.


def with_keys(config: Config, directory: Path) -> Config:
    """The configuration with keys in the directory of its file, made once."""
    if config.security != SecurityTuning():
        return config
    if not (directory / "keys").exists():
        names = [daemon.name for daemon in config.daemons]
        KeyDirectory(directory / "keys").create(config.cluster, names, datetime.now(UTC), DAYS, DAYS)
    return replace(config, security=SecurityTuning("keys"))
