"""Certificates and keys of users: what OpenSSL takes them for, and files that are something else."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from hopring.credentials.certificates import (
    certificate_pem,
    load_authority,
    load_certificate,
    load_private_key,
    new_authority,
    new_key,
    private_pem,
    uris_of,
)
from hopring.credentials.directory import KeyDirectory
from hopring.credentials.files import ChangeRefused, CredentialError, NewFile, replace_file
from hopring.credentials.inspection import inspect_directory
from hopring.credentials.user_keys import fingerprint, load_user_key, load_user_public_key, public_line

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def keys(tmp_path: Path) -> KeyDirectory:
    """Credentials of a cluster of two daemons and a user."""
    made = KeyDirectory(tmp_path / "keys")
    made.create("tri_angle", ["eu1", "us.1"], NOW, 3650, 730)
    made.add_user("anna")
    return made


def context(keys: KeyDirectory, daemon: str, *, server: bool) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    made.load_verify_locations(keys.authority_path)
    made.load_cert_chain(keys.certificate_path(daemon), keys.daemon_key_path(daemon))
    return made


def connect(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after a handshake in memory."""
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(one, other), server.wrap_bio(other, one, server_side=True)
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends


def test_two_daemons_meet_over_tls_and_see_each_others_names(keys: KeyDirectory) -> None:
    ends = connect(context(keys, "eu1", server=False), context(keys, "us.1", server=True))

    names = [end.getpeercert() for end in ends]
    assert [one and one["subjectAltName"] for one in names] == [
        (("URI", "hopring://tri_angle/us.1"),),
        (("URI", "hopring://tri_angle/eu1"),),
    ]
    assert {end.version() for end in ends} == {"TLSv1.3"}


def test_a_daemon_of_another_authority_is_refused(keys: KeyDirectory, tmp_path: Path) -> None:
    other = KeyDirectory(tmp_path / "other")
    other.create("tri_angle", ["eu1"], NOW, 3650, 730)

    with pytest.raises(ssl.SSLCertVerificationError):
        connect(context(keys, "eu1", server=False), context(other, "eu1", server=True))


def test_certificates_end_as_told_and_not_after_their_authority() -> None:
    authority = new_authority("c", NOW, 100)
    short, long = [authority.sign_daemon("a", new_key().public_key(), NOW, days) for days in (10, 1000)]

    assert short.not_valid_after_utc == NOW + timedelta(days=10)
    assert long.not_valid_after_utc == authority.certificate.not_valid_after_utc == NOW + timedelta(days=100)
    assert short.not_valid_before_utc < NOW


def test_a_daemon_cannot_sign_for_others(keys: KeyDirectory) -> None:
    with pytest.raises(CredentialError, match="is not the certificate of a cluster's authority"):
        load_authority(keys.daemon_key_path("eu1"), keys.certificate_path("eu1"))
    usage = load_certificate(keys.certificate_path("eu1")).extensions.get_extension_for_class(x509.KeyUsage)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.digital_signature) == (True, False, True)


def test_a_key_of_another_certificate_is_no_authority(keys: KeyDirectory) -> None:
    with pytest.raises(CredentialError, match=f"is not the private key of {keys.authority_path}"):
        load_authority(keys.daemon_key_path("eu1"), keys.authority_path)


def test_a_renewed_certificate_is_for_the_same_key(keys: KeyDirectory) -> None:
    before = load_certificate(keys.certificate_path("eu1"))
    key = keys.daemon_key_path("eu1").read_bytes()
    keys.renew_daemon("eu1", NOW, 1000)
    after = load_certificate(keys.certificate_path("eu1"))

    assert (after.public_key(), uris_of(after)) == (before.public_key(), uris_of(before))
    assert after.not_valid_after_utc > before.not_valid_after_utc
    assert keys.daemon_key_path("eu1").read_bytes() == key
    connect(context(keys, "eu1", server=False), context(keys, "us.1", server=True))


def test_an_authority_that_has_expired_signs_nothing(keys: KeyDirectory) -> None:
    late = NOW + timedelta(days=3650)
    for sign in (keys.add_daemon, keys.renew_daemon):
        with pytest.raises(CredentialError, match=r"expired on .*; make a new directory with `hop keys new`"):
            sign("eu1", late, 730)


def test_a_certificate_of_another_daemon_is_not_renewed_under_a_new_name(keys: KeyDirectory) -> None:
    keys.certificate_path("eu1").write_bytes(keys.certificate_path("us.1").read_bytes())

    with pytest.raises(ChangeRefused, match="was not made for hopring://tri_angle/eu1"):
        keys.renew_daemon("eu1", NOW, 1000)


def _rsa() -> bytes:
    key = generate_private_key(65537, 1024)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _encrypted() -> bytes:
    password = BestAvailableEncryption(b"password")
    return new_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, password)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (lambda: b"hello", "is no private key in PEM"),
        (lambda: private_pem(new_key())[:-40], "is no private key in PEM"),
        (_encrypted, "or an encrypted one"),
        (lambda: private_pem(Ed25519PrivateKey.generate()), "of another kind than ECDSA"),
        (_rsa, "of another kind than ECDSA"),
    ],
)
def test_what_is_no_private_key_of_a_daemon_is_refused(
    tmp_path: Path, content: Callable[[], bytes], problem: str
) -> None:
    pem = content()
    replace_file(NewFile(tmp_path / "key", pem))
    with pytest.raises(CredentialError, match=problem) as caught:
        load_private_key(tmp_path / "key")

    body = pem.decode().splitlines()[1:2]
    assert not [one for one in body if one in f"{caught.value} {caught.value!r}"]


def test_what_is_no_certificate_is_refused(keys: KeyDirectory, tmp_path: Path) -> None:
    whole = certificate_pem(load_certificate(keys.authority_path))
    for content in (b"hello", whole[:-60], private_pem(new_key())):
        (tmp_path / "crt").write_bytes(content)
        with pytest.raises(CredentialError, match="is no certificate in PEM"):
            load_certificate(tmp_path / "crt")


def test_a_user_has_a_private_key_and_one_public_line(keys: KeyDirectory) -> None:
    private = load_user_key(keys.user_path("anna", "key"))
    public = load_user_public_key(keys.user_path("anna", "pub"))
    text = keys.user_path("anna", "pub").read_text()

    assert private.public_key() == public
    assert text.startswith("ssh-ed25519 ")
    assert text.endswith(" anna\n")
    assert text.count("\n") == 1
    assert keys.user_path("anna", "key").stat().st_mode & 0o777 == 0o600


def test_the_fingerprint_is_that_of_openssh() -> None:
    public = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key()

    # From `ssh-keygen -lf` on this key.
    assert fingerprint(public) == "SHA256:lbmsoA0yIEcEiVDRnMWuzm+nV+3ZEEpVIURqFoeSspg"


def test_what_is_no_key_of_a_user_is_refused(tmp_path: Path) -> None:
    line = public_line(Ed25519PrivateKey.generate().public_key(), "anna")
    other = new_key().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    for content, problem in (
        (line + line, "has more than one line"),
        (line[:30], "is no public key in the form of OpenSSH"),
        (b"hello\n", "is no public key"),
        (b"\xff\n", "is no public key"),
        (other, "of another kind than Ed25519"),
    ):
        (tmp_path / "pub").write_bytes(content)
        with pytest.raises(CredentialError, match=problem):
            load_user_public_key(tmp_path / "pub")
    for content, problem in ((b"hello", "is no private key"), (private_pem(new_key()), "than Ed25519")):
        replace_file(NewFile(tmp_path / "key", content))
        with pytest.raises(CredentialError, match=problem):
            load_user_key(tmp_path / "key")


def problems(keys: KeyDirectory, now: datetime = NOW) -> list[str]:
    return [
        f"{one.path.relative_to(keys.root)}: {one.problem}; {one.remedy}"
        for one in inspect_directory(keys, now)
    ]


def test_an_inspection_of_good_files_finds_nothing(keys: KeyDirectory) -> None:
    assert problems(keys) == []
    # On a host: without the authority's key, and with one daemon only.
    for path in (keys.authority_key_path, keys.certificate_path("us.1"), keys.daemon_key_path("us.1")):
        path.unlink()
    assert problems(keys) == []


def test_an_inspection_names_certificates_that_expire(keys: KeyDirectory) -> None:
    soon, late = NOW + timedelta(days=710), NOW + timedelta(days=4000)
    first = NOW - timedelta(days=1)

    assert [one.split(";")[0] for one in problems(keys, soon)] == [
        f"daemons/{name}.crt: expires in 20 days, on {NOW + timedelta(days=730):%Y-%m-%d}"
        for name in ("eu1", "us.1")
    ]
    assert f"`hop keys daemon eu1 {keys.root} --renew`" in problems(keys, soon)[0]
    assert [one.split(" ")[1] for one in problems(keys, late)] == ["expired"] * 3
    assert all("check the clock" in one for one in problems(keys, first))
    assert len(problems(keys, first)) == 3


def test_an_inspection_finds_what_does_not_belong_together(keys: KeyDirectory, tmp_path: Path) -> None:
    other = KeyDirectory(tmp_path / "other")
    other.create("tri_angle", ["eu1"], NOW, 3650, 730)
    other.add_user("anna")
    keys.certificate_path("eu1").write_bytes(other.certificate_path("eu1").read_bytes())
    keys.certificate_path("us.1").rename(keys.certificate_path("us2"))
    keys.daemon_key_path("us.1").rename(keys.daemon_key_path("us2"))
    keys.user_path("anna", "pub").write_bytes(other.user_path("anna", "pub").read_bytes())
    found = problems(keys)

    assert [one.split(" of ")[0].split(";")[0] for one in found] == [
        "daemons/eu1.key: is not the private key",
        "daemons/eu1.crt: is not signed by the authority in ca.crt",
        "daemons/us2.crt: is not a certificate for hopring://tri_angle/us2",
        "users/anna.key: is not the private key",
    ]


def test_an_inspection_finds_modes_links_and_missing_files(keys: KeyDirectory) -> None:
    keys.root.chmod(0o770)
    keys.keys_path.chmod(0o640)
    keys.authority_path.chmod(0o664)
    keys.daemon_key_path("eu1").rename(keys.root / "elsewhere")
    keys.daemon_key_path("eu1").symlink_to(keys.root / "elsewhere")
    keys.certificate_path("us.1").unlink()
    keys.user_path("anna", "key").chmod(0o604)
    found = "\n".join(problems(keys))

    for said in (
        f".: has mode 0770, others than its owner can write to it; chmod go-w {keys.root}\n",
        f"cluster.keys: has mode 0640, others than its owner have rights to it; chmod 600 {keys.keys_path}\n",
        f"ca.crt: has mode 0664, others than its owner can write to it; chmod go-w {keys.authority_path}\n",
        "daemons/eu1.key: is a symbolic link",
        "daemons/us.1.crt: does not exist",
        "users/anna.key: has mode 0604",
    ):
        assert said in found
    assert found.count("\n") == 5
