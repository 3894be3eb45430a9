"""Numbers and texts of Spread's header: programs have them compiled in, and logs contain them."""

import pytest

from hopring.compat import constants, sp, sp_membership, spread
from hopring.compat.constants import TEXTS, Code, text_of

BITS = {
    "Is_unreliable_mess": 0x1,
    "Is_reliable_mess": 0x2,
    "Is_fifo_mess": 0x4,
    "Is_causal_mess": 0x8,
    "Is_agreed_mess": 0x10,
    "Is_safe_mess": 0x20,
    "Is_regular_mess": 0x3F,
    "Is_self_discard": 0x40,
    "Is_caused_join_mess": 0x100,
    "Is_caused_leave_mess": 0x200,
    "Is_caused_disconnect_mess": 0x400,
    "Is_caused_network_mess": 0x800,
    "Is_reg_memb_mess": 0x1000,
    "Is_transition_mess": 0x2000,
    "Is_membership_mess": 0x3F00,
    "Is_reject_mess": 0x400000,
    "Is_self_leave": 0x200,
}


@pytest.mark.parametrize("name", [name for name in sp_membership.__all__ if name.startswith("Is_")])
def test_a_predicate_is_true_for_its_bits_and_for_no_other(name: str) -> None:
    predicate = getattr(sp, name)

    for at in range(32):
        assert predicate(1 << at) is bool(BITS[name] & 1 << at)
    assert predicate(0) is False


def test_predicates_of_several_bits() -> None:
    assert sp.Is_regular_mess(0x50)
    assert not sp.Is_regular_mess(0x400010)
    assert not sp.Is_membership_mess(0x401100)
    assert not sp.Is_self_leave(0x1200)
    assert not sp.Is_self_leave(0x2200)


def test_codes_have_the_numbers_and_texts_of_the_toolkit() -> None:
    assert [int(one) for one in Code] == [1, *range(-1, -10, -1), *range(-11, -21, -1)]
    assert set(TEXTS) == set(Code) - {Code.ACCEPT_SESSION}
    assert [text_of(code) for code in (1, 0, -10)] == ["no such code"] * 3


@pytest.mark.parametrize("module", [sp, spread], ids=lambda module: str(module.__name__))
def test_both_modules_export_all_constants_and_everything_in_their_all(module: object) -> None:
    for name in constants.__all__:
        assert getattr(module, name) == getattr(constants, name)
    for name in module.__all__:  # type: ignore[attr-defined]
        assert hasattr(module, name)


def test_masks() -> None:
    assert constants.REGULAR_MESS == 0x3F
    assert constants.MEMBERSHIP_MESS == 0x3F00
    assert (constants.RESERVED, constants.ENDIAN_RESERVED, constants.DROP_RECV) == (
        0x3FC000,
        0x80000080,
        0x1000000,
    )
