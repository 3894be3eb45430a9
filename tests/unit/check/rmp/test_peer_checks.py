"""R1 to R17 on histories of peers written by hand, right and wrong."""

import pytest
from tests.unit.check.rmp.peer_notation import peers
from tests.unit.check.rmp.peers_by_hand import RIGHT, WRONG

from hopring.check.rmp.peer_judge import PEER_PROPERTIES, check_peers


def broken(text: str, number: str) -> bool:
    verdicts = {one.property.split()[0]: one for one in check_peers(peers(text), quiet_end=True)}
    return not verdicts[number]


def test_every_property_has_histories() -> None:
    numbers = [name.split()[0] for name in PEER_PROPERTIES]

    assert numbers == [f"R{number}" for number in range(1, 18)]
    assert list(RIGHT) == list(WRONG) == numbers


@pytest.mark.parametrize(
    ("number", "text"), [(number, text) for number, all_ in RIGHT.items() for text in all_]
)
def test_right_histories(number: str, text: str) -> None:
    assert not broken(text, number)


@pytest.mark.parametrize(
    ("number", "text"), [(number, text) for number, all_ in WRONG.items() for text in all_]
)
def test_wrong_histories(number: str, text: str) -> None:
    assert broken(text, number)


def test_rest_is_judged_at_a_quiet_end_only() -> None:
    verdicts = check_peers(peers("a list 1 1 a | a rests waiting 1"), quiet_end=False)

    assert all(verdicts)
