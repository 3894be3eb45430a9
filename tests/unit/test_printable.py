"""Text of others on a terminal."""

import json
import sys

import pytest

from hopring.printable import printable

OBEYED = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))]
BIDI = list("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
BREAKS = ["\u2028", "\u2029"]


@pytest.mark.parametrize(
    "one", [*OBEYED, *BIDI, *BREAKS, "\U000e0001", "\ud800", "\ufeff"], ids=lambda one: f"{ord(one):x}"
)
def test_a_character_that_a_terminal_obeys_is_escaped(one: str) -> None:
    shown = printable(f"a{one}b")

    assert shown.isprintable()
    assert shown.isascii()
    assert json.loads(f'"{shown}"') == f"a{one}b"


@pytest.mark.parametrize(
    "text",
    ["", "trades.eu", "Jürgen", "日本 語", "سلام\u200cها", "👩\u200d🚀", "a\xa0b", "c:\\new", '"x"', "\u3000"],
)
def test_letters_of_all_scripts_and_spaces_stay(text: str) -> None:
    assert printable(text) == text


@pytest.mark.slow
def test_no_character_at_all_gets_through_that_ends_a_line_or_controls() -> None:
    whole = "".join(map(chr, range(sys.maxunicode + 1)))

    shown = printable(whole)

    assert len(shown.splitlines()) == 1
    assert not set(shown) & {*OBEYED, *BIDI, *BREAKS}
    assert printable(shown) == shown


def test_lines_of_our_own_are_kept() -> None:
    assert printable("one\n\x1b[2Jtwo", keep="\n") == "one\n\\u001b[2Jtwo"
