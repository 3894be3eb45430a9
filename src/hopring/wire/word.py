"""WORD frames: a word of the membership protocol, which travels outside all links."""

from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.value import Value
from hopring.wire.header import FrameType, encode_frame

WORD_DATAGRAM_BYTES_MAX = 60_000
"""Most that a word may take; above the path's MTU, IP cuts it."""


@final
class Word(Value):
    """What one daemon says to another about membership; the membership room knows what it means."""

    def __init__(self, payload: bytes) -> None:
        self.payload: Final = payload


def encode_word(word: Word) -> bytes:
    """The word as a frame."""
    return encode_frame(FrameType.WORD, word.payload)


def decode_word(body: memoryview) -> Word:
    """A WORD frame's body; nobody says nothing."""
    if not len(body):
        raise PeerError(Drop.TRUNCATED, "an empty word")
    return Word(bytes(body))
