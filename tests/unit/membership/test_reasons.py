"""The reason of a view: what a daemon reports of its loss, and the one of all reports that its members give."""

from msgspec import msgpack
from msgspec.structs import replace
from tests.unit.membership.state_reports import ATTEMPT, A, B, C, state

from hopring.config import local_config
from hopring.ids import Process
from hopring.membership.messages import StateTrans, decode_recovery_message, encode_membership_message
from hopring.membership.reasons import LossReasons
from hopring.reason import LossFacts, ReasonKind, ViewReason, most_telling, reason_of
from hopring.sim.cluster import SimCluster
from hopring.sim.path import Quality

LINK = reason_of(
    ReasonKind.LINK, A.daemon, "link with daemon 1: nothing heard for 1200 ms", B.daemon, 1_200_000
)

LINK_OF_B = reason_of(ReasonKind.LINK, B.daemon, "link with daemon 0: silent", A.daemon, 1_200_000)


def told(sender: Process, kind: ReasonKind, noticed_us: int = 0) -> ViewReason:
    return replace(reason_of(kind, sender.daemon, kind.value), noticed_us=noticed_us)


def test_a_daemon_that_did_not_run_is_named_before_whom_others_missed() -> None:
    missed = [told(A, ReasonKind.LINK, 900_000), told(B, ReasonKind.RING, 800_000)]

    assert most_telling([*missed, told(C, ReasonKind.STALL)]).witness == C.daemon


def test_a_failure_that_was_seen_goes_before_one_that_was_heard_of() -> None:
    assert most_telling([told(A, ReasonKind.LOST, 50), told(B, ReasonKind.LINK, 20)]).witness == B.daemon


def test_of_equal_reasons_the_one_noticed_first_counts_and_then_the_lowest_witness() -> None:
    assert most_telling([told(A, ReasonKind.RING, 10), told(B, ReasonKind.RING, 30)]).witness == B.daemon
    assert most_telling([told(B, ReasonKind.RING, 10), told(A, ReasonKind.RING, 10)]).witness == A.daemon


def test_a_kind_of_a_later_version_counts_as_hearsay() -> None:
    strange = ViewReason("eclipse", C.daemon, detail="the sun is gone")

    assert most_telling([strange, told(A, ReasonKind.LINK)]).witness == A.daemon
    assert strange.text(A.daemon) == "daemon 2: the sun is gone"


def test_the_witness_speaks_of_itself_and_others_name_it() -> None:
    stall = reason_of(ReasonKind.STALL, A.daemon, "did not run", None, 3_210_000)

    assert stall.text(A.daemon) == "this daemon did not run for 3.2 s"
    assert stall.text(B.daemon) == "daemon 0 did not run for 3.2 s"
    assert LINK.text(B.daemon) == "daemon 0: link with daemon 1: nothing heard for 1200 ms"
    assert replace(LINK, noticed_us=300_000).last_heard_us == 1_500_000


def test_a_long_text_of_a_layer_still_fits_the_message() -> None:
    reason = reason_of(ReasonKind.PROTOCOL, A.daemon, "x" * 10_000, silence_us=-5)
    sent = replace(state(A), reason=reason)

    assert reason.silence_us == 0
    assert decode_recovery_message(encode_membership_message(sent)) == sent


def test_a_state_of_an_older_version_has_no_reason_and_one_of_a_later_version_is_read() -> None:
    fields = msgpack.decode(encode_membership_message(replace(state(A), reason=LINK)))

    older = decode_recovery_message(msgpack.encode(fields[:-1]))
    later = decode_recovery_message(msgpack.encode([*fields, "what a later version adds"]))

    assert isinstance(older, StateTrans)
    assert isinstance(later, StateTrans)
    assert (older.reason, later.reason) == (None, LINK)
    assert older.view == ATTEMPT


def test_what_is_known_of_a_loss_is_the_peer_and_the_silence() -> None:
    assert LossFacts(B.daemon, 1_200_000, absence=True) == (B.daemon, 1_200_000, True)


def reasons_of_a() -> LossReasons:
    """The reasons of the first daemon of a cluster that is only built."""
    cluster = SimCluster(local_config({"eu": 3}), 1, Quality(delay_us=500))
    cluster.start()
    return cluster.hosts["eu1"].membership.reasons


def test_all_members_choose_among_what_all_have_told_and_a_false_witness_is_ignored() -> None:
    reasons = reasons_of_a()
    reasons.note(ReasonKind.LOST, "daemon 1 lost the view", 1_000, LossFacts(B.daemon))
    own = reasons.report(5_000)
    false = replace(state(C), reason=told(B, ReasonKind.STALL))
    states = [replace(state(A), reason=own), replace(state(B), reason=LINK_OF_B), false]

    reason, mine = reasons.end(states, [A, B, C], 9_000)

    assert (reason.kind, reason.witness) == ("link", B.daemon)
    assert reason.noticed_us == LINK_OF_B.noticed_us + 4_000
    assert (mine.kind, mine.peer) == ("lost", B.daemon)
    assert reasons.report(10_000) is None
    assert reasons.text == "merge"


def test_a_daemon_that_lost_others_by_its_stall_says_so_again_when_they_meet() -> None:
    reasons = reasons_of_a()
    reasons.note(ReasonKind.STALL, "did not run", 1_000, LossFacts(None, 3_000_000))

    alone, _ = reasons.end([replace(state(A), reason=reasons.report(2_000))], [A, B], 3_000)
    together, _ = reasons.end([replace(state(A), reason=reasons.report(4_000)), state(B)], [A], 5_000)
    later, _ = reasons.end([state(A), state(B)], [A, B], 6_000)

    assert [one.kind for one in (alone, together, later)] == ["stall", "stall", "merge"]
    assert together.last_heard_us > alone.last_heard_us
