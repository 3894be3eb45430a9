"""The server's half of request and reply, with literal events."""

from random import Random

from hopring.blocks.call_header import ReplyMark, ReplyResult, RequestMark
from hopring.blocks.serving import (
    REPLIES_BYTES_MAX,
    WAITING_MAX,
    HandlerEnded,
    Output,
    RequestArrived,
    RunHandler,
    SendReply,
    Server,
)

CALLER = "0123456789abcdef"
KEY = ("ann", CALLER)


def request(
    serial: int,
    sending: int = 1,
    low: int = 1,
    to: str = "#ann#d1",
    key: tuple[str, str] = KEY,
    group: bool = False,
) -> RequestArrived:
    return RequestArrived(key, RequestMark(key[1], serial, low, sending, group), to)


def done(serial: int, data: bytes = b"done", key: tuple[str, str] = KEY) -> HandlerEnded:
    return HandlerEnded(key, serial, ReplyResult.DONE, data)


def answer(
    serial: int,
    result: ReplyResult = ReplyResult.DONE,
    data: bytes = b"done",
    again: bool = False,
    to: str = "#ann#d1",
    group: bool = False,
) -> list[Output]:
    return [SendReply(to, ReplyMark(CALLER, serial, result, again), data, group)]


def test_a_request_is_handled_and_answered() -> None:
    server = Server()

    assert server.step(request(1)) == [RunHandler(KEY, 1, False)]
    assert server.step(done(1)) == answer(1)


def test_a_repeated_request_is_answered_from_the_cache_to_where_the_caller_is_now() -> None:
    server = Server()
    server.step(request(1))
    server.step(done(1))

    for sending in (2, 3):
        assert server.step(request(1, sending, to="#ann#d2")) == answer(1, again=True, to="#ann#d2")


def test_a_late_request_of_an_earlier_connection_changes_nothing() -> None:
    """Its daemon kept it while the network changed, and the repetition came by another daemon."""
    server = Server()
    assert server.step(request(1, sending=2, to="#ann#d2")) == [RunHandler(KEY, 1, True)]
    assert server.step(request(1, to="#ann#d1")) == []
    assert server.step(done(1)) == answer(1, to="#ann#d2")
    assert server.step(request(1, to="#ann#d1")) == []
    server.step(request(2, low=2, to="#ann#d2"))
    assert server.step(request(1, to="#ann#d1")) == answer(1, ReplyResult.TOO_OLD, b"")


def test_a_request_that_is_repeated_while_it_is_handled_is_answered_once() -> None:
    server = Server()
    server.step(request(1))

    assert server.step(request(1, sending=2, to="#ann#d2")) == []
    assert server.step(done(1)) == answer(1, to="#ann#d2")


def test_a_repeated_request_that_is_new_here_is_handled_as_such() -> None:
    assert Server().step(request(5, sending=2, low=3)) == [RunHandler(KEY, 5, True)]


def test_replies_to_the_group_go_there_once() -> None:
    server = Server()
    server.step(request(1, group=True))

    assert server.step(done(1)) == answer(1, group=True)
    assert server.step(request(1, sending=2, group=True)) == answer(1, again=True)


def test_an_error_is_cached_like_a_reply() -> None:
    server = Server()
    server.step(request(1))
    server.step(HandlerEnded(KEY, 1, ReplyResult.FAILED, b"no"))

    assert server.step(request(1, sending=2)) == answer(1, ReplyResult.FAILED, b"no", again=True)


def test_what_the_caller_has_is_forgotten_and_then_too_old() -> None:
    server = Server()
    for serial in (1, 2, 3):
        server.step(request(serial))
        server.step(done(serial))
    server.step(request(4, low=3))

    assert server.replies == 1
    assert server.step(request(2, sending=2)) == answer(2, ReplyResult.TOO_OLD, b"")
    assert server.step(request(3, sending=2)) == answer(3, again=True)


def test_the_cache_forgets_the_oldest_replies_first() -> None:
    server = Server(replies_max=2)
    for serial in (1, 2, 3):
        server.step(request(serial))
        server.step(done(serial))

    assert server.replies == 2
    assert server.step(request(1, sending=2)) == answer(1, ReplyResult.TOO_OLD, b"")
    assert server.step(request(2, sending=2)) == answer(2, again=True)
    assert server.step(request(9, sending=2)) == [RunHandler(KEY, 9, True)]


def test_the_cache_is_bounded_in_bytes() -> None:
    server = Server()
    for serial in (1, 2, 3):
        server.step(request(serial))
        server.step(done(serial, bytes(REPLIES_BYTES_MAX // 2)))

    assert server.replies_bytes == REPLIES_BYTES_MAX
    assert server.step(request(1, sending=2)) == answer(1, ReplyResult.TOO_OLD, b"")


def test_after_a_caller_was_forgotten_no_repeated_request_of_an_unknown_one_is_done() -> None:
    server = Server(callers_max=2)
    keys = [("ann", f"{number:016x}") for number in range(3)]
    for key in keys:
        server.step(request(1, key=key))
        server.step(done(1, key=key))

    assert list(server.callers) == keys[1:]
    (refused,) = server.step(request(1, sending=2, key=keys[0]))
    assert isinstance(refused, SendReply)
    assert refused.mark.result is ReplyResult.TOO_OLD
    # A request without the mark is new for certain.
    assert server.step(request(2, key=keys[0])) == [RunHandler(keys[0], 2, False)]


def test_another_session_cannot_use_up_the_serials_of_a_caller() -> None:
    server = Server()
    server.step(request(1, key=("eve", CALLER)))

    assert server.step(request(1, sending=2)) == [RunHandler(KEY, 1, True)]


def test_too_many_waiting_requests_are_refused_and_not_remembered() -> None:
    server = Server()
    for serial in range(1, WAITING_MAX + 1):
        server.step(request(serial))

    last = WAITING_MAX + 1
    assert server.step(request(last)) == answer(last, ReplyResult.BUSY, b"")
    server.step(done(1))
    assert server.step(request(last, sending=2)) == [RunHandler(KEY, last, True)]


def test_in_random_histories_no_request_is_done_twice_and_limits_hold() -> None:
    dice = Random(11)
    server = Server(callers_max=4, replies_max=12)
    keys = [("ann", f"{number:016x}") for number in range(8)]
    serials = dict.fromkeys(keys, 0)
    handled: set[tuple[tuple[str, str], int]] = set()
    replied: set[tuple[str, int]] = set()
    running: list[tuple[tuple[str, str], int]] = []
    results: set[ReplyResult] = set()
    for _ in range(20_000):
        outputs: list[Output] = []
        if running and dice.random() < 0.4:
            key, serial = running.pop(dice.randrange(len(running)))
            outputs = server.step(done(serial, key=key))
        else:
            key = dice.choice(keys)
            if serials[key] and dice.random() < 0.5:
                serial = dice.randint(max(1, serials[key] - 10), serials[key])
                outputs = server.step(request(serial, sending=2, key=key))
            else:
                serials[key] += 1
                outputs = server.step(request(serials[key], low=max(1, serials[key] - 5), key=key))
        for output in outputs:
            if isinstance(output, RunHandler):
                assert (output.key, output.serial) not in handled
                handled.add((output.key, output.serial))
                running.append((output.key, output.serial))
            else:
                results.add(output.mark.result)
                if output.mark.result is ReplyResult.DONE:
                    assert output.mark.again is ((output.mark.caller, output.mark.serial) in replied)
                    replied.add((output.mark.caller, output.mark.serial))
        assert server.replies <= 12
        assert server.waiting == len(running)

    assert results == {ReplyResult.DONE, ReplyResult.TOO_OLD}


def test_who_does_not_hold_the_handler_lock_does_nothing_until_the_request_comes_again_to_the_holder() -> None:
    server = Server()

    assert server.step(request(1).replace(mine=False)) == []
    assert server.step(request(1, sending=2)) == [RunHandler(KEY, 1, True)]
    assert server.step(done(1)) == answer(1)


def test_who_held_the_handler_lock_answers_what_it_has_done() -> None:
    server = Server()
    server.step(request(1))
    server.step(done(1))

    assert server.step(request(1, sending=2).replace(mine=False)) == answer(1, again=True)
