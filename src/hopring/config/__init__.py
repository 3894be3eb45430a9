"""The configuration of a cluster: sites, daemons and links; TOML in, frozen values out."""

from hopring.config.builder import local_config
from hopring.config.dump import cluster_hash, dump_toml
from hopring.config.error import ConfigError
from hopring.config.model import (
    AdminTuning,
    AdminVerb,
    ClientTuning,
    Config,
    Daemon,
    LinkConfig,
    LinkProtocol,
    LinkTuning,
    LogFormat,
    LogLevel,
    LogTuning,
    MembershipTuning,
    MulticastConfig,
    RingTuning,
    Site,
    SpreadSlow,
    Weights,
)
from hopring.config.parse import load_config, parse_config
from hopring.config.spread_conf import import_spread_conf

__all__ = [
    "AdminTuning",
    "AdminVerb",
    "ClientTuning",
    "Config",
    "ConfigError",
    "Daemon",
    "LinkConfig",
    "LinkProtocol",
    "LinkTuning",
    "LogFormat",
    "LogLevel",
    "LogTuning",
    "MembershipTuning",
    "MulticastConfig",
    "RingTuning",
    "Site",
    "SpreadSlow",
    "Weights",
    "cluster_hash",
    "dump_toml",
    "import_spread_conf",
    "load_config",
    "local_config",
    "parse_config",
]
