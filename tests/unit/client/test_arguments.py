"""Every argument of every public call: a wrong value is refused at the call, and the session continues.

The same table is used for both shells; run on both builds, it covers compiled modules too.
"""

import asyncio
import inspect
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.unit.client.fake_server import FakeServer

import hopring
from hopring import (
    ALL,
    BadArgument,
    HopError,
    Message,
    MessageTooLarge,
    Reconnect,
    RequestRefused,
    Service,
    ViewSynchrony,
    WrongType,
    WrongValue,
    connect,
    sync,
)
from hopring.credentials.files import CredentialError

NAME = "give a group's name as a str"
NAMES = "give a group's name as a str, or a list of names"
BYTES = "choose a name of 1 to 128 bytes of UTF-8 without NUL"
NO_PRIVATE = "only private groups have a # in their name, as in #name#daemon; send to them without a join"
BUFFERS = "give bytes, a bytearray or a memoryview, or a list of them that are sent end to end"
BODIES = "give a list of bytes, one for each message"
FLAG = "give True or False"
TYPE = "give an int, 0 to 65535"
WAIT = "give seconds as a float, 0 or more, or None to wait without a limit"
SESSION = "give a str of 1 to 64 bytes of UTF-8 without # and NUL, or None for any"
APP = "name the application with a str of 1 to 128 bytes of UTF-8 without NUL"
URL = "write hop://host:port, hops://host:port, hop+unix:///path or rmp://"
POLICY = "give one of kick, block, spill, drop"
SYNCHRONY = 'give "view", a ViewSynchrony, or None'
BEGIN = "give the offset or the place at which the replay begins"

Case = tuple[object, type[HopError], str]
"""A wrong value, and the expected error."""


def refused(name: str, remedy: str) -> Case:
    return name, RequestRefused, f"group {name!r}: illegal group; {remedy}"


def kind(argument: str, value: object, remedy: str) -> Case:
    got = "got None" if value is None else f"got a value of type {type(value).__name__}"
    return value, WrongType, f"{argument}: {got}; {remedy}"


PLAIN: list[Case] = [
    kind("group", b"g", NAME),
    kind("group", None, NAME),
    kind("group", ["g"], NAME),
    *[refused(one, BYTES) for one in ("", "x" * 129, "a\0", "\ud800")],
    *[refused(one, NO_PRIVATE) for one in ("#", "a#b", "#a", "#a#b#c", "#a#b")],
]
ONE = PLAIN[:-1]  # Private groups are allowed too.
SEVERAL: list[Case] = [
    *ONE[3:],
    kind("groups", b"g", NAMES),
    kind("groups", None, NAMES),
    kind("groups", {"g": 1}, NAMES),
    kind("groups", 5, NAMES),
    (["g", 5], WrongType, f"groups[1]: got a value of type int; {NAME}"),
    ([["g"]], WrongType, f"groups[0]: got a value of type list; {NAME}"),
    ([], RequestRefused, "group '': not 1 to 128 different groups; name each group once"),
    (["g", "g"], RequestRefused, "group 'g g': not 1 to 128 different groups; name each group once"),
]
DATA: list[Case] = [
    ("text", WrongType, "data: got a value of type str; encode it: text.encode()"),
    kind("data", None, BUFFERS),
    kind("data", {"a": 1}, BUFFERS),
    kind("data", 7, BUFFERS),
    ([b"a", "b"], WrongType, f"data[1]: got a value of type str; {BUFFERS}"),
    (bytes(1 << 20), MessageTooLarge, "a message of 1048576 bytes; the daemon takes "),
]
SERVICE: list[Case] = [
    ("safe", WrongType, "service: got 'safe'; give a Service, such as Service.SAFE"),
    ("best", WrongType, "service: got 'best'; give a Service, such as Service.AGREED"),
    (6, WrongType, "service: got 6; give a Service, such as Service.SAFE"),
    (99, WrongType, "service: got 99; give a Service, such as Service.AGREED"),
    kind("service", None, "give a Service, such as Service.AGREED"),
    kind("service", 5.0, "give a Service, such as Service.AGREED"),
]
TYPES: list[Case] = [
    (-1, WrongValue, f"type: -1 is out of range; {TYPE}"),
    (65_536, WrongValue, f"type: 65536 is out of range; {TYPE}"),
    (2**70, WrongValue, f"type: {2**70} is out of range; {TYPE}"),
    *[kind("type", one, TYPE) for one in (None, "7", 7.0, True)],
]
FLAGS: list[Case] = [kind("self_discard", one, FLAG) for one in (None, 1, "yes")]


def seconds(argument: str) -> list[Case]:
    wrong = [(-1.0, "-1"), (math.nan, "nan"), (math.inf, "inf"), (1e10, "1e+10")]
    return [
        *[kind(argument, one, WAIT) for one in ("1", True, b"")],
        *[(one, WrongValue, f"{argument}: {text} s is out of range; {WAIT}") for one, text in wrong],
    ]


TIMEOUT = seconds("timeout_seconds")
MANY: list[Case] = [
    *[kind("bodies", one, BODIES) for one in (b"", b"abc", "abc", None, 5, {b"a": 1})],
    ([b"a", "b"], WrongType, f"bodies[1]: got a value of type str; {BODIES}"),
    ([b"a", b"b", None], WrongType, f"bodies[2]: got None; {BODIES}"),
    ([b"a", bytes(1 << 20)], MessageTooLarge, "a message of 1048576 bytes; the daemon takes "),
]
ITERABLE = "give an iterable of bytes, or of (bytes, type)"
NUMBERED: list[Case] = [
    *[kind("messages", one, ITERABLE) for one in (b"", "abc", None, 5)],
    ([b"a", "b"], WrongType, "messages[1]: got a value of type str; give bytes, or (bytes, type)"),
    ([(b"a", 1, 2)], WrongType, "messages[0]: got a value of type tuple; give bytes, or (bytes, type)"),
    ([(b"a", "1")], WrongType, f"messages[0][1]: got a value of type str; {TYPE}"),
    ([(b"a", 65_536)], WrongValue, f"messages[0][1]: 65536 is out of range; {TYPE}"),
    ([bytes(1 << 20)], MessageTooLarge, "a message of 1048576 bytes; the daemon takes "),
]
UNRELIABLE: Case = (
    Service.UNRELIABLE,
    WrongValue,
    "service: an Unreliable message has no place in the order, so it has no receipt; "
    "use multicast, or Service.RELIABLE or above",
)
NO_RECEIPT: Case = (
    Service.UNRELIABLE,
    WrongValue,
    "service: an Unreliable message has no receipt; use Service.RELIABLE or above",
)
BATCH = "give an int, 0 to 2147483647"
RESILIENCE: list[Case] = [
    *[kind("resilience", one, "give an int, 0 to 254, or hopring.MAJORITY") for one in (None, "1", 1.0, True)],
    (-1, WrongValue, "resilience: -1 is out of range; give an int, 0 to 254"),
    (255, WrongValue, "resilience: 255 is out of range; give an int, 0 to 254"),
    (ALL, WrongValue, "resilience: not ALL; use Service.SAFE: all daemons hold the message"),
]
SENDING = {"service": SERVICE, "type": TYPES, "self_discard": FLAGS, "resilience": RESILIENCE}
HEADERS: list[Case] = [
    *[kind("headers", one, "give a dict of str to str, or None") for one in (5, "k: v", [("k", "v")])],
    ({"k": b"v"}, WrongType, "headers: 'k' is bytes; give a dict of str to str, or None"),
    ({"hop-x": "v"}, WrongValue, "headers: got 'hop-x'; names that begin with hop- belong to hopring"),
    ({"k": "v" * 5000}, WrongValue, "headers: 'k' has a value of 5000 bytes; give 4096 at most"),
]

TTL = "give seconds as a float, above 0, or None for no limit"
TTL_CASES: list[Case] = [
    *[kind("ttl_seconds", one, TTL) for one in ("1", True, b"1")],
    *[(one, WrongValue, f"ttl_seconds: {one:g} s is out of range; {TTL}") for one in (0.0, -1.0, math.inf)],
]

HOW_MANY = "give an int, 1 or more, MAJORITY or ALL"
WAITS: list[Case] = [
    *[kind("wait", one, HOW_MANY) for one in (None, "all", 1.0, True)],
    *[(one, WrongValue, f"wait: {one} is out of range; {HOW_MANY}") for one in (0, -1)],
]
LONG = "x" * 121
NAMED: list[Case] = [
    *PLAIN,
    (LONG, RequestRefused, f"group {LONG!r}: its name is too long for requests; choose one of 120 bytes"),
]
ASKING: dict[str, list[Case]] = {
    "reply_to": [("all", WrongValue, 'reply_to: got \'all\'; give "caller" or "group"')],
    "service": [
        *SERVICE,
        (Service.FIFO, WrongValue, "service: a request needs a place in the order; use Service.CAUSAL"),
    ],
    "headers": HEADERS,
    "timeout_seconds": TIMEOUT,
}

LOCK = "give a str of 1 to 128 bytes of UTF-8 without NUL"
LOCKS: list[Case] = [
    *[kind("name", one, LOCK) for one in (None, b"row", 5)],
    *[(one, WrongValue, f"name: got {one!r}; {LOCK}") for one in ("", "a\0", "x" * 129, "\ud800")],
]
PARTIAL: list[Case] = [kind("partial", one, FLAG) for one in (None, 1, "yes")]

HANDLERS: list[Case] = [
    *[kind("handler", one, "give an int, 1 to 6") for one in ("1", 1.0, True)],
    *[(one, WrongValue, f"handler: {one} is out of range; give an int, 1 to 6") for one in (0, 7)],
]

GOOD: dict[str, dict[str, object]] = {
    "join": {"group": "other"},
    "leave": {"group": "g"},
    "multicast": {"groups": "g", "data": b"x"},
    "multicast_many": {"groups": "g", "bodies": [b"x"]},
    "multicast_wait": {"groups": "g", "data": b"x"},
    "multicast_batch": {"group": "g", "messages": [b"x"], "app": "app", "batch": 1},
    "members": {"group": "g"},
    "locks": {"group": "g"},
    "flush_ok": {},
    "request": {"group": "g", "data": b"x"},
    "replies_to": {"group": "g", "data": b"x"},
    "serve": {"group": "g", "function": len},
    "lock": {"group": "g", "name": "row"},
    "elect": {"group": "g"},
    "unlock": {"group": "g", "name": "row", "fence": 1},
}
ONLY = "give up to 64 str, or leave it out"
MINIMUM = "give an int, 1 to 253, hopring.MAJORITY or hopring.ALL"
WRONG: dict[str, dict[str, list[Case]]] = {
    "join": {
        "group": PLAIN,
        "since": [kind("since", one, "give an int, 0 or more") for one in ("0", True, 1.0)],
        "spool": [("/tmp", WrongValue, f"since: missing; {BEGIN}")],
        "synchrony": [
            *[kind("synchrony", one, SYNCHRONY) for one in (1, True, b"view")],
            ("views", WrongValue, f"synchrony: got 'views'; {SYNCHRONY}"),
        ],
        "state": [kind("state", one, "give an object with snapshot() and restore(state)") for one in (1, b"x")],
        "only": [
            *[kind("only", one, ONLY) for one in ("eu", 3, {"eu"}, ["eu", None], [b"eu"])],
            ([], WrongValue, f"only: 0 domains; {ONLY}"),
            (["x"] * 65, WrongValue, f"only: 65 domains; {ONLY}"),
        ],
        "minimum": [
            *[kind("minimum", one, MINIMUM) for one in (None, "3", 2.0, True, b"all")],
            *[
                (one, WrongValue, f"minimum: {one} is out of range; give an int, 1 to 253")
                for one in (0, -1, 254)
            ],
        ],
        "timeout_seconds": TIMEOUT,
    },
    "leave": {"group": PLAIN, "timeout_seconds": TIMEOUT},
    "flush_ok": {
        "request": [kind("request", one, "give the FlushRequest that was received") for one in (None, "g", 1)],
    },
    "multicast": {
        "groups": SEVERAL,
        "data": DATA,
        **SENDING,
        "headers": HEADERS,
        "ttl_seconds": TTL_CASES,
        "retain": [kind("retain", one, FLAG) for one in (None, 1, "no")],
        "timeout_seconds": TIMEOUT,
    },
    "multicast_many": {"groups": SEVERAL, "bodies": MANY, **SENDING, "timeout_seconds": TIMEOUT},
    "multicast_wait": {
        "groups": SEVERAL,
        "data": DATA,
        **SENDING,
        "service": [*SERVICE, UNRELIABLE],
        "headers": HEADERS,
        "ttl_seconds": TTL_CASES,
        "retain": [kind("retain", one, FLAG) for one in (None, 1, "no")],
        "timeout_seconds": TIMEOUT,
    },
    "multicast_batch": {
        "group": ONE,
        "messages": NUMBERED,
        "app": [
            *[kind("app", one, APP) for one in (None, b"app", 5)],
            *[(one, WrongValue, f"app: got {one!r}; {APP}") for one in ("", "a\0", "x" * 129, "\ud800")],
        ],
        "batch": [
            *[kind("batch", one, BATCH) for one in (None, "1", 1.0, False)],
            *[(one, WrongValue, f"batch: {one} is out of range; {BATCH}") for one in (-1, 2**31)],
        ],
        "service": [*SERVICE, NO_RECEIPT],
        "timeout_seconds": TIMEOUT,
    },
    "request": {"group": NAMED, "data": DATA, "wait": WAITS, "handler": HANDLERS, **ASKING},
    "replies_to": {"group": NAMED, "data": DATA, **ASKING},
    "serve": {
        "group": NAMED,
        "function": [
            kind("function", one, "give one that takes a Request and returns bytes") for one in (None, b"")
        ],
        "handler": HANDLERS,
        "parallel": [
            *[kind("parallel", one, "give an int, 1 or more") for one in (None, "1", True)],
            (0, WrongValue, "parallel: 0 is out of range; give an int, 1 or more"),
        ],
    },
    "lock": {"group": PLAIN, "name": LOCKS, "timeout_seconds": TIMEOUT, "partial": PARTIAL},
    "elect": {"group": PLAIN, "timeout_seconds": TIMEOUT, "partial": PARTIAL},
    "unlock": {
        "group": PLAIN,
        "name": LOCKS,
        "fence": [kind("fence", one, "give the int that the lock returned") for one in (None, "1", True)],
    },
    "handle_requests": {
        "max_requests": [(0, WrongValue, "max_requests: 0 is out of range; give an int, 1 or more")],
        "timeout_seconds": TIMEOUT,
    },
    "receive": {"timeout_seconds": TIMEOUT},
    "receive_many": {
        "max_messages": [
            *[kind("max_messages", one, "give an int, 1 or more") for one in (None, "1", 1.5, True)],
            *[
                (one, WrongValue, f"max_messages: {one} is out of range; give an int, 1 or more")
                for one in (0, -1)
            ],
        ],
        "max_wait_seconds": seconds("max_wait_seconds"),
    },
    "groups": {"timeout_seconds": TIMEOUT},
    "members": {"group": ONE, "timeout_seconds": TIMEOUT},
    "locks": {"group": ONE, "timeout_seconds": TIMEOUT},
    "view": {
        "after": [
            kind("after", one, "give a DaemonView that `view` has returned, or None") for one in ("1.0", 1)
        ],
        "timeout_seconds": TIMEOUT,
    },
    "daemon_facts": {"timeout_seconds": TIMEOUT},
    "link_weights": {"timeout_seconds": TIMEOUT},
}
CASES = [
    pytest.param(call, argument, case, id=f"{call}-{argument}-{at}")
    for call, arguments in WRONG.items()
    for argument, cases in arguments.items()
    for at, case in enumerate(cases)
]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with TemporaryDirectory(dir="/tmp") as directory:
        one = FakeServer(Path(directory) / "s")
        yield one
        one.close()


def call_of(of: object, call: str, argument: str, value: object) -> Callable[[], Any]:
    """The call with one wrong argument; a group has the same calls without the group argument."""
    arguments = {**GOOD.get(call, {}), argument: value}
    method = getattr(of, call)
    known = inspect.signature(method).parameters
    return lambda: method(**{name: one for name, one in arguments.items() if name in known})


def check(error: HopError, case: Case) -> None:
    _, kind_of_error, text = case
    assert type(error) is kind_of_error
    assert str(error).startswith(text)


def has(of: object, call: str, argument: str) -> bool:
    return hasattr(of, call) and argument in inspect.signature(getattr(of, call)).parameters


@pytest.mark.parametrize(("call", "argument", "case"), CASES)
def test_asyncio(server: FakeServer, call: str, argument: str, case: Case) -> None:
    async def story() -> None:
        async with asyncio.timeout(60), connect(server.url, name="anna", membership=False) as session:
            group = await session.join("g")
            for one in (session, group):
                if has(one, call, argument):
                    with pytest.raises(HopError) as caught:
                        await call_of(one, call, argument, case[0])()
                    check(caught.value, case)
            await session.multicast(session.private_group, b"after")
            event = await session.receive()
            assert isinstance(event, Message)
            assert event.data == b"after"

    asyncio.run(story())


@pytest.mark.parametrize(("call", "argument", "case"), CASES)
def test_blocking(server: FakeServer, call: str, argument: str, case: Case) -> None:
    with sync.connect(server.url, name="anna", membership=False) as session:
        group = session.join("g")
        for one in (session, group):
            if has(one, call, argument):
                with pytest.raises(HopError) as caught:
                    call_of(one, call, argument, case[0])()
                check(caught.value, case)
        session.multicast(session.private_group, b"after")
        event = session.receive(timeout_seconds=60)
        assert isinstance(event, Message)
        assert event.data == b"after"


TRY = "give seconds as a float, above 0"
WINDOW = "give an int, 4096 to 67108864"
CODEC = 'give "json", "msgspec", or an object with encode and decode'
CONNECT: dict[str, list[Case]] = {
    "url": [
        *[
            (one, WrongValue, f"url: {one!r} is no address of a daemon")
            for one in ("", "localhost:4893", "http://x", "hop://", "hop://h:99999", "hop://h:x", "hop://h:0")
        ],
        *[
            (one, WrongValue, f"url: {one!r} is no address of a daemon")
            for one in (
                "hop://h:1#x",
                "hop://h:1?x",
                "hop://h/x",
                "hop://[::1",
                "hop+unix://h/p",
            )
        ],
        ("hop://u@h:1", WrongValue, "url: '***@h:1' is no address of a daemon"),
        ("hop://a,", WrongValue, "url: '' is no address of a daemon"),
        ([], WrongValue, f"url: no daemon is named; {URL}"),
        (["hop://a", 5], WrongType, f"url: got a value of type int; {URL}"),
        *[kind("url", one, f"{URL}, or a list of them") for one in (None, 5, b"hop://a", {"hop://a": 1})],
    ],
    "name": [
        *[kind("name", one, SESSION) for one in (5, b"anna", ["anna"])],
        *[(one, WrongValue, f"name: got {one!r}; {SESSION}") for one in ("", "a#b", "a\0", "\ud800")],
        ("x" * 65, WrongValue, "name: got 'xxx"),
    ],
    "codec": [
        *[(one, WrongValue, f"codec: got {one!r}; {CODEC}") for one in ("", "pickle")],
        *[kind("codec", one, CODEC) for one in (5, b"json", ["json"])],
    ],
    "trace_context": [kind("trace_context", one, FLAG) for one in (None, 1, "no")],
    "membership": [kind("membership", one, FLAG) for one in (None, 1, "no")],
    "window_bytes": [
        *[kind("window_bytes", one, WINDOW) for one in (None, "1", 1e6, True)],
        *[(one, WrongValue, f"window_bytes: {one} is out of range; {WINDOW}") for one in (0, 4095, 1 << 27)],
    ],
    "slow": [
        *[kind("slow", one, POLICY) for one in (None, 1, b"kick")],
        ("wait", WrongValue, f"slow: got 'wait'; {POLICY}"),
    ],
    "priority": [kind("priority", one, FLAG) for one in (None, 1)],
    "require": [
        (one, WrongValue, f'require: got {one!r}; give "primary" or None')
        for one in ("all", "", True, b"primary")
    ],
    "when_suspended": [
        (one, WrongValue, f'when_suspended: got {one!r}; give "wait" or "fail"')
        for one in ("hold", "", True, b"wait", None)
    ],
    "user": [
        kind("user", 5, "give the name that [[users]] of the daemon has"),
        ("anna", WrongValue, "key: missing; give both, a user and the file of a key"),
    ],
    "key": [
        kind("key", 5, "give the path of a file"),
        ("anna.key", WrongValue, "user: missing; give both, a user and the file of a key"),
    ],
    "token": [
        kind("token", 5, "give the path of a file"),
        ("/nowhere/token", CredentialError, "/nowhere/token: does not exist"),
    ],
    "ca": [kind("ca", 5, "give the path of a file")],
    "certificate": [
        kind("certificate", 5, "give the path of a file"),
        ("anna.pem", WrongValue, "certificate: given without TLS; write hops:// in the URL"),
    ],
    "timeout_seconds": [
        *[kind("timeout_seconds", one, TRY) for one in (None, "1", True)],
        *[(one, WrongValue, f"timeout_seconds: {one:g} s is out of range; {TRY}") for one in (0, -1, math.nan)],
    ],
    "reconnect": [kind("reconnect", one, "give True, False or a Reconnect") for one in (None, 1, 2.0)],
}


@pytest.mark.parametrize("module", [hopring, sync], ids=["asyncio", "blocking"])
@pytest.mark.parametrize(
    ("argument", "case"),
    [
        pytest.param(argument, case, id=f"{argument}-{at}")
        for argument, cases in CONNECT.items()
        for at, case in enumerate(cases)
    ],
)
def test_connect(module: Any, argument: str, case: Case) -> None:
    with pytest.raises(HopError) as caught:
        module.connect(**{argument: case[0]})
    check(caught.value, case)


@pytest.mark.parametrize("field", ["delay_seconds_min", "delay_seconds_max", "give_up_seconds"])
@pytest.mark.parametrize("value", [None, "1", -1.0, math.nan, math.inf])
def test_reconnect(field: str, value: Any) -> None:
    with pytest.raises(HopError, match=field):
        Reconnect(**{field: value})
    with pytest.raises(WrongValue, match="more than delay_seconds_max"):
        Reconnect(delay_seconds_min=2.0, delay_seconds_max=1.0)


def test_view_synchrony_with_an_offset_without_views_and_with_wrong_options(server: FakeServer) -> None:
    with sync.connect(server.url) as session, sync.connect(server.url, membership=False) as blind:
        with pytest.raises(WrongValue, match="given beside since"):
            session.join("g", since=0, spool="/tmp", synchrony="view")
        with pytest.raises(WrongValue, match="connect with membership=True"):
            blind.join("g", synchrony="view")
        with pytest.raises(RequestRefused, match="its name is too long for view synchrony"):
            session.join("g" * 124, synchrony="view")
    for wrong in (0, -1.0, None, "1", math.nan):
        with pytest.raises(BadArgument, match="flush_seconds"):
            ViewSynchrony(flush_seconds=wrong)  # type: ignore[arg-type]
    with pytest.raises(WrongValue, match='give "wait" or "exclude"'):
        ViewSynchrony(late="kick")  # type: ignore[arg-type]


def test_the_offset_of_a_join(server: FakeServer) -> None:
    with sync.connect(server.url) as session, sync.connect(server.url, membership=False) as blind:
        for wrong in (-1, "0", None, True):
            with pytest.raises((WrongType, WrongValue), match="since"):
                session.join("g", since=wrong, spool="/tmp")  # type: ignore[arg-type]
        with pytest.raises(WrongType, match="give the directory of spools as a Path or a str"):
            session.join("g", since=0, spool=5)  # type: ignore[arg-type]
        with pytest.raises(WrongValue, match="connect with membership=True"):
            blind.join("g", since=0, spool="/tmp")


def test_the_table_has_every_argument_of_every_public_call() -> None:
    for module in (hopring, sync):
        for name, method in inspect.getmembers(module.Session, inspect.isfunction):
            if not name.startswith("_"):
                arguments = set(inspect.signature(method).parameters) - {"self"}
                assert arguments <= set(WRONG.get(name, {}))
        assert set(inspect.signature(module.connect).parameters) == set(CONNECT)
