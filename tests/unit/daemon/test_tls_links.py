"""TCP links over TLS: both ends with certificates, strangers, half-open handshakes, clear text."""

import gc
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from tests.support.free_ports import free_base_port
from tests.unit.daemon.stream_ends import HIGH, LOW, End, greeting
from tests.unit.daemon.waiting import run_until

from hopring.credentials.daemon_tls import DaemonTls, load_daemon_tls
from hopring.credentials.directory import KeyDirectory
from hopring.credentials.files import CredentialError
from hopring.credentials.tls_session import TlsSession
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.link_streams import PENDING_MAX
from hopring.daemon.net.tcp import READ_BYTES, ConnectionEvent, TcpConnection
from hopring.daemon.net.tls import TlsConnection
from hopring.errors import Drop, PeerError
from hopring.links.events import StreamClosed, StreamObserved, StreamOpened, StreamWritten

NOW = datetime.now(UTC)
DAEMONS = ["d1", "d2", "d3"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("credentials")
    KeyDirectory(root / "keys").create("local", DAEMONS, NOW, 30, 30)
    KeyDirectory(root / "foreign").create("local", DAEMONS, NOW, 30, 30)
    return root


def tls_of(keys: Path, daemon: str, directory: str = "keys") -> DaemonTls:
    return load_daemon_tls(keys / directory, "local", daemon, NOW)


@pytest.fixture
def port() -> int:
    return free_base_port(3)


@pytest.fixture
def ends(loop: Loop) -> Iterator[list[End]]:
    made: list[End] = []
    yield made
    for end in made:
        end.streams.close()


@pytest.fixture
def high(loop: Loop, port: int, keys: Path, ends: list[End]) -> End:
    ends.append(End(loop, HIGH, port, tls_of(keys, "d2")))
    return ends[-1]


def low_with(loop: Loop, port: int, ends: list[End], tls: DaemonTls | None) -> End:
    ends.append(End(loop, LOW, port, tls))
    return ends[-1]


def closed(end: End, generation: int) -> str:
    events = [what for which, _, what in end.told if which == generation]
    return events[-1].reason if events and isinstance(events[-1], StreamClosed) else ""


def told_more_than(end: End, count: int) -> bool:
    return len(end.foreign) > count


def has_heard(end: End, generation: int) -> bool:
    return bool(end.heard(generation))


def is_open(end: End, generation: int) -> bool:
    return StreamOpened in end.kinds(generation)


def test_bytes_go_both_ways_and_are_encrypted_and_counted(
    loop: Loop, port: int, keys: Path, high: End, ends: list[End]
) -> None:
    low = low_with(loop, port, ends, tls_of(keys, "d1"))
    high.begin(7, LOW)
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(low.told))
    sent = greeting(LOW, 7) + os.urandom(3_000_000)
    for at in range(0, len(sent), 50_000):
        low.streams.write(HIGH, sent[at : at + 50_000])
    run_until(loop, lambda: len(high.heard(7)) == len(sent))
    high.streams.write(LOW, b"thanks")
    run_until(loop, lambda: low.heard(7) == b"thanks")
    high.streams.observe(LOW)
    run_until(loop, lambda: StreamObserved in high.kinds(7))

    written = [what.count_bytes for _, _, what in low.told if isinstance(what, StreamWritten)]
    assert high.heard(7) == sent
    assert low.kinds(7)[0] is StreamOpened
    assert high.kinds(7)[0] is StreamOpened
    assert sum(written) == len(sent)
    assert not high.traffic.dropped


def test_an_early_connection_with_tls_waits_for_its_network_and_loses_nothing(
    loop: Loop, port: int, keys: Path, high: End, ends: list[End]
) -> None:
    low = low_with(loop, port, ends, tls_of(keys, "d1"))
    high.begin(6)
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(low.told))
    sent = greeting(LOW, 7) + os.urandom(4 * READ_BYTES)
    low.streams.write(HIGH, sent)
    done: list[bool] = []
    loop.alarm(lambda: done.append(True)).set(loop.now_us() + 50_000)
    run_until(loop, lambda: bool(done))
    high.begin(7, LOW)
    run_until(loop, lambda: len(high.heard(7)) == len(sent))

    assert high.heard(7) == sent


def test_a_connection_with_tls_can_be_cut_and_goes_on_afterwards(
    loop: Loop, port: int, keys: Path, high: End, ends: list[End]
) -> None:
    low = low_with(loop, port, ends, tls_of(keys, "d1"))
    high.begin(7, LOW)
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(low.told))
    low.streams.write(HIGH, greeting(LOW, 7))
    run_until(loop, lambda: bool(high.heard(7)))
    high.streams.cut([LOW])
    low.streams.write(HIGH, b"later")
    for _ in range(5):
        loop.call_soon(lambda: None)
        loop.turn()
    assert not high.heard(7).endswith(b"later")
    high.streams.cut([])
    run_until(loop, lambda: high.heard(7).endswith(b"later"))


def test_a_daemon_that_greets_with_the_name_of_another_is_refused_counted_and_told(
    loop: Loop, port: int, keys: Path, high: End, ends: list[End]
) -> None:
    low = low_with(loop, port, ends, tls_of(keys, "d3"))
    high.begin(7, LOW)
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(low.told))
    low.streams.write(HIGH, greeting(LOW, 7))
    run_until(loop, lambda: bool(closed(low, 7)))

    assert high.traffic.dropped == {Drop.CERTIFICATE: 1}
    address, detail = high.foreign[0]
    assert address == ("127.0.0.1", 0)
    assert "hopring://local/d3" in detail
    assert high.told == []


def test_a_daemon_that_is_not_the_dialled_one_is_refused_counted_and_told(
    loop: Loop, port: int, keys: Path, ends: list[End]
) -> None:
    ends.append(End(loop, HIGH, port, tls_of(keys, "d3")))
    low = low_with(loop, port, ends, tls_of(keys, "d1"))
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(closed(low, 7)))

    assert low.traffic.dropped == {Drop.CERTIFICATE: 1}
    assert "its certificate is for hopring://local/d3, not for hopring://local/d2" in closed(low, 7)
    assert low.kinds(7) == [StreamClosed]
    assert low.foreign[0][0] == ("127.0.0.1", port + HIGH)


def test_a_daemon_of_another_authority_with_the_same_names_is_refused_at_both_ends(
    loop: Loop, port: int, keys: Path, high: End, ends: list[End]
) -> None:
    low = low_with(loop, port, ends, tls_of(keys, "d1", "foreign"))
    high.begin(7, LOW)
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(closed(low, 7)))
    assert low.traffic.dropped == {Drop.CERTIFICATE: 1}
    run_until(loop, lambda: bool(high.traffic.dropped))  # The alert of the other end.

    assert high.told == []


def test_a_client_that_trusts_anybody_but_has_a_foreign_certificate_is_refused(
    loop: Loop, port: int, keys: Path, high: End
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    foreign = KeyDirectory(keys / "foreign")
    told: list[ConnectionEvent] = []
    for certificate in (None, foreign.certificate_path("d1")):
        if certificate is not None:
            context.load_cert_chain(certificate, foreign.daemon_key_path("d1"))
        told_before = len(high.foreign)
        below = TcpConnection.dial(loop, ("127.0.0.1", port + HIGH))
        connection = TlsConnection(loop, below, context, lambda _error: None, "nobody")
        connection.sink = told.append
        run_until(loop, partial(told_more_than, high, told_before))

    assert high.foreign[0][1] == "it has shown no certificate"
    assert "its certificate is refused" in high.foreign[1][1]


def test_an_older_version_of_tls_is_refused(loop: Loop, port: int, high: End) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    session = TlsSession(context, accepts=False)
    session.begin()
    with socket.create_connection(("127.0.0.1", port + HIGH)) as old:
        old.sendall(session.take())
        run_until(loop, lambda: high.traffic.dropped[Drop.HANDSHAKE] == 1)
        with pytest.raises(PeerError, match="alert"):
            session.receive(old.recv(1_000))


def test_clear_text_is_refused_at_once_and_told(loop: Loop, port: int, high: End, ends: list[End]) -> None:
    low = low_with(loop, port, ends, None)
    high.begin(7, LOW)
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(low.told))
    low.streams.write(HIGH, greeting(LOW, 7))
    run_until(loop, lambda: bool(closed(low, 7)))

    assert high.traffic.dropped == {Drop.CLEAR_TEXT: 1}
    assert high.foreign[0][1] == "the other end does not speak TLS"


def test_tls_at_a_daemon_without_keys_is_refused_at_both_ends(
    loop: Loop, port: int, keys: Path, ends: list[End]
) -> None:
    ends.append(End(loop, HIGH, port, None))
    low = low_with(loop, port, ends, tls_of(keys, "d1"))
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(closed(low, 7)))

    assert "during the TLS handshake" in closed(low, 7)
    assert ends[0].foreign[0][1] == "it speaks TLS, and this daemon has no keys"
    assert ends[0].traffic.dropped == {Drop.MAGIC: 1}


def test_half_open_handshakes_are_limited_and_do_not_keep_a_daemon_out(
    loop: Loop, port: int, keys: Path, high: End, ends: list[End]
) -> None:
    hello = TlsSession(tls_of(keys, "d3").dialling, accepts=False)
    hello.begin()
    first = hello.take()
    with ExitStack() as open_ones:
        for count in range(5 * PENDING_MAX):
            one = open_ones.enter_context(socket.create_connection(("127.0.0.1", port + HIGH)))
            one.sendall(first if count % 2 else first[:10])
            if count % 16 == 0:
                loop.turn()
        low = low_with(loop, port, ends, tls_of(keys, "d1"))
        high.begin(7, LOW)
        low.begin(7, HIGH)
        run_until(loop, lambda: bool(low.told))
        low.streams.write(HIGH, greeting(LOW, 7))
        run_until(loop, lambda: bool(high.heard(7)))

        assert high.traffic.dropped[Drop.LIMIT] >= 4 * PENDING_MAX - 1


def test_a_connection_with_a_certificate_outlives_half_open_ones_that_come_later(
    loop: Loop, port: int, keys: Path, high: End, ends: list[End]
) -> None:
    low = low_with(loop, port, ends, tls_of(keys, "d1"))
    high.begin(7, LOW)
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(low.told))  # Its greeting is still to come.
    loop.turn()
    with ExitStack() as open_ones:
        for _ in range(2 * PENDING_MAX):
            open_ones.enter_context(socket.create_connection(("127.0.0.1", port + HIGH)))
        run_until(loop, lambda: high.traffic.dropped[Drop.LIMIT] > PENDING_MAX)
        low.streams.write(HIGH, greeting(LOW, 7))
        run_until(loop, lambda: bool(high.heard(7)))


@pytest.mark.slow
def test_a_handshake_that_the_other_end_does_not_answer_ends_in_time(
    loop: Loop, port: int, keys: Path, ends: list[End]
) -> None:
    with socket.create_server(("127.0.0.1", port + HIGH)):
        low = low_with(loop, port, ends, tls_of(keys, "d1"))
        low.begin(7, HIGH)
        run_until(loop, lambda: bool(closed(low, 7)))

    assert closed(low, 7) == "TLS: no TLS handshake in time"


def test_other_certificates_are_used_for_further_connections_only(
    loop: Loop, port: int, keys: Path, high: End, ends: list[End]
) -> None:
    low = low_with(loop, port, ends, tls_of(keys, "d1"))
    for generation in (7, 8):
        high.begin(generation, LOW)
        low.begin(generation, HIGH)
        run_until(loop, partial(is_open, low, generation))
        high.streams.change_tls(tls_of(keys, "d2", "foreign"))
        low.streams.change_tls(tls_of(keys, "d1", "foreign"))
        low.streams.write(HIGH, greeting(LOW, generation))
        run_until(loop, partial(has_heard, high, generation))

    assert not high.traffic.dropped


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        ("no certificate", "hop keys daemon d1"),
        ("no key", "hop keys daemon d1"),
        ("key of another", "is not the private key of"),
        ("foreign authority", "is not signed by the authority"),
        ("expired", "--renew"),
        ("readable key", "chmod 600"),
        ("other name", "is not a certificate for hopring://local/d1"),
    ],
)
def test_files_that_cannot_be_used_are_refused_with_the_remedy(tmp_path: Path, problem: str, text: str) -> None:
    directory, other = KeyDirectory(tmp_path / "keys"), KeyDirectory(tmp_path / "other")
    for one in (directory, other):
        one.create("local", DAEMONS, NOW, 30, 20)
    certificate, key = directory.certificate_path("d1"), directory.daemon_key_path("d1")
    match problem:
        case "no certificate":
            certificate.unlink()
        case "no key":
            key.unlink()
        case "key of another":
            directory.daemon_key_path("d2").rename(key)
        case "foreign authority":
            other.authority_path.rename(directory.authority_path)
        case "readable key":
            key.chmod(0o644)
        case "other name":
            directory.certificate_path("d2").rename(certificate)
            directory.daemon_key_path("d2").rename(key)
    now = NOW + timedelta(days=25) if problem == "expired" else NOW

    with pytest.raises(CredentialError, match=text):
        load_daemon_tls(directory.root, "local", "d1", now)


def test_the_connections_of_an_ended_network_are_freed_at_once(
    loop: Loop, port: int, keys: Path, high: End, ends: list[End]
) -> None:
    low = low_with(loop, port, ends, tls_of(keys, "d1"))
    high.begin(1, LOW)
    low.begin(1, HIGH)
    low.streams.write(HIGH, greeting(LOW, 1))
    run_until(loop, lambda: is_open(low, 1) and is_open(high, 1))
    gc.collect()
    gc.disable()
    try:
        assert connections() == 4
        low.begin(2)
        high.begin(2)
        low.told.clear()
        high.told.clear()
        run_until(loop, lambda: connections() == 0)
    finally:
        gc.enable()


def connections() -> int:
    return sum([isinstance(one, TcpConnection | TlsConnection) for one in gc.get_objects()])
