"""`hop keys` as a person calls it; no output has a secret in it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from tests.unit.cli.conftest import Hop

from hopring.credentials.cluster_keys import load_key_ring

PAGE = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
NEXT = "next: copy {path} to every host (mode 600), then reload the daemons: `hop monitor reload`"

HopKeys = Callable[..., Result]


def secrets_in(directory: Path) -> set[str]:
    """Lines of secret files that are no comments, and the words in them that are long enough to be a secret."""
    found: set[str] = set()
    for path in [one for suffix in ("key", "keys", "pem") for one in directory.glob(f"**/*.{suffix}")]:
        lines = [line for line in path.read_text().splitlines() if not line.startswith(("#", "-----"))]
        found.update(word for line in lines for word in line.split() if len(word) > 16)
    return found


@pytest.fixture
def hop_keys(hop: Hop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HopKeys:
    """Calls `hop keys` in an empty directory, and looks for secrets of before and after in its output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    known: set[str] = set()

    def call(*arguments: str | Path) -> Result:
        known.update(secrets_in(tmp_path))
        result = hop("keys", *arguments)
        known.update(secrets_in(tmp_path))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert not [one for one in known if one in result.output]
        assert "Traceback" not in result.output
        return result

    return call


@pytest.fixture
def made(hop_keys: HopKeys, triangle: Path) -> Path:
    """The directory of a cluster of four daemons, named as the commands expect it."""
    result = hop_keys("new", "--config", triangle)
    assert result.exit_code == 0
    return Path("keys")


def ids(hop_keys: HopKeys) -> dict[str, str]:
    facts = json.loads(hop_keys("show", "--json").stdout)
    return {one["state"]: one["id"] for one in facts["keys"]}


def test_new_makes_a_key_an_authority_and_a_certificate_for_each_daemon(made: Path, hop_keys: HopKeys) -> None:
    files = {str(path.relative_to(made)): path.stat().st_mode & 0o777 for path in made.glob("**/*.*")}

    daemons = [f"daemons/{name}.{kind}" for name in ("ap1", "eu1", "eu2", "us1") for kind in ("key", "crt")]
    assert sorted(files) == sorted(["cluster.keys", "ca.key", "ca.crt", *daemons])
    assert {path for path, mode in files.items() if mode != 0o600} == {
        one for one in files if one.endswith("crt")
    }
    assert made.stat().st_mode & 0o777 == 0o700
    assert hop_keys("check").exit_code == 0
    assert len(secrets_in(made)) > 5


def test_new_says_what_was_made_and_what_comes_next(hop_keys: HopKeys) -> None:
    result = hop_keys("new", "--out", "other", "--cluster", "lab", "--ca-days", "20")

    assert result.stdout.splitlines() == [
        f"other/cluster.keys  key {load_key_ring('other/cluster.keys').use:08x}",
        "other/ca.crt  authority of the cluster lab",
    ]
    assert "next: copy cluster.keys, ca.crt and daemons/NAME.* to the host of each daemon" in result.stderr
    assert "keep other/ca.key in a safe place" in result.stderr
    assert not Path("other/daemons").exists()


def test_new_overwrites_nothing(made: Path, hop_keys: HopKeys) -> None:
    before = {path: path.read_bytes() for path in made.glob("**/*.*")}
    for path in ("cluster.keys", "ca.key", "ca.crt", "daemons"):
        result = hop_keys("new", "--cluster", "triangle")

        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"hop: keys/{path}: is there already; choose another directory")
        assert result.stderr.count("\n") == 1
        (made / path).rename(f"was-{path}")
    assert all(Path(f"was-{path.relative_to(made)}").read_bytes() == text for path, text in before.items())


def test_show_has_ids_states_names_expiry_and_fingerprints(made: Path, hop_keys: HopKeys) -> None:
    hop_keys("user", "anna")
    facts = json.loads(hop_keys("show", "--json").stdout)
    text = hop_keys("show", made).stdout.splitlines()

    assert facts["ca"]["name"] == "triangle"
    assert facts["daemons"][0]["uris"] == ["hopring://triangle/ap1"]
    assert text[0] == f"key     {facts['keys'][0]['id']}  use"
    rows = [("ca", facts["ca"]), *[("daemon", one) for one in facts["daemons"]]]
    assert text[1:-1] == [
        f"{kind:6}  {one['name']}  until {one['expires'][:10]}  sha256 {one['sha256']}" for kind, one in rows
    ]
    assert text[-1] == f"user    anna  {facts['users'][0]['fingerprint']}"
    (made / "cluster.keys").unlink()
    assert json.loads(hop_keys("show", "--json").stdout)["keys"] == []


def test_a_rotation_step_by_step(made: Path, hop_keys: HopKeys) -> None:
    old = ids(hop_keys)["use"]
    path = made / "cluster.keys"
    inode = path.stat().st_ino

    added = hop_keys("add")
    new = added.stdout.strip()
    assert ids(hop_keys) == {"use": old, "accept": new}
    assert added.stderr == f"hop: {NEXT.format(path=path)}, then `hop keys use {new}`\n"

    used = hop_keys("use", new, made)
    assert ids(hop_keys) == {"use": new, "accept": old}
    assert used.stderr.endswith(f"{NEXT.format(path=path)}, then `hop keys drop {old}`\n")
    again = hop_keys("use", new)
    assert (again.exit_code, again.stderr) == (0, f"hop: key {new} is in use already; nothing was done\n")

    dropped = hop_keys("drop", old, "--yes")
    assert ids(hop_keys) == {"use": new}
    assert dropped.stderr.endswith(f"{NEXT.format(path=path)}\n")
    assert (path.stat().st_mode & 0o777, path.stat().st_ino == inode) == (0o600, False)
    assert list(load_key_ring(path).keys) == [int(new, 16)]


def test_a_key_is_dropped_only_if_it_is_not_in_use_and_after_a_question(made: Path, hop_keys: HopKeys) -> None:
    old, new = ids(hop_keys)["use"], hop_keys("add").stdout.strip()
    before = (made / "cluster.keys").read_bytes()

    refused = hop_keys("drop", old, "--yes")
    assert (refused.exit_code, refused.stderr) == (
        1,
        f"hop: keys/cluster.keys: key {old} is in use; use the other key first: `hop keys use`\n",
    )
    unasked = hop_keys("drop", new)
    assert unasked.exit_code == 2
    assert "needs --yes if stdin is not a terminal; nothing was done" in " ".join(unasked.stderr.split())
    third = hop_keys("add")
    assert (third.exit_code, f"drop one first: `hop keys drop {new}`" in third.stderr) == (1, True)
    assert (made / "cluster.keys").read_bytes() == before


@pytest.mark.parametrize("verb", ["use", "drop"])
def test_an_id_that_is_not_there_is_refused_with_those_that_are(
    made: Path, hop_keys: HopKeys, verb: str
) -> None:
    there = ids(hop_keys)["use"]
    result = hop_keys(verb, "00000000")
    secret = (made / "cluster.keys").read_text().split()[-1]

    assert (result.exit_code, result.stderr) == (
        1,
        f"hop: keys/cluster.keys: has no key 00000000; its keys are {there}\n",
    )
    # The call looks for secrets in the output.
    assert hop_keys(verb, secret).exit_code == 1


def test_daemons_and_users_are_added_and_renewed(made: Path, hop_keys: HopKeys) -> None:
    assert hop_keys("daemon", "eu3", "--days", "10").stdout == "keys/daemons/eu3.crt\n"
    again = hop_keys("daemon", "eu3")
    assert (again.exit_code, "keys/daemons/eu3.key: is there already; --renew" in again.stderr) == (1, True)

    soon = hop_keys("check")
    assert soon.exit_code == 1
    assert soon.stdout.startswith("keys/daemons/eu3.crt: expires in 9 days, on ")
    assert "`hop keys daemon eu3 keys --renew`" in soon.stdout
    assert soon.stderr == "hop: keys: 1 finding, each with its remedy on stdout\n"
    assert hop_keys("daemon", "eu3", "keys", "--renew").exit_code == 0
    assert hop_keys("check").exit_code == 0

    assert hop_keys("user", "anna").stdout == "keys/users/anna.pub\n"
    assert hop_keys("user", "anna").exit_code == 1
    (made / "ca.key").unlink()
    lacking = hop_keys("daemon", "eu4")
    assert (lacking.exit_code, lacking.stderr.startswith("hop: keys/ca.key: does not exist; ")) == (7, True)
    assert not (made / "daemons" / "eu4.key").exists()


def test_check_lists_every_finding_with_its_remedy(made: Path, hop_keys: HopKeys) -> None:
    (made / "cluster.keys").chmod(0o644)
    (made / "daemons" / "eu1.key").chmod(0o640)
    shown = hop_keys("check")
    told = hop_keys("check", "--json")

    assert shown.exit_code == told.exit_code == 1
    assert [line.rpartition("; ")[2] for line in shown.stdout.splitlines()] == [
        "chmod 600 keys/cluster.keys",
        "chmod 600 keys/daemons/eu1.key",
    ]
    assert [one["path"] for one in json.loads(told.stdout)["findings"]] == [
        "keys/cluster.keys",
        "keys/daemons/eu1.key",
    ]
    for command in shown.stdout.splitlines():
        subprocess.run(command.rpartition("; ")[2], shell=True, check=True)
    assert hop_keys("check").exit_code == 0


@pytest.mark.parametrize("verb", [("show",), ("add",), ("use", "0"), ("drop", "0", "--yes")])
def test_a_file_that_others_can_read_is_exit_code_7_and_stays(
    made: Path, hop_keys: HopKeys, verb: tuple[str, ...]
) -> None:
    path = made / "cluster.keys"
    path.chmod(0o604)
    before = path.read_bytes()
    if verb[0] in ("use", "drop"):
        verb = (verb[0], "00000000", *verb[2:])
    result = hop_keys(*verb)

    assert (result.exit_code, result.stdout) == (7, "")
    assert result.stderr == (
        "hop: keys/cluster.keys: has mode 0604, others than its owner have rights to it; "
        "chmod 600 keys/cluster.keys\n"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "remedy"),
    [
        ("show", 7, "name the directory of `hop keys new --out`"),
        ("check none", 7, "name the directory of `hop keys new --out`"),
        ("show .", 7, ".: has no keys; name the directory"),
        ("add hop.toml", 7, "is no directory"),
        ("new --config none.toml", 7, "check the path and its permissions"),
        ("new --config hop.toml --cluster other", 2, "leave --cluster out"),
        ("new --cluster a/b", 2, "use at most 32 of"),
        ("new --cluster c --days 0", 2, "1<=x<=36500"),
        ("new --cluster c --out hop.toml", 1, "cannot be written (File exists)"),
        ("daemon ../eu1", 2, "use at most 32 of"),
        ("user -- -x", 2, "use at most 32 of"),
        ("daemon eu1 none", 7, "name the directory of `hop keys new --out`"),
    ],
)
def test_wrong_input_has_a_remedy_an_exit_code_and_no_effect(
    hop_keys: HopKeys, triangle: Path, arguments: str, code: int, remedy: str
) -> None:
    result = hop_keys(*arguments.split())

    assert (result.exit_code, result.stdout) == (code, "")
    assert remedy in " ".join(result.stderr.split())
    assert list(Path().iterdir()) == [Path("hop.toml")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_key_file_of_another_user_is_refused(made: Path, hop_keys: HopKeys) -> None:
    os.chown(made / "cluster.keys", 54_321, -1)
    result = hop_keys("show")

    assert result.exit_code == 7
    assert "is owned by 54321, not by root; run as 54321, or: chown root keys/cluster.keys" in result.stderr
    assert hop_keys("check").exit_code == 1


@pytest.mark.slow
def test_help_does_not_wait_for_the_import_of_cryptography() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from hopring.cli.main import cli;"
        "assert CliRunner().invoke(cli, ['keys', '--help']).exit_code == 0;"
        "print([name for name in sys.modules if name.startswith('cryptography')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout == "[]\n"


def test_the_commands_of_the_page_work_in_their_order(hop_keys: HopKeys, triangle: Path) -> None:
    """On the page, NEW is the id of the key that was added and OLD the one before."""
    lines = [
        line.partition("#")[0].split()[2:] for line in PAGE.splitlines() if line.startswith("    hop keys ")
    ]
    names: dict[str, str] = {}
    ran = []
    for arguments in lines:
        if arguments[0] == "new":
            shutil.rmtree("keys", ignore_errors=True)  # Each example of the page begins without keys.
        if arguments[0] == "add":
            names["OLD"] = ids(hop_keys)["use"]
        result = hop_keys(
            *[names.get(one, one) for one in arguments], *(["--yes"] if arguments[0] == "drop" else [])
        )
        assert result.exit_code == 0, (arguments, result.output)
        if arguments[0] == "add":
            names["NEW"] = result.stdout.strip()
        ran.append(arguments[0])

    assert set(ran) == {"new", "show", "check", "add", "use", "drop", "daemon", "user"}
