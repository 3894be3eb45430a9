"""The file of cluster keys: one or two keys, one of which is in use.

A line has the state of a key, its id, and its 256 bits in base64; lines that begin with # are comments. Errors
name the line and never have anything of it but ids: a secret may stand in any place of a wrong line.
"""

import binascii
import re
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from hopring.credentials.files import ChangeRefused, CredentialError, NewFile, read_secret, replace_file
from hopring.sealing.keys import KEY_BYTES, KEYS_MAX, BadKey, ClusterKey, KeyRing

USE: Final = "use"
ACCEPT: Final = "accept"
HEAD: Final = """\
# Cluster keys of hopring. SECRET: whoever has this file can read and forge what daemons send each other.
# Made and changed by `hop keys`; every daemon of the cluster has the same keys. Owner: the daemon's user or
# root, mode 0600. One line for each key: state, id, 256 bits in base64.
#   use     packets are sealed with this key; exactly one key has this state
#   accept  packets that are sealed with this key are opened
"""
_COPY: Final = "copy the file again from a host where `hop keys check` finds it good"
_ID: Final = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as the file has it."""

    key: ClusterKey
    secret: bytes = field(repr=False)
    in_use: bool

    @property
    def state(self) -> str:
        return USE if self.in_use else ACCEPT


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The keys of a file; a change returns another value, which `save` writes."""

    path: Path
    keys: tuple[StoredKey, ...]

    @property
    def ring(self) -> KeyRing:
        """The keys in the form that sealing takes."""
        return KeyRing([one.key for one in self.keys], self.used.key.id)

    @property
    def used(self) -> StoredKey:
        """The key that packets are sealed with."""
        (one,) = [key for key in self.keys if key.in_use]
        return one

    def with_new_key(self) -> "KeyFile":
        """The same keys and another one, accepted and not used."""
        if len(self.keys) >= KEYS_MAX:
            (old,) = [key for key in self.keys if not key.in_use]
            problem = f"has {KEYS_MAX} keys already"
            raise ChangeRefused(self.path, problem, f"drop one first: `hop keys drop {old.key.id:08x}`")
        return replace(self, keys=(*self.keys, new_key(in_use=False)))

    def with_use(self, key_id: str) -> "KeyFile":
        """The same keys, of which this one is used."""
        wanted = self._find(key_id)
        return replace(self, keys=tuple([replace(one, in_use=one is wanted) for one in self.keys]))

    def without(self, key_id: str) -> "KeyFile":
        """The keys without this one, which is not in use."""
        dropped = self._find(key_id)
        if dropped.in_use:
            remedy = (
                "use the other key first: `hop keys use`"
                if len(self.keys) > 1
                else "`hop keys add` adds another"
            )
            raise ChangeRefused(self.path, f"key {dropped.key.id:08x} is in use", remedy)
        return replace(self, keys=tuple([one for one in self.keys if one is not dropped]))

    def save(self) -> None:
        """Replaces the file by one with these keys."""
        replace_file(self.as_new_file())

    def as_new_file(self) -> NewFile:
        """The file as it is to be written."""
        rows = [(one.state, f"{one.key.id:08x}", _encode(one.secret)) for one in self.keys]
        text = HEAD + "".join([f"{state:6} {key_id} {secret}\n" for state, key_id, secret in rows])
        return NewFile(self.path, text.encode())

    def _find(self, key_id: str) -> StoredKey:
        wanted = key_id.lower()
        for one in self.keys:
            if wanted == f"{one.key.id:08x}":
                return one
        # Somebody may have given the secret for the id: only an id is repeated.
        named = f"no key {wanted}" if _ID.fullmatch(wanted) else "no key of this id, an id has 8 hex digits"
        there = ", ".join([f"{one.key.id:08x}" for one in self.keys])
        raise ChangeRefused(self.path, f"has {named}", f"its keys are {there}")


def new_key(*, in_use: bool) -> StoredKey:
    """A key out of the random generator of the system."""
    secret = secrets.token_bytes(KEY_BYTES)
    return StoredKey(ClusterKey(secret), secret, in_use)


def load_key_ring(path: Path | str) -> KeyRing:
    """The cluster keys of a secret file; CredentialError names the problem and the remedy."""
    return load_key_file(path).ring


def load_key_file(path: Path | str) -> KeyFile:
    """The cluster keys of a secret file, for changes to it."""
    content = read_secret(path)
    path = Path(path)
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError:
        raise CredentialError(path, "is not text, so it is no file of cluster keys", _COPY) from None
    keys: list[StoredKey] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        key = _read_line(path, number, line)
        if key.key.id in [one.key.id for one in keys]:
            raise CredentialError(path, f"has key {key.key.id:08x} twice", "remove this line", number)
        if len(keys) == KEYS_MAX:
            problem = f"has more than {KEYS_MAX} keys"
            raise CredentialError(path, problem, "remove the line of a key that no daemon uses", number)
        keys.append(key)
    in_use = [one for one in keys if one.in_use]
    if len(in_use) != 1:
        problem = f"has {len(keys)} keys, {len(in_use)} of them in use" if keys else "has no key"
        remedy = f"give exactly one key the state {USE!r}" if keys else _COPY
        raise CredentialError(path, problem, remedy)
    return KeyFile(path, tuple(keys))


def _read_line(path: Path, number: int, line: str) -> StoredKey:
    fields = line.split()
    if len(fields) != 3:
        problem = f"has {len(fields)} fields, a key has a state, an id and a secret"
        raise CredentialError(path, problem, _COPY, number)
    state, key_id, encoded = fields
    if state not in (USE, ACCEPT):
        raise CredentialError(
            path, "has an unknown state", f"write {USE!r} or {ACCEPT!r} as first word", number
        )
    try:
        secret = binascii.a2b_base64(encoded, strict_mode=True)
        key = ClusterKey(secret)
    except binascii.Error:
        raise CredentialError(path, "the secret is not base64", _COPY, number) from None
    except BadKey as error:
        raise CredentialError(path, str(error), _COPY, number) from None
    if key_id != f"{key.id:08x}":
        problem = f"the id is not that of the key, which is {key.id:08x}: one of them has changed"
        raise CredentialError(path, problem, _COPY, number)
    return StoredKey(key, secret, state == USE)


def _encode(secret: bytes) -> str:
    return binascii.b2a_base64(secret, newline=False).decode()
