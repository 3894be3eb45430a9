"""The configuration of a cluster: sites, daemons and links; TOML in, frozen values out."""

from hopring.config.access import ANONYMOUS, GrantConfig, UserConfig
from hopring.config.builder import local_config
from hopring.config.error import ConfigError
from hopring.config.model import (
    AdminTuning,
    AdminVerb,
    ClientRight,
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
    SecurityTuning,
    Site,
    SpoolTuning,
    SpreadSlow,
    Weights,
)
from hopring.config.spread_conf import import_spread_conf
from hopring.config.toml_file import cluster_hash, config_digest, dump_toml, load_config, parse_config

__all__ = [
    "ANONYMOUS",
    "AdminTuning",
    "AdminVerb",
    "ClientRight",
    "ClientTuning",
    "Config",
    "ConfigError",
    "Daemon",
    "GrantConfig",
    "LinkConfig",
    "LinkProtocol",
    "LinkTuning",
    "LogFormat",
    "LogLevel",
    "LogTuning",
    "MembershipTuning",
    "MulticastConfig",
    "RingTuning",
    "SecurityTuning",
    "Site",
    "SpoolTuning",
    "SpreadSlow",
    "UserConfig",
    "Weights",
    "cluster_hash",
    "config_digest",
    "dump_toml",
    "import_spread_conf",
    "load_config",
    "local_config",
    "parse_config",
]
