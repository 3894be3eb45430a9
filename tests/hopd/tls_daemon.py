"""A daemon that serves clients by TLS, and impostors with other certificates, alone or in front of it."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.hopd.one_daemon import OneDaemon, alone
from tests.support.free_ports import free_base_port
from tests.support.keys import DAYS

from hopring.config import Config, SecurityTuning, dump_toml, local_config
from hopring.credentials.certificates import Authority, certificate_pem, load_authority, new_key
from hopring.credentials.directory import KeyDirectory
from hopring.local.plan import with_ports


class TlsDaemon:
    """A running daemon with a `tls_port`, and the files of its cluster."""

    def __init__(self, daemon: OneDaemon, directory: Path, config: Config) -> None:
        self.daemon = daemon
        self.directory = directory
        self.keys = KeyDirectory(directory / "keys")
        own = config.daemons[0]
        self.port, self.clear_port = own.tls_port or 0, own.client_port or 0
        self.url = f"hops://127.0.0.1:{self.port}"
        self.clear_url = f"hop://127.0.0.1:{self.clear_port}"
        self.unix_url = f"hop+unix://{directory / 'local.eu1.sock'}"
        self.ca = self.keys.authority_path


def tls_config(directory: Path, *others: str) -> Config:
    """The configuration of one daemon with keys and a `tls_port`; certificates are made for others, too."""
    config = local_config({"eu": 1}, base_port=(base := free_base_port(3)))
    KeyDirectory(directory / "keys").create("local", ["eu1", *others], datetime.now(UTC), DAYS, DAYS)
    return replace(with_ports(config, "eu1", tls_port=base + 2), security=SecurityTuning("keys"))


@contextmanager
def tls_daemon(
    directory: Path, *arguments: str, more: str = "", module: str = "hopring.daemon.hopd"
) -> Iterator[TlsDaemon]:
    """Runs it until the block ends; `more` is added to the configuration file."""
    config = tls_config(directory, "eu2")
    (directory / "hop.toml").write_text(dump_toml(config) + more)
    with alone(config, directory, "eu1", *arguments, module=module) as daemon:
        daemon.wait_for_log(" view ")
        yield TlsDaemon(daemon, directory, config)


def authority_of(keys: KeyDirectory) -> Authority:
    return load_authority(keys.authority_key_path, keys.authority_path)


def make_certificate(
    keys: KeyDirectory, path: Path, name: str, *, user: bool = False, at: datetime | None = None, days: int = 1
) -> Path:
    """A file with a key and a certificate of the cluster's authority, which `ssl` can load."""
    authority, key = authority_of(keys), new_key()
    sign = authority.sign_user if user else authority.sign_daemon
    certificate = sign(name, key.public_key(), at or datetime.now(UTC), days)
    path.unlink(missing_ok=True)
    path.touch(0o600)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + certificate_pem(certificate))
    return path


class Impostor:
    """A server that shows a certificate; with the port of a daemon it passes everything on by TLS."""

    def __init__(self, certificate: Path, port: int | None = None) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.passed = bytearray()
        """What clients have sent through it, decrypted."""
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> "Impostor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    @property
    def url(self) -> str:
        return f"hops://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            here = self._context.wrap_socket(client, server_side=True)
            self._open.append(here)
            if self._port is None:
                self.passed += here.recv(1 << 16)
                return
            trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
            there = trusting.wrap_socket(socket.create_connection(("127.0.0.1", self._port)))
            self._open.append(there)
            threading.Thread(target=self._pump, args=(there, here), daemon=True).start()
            self._pump(here, there, record=True)

    def _pump(self, source: Any, sink: Any, *, record: bool = False) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                if record:
                    self.passed += chunk
                sink.sendall(chunk)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
