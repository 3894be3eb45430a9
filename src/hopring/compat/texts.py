"""What each code means, and what can be done about it."""

from typing import Final

from hopring.compat.constants import Code

TEXTS: Final[dict[int, str]] = {
    Code.ILLEGAL_SPREAD: "no place of a daemon: give a port, or port@host",
    Code.COULD_NOT_CONNECT: "no daemon answers there: is one running?",
    Code.REJECT_QUOTA: "refused: the daemon takes no more sessions",
    Code.REJECT_NO_NAME: "refused: a private name is missing",
    Code.REJECT_ILLEGAL_NAME: "refused: the private name is not legal",
    Code.REJECT_NOT_UNIQUE: "refused: the private name is in use at this daemon",
    Code.REJECT_VERSION: "refused: the daemon does not serve this version of clients",
    Code.CONNECTION_CLOSED: "the daemon closed the connection",
    Code.REJECT_AUTH: "refused: the daemon does not let this client in",
    Code.ILLEGAL_SESSION: "no such mailbox: it was never connected, or is disconnected",
    Code.ILLEGAL_SERVICE: "no such service: give exactly one, with SELF_DISCARD or without",
    Code.ILLEGAL_MESSAGE: "not a message that can be sent or read",
    Code.ILLEGAL_GROUP: "no name of a group",
    Code.BUFFER_TOO_SHORT: "the message is longer than the buffer",
    Code.GROUPS_TOO_SHORT: "the message has more groups than there is room for",
    Code.MESSAGE_TOO_LONG: "body and names of groups together are too long for a message",
    Code.NET_ERROR_ON_SESSION: "the connection failed: disconnect this mailbox and connect again",
    Code.SP_BUG: "a mistake in the library itself",
    Code.ILLEGAL_TIME: "not a time to wait for",
}


def text_of(code: int) -> str:
    """In words; a code that there is not has none."""
    return TEXTS.get(code, "no such code")
