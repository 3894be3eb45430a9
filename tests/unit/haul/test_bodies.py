"""Bodies of parcels that wait, beside the log of a member."""

from hopring.haul.ids import ClusterId, ParcelId
from hopring.haul.stored.bodies import ASK_OTHER_US, ASKED_MAX, BodyFiles, BodyKey, ForgetBodies, StoreBodies
from hopring.ids import NEVER


def key(number: int) -> BodyKey:
    return "tickets", ParcelId(ClusterId(1), number)


def test_a_body_is_stored_once() -> None:
    files = BodyFiles([key(1)])

    assert files.store({key(1): b"one", key(2): b"two"}) == [StoreBodies(((key(2), b"two"),))]
    assert files.store({key(2): b"two"}) == []


def test_what_is_not_needed_any_more_is_forgotten_if_it_is_there() -> None:
    files = BodyFiles([key(1)])
    files.drop(key(1))
    files.drop(key(2))

    assert files.take() == [ForgetBodies((key(1),))]
    assert files.take() == []


def test_a_member_lacks_what_the_state_keeps_and_nobody_here_has() -> None:
    files = BodyFiles([key(1), key(2)])

    files.look({key(2), key(3), key(4)}, {key(4)})

    assert list(files.lacking) == [key(3)]
    assert files.take() == [ForgetBodies((key(1),))]


def test_others_are_asked_one_after_the_other() -> None:
    files = BodyFiles([])
    files.look({key(1)}, set())

    assert files.ask(["m2", "m3"], 0) == ("m2", (key(1),))
    assert files.ask(["m2", "m3"], ASK_OTHER_US - 1) is None
    assert files.ask(["m2", "m3"], ASK_OTHER_US) == ("m3", (key(1),))


def test_a_member_that_is_alone_looks_again_later() -> None:
    files = BodyFiles([])
    files.look({key(1)}, set())

    assert files.ask([], 100) is None
    assert files.wake_at_us == 100 + ASK_OTHER_US


def test_the_next_bodies_are_asked_for_when_the_first_have_come() -> None:
    files = BodyFiles([])
    files.look({key(number) for number in range(1, ASKED_MAX + 2)}, set())
    asked = files.ask(["m2"], 0)
    assert asked is not None
    assert len(asked[1]) == ASKED_MAX

    files.store(dict.fromkeys(asked[1], b"body"))

    assert files.ask(["m2"], 1) == ("m2", (key(ASKED_MAX + 1),))


def test_bodies_that_nobody_gives_let_others_go_first() -> None:
    files = BodyFiles([])
    files.look({key(number) for number in range(1, ASKED_MAX + 2)}, set())
    files.ask(["m2"], 0)

    asked = files.ask(["m2"], ASK_OTHER_US)

    assert asked is not None
    assert asked[1][0] == key(ASKED_MAX + 1)


def test_what_was_lacking_and_is_not_needed_any_more_is_not_asked_for() -> None:
    files = BodyFiles([])
    files.look({key(1)}, set())
    files.drop(key(1))

    assert files.ask(["m2"], 0) is None
    assert files.wake_at_us == NEVER
