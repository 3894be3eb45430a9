"""Requests of a client: in order, repeated until they are answered, forgotten then."""

from hopring.blocks.log.messages import Operation, decode_message
from hopring.haul.entries import Accepted, Answer, SetJoinRequest, decode_entry
from hopring.haul.ids import ClusterMask
from hopring.ids import NEVER
from hopring.wide.library.requests import REPEAT_US, REPEAT_US_MAX, OpenRequests


def request(client: str, number: int, known: int) -> SetJoinRequest:
    return SetJoinRequest(client, number, known, "tickets", "vendors", ClusterMask(3))


def numbers(messages: list[bytes]) -> list[tuple[int, int]]:
    found = [decode_message(one) for one in messages]
    return [(one.number, one.settled) for one in found if isinstance(one, Operation)]


def test_a_request_is_an_operation_of_the_log_in_the_name_of_the_client() -> None:
    operation = decode_message(OpenRequests("anna").submit(request, lambda _: None, 0))

    assert isinstance(operation, Operation)
    entry = decode_entry(operation.data)
    assert entry is not None
    assert (operation.writer, operation.number, operation.settled) == ("anna", 1, 0)
    assert entry.body == request("anna", 1, 0)


def test_what_has_no_answer_is_repeated_in_order_and_ever_later() -> None:
    requests = OpenRequests("anna")
    for _ in range(3):
        requests.submit(request, lambda _: None, 0)
    assert requests.wake_at_us == REPEAT_US
    requests.answered(2, Accepted(), 1_000)
    assert requests.wake_at_us == 1_000 + REPEAT_US

    assert numbers(requests.repeated(3_000_000)) == [(1, 0), (3, 0)]
    assert requests.wake_at_us == 3_000_000 + 2 * REPEAT_US
    for _ in range(10):
        requests.repeated(requests.wake_at_us)
    before = requests.wake_at_us
    requests.repeated(before)
    assert requests.wake_at_us == before + REPEAT_US_MAX


def test_a_client_tells_up_to_where_it_has_all_answers() -> None:
    requests, answers = OpenRequests("anna"), list[Answer]()
    for _ in range(3):
        requests.submit(request, answers.append, 0)
    requests.answered(1, Accepted(), 0)
    requests.answered(1, Accepted(), 0)

    assert len(answers) == 1
    assert requests.known == 1
    assert numbers(requests.repeated(0)) == [(2, 1), (3, 1)]
    requests.answered(3, Accepted(), 0)
    requests.answered(2, Accepted(), 0)
    assert (requests.known, requests.wake_at_us) == (3, NEVER)
    assert requests.repeated(0) == []
