"""TLS 1.3 of one connection on buffers in memory: whoever owns the socket moves the bytes.

Below       a driver with a socket: it gives `receive` the bytes of the other end, and sends those of `take`.
Above       the user of a connection: a link between daemons, a daemon's client, or a client of the library.
Invariants  nothing of the other end is handed up before the handshake is complete, with a certificate that the
            settings require; the caller compares the names in that certificate.
"""

import ssl
from contextlib import suppress
from hashlib import sha256
from typing import Final

from hopring.errors import Drop, PeerError

NOT_TLS: Final = "the other end does not speak TLS"
_READ_BYTES: Final = 1 << 14  # As much as a record has at most (RFC 8446, 5.1).
_HANDSHAKE: Final = 22  # Types of records (RFC 8446, 5.1).
_ALERT: Final = 21
_MAJOR_VERSION: Final = 3  # The same in all versions of TLS.


class CertificateRefused(PeerError):
    """The certificate of the other end was not accepted; `code` is OpenSSL's, 0 if the name is wrong."""

    def __init__(self, detail: str, code: int = 0) -> None:
        super().__init__(Drop.CERTIFICATE, detail)
        self.code = code


class TlsSession:
    """TLS of one connection: takes the bytes of the other end, and gives those that are for it."""

    def __init__(self, context: ssl.SSLContext, *, accepts: bool) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=accepts)
        self._heard = False
        self.established = False
        """Whether the handshake is complete, with a certificate of the other end if one is required."""
        self.ended = False
        """Whether the other end has said that nothing more follows."""

    def begin(self) -> None:
        """Makes the first message of the end that dials."""
        self._shake()

    def receive(self, chunk: bytes | memoryview) -> bytes:
        """Takes bytes of the other end; returns those for the user. PeerError ends the connection."""
        if not self._heard:
            self._heard = True
            if chunk[0] not in (_HANDSHAKE, _ALERT):
                raise PeerError(Drop.CLEAR_TEXT, NOT_TLS)
        self._incoming.write(chunk)
        if not self.established:
            self._shake()
        return self._read() if self.established else b""

    def encrypt(self, data: bytes | memoryview) -> None:
        """Encrypts bytes of the user; `take` returns them."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._object.write(rest) :]

    def close(self) -> None:
        """Says that nothing more follows; `take` returns it."""
        # It would like to wait for the answer of the other end, which nobody needs.
        with suppress(ssl.SSLError):
            self._object.unwrap()

    def take(self) -> bytes:
        """The bytes for the other end: encrypted ones, and those of TLS itself."""
        return self._outgoing.read()

    @property
    def uris(self) -> list[str]:
        """The URIs in the verified certificate of the other end; none if it has shown none."""
        certificate = self._object.getpeercert() or {}
        names = certificate.get("subjectAltName", ())
        return [str(one[1]) for one in names if isinstance(one, tuple) and one[0] == "URI"]

    @property
    def peer_expires_seconds(self) -> int | None:
        """When the verified certificate of the other end expires, as Unix time; None if it has shown none."""
        end = (self._object.getpeercert() or {}).get("notAfter")
        return ssl.cert_time_to_seconds(end) if isinstance(end, str) else None

    @property
    def peer_digest(self) -> bytes:
        """The SHA-256 digest of the certificate that the other end has shown; empty if it has shown none."""
        certificate = self._object.getpeercert(binary_form=True)
        return b"" if certificate is None else sha256(certificate).digest()

    def _shake(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise explain(error) from None
        self.established = True

    def _read(self) -> bytes:
        pieces: list[bytes] = []
        try:
            while piece := self._object.read(_READ_BYTES):
                pieces.append(piece)
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        except ssl.SSLError as error:
            raise explain(error) from None
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def shows_tls(start: bytes) -> bool:
    """Whether the first bytes of a connection are those of a TLS handshake."""
    return start[:2] == bytes([_HANDSHAKE, _MAJOR_VERSION])


def explain(error: ssl.SSLError) -> PeerError:
    """An error of `ssl` as the mistake of a peer, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return CertificateRefused(f"its certificate is refused: {error.verify_message}", error.verify_code)
    reason = str(error.reason or error).lower().replace("_", " ")
    if "alert" in reason:
        return PeerError(Drop.HANDSHAKE, f"the other end refuses the connection: {reason}")
    if "did not return a certificate" in reason:
        return CertificateRefused("it has shown no certificate")
    if reason == "wrong version number":
        return PeerError(Drop.CLEAR_TEXT, NOT_TLS)
    return PeerError(Drop.HANDSHAKE, f"wrong TLS: {reason}")
