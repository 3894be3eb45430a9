"""TLS of clients: checks that the other end is a daemon of the cluster, and shows the user's certificate.

Invariants  nothing of the client is encrypted, and so sent, before the certificate of the daemon was checked:
            signed by the cluster's authority, valid now, and for a daemon of that cluster.

Files are read for each connection: certificates that were renewed are used without a restart.
"""

import ssl
from pathlib import Path
from typing import Final

from hopring.credentials.certificates import cluster_of, daemon_named, load_certificate, uris_of, user_named
from hopring.credentials.files import CredentialError, read_public, read_secret
from hopring.credentials.tls_session import CertificateRefused, TlsSession
from hopring.errors import ChannelRefused, Drop, PeerError

GIVE_CA: Final = "give ca= (of commands: --ca, HOP_CA) the ca.crt of the cluster whose daemon this is"

_NOT_YET_VALID: Final = 9  # Codes of verification, as `openssl verify` documents them.
_EXPIRED: Final = 10
_UNTRUSTED: Final = frozenset({2, 18, 19, 20, 21})
_WRONG_PURPOSE: Final = 26
_CLOCK: Final = "check the clocks of both hosts"
_RENEW: Final = (
    "renew it with `hop keys daemon NAME --renew`, copy it to its host and reload; or check this clock"
)
_MAKE: Final = "name the file NAME.pem that `hop keys user NAME --certificate` made"
_NOT_A_DAEMON: Final = "check the address: this is not a daemon's, or somebody pretends to be one"


class ClientChannel:
    """TLS of one connection to a daemon."""

    def __init__(self, session: TlsSession, cluster: str, authority: Path) -> None:
        self._session = session
        self._cluster = cluster
        self._authority = authority
        self.established = False
        """Whether the daemon's certificate was accepted; before that nothing may be encrypted."""
        self.daemon = ""
        """The daemon that the certificate names."""
        self.binding = b""
        """Identifies the channel for signatures: the SHA-256 digest of the daemon's certificate."""

    @property
    def ended(self) -> bool:
        """Whether the daemon has said that nothing more follows."""
        return self._session.ended

    def begin(self) -> bytes:
        """The first bytes to send."""
        self._session.begin()
        return self._session.take()

    def receive(self, chunk: bytes | memoryview) -> bytes:
        """Takes bytes of the daemon and returns its frames; ChannelRefused ends the connection.

        Afterwards `take` may have bytes to send.
        """
        try:
            data = self._session.receive(chunk)
            if self._session.established and not self.established:
                self._check_daemon()
        except PeerError as error:
            raise self._explained(error) from None
        return data

    def take(self) -> bytes:
        """Bytes of TLS itself that have to be sent."""
        return self._session.take()

    def encrypt(self, data: bytes | memoryview) -> bytes:
        """The bytes to send for this output of the client."""
        assert self.established, "the daemon has to be checked first"
        self._session.encrypt(data)
        return self._session.take()

    def _check_daemon(self) -> None:
        uris = self._session.uris
        daemon = daemon_named(uris, self._cluster)
        if daemon is None:
            shown = " ".join(uris) or "nobody"
            raise CertificateRefused(f"its certificate is for {shown}, not for a daemon of {self._cluster}")
        self.daemon, self.binding, self.established = daemon, self._session.peer_digest, True

    def _explained(self, error: PeerError) -> ChannelRefused:
        if isinstance(error, CertificateRefused):
            if error.code in _UNTRUSTED:
                reason = f"its certificate is not signed by the authority in {self._authority}"
                return ChannelRefused(reason, GIVE_CA)
            if error.code == _WRONG_PURPOSE:
                return ChannelRefused("its certificate is that of a user, not of a daemon", _NOT_A_DAEMON)
            remedy = {_EXPIRED: _RENEW, _NOT_YET_VALID: _CLOCK}.get(error.code, _NOT_A_DAEMON)
            return ChannelRefused(error.detail, remedy)
        if error.reason is Drop.CLEAR_TEXT:
            remedy = "connect to the daemon's tls_port, or write hop:// if clear text is meant"
            return ChannelRefused("this port does not speak TLS", remedy)
        if "alert" in error.detail:
            remedy = (
                "look into the daemon's log; a certificate that was given may have expired, or be another's"
            )
            return ChannelRefused(error.detail, remedy)
        return ChannelRefused(error.detail, "look into the daemon's log")


class ClientTls:
    """The authority and the certificate of a client, in files; makes a channel for each connection."""

    def __init__(self, authority: Path, certificate: Path | None) -> None:
        """Reads the files; CredentialError if one cannot be used."""
        self._authority = authority
        self._certificate = certificate
        _context, cluster = self._settings()
        self.user = None if certificate is None else user_named(uris_of(load_certificate(certificate)), cluster)
        """The user that the certificate names."""
        if certificate is not None and self.user is None:
            raise CredentialError(certificate, f"is not a certificate of a user of {cluster}", _MAKE)

    def open(self) -> ClientChannel:
        """The channel of a new connection, by the files as they are now."""
        context, cluster = self._settings()
        return ClientChannel(TlsSession(context, accepts=False), cluster, self._authority)

    def _settings(self) -> tuple[ssl.SSLContext, str]:
        cluster = cluster_of(load_certificate(self._authority), self._authority)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # Daemons are named by URIs, which the channel compares; a host may have any name.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=read_public(self._authority).decode("ascii", "replace"))
        if self._certificate is not None:
            read_secret(self._certificate)  # The rules for secret files; `ssl` has none.
            try:
                context.load_cert_chain(self._certificate)
            except (OSError, ValueError) as error:  # An SSLError is an OSError.
                raise CredentialError(self._certificate, f"is refused by TLS ({error})", _MAKE) from None
        return context, cluster
