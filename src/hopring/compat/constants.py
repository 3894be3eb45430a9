"""The constants of Spread's header for both facades, and the texts of its error codes."""

from enum import IntEnum
from typing import Final

from hopring.spread.handshake import VERSION

__all__ = [
    "ACCEPT_SESSION",
    "AGREED_MESS",
    "BUFFER_TOO_SHORT",
    "CAUSAL_MESS",
    "CAUSED_BY_DISCONNECT",
    "CAUSED_BY_JOIN",
    "CAUSED_BY_LEAVE",
    "CAUSED_BY_NETWORK",
    "CONNECTION_CLOSED",
    "COULD_NOT_CONNECT",
    "DEFAULT_SPREAD_PORT",
    "DROP_RECV",
    "ENDIAN_RESERVED",
    "FIFO_MESS",
    "GROUPS_TOO_SHORT",
    "HIGH_PRIORITY",
    "ILLEGAL_GROUP",
    "ILLEGAL_MESSAGE",
    "ILLEGAL_SERVICE",
    "ILLEGAL_SESSION",
    "ILLEGAL_SPREAD",
    "ILLEGAL_TIME",
    "LOW_PRIORITY",
    "MAX_CLIENT_SCATTER_ELEMENTS",
    "MAX_GROUP_NAME",
    "MAX_PRIVATE_NAME",
    "MAX_PROC_NAME",
    "MEDIUM_PRIORITY",
    "MEMBERSHIP_MESS",
    "MESSAGE_TOO_LONG",
    "NET_ERROR_ON_SESSION",
    "REGULAR_MESS",
    "REG_MEMB_MESS",
    "REJECT_AUTH",
    "REJECT_ILLEGAL_NAME",
    "REJECT_MESS",
    "REJECT_NOT_UNIQUE",
    "REJECT_NO_NAME",
    "REJECT_QUOTA",
    "REJECT_VERSION",
    "RELIABLE_MESS",
    "RESERVED",
    "SAFE_MESS",
    "SELF_DISCARD",
    "SPREAD_VERSION",
    "SP_BUG",
    "TRANSITION_MESS",
    "UNRELIABLE_MESS",
]


class Code(IntEnum):
    """The result codes of the calls; errors are negative."""

    ACCEPT_SESSION = 1
    ILLEGAL_SPREAD = -1
    COULD_NOT_CONNECT = -2
    REJECT_QUOTA = -3
    REJECT_NO_NAME = -4
    REJECT_ILLEGAL_NAME = -5
    REJECT_NOT_UNIQUE = -6
    REJECT_VERSION = -7
    CONNECTION_CLOSED = -8
    REJECT_AUTH = -9
    ILLEGAL_SESSION = -11
    ILLEGAL_SERVICE = -12
    ILLEGAL_MESSAGE = -13
    ILLEGAL_GROUP = -14
    BUFFER_TOO_SHORT = -15
    GROUPS_TOO_SHORT = -16
    MESSAGE_TOO_LONG = -17
    NET_ERROR_ON_SESSION = -18
    SP_BUG = -19
    ILLEGAL_TIME = -20


ACCEPT_SESSION: Final = Code.ACCEPT_SESSION
ILLEGAL_SPREAD: Final = Code.ILLEGAL_SPREAD
COULD_NOT_CONNECT: Final = Code.COULD_NOT_CONNECT
REJECT_QUOTA: Final = Code.REJECT_QUOTA
REJECT_NO_NAME: Final = Code.REJECT_NO_NAME
REJECT_ILLEGAL_NAME: Final = Code.REJECT_ILLEGAL_NAME
REJECT_NOT_UNIQUE: Final = Code.REJECT_NOT_UNIQUE
REJECT_VERSION: Final = Code.REJECT_VERSION
CONNECTION_CLOSED: Final = Code.CONNECTION_CLOSED
REJECT_AUTH: Final = Code.REJECT_AUTH
ILLEGAL_SESSION: Final = Code.ILLEGAL_SESSION
ILLEGAL_SERVICE: Final = Code.ILLEGAL_SERVICE
ILLEGAL_MESSAGE: Final = Code.ILLEGAL_MESSAGE
ILLEGAL_GROUP: Final = Code.ILLEGAL_GROUP
BUFFER_TOO_SHORT: Final = Code.BUFFER_TOO_SHORT
GROUPS_TOO_SHORT: Final = Code.GROUPS_TOO_SHORT
MESSAGE_TOO_LONG: Final = Code.MESSAGE_TOO_LONG
NET_ERROR_ON_SESSION: Final = Code.NET_ERROR_ON_SESSION
SP_BUG: Final = Code.SP_BUG
ILLEGAL_TIME: Final = Code.ILLEGAL_TIME

UNRELIABLE_MESS: Final = 0x1
RELIABLE_MESS: Final = 0x2
FIFO_MESS: Final = 0x4
CAUSAL_MESS: Final = 0x8
AGREED_MESS: Final = 0x10
SAFE_MESS: Final = 0x20
REGULAR_MESS: Final = 0x3F
SELF_DISCARD: Final = 0x40
CAUSED_BY_JOIN: Final = 0x100
CAUSED_BY_LEAVE: Final = 0x200
CAUSED_BY_DISCONNECT: Final = 0x400
CAUSED_BY_NETWORK: Final = 0x800
REG_MEMB_MESS: Final = 0x1000
TRANSITION_MESS: Final = 0x2000
MEMBERSHIP_MESS: Final = 0x3F00
RESERVED: Final = 0x003FC000
REJECT_MESS: Final = 0x00400000
DROP_RECV: Final = 0x01000000
ENDIAN_RESERVED: Final = 0x80000080

LOW_PRIORITY: Final = 0
MEDIUM_PRIORITY: Final = 1
HIGH_PRIORITY: Final = 2

DEFAULT_SPREAD_PORT: Final = 4803
MAX_GROUP_NAME: Final = 32
MAX_PRIVATE_NAME: Final = 10
MAX_PROC_NAME: Final = 20
MAX_CLIENT_SCATTER_ELEMENTS: Final = 100
SPREAD_VERSION: Final = VERSION[0] << 24 | VERSION[1] << 16 | VERSION[2]


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
    """The text of a code, with a remedy."""
    return TEXTS.get(code, "no such code")
