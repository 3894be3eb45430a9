"""Secret files: each that others could read or replace is refused, with its name, its problem and a remedy."""

import os
import re
import stat
from pathlib import Path

import pytest

from hopring.credentials.files import (
    PUBLIC_BYTES_MAX,
    SECRET_BYTES_MAX,
    ChangeRefused,
    CredentialError,
    NewFile,
    make_directory,
    read_public,
    read_secret,
    replace_file,
    write_new,
)
from hopring.errors import HopError

SECRET = b"correct horse battery staple"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    return path


def refusal(path: Path | str) -> CredentialError:
    with pytest.raises(CredentialError) as caught:
        read_secret(path)
    error = caught.value
    assert isinstance(error, HopError)
    assert str(error) == f"{error.path}: {error.problem}; {error.remedy}"
    assert SECRET.decode() not in str(error) + repr(error)
    return error


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_for_its_owner_only_is_read(file: Path, mode: int) -> None:
    file.chmod(mode)

    assert read_secret(file) == read_secret(str(file)) == SECRET


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o601, 0o620, 0o4777])
def test_rights_of_others_are_refused_with_the_mode_and_the_command(file: Path, mode: int) -> None:
    file.chmod(mode)
    error = refusal(file)

    assert f"has mode {mode:04o}" in error.problem
    assert error.remedy == f"chmod 600 {file}"


def test_the_command_of_a_remedy_can_be_pasted(tmp_path: Path) -> None:
    path = tmp_path / "my keys;"
    path.write_bytes(SECRET)
    path.chmod(0o644)

    assert refusal(path).remedy == f"chmod 600 '{path}'"


def test_a_link_is_refused_even_if_it_leads_to_a_good_file(file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)

    assert "is a symbolic link" in refusal(link).problem
    assert read_public(link) == SECRET


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "directory").mkdir(0o700)

    for read in (read_secret, read_public):
        for name, kind in (("pipe", "a pipe"), ("directory", "a directory")):
            with pytest.raises(CredentialError, match=f"is {kind}, not a regular file; name a file"):
                read(tmp_path / name)
        with pytest.raises(CredentialError, match="is a device, not a regular file"):
            read("/dev/null")


def test_a_file_that_is_empty_missing_or_too_large_is_refused(file: Path) -> None:
    file.write_bytes(b"x" * SECRET_BYTES_MAX)
    assert len(read_secret(file)) == SECRET_BYTES_MAX
    file.write_bytes(b"x" * (SECRET_BYTES_MAX + 1))
    assert refusal(file).problem == f"has more than {SECRET_BYTES_MAX} bytes"
    file.write_bytes(b"")
    assert refusal(file).problem == "is empty"
    file.unlink()
    assert refusal(file).problem == "does not exist"
    assert "`hop keys new`" in refusal(file).remedy


def test_a_public_file_may_be_read_by_all_and_has_a_limit(file: Path) -> None:
    file.chmod(0o666)
    assert read_public(file) == SECRET

    file.write_bytes(b"x" * (PUBLIC_BYTES_MAX + 1))
    with pytest.raises(CredentialError, match=f"has more than {PUBLIC_BYTES_MAX} bytes"):
        read_public(file)


@as_root
def test_a_file_of_another_user_is_refused_with_the_owner(file: Path) -> None:
    os.chown(file, 54_321, -1)
    error = refusal(file)

    assert error.problem == "is owned by 54321, not by root"
    assert error.remedy == f"run as 54321, or: chown root {file}"


@as_root
def test_a_user_reads_its_own_file_and_none_of_a_third(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # By a relative path, since the directories above belong to root alone.
    monkeypatch.chdir(file.parent)
    os.chmod(file.parent, 0o755)
    os.chown(file, 54_321, -1)
    try:
        os.seteuid(54_321)
        own = read_secret("secret")
        os.seteuid(0)
        os.chown(file, 54_322, -1)
        os.seteuid(54_321)
        other = refusal("secret")
    finally:
        os.seteuid(0)

    assert own == SECRET
    assert "Permission denied" in other.problem
    assert "run as the owner" in other.remedy


def test_a_bare_name_is_looked_for_where_systemd_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, here = tmp_path / "service", tmp_path / "here"
    service.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(service))
    (service / "cluster.keys").write_bytes(SECRET)
    # systemd grants the rights of the service by an ACL, which looks like rights of the group.
    (service / "cluster.keys").chmod(0o440)

    assert read_secret("cluster.keys") == read_public("cluster.keys") == SECRET
    assert read_secret(service / "cluster.keys") == SECRET
    assert refusal("./none/cluster.keys").problem == "does not exist"
    assert refusal("other.keys").path == Path("other.keys")


def test_a_file_of_the_working_directory_goes_before_that_of_systemd(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "secret").write_bytes(b"other")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "service"))

    assert read_secret("secret") == SECRET
    file.chmod(0o644)
    assert refusal("secret").remedy == "chmod 600 secret"


@as_root
def test_files_of_systemd_belong_to_root_or_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "cluster.keys").write_bytes(SECRET)
    os.chown(tmp_path / "cluster.keys", 54_321, -1)

    assert "is owned by 54321" in refusal("cluster.keys").problem


def test_files_are_written_with_their_mode_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0o277)
    try:
        make_directory(tmp_path / "new")
        (tmp_path / "new").chmod(0o700)
        write_new([NewFile(tmp_path / "new" / "a", SECRET), NewFile(tmp_path / "new" / "b", b"public", 0o644)])
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    assert modes == {"a": 0o600, "b": 0o644}


def test_of_several_new_files_all_are_written_or_none(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"old")
    with pytest.raises(ChangeRefused, match=re.escape(f"{tmp_path / 'b'}: is there already")):
        write_new([NewFile(tmp_path / "a", SECRET), NewFile(tmp_path / "b", SECRET)])

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("b", b"old")]


def test_a_file_is_replaced_by_a_new_one_and_no_other_is_left(file: Path) -> None:
    number = file.stat().st_ino
    with file.open("rb") as reader:
        replace_file(NewFile(file, b"next"))

        assert reader.read() == SECRET
    assert (read_secret(file), file.stat().st_ino == number) == (b"next", False)
    assert list(file.parent.iterdir()) == [file]


def test_a_place_that_cannot_be_written_is_an_error_with_a_remedy(file: Path) -> None:
    with pytest.raises(ChangeRefused, match=r"cannot be written \(Not a directory\); check the path"):
        replace_file(NewFile(file / "x", SECRET))
    with pytest.raises(ChangeRefused, match=r"cannot be written \(Not a directory\); check the path"):
        make_directory(file / "x")
    assert SECRET.decode() not in repr(NewFile(file, SECRET))
