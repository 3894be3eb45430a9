"""Predicates of a message's type word: `Is_regular_mess` and others."""

from hopring.compat import constants as c

__all__ = [
    "Is_agreed_mess",
    "Is_causal_mess",
    "Is_caused_disconnect_mess",
    "Is_caused_join_mess",
    "Is_caused_leave_mess",
    "Is_caused_network_mess",
    "Is_fifo_mess",
    "Is_membership_mess",
    "Is_reg_memb_mess",
    "Is_regular_mess",
    "Is_reject_mess",
    "Is_reliable_mess",
    "Is_safe_mess",
    "Is_self_discard",
    "Is_self_leave",
    "Is_transition_mess",
    "Is_unreliable_mess",
]


def Is_unreliable_mess(service_type: int) -> bool:
    """Whether it is an Unreliable message."""
    return bool(service_type & c.UNRELIABLE_MESS)


def Is_reliable_mess(service_type: int) -> bool:
    """Whether it is a Reliable message."""
    return bool(service_type & c.RELIABLE_MESS)


def Is_fifo_mess(service_type: int) -> bool:
    """Whether it is a FIFO message."""
    return bool(service_type & c.FIFO_MESS)


def Is_causal_mess(service_type: int) -> bool:
    """Whether it is a Causal message."""
    return bool(service_type & c.CAUSAL_MESS)


def Is_agreed_mess(service_type: int) -> bool:
    """Whether it is an Agreed message."""
    return bool(service_type & c.AGREED_MESS)


def Is_safe_mess(service_type: int) -> bool:
    """Whether it is a Safe message."""
    return bool(service_type & c.SAFE_MESS)


def Is_self_discard(service_type: int) -> bool:
    """Whether its sender does not receive it."""
    return bool(service_type & c.SELF_DISCARD)


def Is_reg_memb_mess(service_type: int) -> bool:
    """Whether it is a view."""
    return bool(service_type & c.REG_MEMB_MESS)


def Is_transition_mess(service_type: int) -> bool:
    """Whether it is a transitional signal."""
    return bool(service_type & c.TRANSITION_MESS)


def Is_caused_join_mess(service_type: int) -> bool:
    """Whether its cause is a join."""
    return bool(service_type & c.CAUSED_BY_JOIN)


def Is_caused_leave_mess(service_type: int) -> bool:
    """Whether its cause is a leave."""
    return bool(service_type & c.CAUSED_BY_LEAVE)


def Is_caused_disconnect_mess(service_type: int) -> bool:
    """Whether its cause is the end of a session."""
    return bool(service_type & c.CAUSED_BY_DISCONNECT)


def Is_caused_network_mess(service_type: int) -> bool:
    """Whether its cause is a change of the daemons' view."""
    return bool(service_type & c.CAUSED_BY_NETWORK)


def Is_reject_mess(service_type: int) -> bool:
    """Whether it is a message of this session that the daemon rejected."""
    return bool(service_type & c.REJECT_MESS)


def Is_regular_mess(service_type: int) -> bool:
    """Whether it is a message of any service."""
    return bool(service_type & c.REGULAR_MESS) and not service_type & c.REJECT_MESS


def Is_membership_mess(service_type: int) -> bool:
    """Whether it is a view, a transitional signal or the session's own leave."""
    return bool(service_type & c.MEMBERSHIP_MESS) and not service_type & c.REJECT_MESS


def Is_self_leave(service_type: int) -> bool:
    """Whether it is the session's own leave."""
    views = c.REG_MEMB_MESS | c.TRANSITION_MESS
    return bool(service_type & c.CAUSED_BY_LEAVE) and not service_type & views
