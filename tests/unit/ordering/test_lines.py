from hopring.ordering.order import SiteLine


def new_line() -> SiteLine:
    """A site from which nothing has come; its first stamp can be 11."""
    return SiteLine(cseq=0, next_lts=11, stable_lts=11)


def test_bundles_in_order_raise_both_lines() -> None:
    line = new_line()

    line.hold(1, 11)
    line.hold(2, 15)

    assert (line.cseq, line.next_lts, line.stable_lts) == (2, 16, 11)


def test_a_bundle_above_a_gap_raises_nothing_until_the_gap_is_filled() -> None:
    line = new_line()

    line.hold(2, 15)
    assert (line.cseq, line.next_lts) == (0, 11)

    line.hold(1, 12)
    assert (line.cseq, line.next_lts) == (2, 16)


def test_a_promise_that_overtakes_its_data_counts_only_when_they_have_come() -> None:
    line = new_line()

    line.promise(2, 20)
    assert (line.cseq, line.next_lts, line.highest) == (0, 11, 2)

    line.hold(1, 12)
    assert line.next_lts == 13

    line.hold(2, 14)
    assert line.next_lts == 20


def test_a_promise_about_what_is_here_counts_at_once() -> None:
    line = new_line()
    line.hold(1, 12)

    line.promise(1, 30)

    assert line.next_lts == 30


def test_a_late_promise_never_lowers_a_line() -> None:
    line = new_line()
    line.promise(0, 30)

    line.promise(0, 20)

    assert line.next_lts == 30


def test_promises_that_are_covered_are_forgotten() -> None:
    line = new_line()
    line.promise(1, 20)
    line.promise(2, 25)

    line.hold(1, 12)

    assert line.promises == {2: 25}


def test_promises_after_a_gap_do_not_accumulate() -> None:
    line = new_line()

    for lts in range(20, 1_020):
        line.promise(2, lts)
    line.promise(2, 500)

    assert line.promises == {2: 1_019}
    line.hold(1, 12)
    line.hold(2, 14)
    assert line.next_lts == 1_019


def test_held_bundles_are_known_below_and_above_the_gap() -> None:
    line = new_line()
    line.hold(1, 11)
    line.hold(3, 13)

    assert [line.holds(seq) for seq in (1, 2, 3, 4)] == [True, False, True, False]


def test_the_highest_sequence_is_known_from_promises_too() -> None:
    line = new_line()
    line.hold(3, 13)
    line.promise(7, 40)

    assert line.highest == 7


def test_lines_go_on_past_two_to_the_63() -> None:
    line = SiteLine(cseq=2**63 - 2, next_lts=2**63 - 1, stable_lts=0)

    for seq in (2**63 - 1, 2**63, 2**63 + 1):
        line.hold(seq, seq)

    assert (line.cseq, line.next_lts) == (2**63 + 1, 2**63 + 2)
