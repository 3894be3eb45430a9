"""Secret and public files: what is read only if nobody else could read or replace it, and atomic writing.

A secret file is opened without following a link and without waiting, and then looked at through its open
descriptor, so it cannot be exchanged between the check and the reading. Files in `$CREDENTIALS_DIRECTORY` are
those that systemd gives to one service; their modes are its business (it shows 0440 where it uses an ACL).
"""

import errno
import os
import pwd
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Final

from hopring.errors import HopError

SECRET_BYTES_MAX: Final = 16 * 1024
PUBLIC_BYTES_MAX: Final = 64 * 1024
SECRET_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o644
DIRECTORY_MODE: Final = 0o700
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
"""The rights of group and others."""

MAKE_KEYS: Final = "check the path, or make keys with `hop keys new`"
_SERVICE_DIRECTORY: Final = "CREDENTIALS_DIRECTORY"
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class CredentialError(HopError):
    """A file of keys or certificates that cannot be used. Its text never has content of a secret file."""

    def __init__(self, path: Path | str, problem: str, remedy: str, line: int | None = None) -> None:
        super().__init__(path, problem, remedy, line)
        self.path = Path(path)
        self.problem = problem
        self.remedy = remedy
        self.line = line

    def __str__(self) -> str:
        place = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.problem}; {self.remedy}"


class ChangeRefused(CredentialError):
    """A change of credentials that was refused or failed; the files are as before."""


def read_secret(path: Path | str) -> bytes:
    """The content of a file that only root or this user can read; CredentialError otherwise."""
    found = _locate(path)
    with _opened(found, os.O_NOFOLLOW) as handle:
        its = os.fstat(handle)
        _check_kind(found, its)
        _check_owner(found, its)
        if not _from_service_manager(found):
            _check_mode(found, its)
        return _content(found, handle, SECRET_BYTES_MAX)


def read_public(path: Path | str) -> bytes:
    """The content of a file that everybody may read; links are followed."""
    found = _locate(path)
    with _opened(found, 0) as handle:
        _check_kind(found, os.fstat(handle))
        return _content(found, handle, PUBLIC_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is to be written."""

    path: Path
    content: bytes = field(repr=False)
    mode: int = SECRET_MODE


def write_new(files: Iterable[NewFile]) -> None:
    """Writes all of them, or none: ChangeRefused if one is there already or cannot be written."""
    written: list[Path] = []
    try:
        for file in files:
            _write(file, replace=False)
            written.append(file.path)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def replace_file(file: NewFile) -> None:
    """Writes a file or replaces it: readers find the old content or the new one, also after a crash."""
    _write(file, replace=True)


def make_directory(path: Path) -> None:
    """Makes a directory that only this user can read, unless it is there."""
    try:
        path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _locate(path: Path | str) -> Path:
    """The path, or that of a file of the service manager, if a bare name is not in the working directory."""
    service = os.environ.get(_SERVICE_DIRECTORY)
    if service and os.sep not in os.fspath(path) and not os.path.lexists(path):
        found = Path(service, path)
        if os.path.lexists(found):
            return found
    return Path(path)


def _from_service_manager(path: Path) -> bool:
    service = os.environ.get(_SERVICE_DIRECTORY)
    return bool(service) and path.parent == Path(str(service))


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    try:
        # Without O_NONBLOCK a pipe would be waited for.
        handle = os.open(path, _FLAGS | flags)
    except FileNotFoundError:
        raise CredentialError(path, "does not exist", MAKE_KEYS) from None
    except PermissionError as error:
        remedy = "run as the owner of the file, or as root"
        raise CredentialError(path, f"cannot be read ({error.strerror})", remedy) from None
    except OSError as error:
        if error.errno == errno.ELOOP and flags & os.O_NOFOLLOW:
            problem = "is a symbolic link, and secrets are not read through links"
            raise CredentialError(path, problem, "name the file that it leads to") from None
        raise CredentialError(path, f"cannot be read ({error.strerror})", "check the path") from None
    try:
        yield handle
    finally:
        os.close(handle)


def _check_kind(path: Path, its: os.stat_result) -> None:
    if not stat.S_ISREG(its.st_mode):
        kind = _KINDS.get(stat.S_IFMT(its.st_mode), "something else")
        raise CredentialError(path, f"is {kind}, not a regular file", "name a file")


def _check_owner(path: Path, its: os.stat_result) -> None:
    me = os.geteuid()
    if its.st_uid not in (0, me):
        owner, reader = user_name(its.st_uid), user_name(me)
        whose = "root" if me == 0 else f"root or {reader}"
        remedy = f"run as {owner}, or: chown {reader} {quote(str(path))}"
        raise CredentialError(path, f"is owned by {owner}, not by {whose}", remedy)


def _check_mode(path: Path, its: os.stat_result) -> None:
    mode = stat.S_IMODE(its.st_mode)
    if mode & OTHERS:
        problem = f"has mode {mode:04o}, others than its owner have rights to it"
        raise CredentialError(path, problem, f"chmod {SECRET_MODE:o} {quote(str(path))}")


def _content(path: Path, handle: int, bytes_max: int) -> bytes:
    try:
        with open(handle, "rb", closefd=False) as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise CredentialError(path, f"cannot be read ({error.strerror})", "check its disk") from None
    if not content:
        raise CredentialError(path, "is empty", "copy it again from the place where it was made")
    if len(content) > bytes_max:
        problem = f"has more than {bytes_max} bytes"
        raise CredentialError(path, problem, "name a file that `hop keys` has made")
    return content


def user_name(uid: int) -> str:
    """The name of a user, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _write(file: NewFile, *, replace: bool) -> None:
    path = file.path
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with open(handle, "wb") as stream:
                os.fchmod(handle, file.mode)
                stream.write(file.content)
                stream.flush()
                os.fsync(handle)
            if replace:
                os.replace(beside, path)
            else:
                os.link(beside, path)  # Unlike a rename it fails where a file is there.
        finally:
            with suppress(FileNotFoundError):
                os.unlink(beside)
        _sync_directory(path.parent)
    except FileExistsError:
        raise ChangeRefused(path, "is there already", "remove it first, or choose another place") from None
    except OSError as error:
        raise _cannot_write(path, error) from None


def _cannot_write(path: Path, error: OSError) -> ChangeRefused:
    remedy = "check the path, its permissions and the space on its disk"
    return ChangeRefused(path, f"cannot be written ({error.strerror or error})", remedy)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
