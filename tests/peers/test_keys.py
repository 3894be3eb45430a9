"""Peers with a cluster key: sealed among themselves, deaf to others, and allowed beyond this host."""

import os
import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from hopring import Message, View, WrongValue, sync
from hopring.credentials.cluster_keys import KeyFile, load_key_file
from hopring.credentials.files import CredentialError

pytestmark = pytest.mark.slow

_count = count()


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The file of a new key."""
    command = [sys.executable, "-m", "hopring.cli.main", "rmp", "key", str(tmp_path / "peers.key")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return tmp_path / "peers.key"


def domain() -> str:
    return f"keys-{os.getpid()}-{next(_count)}"


def test_peers_with_the_key_form_a_ring_and_one_without_has_its_own(keys: Path) -> None:
    where = f"rmp:///{domain()}"
    with (
        sync.connect(f"{where}?keys={keys}", name="anna") as anna,
        sync.connect(f"{where}?keys={keys}&host=process", name="bert") as bert,
        sync.connect(where, name="eve") as eve,
    ):
        anna.join("g")
        bert.join("g")
        eve.join("g")
        big = bytes(range(256)) * 200
        receipt = anna.multicast_wait("g", big, timeout_seconds=60)
        assert receipt.members == 2
        while True:
            event = bert.receive(timeout_seconds=60)
            if isinstance(event, Message):
                assert event.data == big
                break
        alone = eve.receive(timeout_seconds=60)
        assert isinstance(alone, View)
        assert [one.name for one in alone.members] == ["eve"]


def test_a_file_that_is_no_key_is_refused_before_anything_is_sent(tmp_path: Path, keys: Path) -> None:
    with pytest.raises(CredentialError):
        sync.connect(f"rmp:///{domain()}?keys={tmp_path}/none")
    keys.chmod(0o644)
    with pytest.raises(CredentialError):
        sync.connect(f"rmp:///{domain()}?keys={keys}")
    with pytest.raises(CredentialError, match="hop rmp key"):
        sync.connect("rmp:///x?ttl=1")
    with pytest.raises(WrongValue, match="multicast=maybe"):
        sync.connect("rmp:///x?multicast=maybe")


def test_with_a_key_multicasts_may_leave_this_host(keys: Path) -> None:
    with sync.connect(f"rmp:///{domain()}?ttl=1&keys={keys}", name="anna") as anna:
        anna.join("g")
        assert anna.multicast_wait("g", b"x", timeout_seconds=60).members == 1


def test_a_member_without_multicast_sends_and_gets_everything_by_unicast() -> None:
    where = f"rmp:///{domain()}"
    with sync.connect(where, name="anna") as anna:
        anna.join("g")
        place = anna.private_group.rpartition("#")[2]
        with sync.connect(f"{where}?multicast=no&via={place}", name="bert") as bert:
            bert.join("g", timeout_seconds=60)
            assert bert.multicast_wait("g", b"from bert", timeout_seconds=60).members == 2
            assert anna.multicast_wait("g", b"from anna", timeout_seconds=60).members == 2
            got: list[bytes] = []
            while b"from anna" not in got:
                event = bert.receive(timeout_seconds=60)
                if isinstance(event, Message):
                    got.append(event.data)
            assert got == [b"from bert", b"from anna"]


def test_a_key_is_replaced_while_peers_run(tmp_path: Path, keys: Path) -> None:
    where, later = domain(), tmp_path / "later.key"
    with sync.connect(f"rmp:///{where}?keys={keys}", name="anna") as anna:
        anna.join("g")
        both = load_key_file(keys).with_new_key()
        (new,) = [one for one in both.keys if not one.in_use]
        keys.write_text("half a fi")  # It may be looked at while it is written.
        both.with_use(f"{new.key.id:08x}").save()
        KeyFile(later, (replace(new, in_use=True),)).save()
        # Who has the new key alone hears anna as soon as she uses it: their rings become one.
        with sync.connect(f"rmp:///{where}?keys={later}", name="bert") as bert:
            bert.join("g")
            members: list[str] = []
            while members != ["anna", "bert"]:
                event = bert.receive(timeout_seconds=30)
                members = sorted([one.name for one in event.members]) if isinstance(event, View) else members
            assert bert.multicast_wait("g", b"x", timeout_seconds=60).members == 2
