"""The header of requests, replies and fences."""

from random import Random

import pytest

from hopring.blocks.call_header import (
    SERIAL_MAX,
    CallMark,
    FenceMark,
    ReplyMark,
    ReplyResult,
    RequestMark,
    decode_call,
    encode_call,
)

CALLER = "0123456789abcdef"


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (RequestMark(CALLER, 7, 3), f"q.{CALLER}.7.3.1."),
        (RequestMark(CALLER, SERIAL_MAX, 9, 12, True), f"q.{CALLER}.{SERIAL_MAX}.9.12.g"),
        (RequestMark(CALLER, 7, 7, 2), f"q.{CALLER}.7.7.2."),
        (ReplyMark(CALLER, 7), f"r.{CALLER}.7.o."),
        (ReplyMark(CALLER, 7, ReplyResult.FAILED, True), f"r.{CALLER}.7.f.a"),
        (ReplyMark(CALLER, 7, ReplyResult.TOO_OLD), f"r.{CALLER}.7.t."),
        (ReplyMark(CALLER, 7, ReplyResult.BUSY), f"r.{CALLER}.7.b."),
        (FenceMark(CALLER, 12), f"f.{CALLER}.12"),
    ],
)
def test_marks_come_back(mark: CallMark, text: str) -> None:
    assert encode_call(mark) == text
    assert decode_call(text) == mark


@pytest.mark.parametrize(
    "text",
    [
        "",
        "q",
        "q..1.1.1.",
        f"q.{CALLER}.1.2.1.",  # No open call is above its own serial.
        f"q.{CALLER}.1.1.1.x",
        f"q.{CALLER}.1.1.1.gg",
        f"q.{CALLER}.0.1.1.",
        f"q.{CALLER}.01.1.1.",
        f"q.{CALLER}.{SERIAL_MAX + 1}.1.1.",
        f"q.{CALLER}.٣.1.1.",
        f"q.{CALLER.upper()}.1.1.1.",
        f"q.{CALLER}0.1.1.1.",
        f"q.{CALLER}.1.1.1",
        f"q.{CALLER}.1.1.0.",
        f"r.{CALLER}.1.x.",
        f"r.{CALLER}.1.o.b",
        f"r.{CALLER}.1.o",
        f"f.{CALLER}.1.",
        f"x.{CALLER}.1.1.1.",
    ],
)
def test_anything_else_is_no_mark(text: str) -> None:
    assert decode_call(text) is None


def test_what_decodes_encodes_to_the_same_text() -> None:
    dice, accepted = Random(3), 0
    for _ in range(5_000):
        text = list(f"q.{CALLER}.17.3.4.g")
        text[dice.randrange(len(text))] = dice.choice("0123456789abcdefqrfgo.")
        mark = decode_call("".join(text))
        if mark is not None:
            accepted += 1
            assert encode_call(mark) == "".join(text)

    assert 1_000 < accepted < 5_000
