"""The checks of `hop doctor` about keys: files of this host, and the keys that running daemons have."""

import os
import stat
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from hopring.cli.doctor_checks import DoctorReport
from hopring.cli.monitor.table import lacking
from hopring.config import Config
from hopring.credentials.directory import KeyDirectory
from hopring.credentials.files import CredentialError, user_name
from hopring.credentials.inspection import inspect_directory

_COPY: Final = "copy cluster.keys to all hosts and reload the daemons (hop monitor reload)"
_INSECURE: Final = "insecure = true: whoever reaches the ports of daemons can read, forge and end the cluster"


def check_key_files(report: DoctorReport, config: Config, file: Path, now: datetime) -> None:
    """Checks the directory of keys that the configuration names, as far as this user can read it."""
    security = config.security
    if security.insecure:
        report.finding("cluster", _INSECURE, "make keys (`hop keys new`), and set keys in [security] instead")
    if security.keys is None:
        return
    directory = KeyDirectory(file.parent / security.keys)
    if judge := _judge(directory.keys_path):
        report.unknown("keys", f"{directory.root} is not for this user to read", f"run hop doctor as {judge}")
        return
    try:
        problems = inspect_directory(directory, now)
    except CredentialError as error:
        problems = [error]
    for one in problems:
        report.finding("keys", f"{one.path}: {one.problem}", one.remedy)
    if not problems:
        files = [one for one in sorted(directory.root.rglob("*")) if one.is_file()]
        secret = [one for one in files if one.suffix in (".key", ".keys")]
        report.good("keys", f"{directory.root}: {', '.join([_rights(one) for one in secret])}")


def _judge(path: Path) -> str:
    """The user who has to judge the files; empty if it is this one."""
    try:
        its = path.stat()
    except PermissionError:
        return "the daemons' user"
    except OSError:
        return ""  # Whoever loads it says so.
    return "" if its.st_uid in (0, os.geteuid()) else user_name(its.st_uid)


def _rights(path: Path) -> str:
    its = path.stat()
    return f"{path.name} has mode {stat.S_IMODE(its.st_mode):04o} and belongs to {user_name(its.st_uid)}"


def check_running_keys(report: DoctorReport, config: Config, statuses: Sequence[Mapping[str, Any]]) -> None:
    """Compares the keys of daemons that answered on their admin channels."""
    of_cluster = [one for one in statuses if one["cluster"] == config.cluster and "keys" in one]
    if not of_cluster:
        if config.security.keys is not None:
            remedy = "name admin sockets with --admin, and call as the daemons' own user or root"
            report.unknown("keys", "no daemon could be asked for its keys", remedy)
        return
    for one in of_cluster:
        _check_daemon(report, config, one)
    for field, what in (("live", "live keys"), ("wanted", "keys to use")):
        by_keys: dict[str, list[str]] = {}
        for one in of_cluster:
            value = one["keys"][field]
            shown = value if isinstance(value, str) else ",".join(value or ())
            by_keys.setdefault(shown or "none", []).append(one["daemon"])
        if len(by_keys) > 1:
            text = "; ".join([f"{' '.join(names)} {keys}" for keys, names in sorted(by_keys.items())])
            report.finding("keys", f"daemons have different {what}: {text}", _COPY)
            return
    report.good("keys", f"daemons that were asked have the same keys ({' '.join(by_keys)} to use)")


def _check_daemon(report: DoctorReport, config: Config, status: Mapping[str, Any]) -> None:
    name, keys = status["daemon"], status["keys"]
    if keys["insecure"] and not config.security.insecure:
        report.finding(name, f"runs with {_INSECURE}", "give it the file with keys, and restart it")
    if keys["in_use"] is None and config.security.keys is not None:
        report.finding(name, "runs without keys, and the file has them", "restart it")
    without = lacking(status)
    if without:
        text = f"{' '.join(without)} of its view said nothing of key {keys['wanted']}, which it is to use"
        report.finding(name, text, _COPY)
    elif keys["in_use"] != keys["wanted"]:
        text = (
            f"seals with {keys['in_use']} and is to use {keys['wanted']}: it waits for daemons out of its view"
        )
        report.unknown(
            name, text, "it changes a minute after these were heard last, or when the old key is dropped"
        )
