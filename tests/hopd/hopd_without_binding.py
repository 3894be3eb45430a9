"""A hopd with a planted fault: signatures of clients are not bound to the TLS channel. Called as hopd is."""

from dataclasses import replace

from hopring.daemon.clients import server
from hopring.daemon.clients.tls_handshakes import EncryptedClient
from hopring.daemon.hopd import main

welcome = server.ClientServer._admit_encrypted


def welcome_unbound(self: server.ClientServer, client: EncryptedClient) -> None:
    welcome(self, replace(client, digest=b""))


if __name__ == "__main__":
    server.ClientServer._admit_encrypted = welcome_unbound  # type: ignore[method-assign]
    main()
