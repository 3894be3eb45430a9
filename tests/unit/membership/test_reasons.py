"""The reason of a view: what a daemon reports of its loss, and the one of all reports that its members give."""

from msgspec import msgpack
from msgspec.structs import replace
from tests.unit.membership.state_reports import ATTEMPT, A, B, C, state

from hopring.ids import Process
from hopring.membership.messages import StateTrans, decode_recovery_message, encode_membership_message
from hopring.reason import LossFacts, ReasonKind, ViewReason, most_telling, reason_of

LINK = reason_of(
    ReasonKind.LINK, A.daemon, "link with daemon 1: nothing heard for 1200 ms", B.daemon, 1_200_000
)


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
