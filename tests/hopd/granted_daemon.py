"""One daemon as a process with users and grants, and the files of its users."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.hopd.one_daemon import OneDaemon, alone
from tests.support.free_ports import free_base_port

from hopring.config import dump_toml, local_config
from hopring.credentials.files import user_name
from hopring.credentials.user_keys import public_line

ME = f"uid:{user_name(os.getuid())}"
GRANTS = f"""
[security]
audit = "audit.jsonl"

[[users]]
name = "alice"
key = "alice.pub"

[[users]]
issuer = "login.example"
key = "login.pub"

[grants.alice]
names = ["pricer", "alice-*"]
join = ["trades.*"]
send = ["trades.*"]
deny_send = ["trades.closed"]
apps = ["detector"]

[grants.robot]
names = ["robot"]
send = ["trades.*"]

[grants."{ME}"]
names = ["*"]
join = ["*"]
send = ["*"]
priority = true
"""


class GrantedDaemon:
    """A daemon with grants, its addresses, and the files of its users."""

    def __init__(self, daemon: OneDaemon, directory: Path, port: int) -> None:
        self.daemon = daemon
        self.directory = directory
        self.url = f"hop://127.0.0.1:{port}"
        self.unix = f"hop+unix://{directory / 'local.eu1.sock'}"

    @property
    def alice(self) -> dict[str, Any]:
        return {"user": "alice", "key": self.directory / "alice.key"}

    def audit(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.directory / "audit.jsonl").read_text().splitlines()]

    def token(self, key: Ed25519PrivateKey | None = None, **claims: object) -> Path:
        path = self.directory / "token"
        login = key or self.login
        whole = {"iss": "login.example", "aud": "local", "sub": "robot", "exp": time.time() + 60, **claims}
        write_secret(
            path, jwt.encode({k: v for k, v in whole.items() if v is not None}, login, "EdDSA").encode()
        )
        return path

    login: Ed25519PrivateKey


def write_secret(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.touch(0o600)
    path.write_bytes(content)


def make_key(directory: Path, name: str) -> Ed25519PrivateKey:
    key = Ed25519PrivateKey.generate()
    write_secret(
        directory / f"{name}.key", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    (directory / f"{name}.pub").write_bytes(public_line(key.public_key(), name))
    return key


@contextmanager
def granted_daemon(
    directory: Path, module: str = "hopring.daemon.hopd", environment: Mapping[str, str] | None = None
) -> Iterator[GrantedDaemon]:
    """Runs the daemon until the block ends."""
    config = local_config({"eu": 1}, base_port=free_base_port(2))
    make_key(directory, "alice")
    login = make_key(directory, "login")
    (directory / "hop.toml").write_text(dump_toml(config) + GRANTS)
    with alone(config, directory, "eu1", module=module, environment=environment) as daemon:
        daemon.wait_for_log("view")
        one = GrantedDaemon(daemon, directory, config.daemons[0].client_port or 0)
        one.login = login
        yield one
