"""The certificates of a member's connections, and its refusal to run without them where others can reach it."""

from datetime import UTC, datetime
from ipaddress import ip_address

from hopring.config.error import ConfigError
from hopring.credentials.daemon_tls import DaemonTls, load_daemon_tls
from hopring.wide.clusters_file import AccessPoint, ClustersFile


def load_wide_tls(file: ClustersFile, cluster: str, now: datetime | None = None) -> DaemonTls | None:
    """The certificate of a cluster; None if there are no keys. CredentialError if a file cannot be used."""
    if file.keys is None:
        return None
    return load_daemon_tls(file.keys, file.wide, cluster, now or datetime.now(UTC))


def check_wide_exposure(file: ClustersFile, path: str, listen: AccessPoint | None = None) -> None:
    """ConfigError if connections between clusters would go in the clear beyond loopback."""
    if file.keys is not None:
        return
    points = [(one.name, at) for one in file.clusters for at in one.access]
    points += [("--listen", listen)] if listen is not None else []
    for name, at in points:
        if not is_loopback(at.host):
            where = name if name == "--listen" else f"clusters.{name}.access"
            remedy = (
                f"make keys with `hop keys new --cluster {file.wide}` and `hop keys daemon {name}` for each "
                "cluster, copy them to all hosts and set keys in [security]"
            )
            raise ConfigError(path, where, f"{at} is beyond this host, and there are no keys", remedy)


def check_metrics_exposure(address: tuple[str, int]) -> None:
    """ConfigError if pages would be served without encryption beyond loopback."""
    if not is_loopback(address[0]):
        problem = f"pages are served without encryption beyond this host at {address[0]}"
        remedy = "use a loopback address, and a proxy or tunnel with encryption"
        raise ConfigError("--metrics", "", problem, remedy)


def is_loopback(host: str) -> bool:
    """Whether an address is one of this host alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
