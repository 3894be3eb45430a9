"""Decodes the group messages that a daemon's groups submit."""

from hopring.engine import SubmitMessage
from hopring.groups.messages import decode_group_message
from hopring.ordering.entry import DAEMON_SESSION


def group_messages(submits: list[SubmitMessage]) -> list[object]:
    return [decode_group_message(one.payload, one.service) for one in submits if one.session == DAEMON_SESSION]
