"""Text of others, made safe for a terminal.

Names of groups, sessions, daemons and sites, payloads and error texts come from other programs. A terminal
obeys control characters in them: they set its title, fill its clipboard, hide or rewrite lines.
"""

from typing import Final
from unicodedata import category

_SHORT: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_JOINERS: Final = "\u200c\u200d"
"""Format characters that the spelling of some scripts needs; they have no effect beyond their neighbours."""

_ASTRAL: Final = 0x10000


def printable(text: str, keep: str = "") -> str:
    """The text with control characters, bidirectional controls and line separators as escapes of JSON.

    Letters of all scripts and spaces stay, and so do the characters in `keep`. Backslashes stay as they are, so
    the result is for people and cannot be decoded; an escaped JSON text still is JSON with the same value.
    """
    if text.isprintable():
        return text
    return "".join([one if _is_harmless(one) or one in keep else _escaped(one) for one in text])


def _is_harmless(one: str) -> bool:
    return one.isprintable() or one in _JOINERS or category(one) == "Zs"


def _escaped(one: str) -> str:
    code = ord(one)
    if one in _SHORT:
        return _SHORT[one]
    if code < _ASTRAL:
        return f"\\u{code:04x}"
    high, low = divmod(code - _ASTRAL, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
