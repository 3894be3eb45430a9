"""The sink to a live group without Spark: its options and its outbox."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.batches import batch

from hopring.services import Service
from hopring.spark.errors import DataLost
from hopring.spark.sink.live import keep, longest_bytes, rows
from hopring.spark.sink.options import WriteOptions, write_options
from hopring.spark.sink.staging import Staged, stage
from hopring.spark.source.options import WrongOption
from hopring.spool.encode import AppendMark

pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")

LIVE = {"daemon": "h:1", "group": "g", "txnAppId": "a", "checkpointLocation": "/c"}


def told(**said: str) -> WriteOptions:
    return write_options({**LIVE, **said}, stream=True)


def test_the_options_of_a_sink_to_a_live_group_are_read() -> None:
    its = write_options({**LIVE, "SERVICE": "Agreed"}, stream=True)

    assert its == WriteOptions(
        daemons=("hop://h:1",), group="g", service=Service.AGREED, app="a", checkpoint="/c"
    )
    assert told().service is Service.SAFE
    table = {"daemon": "h:1", "group": "g", "txnAppId": "a", "txnVersion": "7"}
    assert write_options(table, stream=False).mark == AppendMark("a", 7)


@pytest.mark.parametrize(
    ("said", "urls"),
    [
        ("localhost:4893", ("hop://localhost:4893",)),
        ("/run/hop d.sock", ("hop+unix:///run/hop%20d.sock",)),
        ("hop://eu1:1, us1:2", ("hop://eu1:1", "hop://us1:2")),
        ("hop+unix:///run/hopd.sock", ("hop+unix:///run/hopd.sock",)),
    ],
)
def test_the_address_of_the_daemon_is_read(said: str, urls: tuple[str, ...]) -> None:
    assert told(daemon=said).daemons == urls


def test_the_last_batch_is_kept_beside_the_checkpoint_or_in_a_given_directory() -> None:
    assert told().kept == "/c/hopring"
    assert told(checkpointLocation="file:///some%20where/c").kept == "/some where/c/hopring"
    assert told(checkpointLocation="c").kept == str(Path("c/hopring").absolute())
    assert told(checkpointLocation="hdfs://h/c", staging="/mnt/s").kept == "/mnt/s"


def test_credentials_are_names_of_files() -> None:
    its = told(daemon="hops://h:1", user="alice", key="keys/alice.key", ca="/etc/hop/ca.crt")

    assert its.daemons == ("hops://h:1",)
    assert (its.user, its.key, its.ca) == ("alice", str(Path("keys/alice.key").absolute()), "/etc/hop/ca.crt")
    assert told(token="t").token == str(Path("t").absolute())
    assert told(daemon="hops://h:1", ca="c", certificate="a.pem").certificate.endswith("/a.pem")
    long = "/var/lib/hopring/keys/of-the-production-cluster/users/alice-key"
    assert told(token=long).token == long


SECRETS = (
    "-----BEGIN PRIVATE KEY-----",
    "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl",
    "c2VjcmV0IGtleSBvZiBhbGljZSBpbiBiYXNlIDY0Li4uLi4u",
    "c2VjcmV0IGtleS9vZi9hbGljZQ==",
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "line\nline",
)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("option", ["key", "token", "certificate", "ca"])
def test_the_content_of_a_file_is_refused_and_not_repeated(option: str, secret: str) -> None:
    with pytest.raises(WrongOption, match=f"option {option}: this is no name of a file") as caught:
        told(daemon="hops://h:1", **{option: secret})

    assert secret not in str(caught.value)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(WrongOption, match="has no user and no password in it; write hops://host") as caught:
        told(daemon="hop://h:1,hops://alice:hidden@h:1")

    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "stream", "match"),
    [
        ({"path": "/s", **LIVE}, True, "option daemon: path is given as well; give path for a spool or daemon"),
        ({"group": "g", "txnAppId": "a"}, True, "option path: it is missing; .*option daemon, as host:port"),
        (
            {**LIVE, "service": "fast"},
            True,
            "no service 'fast'; write reliable, fifo, causal, agreed, safe",
        ),
        ({**LIVE, "service": "unreliable"}, True, "no service 'unreliable'"),
        ({**LIVE, "daemon": "ftp://x"}, True, "'ftp://x' is not the address of a daemon; write host:port"),
        ({**LIVE, "daemon": "h:1,"}, True, "option daemon: it is empty"),
        ({**LIVE, "daemon": "hops://h:1"}, True, "option ca: it is missing for hops://; give the file"),
        ({**LIVE, "ca": "c"}, True, "option ca: an address is not for TLS; write hops://host:port"),
        ({**LIVE, "certificate": "c"}, True, "option certificate: an address is not for TLS"),
        ({**LIVE, "user": "alice"}, True, "option key: it is missing; give both"),
        ({**LIVE, "key": "k"}, True, "option user: it is missing; give both"),
        ({**LIVE, "user": "a", "key": "k", "token": "t"}, True, "option token: key is given as well"),
        ({"path": "/s", "group": "g", "token": "t"}, False, "token: it has no meaning in a sink to a spool"),
        ({**LIVE, "sender": "me"}, True, "option sender: it has no meaning in a live group"),
        ({**LIVE, "txnAppId": "x" * 129}, True, "option txnAppId: it is too long"),
        ({**LIVE, "checkpointLocation": "s3://b/c"}, True, "option staging: it is missing"),
        ({"daemon": "h:1", "group": "g"}, False, "txnAppId and txnVersion are missing"),
        ({**LIVE, "txnVersion": "2147483648"}, False, "it is above 2147483647; count the writes"),
        ({"path": "/s", "group": "g", "service": "safe"}, False, "has no meaning in a sink to a spool"),
        ({"path": "/s", "group": "g", "staging": "/t"}, False, "has no meaning in a sink to a spool"),
    ],
)
def test_invalid_options_are_refused(said: dict[str, str], stream: bool, match: str) -> None:
    with pytest.raises(WrongOption, match=match):
        write_options(said, stream=stream)


def staged(tmp_path: Path, *batches: Any) -> list[Staged]:
    return [stage([one], tmp_path / "staging") for one in batches]


def test_a_repeated_batch_is_sent_as_it_was_first_kept(tmp_path: Path) -> None:
    first = keep(
        tmp_path, AppendMark("a", 0), staged(tmp_path, batch("x", types=[3]), batch("y", "z", types=[1, 2]))
    )
    assert list(rows(first)) == [(b"x", 3), (b"y", 1), (b"z", 2)]
    assert (first.rows, longest_bytes(first)) == (3, 1)

    # When the batch is made again, its rows may come in another order.
    again = keep(tmp_path, AppendMark("a", 0), staged(tmp_path, batch("z", "y", "x")))
    assert (again, list(rows(again))) == (first, list(rows(first)))

    other = keep(tmp_path, AppendMark("b", 0), staged(tmp_path, batch("longer")))
    assert (list(rows(other)), longest_bytes(other)) == ([(b"longer", 0)], 6)


def test_the_next_batch_replaces_the_last_and_an_older_one_is_an_error(tmp_path: Path) -> None:
    for number in (0, 1, 5):
        keep(tmp_path, AppendMark("a", number), staged(tmp_path, batch("x")))

    assert [path.name for path in tmp_path.rglob("*.arrow")] == ["5.arrow"]
    with pytest.raises(DataLost, match="batch 2 of 'a' comes after batch 5; a query with another checkpoint"):
        keep(tmp_path, AppendMark("a", 2), staged(tmp_path, batch("x")))


def test_an_incomplete_batch_is_not_kept(tmp_path: Path) -> None:
    place = tmp_path / "outbox" / "a"
    place.mkdir(parents=True)
    (place / "0.half").write_bytes(b"what a crash has left")

    kept = keep(tmp_path, AppendMark("a", 0), staged(tmp_path, batch("x")))

    assert list(rows(kept)) == [(b"x", 0)]
    assert [path.name for path in place.iterdir()] == ["0.arrow"]
