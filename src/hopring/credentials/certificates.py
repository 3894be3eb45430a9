"""The cluster's certificate authority, and the certificates of daemons and users that it signs.

A daemon is named by a URI, `hopring://CLUSTER/DAEMON`, in the subject alternative name of its certificate, a
user by `hopring://CLUSTER/users/USER`. A DNS name would not do: names of clusters and daemons may contain dots
and underscores, and differ by case only. No name contains a slash, so no daemon has the URI of a user; and a
user's certificate is for the end that dials only, so TLS itself refuses it for a daemon.

Keys are ECDSA on P-256, the one kind of elliptic signature that every TLS 1.3 implementation has to have (RFC
8446, 9.1), so they work with every OpenSSL that Python's `ssl` may be built with. Ed25519 is optional there.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hopring.config.builder import is_name
from hopring.credentials.files import CredentialError, read_public, read_secret

BACKDATED: Final = timedelta(hours=1)
"""Certificates are valid from somewhat before now: clocks of hosts differ."""

URI_SCHEME: Final = "hopring"
_USERS: Final = "users"
_COPY: Final = "copy it again from the directory where it was made"


@dataclass(frozen=True, slots=True)
class Authority:
    """The private key and the certificate of a cluster's authority."""

    key: EllipticCurvePrivateKey = field(repr=False)
    certificate: x509.Certificate
    cluster: str

    def sign_daemon(
        self, daemon: str, public: EllipticCurvePublicKey, now: datetime, days: int
    ) -> x509.Certificate:
        """A certificate for both ends of a connection; it ends with that of the authority at the latest."""
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._sign(daemon, daemon_uri(self.cluster, daemon), usage, public, now, days)

    def sign_user(
        self, user: str, public: EllipticCurvePublicKey, now: datetime, days: int
    ) -> x509.Certificate:
        """A certificate for a client; it ends with that of the authority at the latest."""
        usage = [ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._sign(user, user_uri(self.cluster, user), usage, public, now, days)

    def _sign(
        self,
        name: str,
        uri: str,
        usage: list[x509.ObjectIdentifier],
        public: EllipticCurvePublicKey,
        now: datetime,
        days: int,
    ) -> x509.Certificate:
        end = min(now + timedelta(days=days), self.certificate.not_valid_after_utc)
        issuer = self.certificate.public_key()
        assert isinstance(issuer, EllipticCurvePublicKey)
        builder = _draft(_subject(self.cluster, name), self.certificate.subject, public, now, end)
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)])
        return (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .add_extension(names, critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
            .sign(self.key, SHA256())
        )


def new_key() -> EllipticCurvePrivateKey:
    """A private key for an authority or a daemon."""
    return generate_private_key(SECP256R1())


def new_authority(cluster: str, now: datetime, days: int) -> Authority:
    """An authority that signs certificates of daemons, and of no further authority."""
    key = new_key()
    subject = _subject(cluster, f"hopring CA of {cluster}")
    builder = _draft(subject, subject, key.public_key(), now, now + timedelta(days=days))
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(key_cert_sign=True), critical=True)
        .sign(key, SHA256())
    )
    return Authority(key, certificate, cluster)


def daemon_uri(cluster: str, daemon: str) -> str:
    """The name of a daemon in its certificate."""
    return f"{URI_SCHEME}://{cluster}/{daemon}"


def user_uri(cluster: str, user: str) -> str:
    """The name of a user in its certificate."""
    return f"{URI_SCHEME}://{cluster}/{_USERS}/{user}"


def daemon_named(uris: list[str], cluster: str) -> str | None:
    """The daemon of a cluster that a certificate with these URIs is for; None if it is for none."""
    return _named(uris, daemon_uri(cluster, ""))


def user_named(uris: list[str], cluster: str) -> str | None:
    """The user of a cluster that a certificate with these URIs is for; None if it is for none."""
    return _named(uris, user_uri(cluster, ""))


def _named(uris: list[str], prefix: str) -> str | None:
    if len(uris) != 1 or not uris[0].startswith(prefix):
        return None
    name = uris[0].removeprefix(prefix)
    return name if is_name(name) else None


def private_pem(key: EllipticCurvePrivateKey | Ed25519PrivateKey) -> bytes:
    """A private key as PKCS 8 in PEM, not encrypted: daemons start without a person who types a password."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """A certificate in PEM, as `ssl` reads it."""
    return certificate.public_bytes(Encoding.PEM)


def load_authority(key_path: Path, certificate_path: Path) -> Authority:
    """The authority of two files; CredentialError if they do not belong together."""
    certificate = load_certificate(certificate_path)
    cluster = cluster_of(certificate, certificate_path)
    key = load_private_key(key_path)
    if key.public_key() != certificate.public_key():
        problem = f"is not the private key of {certificate_path}"
        raise CredentialError(key_path, problem, _COPY)
    return Authority(key, certificate, cluster)


def load_certificate(path: Path) -> x509.Certificate:
    """The certificate in a public file, with a key of the kind that daemons have."""
    content = read_public(path)
    try:
        certificate = x509.load_pem_x509_certificate(content)
        usable = isinstance(certificate.public_key(), EllipticCurvePublicKey)
        # Extensions are decoded when they are asked for.
        _ = certificate.extensions
    except (ValueError, UnsupportedAlgorithm, x509.DuplicateExtension):
        raise CredentialError(path, "is no certificate in PEM", _COPY) from None
    if not usable:
        raise CredentialError(path, "has a key that is not ECDSA", "make it with `hop keys daemon`")
    return certificate


def load_private_key(path: Path) -> EllipticCurvePrivateKey:
    """The private key of an authority or a daemon in a secret file."""
    content = read_secret(path)
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CredentialError(path, "is no private key in PEM, or an encrypted one", _COPY) from None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise CredentialError(path, "is a private key of another kind than ECDSA", _COPY)
    return key


def cluster_of(certificate: x509.Certificate, path: Path) -> str:
    """The cluster of an authority's certificate."""
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    names = [str(one.value) for one in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if not is_authority or len(names) != 1 or not is_name(names[0]):
        remedy = "name the one that `hop keys new` made"
        raise CredentialError(path, "is not the certificate of a cluster's authority", remedy)
    return names[0]


def uris_of(certificate: x509.Certificate) -> list[str]:
    """The URIs that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether an authority has signed a certificate; no other check is made."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _subject(cluster: str, name: str) -> x509.Name:
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, cluster)
    return x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _draft(
    subject: x509.Name, issuer: x509.Name, public: EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _key_usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        encipher_only=False,
        decipher_only=False,
    )
