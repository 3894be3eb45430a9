"""The file of cluster keys: what is read, each mistake with its line, and the changes of a rotation."""

import base64
from pathlib import Path

import pytest

from hopring.credentials.cluster_keys import HEAD, KeyFile, load_key_file, load_key_ring, new_key
from hopring.credentials.files import ChangeRefused, CredentialError
from hopring.sealing.keys import ClusterKey

ONE, TWO, THREE = bytes(range(32)), bytes(range(1, 33)), bytes(range(2, 34))


def line(state: str, secret: bytes, key_id: str | None = None) -> str:
    return f"{state} {key_id or f'{ClusterKey(secret).id:08x}'} {base64.b64encode(secret).decode()}\n"


def id_of(secret: bytes) -> str:
    return f"{ClusterKey(secret).id:08x}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two keys, of which the first is used."""
    file = tmp_path / "cluster.keys"
    file.write_text(HEAD + line("use", ONE) + "\n" + line("accept", TWO))
    file.chmod(0o600)
    return file


def assert_no_secret(*texts: object) -> None:
    for text in texts:
        shown = f"{text} {text!r}"
        for secret in (ONE, TWO, THREE):
            assert base64.b64encode(secret).decode().rstrip("=") not in shown
            assert secret.hex() not in shown
            assert repr(secret)[2:-1] not in shown


def test_both_keys_and_the_one_in_use_are_read(path: Path) -> None:
    ring = load_key_ring(path)

    assert (sorted(ring.keys), ring.use) == (
        sorted([ClusterKey(ONE).id, ClusterKey(TWO).id]),
        ClusterKey(ONE).id,
    )
    assert_no_secret(ring, load_key_file(path), load_key_file(path).keys, load_key_file(path).as_new_file())


@pytest.mark.parametrize(
    ("text", "number", "problem"),
    [
        ("# nothing else\n", None, "has no key"),
        (line("accept", ONE), None, "has 1 keys, 0 of them in use"),
        (line("use", ONE) + line("use", TWO), None, "has 2 keys, 2 of them in use"),
        (line("use", ONE) + line("accept", ONE), 2, f"has key {id_of(ONE)} twice"),
        (line("use", ONE) + line("accept", TWO) + line("accept", THREE), 3, "has more than 2 keys"),
        (line("use", ONE, "00000000"), 1, f"the id is not that of the key, which is {id_of(ONE)}"),
        (line("use", ONE, id_of(ONE).upper() + "0"), 1, "the id is not that of the key"),
        (line("use", ONE, id_of(ONE))[:-8] + "\n", 1, "the secret is not base64"),
        (line("use", ONE).replace("=", "!"), 1, "the secret is not base64"),
        (line("use", ONE[:31], "00000000"), 1, "a cluster key has 32 bytes, this one 31"),
        (line("use", ONE + b"x", "00000000"), 1, "a cluster key has 32 bytes, this one 33"),
        ("# head\n" + line("used", ONE), 2, "has an unknown state"),
        (line("use", ONE).replace("\n", " extra\n"), 1, "has 4 fields"),
        (base64.b64encode(ONE).decode(), 1, "has 1 fields"),
        (" ".join(reversed(line("use", ONE).split())), 1, "has an unknown state"),
    ],
)
def test_a_mistake_names_its_line_and_never_the_secret(
    path: Path, text: str, number: int | None, problem: str
) -> None:
    path.write_text(text)
    with pytest.raises(CredentialError) as caught:
        load_key_ring(path)

    error = caught.value
    assert (error.line, error.path) == (number, path)
    assert problem in error.problem
    assert len(error.remedy) > 10
    assert str(error).startswith(f"{path}:{number}: " if number else f"{path}: ")
    assert_no_secret(error, error.args, error.__context__)


def test_bytes_that_are_no_text_are_refused(path: Path) -> None:
    path.write_bytes(b"\xff" + ONE)
    with pytest.raises(CredentialError, match="is not text") as caught:
        load_key_ring(path)

    assert_no_secret(caught.value)


def test_every_cut_of_a_file_is_an_error_or_has_whole_keys(path: Path) -> None:
    whole = path.read_bytes()
    good = 0
    for length in range(len(HEAD), len(whole)):
        path.write_bytes(whole[:length])
        try:
            ring = load_key_ring(path)
        except CredentialError as error:
            assert_no_secret(error)
            continue
        good += 1
        assert set(ring.keys) <= {ClusterKey(ONE).id, ClusterKey(TWO).id}
    # With the first line whole and at most a line feed behind it, or with all but the last line feed.
    assert good == 4


def test_a_file_that_others_can_read_is_refused_before_it_is_parsed(path: Path) -> None:
    path.chmod(0o644)
    with pytest.raises(CredentialError, match=f"chmod 600 {path}"):
        load_key_ring(path)


def test_what_is_saved_is_read_again(path: Path) -> None:
    made = KeyFile(path, (new_key(in_use=True), new_key(in_use=False)))
    made.save()
    again = load_key_file(path)

    assert [(one.secret, one.state) for one in again.keys] == [(one.secret, one.state) for one in made.keys]
    assert made.keys[0].secret != made.keys[1].secret
    assert path.read_text().startswith("# Cluster keys of hopring. SECRET")


def test_a_rotation_adds_uses_and_drops(path: Path) -> None:
    path.write_text(line("use", ONE))
    added = load_key_file(path).with_new_key()
    new = added.keys[1].key.id
    assert [one.state for one in added.keys] == ["use", "accept"]

    used = added.with_use(f"{new:08X}")
    assert (used.ring.use, [one.state for one in used.keys]) == (new, ["accept", "use"])

    dropped = used.without(id_of(ONE))
    assert list(dropped.ring.keys) == [new]


def test_changes_that_would_leave_no_good_file_are_refused(path: Path) -> None:
    keys = load_key_file(path)
    with pytest.raises(
        ChangeRefused, match=f"has 2 keys already; drop one first: `hop keys drop {id_of(TWO)}`"
    ):
        keys.with_new_key()
    with pytest.raises(ChangeRefused, match=f"key {id_of(ONE)} is in use; use the other key first"):
        keys.without(id_of(ONE))
    with pytest.raises(ChangeRefused, match=f"has no key 00000000; its keys are {id_of(ONE)}, {id_of(TWO)}"):
        keys.with_use("00000000")
    with pytest.raises(ChangeRefused, match="is in use; `hop keys add` adds another"):
        keys.without(id_of(TWO)).without(id_of(ONE))


def test_a_secret_given_for_an_id_is_not_repeated(path: Path) -> None:
    with pytest.raises(ChangeRefused, match="an id has 8 hex digits") as caught:
        load_key_file(path).with_use(base64.b64encode(ONE).decode())

    assert_no_secret(caught.value)
