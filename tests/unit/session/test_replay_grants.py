"""Who may ask for the past of a group: who may join it, and nobody else."""

import pytest

from hopring.config.access import GrantConfig
from hopring.session.grants import GrantsTable


@pytest.mark.parametrize(
    ("join", "send", "allowed"),
    [(("trades",), (), True), (("news",), ("*",), False), (("tr*",), ("trades",), True), ((), ("*",), False)],
)
def test_requests_for_the_past_follow_the_right_to_join(
    join: tuple[str, ...], send: tuple[str, ...], allowed: bool
) -> None:
    table = GrantsTable((GrantConfig("user:anna", join=join, send=send),))

    assert table.rights("user:anna").may_send("trades?spool?servers") is allowed
