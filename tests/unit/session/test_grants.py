"""The table of grants: patterns, denials, limits, and names that belong to one identity."""

import pytest

from hopring.config import ANONYMOUS, GrantConfig
from hopring.session.grants import ClientRights, GrantsTable, matches


@pytest.mark.parametrize(
    ("pattern", "text", "same"),
    [
        ("trades", "trades", True),
        ("trades", "trades2", False),
        ("*", "", True),
        ("*", "#anna#eu1", True),
        ("trades.*", "trades.eu", True),
        ("trades.*", "trades", False),
        ("*.eu", "trades.eu", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("ab*ba", "aba", False),
        ("a?c", "abc", False),
        ("[ab]", "a", False),
        ("*" * 60 + "x", "y" * 128, False),
    ],
)
def test_only_a_star_is_special_in_a_pattern(pattern: str, text: str, same: bool) -> None:
    assert matches(pattern, text) is same


def test_entries_count_together_and_a_denial_wins() -> None:
    grants = GrantsTable(
        (
            GrantConfig("*", join=("public.*",), send=("public.*",), deny_send=("public.closed",)),
            GrantConfig("anna", join=("*",), send=("*",), deny_join=("secret*",), apps=("detector",)),
        )
    )
    anna, bert = grants.rights("anna"), grants.rights("bert")

    assert [anna.may_join(group) for group in ("trades", "public.a", "secret.a")] == [True, True, False]
    assert [anna.may_send(group) for group in ("trades", "public.closed", "#bert#eu1")] == [True, False, True]
    assert [bert.may_join(group) for group in ("trades", "public.a")] == [False, True]
    assert [bert.may_send(group) for group in ("public.a", "public.closed", "trades")] == [True, False, False]
    assert (anna.may_use_app("detector"), anna.may_use_app("other"), bert.may_use_app("detector")) == (
        True,
        False,
        False,
    )


def test_a_group_that_may_be_joined_is_seen_unless_that_is_denied() -> None:
    rights = GrantsTable(
        (GrantConfig("anna", join=("a*",), see=("b*",), deny_see=("ab", "bb")),),
    ).rights("anna")

    assert [rights.may_see(group) for group in ("a", "b", "ab", "bb", "c")] == [True, True, False, False, False]


def test_locks_need_a_right_of_their_own() -> None:
    rights = ClientRights("anna", (GrantConfig("anna", join=("*",), lock=("a*",), deny_lock=("ab",)),))
    assert [rights.may_lock(group) for group in ("a", "ab", "b")] == [True, False, False]


def test_servers_need_the_right_to_serve_and_callers_the_one_to_send() -> None:
    server = ClientRights("anna", (GrantConfig("anna", join=("*",), serve=("a*",), deny_serve=("ab",)),))
    caller = ClientRights("bert", (GrantConfig("bert", send=("a*",)),))

    for group in ("a?servers", "a?handler1", "a?handler6"):
        assert server.may_join(group)
        assert server.may_lock(group)
        assert not server.may_send(group)
        assert caller.may_send(group)
        assert caller.may_see(group)
        assert not caller.may_join(group)
    for group in ("ab?servers", "b?servers", "b?handler2"):
        assert not server.may_join(group)
        assert not server.may_lock(group)
    assert not caller.may_send("b?servers")
    assert not server.may_lock("a")


def test_view_synchrony_follows_the_right_to_join() -> None:
    rights = ClientRights("anna", (GrantConfig("anna", join=("a",)),))

    assert [rights.may_join(group) for group in ("a?view", "b?view")] == [True, False]
    assert [rights.may_send(group) for group in ("a?view", "b?view", "a")] == [True, False, False]


def test_spoolers_serve_the_past_by_the_right_to_join() -> None:
    rights = ClientRights("anna", (GrantConfig("anna", join=("a?spool?servers",)),))

    assert rights.may_join("a?spool?servers")
    assert not rights.may_join("b?spool?servers")


def test_a_name_belongs_to_the_most_specific_pattern() -> None:
    grants = GrantsTable(
        (
            GrantConfig("*", names=("*",)),
            GrantConfig("anna", names=("anna", "anna-*")),
            GrantConfig("uid:root", names=("anna-backup",), deny_names=("z*",)),
        )
    )

    assert grants.may_use_name("anna", "anna")
    assert grants.may_use_name("anna", "anna-2")
    assert not grants.may_use_name("bert", "anna")
    assert not grants.may_use_name("bert", "anna-2")
    assert not grants.may_use_name("anna", "anna-backup")
    assert grants.may_use_name("uid:root", "anna-backup")
    assert grants.may_use_name("bert", "zoe")
    assert not grants.may_use_name("uid:root", "zoe")


def test_nobody_without_credentials_is_meant_by_a_star() -> None:
    grants = GrantsTable((GrantConfig("*", names=("*",), join=("*",)), GrantConfig("uid:*", priority=True)))

    assert not grants.rights(ANONYMOUS).known
    assert not grants.may_use_name(ANONYMOUS, "anna")
    assert grants.rights("uid:anna").priority
    assert not grants.rights("anna").priority
    assert GrantsTable((GrantConfig(ANONYMOUS, names=("*",)),)).may_use_name(ANONYMOUS, "anna")


def test_limits_come_from_the_most_specific_entry_and_false_denies_priority() -> None:
    rights = GrantsTable(
        (
            GrantConfig("an*", sessions_max=3, groups_max=9, priority=True, slow=("kick", "block")),
            GrantConfig(
                "anna", sessions_max=1, rate_bytes_per_second=1_000, priority=False, deny_slow=("kick",)
            ),
            GrantConfig("*", sessions_max=50),
        )
    ).rights("anna")

    assert (rights.sessions_max, rights.groups_max, rights.rate_bytes_per_second) == (1, 9, 1_000)
    assert rights.slow == {"block"}
    assert not rights.priority


def test_without_a_policy_in_the_grants_a_client_may_choose_all_but_block() -> None:
    assert GrantsTable((GrantConfig("anna"),)).rights("anna").slow == {"kick", "spill", "drop"}
