"""Who does what among the members of a cluster, and when they dial again."""

from hopring.haul.link.mastering import REDIAL_US_MAX, Redial, spread


def test_tasks_are_spread_evenly() -> None:
    assert spread({}, [1, 2, 3, 4, 5], ("a", "b")) == {1: "a", 3: "a", 5: "a", 2: "b", 4: "b"}


def test_the_tasks_of_a_member_that_is_gone_go_to_the_least_loaded() -> None:
    had = {1: "a", 2: "b", 3: "c", 4: "c"}

    assert spread(had, [1, 2, 3, 4], ("a", "b")) == {1: "a", 3: "a", 2: "b", 4: "b"}


def test_nothing_moves_that_need_not() -> None:
    had = {1: "b", 2: "a", 3: "a"}

    assert spread(had, [1, 2, 3], ("a", "b")) == had


def test_a_member_that_comes_back_gets_its_share() -> None:
    had = dict.fromkeys([1, 2, 3, 4], "a")

    assert spread(had, [1, 2, 3, 4], ("a", "b")) == {1: "a", 2: "a", 4: "b", 3: "b"}


def test_six_peers_and_three_members_make_two_connections_each() -> None:
    shares = list(spread({}, range(1, 7), ("a", "b", "c")).values())

    assert [shares.count(one) for one in "abc"] == [2, 2, 2]


def test_attempts_come_ever_later_and_not_all_at_once() -> None:
    redial, waits = Redial(salt=3), []
    for _ in range(10):
        redial.failed(0)
        waits.append(redial.at_us)

    assert 500_000 <= waits[0] <= 1_000_000
    assert REDIAL_US_MAX // 2 <= waits[-1] <= REDIAL_US_MAX
    assert Redial(salt=3).at_us == 0
    other = Redial(salt=4)
    other.failed(0)
    assert other.at_us != waits[0]


def test_after_an_open_connection_the_first_attempt_is_soon() -> None:
    redial = Redial()
    for _ in range(8):
        redial.failed(0)
    redial.succeeded()

    redial.failed(0)

    assert redial.at_us <= 1_000_000
