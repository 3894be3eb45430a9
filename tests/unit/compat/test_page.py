"""docs/compat.md matches the code, and the program in examples/ runs."""

import contextlib
import inspect
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from struct import pack

import pytest
from tests.unit.compat.scripted_daemon import (
    HELLO,
    KILL,
    WAIT_S,
    WELCOMED,
    AwaitEnd,
    HangUp,
    Hear,
    Say,
    daemon,
    frame,
    view_body,
)

from hopring.compat import sp, sp_membership, spread

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "compat.md").read_text()

ALICE, TRADES = b"#alice#d1", b"trades"
JOIN = frame(0x10000, ALICE, (TRADES,))
VIEW = frame(0x1100, TRADES, (ALICE,), view_body((1, 2, 1), ((ALICE,),)))
MESSAGE = frame(0x20, ALICE, (TRADES,), b"EURUSD 1.0842", tag=7)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("code", "shown"), list(zip(blocks("python"), blocks("text"), strict=True)))
def test_the_programs_print_what_is_shown(code: str, shown: str) -> None:
    printed = io.StringIO()
    steps = (*WELCOMED, Hear(JOIN), Say(VIEW), Hear(MESSAGE), Say(MESSAGE), AwaitEnd(KILL))
    with daemon(*steps) as name, contextlib.redirect_stdout(printed):
        exec(compile(code.replace("4803@localhost", name), "docs/compat.md", "exec"), {})

    assert printed.getvalue() == shown


def test_every_call_is_on_the_page_with_its_arguments() -> None:
    calls = {name for name in sp.__all__ if name.startswith("SP_") and callable(getattr(sp, name))}
    shown = re.findall(r"^\| `(SP_\w+)\(([^)]*)\)` \|", PAGE, re.MULTILINE)

    assert {name for name, _ in shown} == calls
    for name, arguments in shown:
        assert arguments == ", ".join(inspect.signature(getattr(sp, name)).parameters)


def test_every_field_of_a_result_is_on_the_page() -> None:
    for kind in (sp.Connected, sp.Received, sp_membership.MembershipInfo, sp_membership.SetsInfo):
        assert ", ".join(f"`{name}`" for name in kind._fields) in PAGE


def test_every_member_of_a_mailbox_is_on_the_page() -> None:
    (table,) = re.findall(r"^\| member of a mailbox.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    shown = re.findall(r"^\| `(\w+)", table, re.MULTILINE)
    public = {name for name in vars(spread.MailboxType) if not name.startswith("_")} | {"private_group"}

    assert set(shown) == public
    for name, arguments in re.findall(r"^\| `(\w+)\(([^)]*)\)`", table, re.MULTILINE):
        assert arguments == ", ".join(list(inspect.signature(getattr(spread.MailboxType, name)).parameters)[1:])
    for kind in (spread.RegularMsgType, spread.MembershipMsgType):
        assert all(f"`{name}`" in PAGE for name in kind._fields)


def start(name: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "examples" / "spuser.py"), "-s", name, "-u", "alice"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=os.environ)


@pytest.mark.slow
def test_the_example_joins_sends_and_shows() -> None:
    sent = frame(0x10, ALICE, (TRADES, b"#bob#d2"), b"hello there")
    merged = frame(0x1800, TRADES, (ALICE, b"#bob#d2"), view_body((1, 3, 1), ((b"#bob#d2",), (ALICE,)), 36))
    closing, left = frame(0x2000, TRADES, (), pack("<III", 1, 2, 1)), frame(0x200, TRADES)
    leave = frame(0x20000, ALICE, (TRADES,))
    steps = (*WELCOMED, Hear(JOIN), Say(VIEW), Hear(sent), Say(sent + closing + merged), Hear(leave), Say(left))
    with daemon(*steps, AwaitEnd(KILL)) as name, start(name) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write("j trades\nj two words\ns trades,#bob#d2 hello there\nl trades\n")
        program.stdin.flush()
        lines: list[str] = []
        while "left group trades" not in lines:
            line = program.stdout.readline()
            assert line, program.stderr and program.stderr.read()
            lines.append(line.rstrip("\n"))
        program.stdin.write("q\n")
        program.stdin.flush()
        assert program.wait(WAIT_S) == 0

    lines.remove("j GROUP, l GROUP, s GROUP TEXT or q")
    assert lines == [
        f"connected to {name} with private group #alice#d1",
        "group trades has 1 members, I am number 0",
        "  #alice#d1 joined",
        "  now: #alice#d1",
        "#alice#d1 to trades #bob#d2: hello there",
        "group trades is in transition",
        "group trades has 2 members, I am number 0",
        "  came together: #bob#d2",
        "  came together: #alice#d1 (mine)",
        "  now: #alice#d1 #bob#d2",
        "left group trades",
    ]


@pytest.mark.slow
def test_the_example_without_a_daemon() -> None:
    with daemon(Hear(HELLO), Say(b"\xfa"), HangUp()) as name, start(name) as program:
        _, words = program.communicate(timeout=WAIT_S)

    assert (program.returncode, words) == (
        1,
        "SP_error: (-6) refused: the private name is in use at this daemon\n",
    )
