"""What each code means, in the toolkit's words: programs and people look for them."""

from typing import Final

from hopring.compat.constants import Code

TEXTS: Final[dict[int, str]] = {
    Code.ILLEGAL_SPREAD: "Illegal spread was provided",
    Code.COULD_NOT_CONNECT: "Could not connect. Is Spread running?",
    Code.REJECT_QUOTA: "Connection rejected, too many users",
    Code.REJECT_NO_NAME: "Connection rejected, no name was supplied",
    Code.REJECT_ILLEGAL_NAME: "Connection rejected, illegal name",
    Code.REJECT_NOT_UNIQUE: "Connection rejected, name not unique",
    Code.REJECT_VERSION: "Connection rejected, library does not fit daemon",
    Code.CONNECTION_CLOSED: "Connection closed by spread",
    Code.REJECT_AUTH: "Connection rejected, authentication failed",
    Code.ILLEGAL_SESSION: "Illegal session was supplied",
    Code.ILLEGAL_SERVICE: "Illegal service request",
    Code.ILLEGAL_MESSAGE: "Illegal message",
    Code.ILLEGAL_GROUP: "Illegal group",
    Code.BUFFER_TOO_SHORT: "The supplied buffer was too short",
    Code.GROUPS_TOO_SHORT: "The supplied groups list was too short",
    Code.MESSAGE_TOO_LONG: "The message body + group names was too large to fit in a message",
    Code.NET_ERROR_ON_SESSION: "The network socket experienced an error. This Spread mailbox will no longer "
    "work until the connection is disconnected and then reconnected",
    Code.SP_BUG: "Internal spread bug detected!",
    Code.ILLEGAL_TIME: "The supplied time is illegal",
}


def text_of(code: int) -> str:
    """One that the toolkit does not know has no words."""
    return TEXTS.get(code, "unrecognized error")
