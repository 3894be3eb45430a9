"""The sink of Spark to live groups, without Spark: credentials, and rows that name their groups."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hopd.tls_daemon import TlsDaemon, tls_daemon

from hopring import ConnectError, NotAllowed, sync
from hopring.credentials.directory import KeyDirectory
from hopring.credentials.files import CredentialError

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
pytestmark = pytest.mark.slow

from hopring.spark.errors import DataLost  # noqa: E402
from hopring.spark.sink.live import multicast, session_name  # noqa: E402
from hopring.spark.sink.options import write_options  # noqa: E402
from hopring.spark.sink.staging import stage  # noqa: E402
from hopring.spool.encode import AppendMark  # noqa: E402

GRANTS = f"""
[[users]]
name = "alice"
key = "users/alice.pub"

[[users]]
name = "eve"
key = "users/eve.pub"

[grants.alice]
names = ["{session_name("detector")}"]
send = ["alarms.*"]
apps = ["detector"]

[grants.eve]
names = ["listener"]
join = ["alarms.*"]
"""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TlsDaemon]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for user in ("alice", "eve"):
        KeyDirectory(tmp_path).add_user(user)
    with tls_daemon(tmp_path, more=GRANTS) as one:
        yield one


def send(served: TlsDaemon, rows: dict[str, list[Any]], batch: int = 0, query: str = "", **said: str) -> None:
    """Sends a batch as the driver does; alice is the sender unless the options say otherwise."""
    own = {"user": "alice", "key": str(served.directory / "users" / "alice.key"), "ca": str(served.ca)}
    options = {"daemon": served.url, "group": "alarms.rest", "txnAppId": "detector", **own, **said}
    options |= {"checkpointLocation": str(served.directory / "checkpoint")}
    its = write_options(options, stream=True, by_row="group" in rows)
    columns = {"payload": rows["payload"]}
    if "group" in rows:
        columns["group"] = pa.array(rows["group"], pa.string())
    staged = [stage([pa.RecordBatch.from_pydict(columns)], served.directory / "staging", its.group)]
    multicast(its, served.directory / "kept", staged, AppendMark("detector", batch), query)


def heard(session: sync.Session, count: int) -> list[tuple[str, bytes]]:
    found = [next(session.messages()) for _ in range(count)]
    return [(message.groups[0], message.data) for message in found]


def test_the_sink_connects_by_tls_with_its_credentials_and_rows_go_to_the_groups_that_they_name(
    served: TlsDaemon,
) -> None:
    rows: dict[str, list[Any]] = {
        "payload": [b"1", b"2", b"3", b"4"],
        "group": ["alarms.eu", None, "alarms.us", "alarms.eu"],
    }
    key = served.directory / "users" / "eve.key"
    with sync.connect(served.url, name="listener", user="eve", key=key, ca=served.ca) as listener:
        for group in ("alarms.eu", "alarms.us", "alarms.rest"):
            listener.join(group)
        for _ in range(2):
            send(served, rows)  # The batch is repeated, and each message is delivered once.
        send(served, {"payload": [b"5"]}, 1)

        assert heard(listener, 5) == [
            ("alarms.eu", b"1"),
            ("alarms.eu", b"4"),
            ("alarms.rest", b"2"),
            ("alarms.us", b"3"),
            ("alarms.rest", b"5"),
        ]
        assert listener.dropped_again == 4


def test_another_query_under_the_same_name_is_refused(served: TlsDaemon) -> None:
    send(served, {"payload": [b"1"]}, 0, "query 1")
    send(served, {"payload": [b"1"]}, 0, "query 1")

    with pytest.raises(DataLost, match="txnAppId 'detector' belongs to a query with another checkpoint"):
        send(served, {"payload": [b"1"]}, 0, "query 2")


def test_errors_of_credentials_do_not_show_them(served: TlsDaemon) -> None:
    keys = served.directory / "users"
    wrong = served.directory / "wrong.key"
    wrong.touch(0o600)
    wrong.write_text("very secret")
    refusals: list[Exception] = []
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"user": "eve", "key": str(keys / "eve.key")}, NotAllowed),
        ({"user": "alice", "key": str(keys / "eve.key")}, (NotAllowed, ConnectError)),
        ({"key": str(wrong)}, CredentialError),
        ({"key": str(keys / "nobody.key")}, CredentialError),
    ]
    for said, kind in cases:
        with pytest.raises(kind) as caught:
            send(served, {"payload": [b"1"]}, **said)
        refusals.append(caught.value)

    contents = [(keys / f"{user}.key").read_text() for user in ("alice", "eve")]
    secrets = ["very secret", *[line for text in contents for line in text.split() if len(line) > 20]]
    assert len(secrets) >= 3
    for error in refusals:
        assert "\n" not in str(error)
        assert not [secret for secret in secrets if secret in f"{error!r} {error}"]
