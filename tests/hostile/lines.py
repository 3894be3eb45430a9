"""The table of hostile input: each line with its attack, and the planted bugs that the attack must notice."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.hostile import clear_attacks, process_attacks, sealed_attacks
from tests.hostile.scenes import Scenes


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of hostile input."""

    text: str
    attack: Callable[[Scenes], None]
    bugs: tuple[str, ...]
    """Each takes out a check; with any of them planted the attack fails."""

    @property
    def name(self) -> str:
        return self.attack.__name__


LINES: Final = (
    # With keys: datagrams.
    Line("clear text to a daemon with a key", sealed_attacks.clear_text, ("clear-text-taken",)),
    Line("another cluster's key", sealed_attacks.foreign_key, ("any-key", "seal-unchecked")),
    Line(
        "a flipped bit in each field of a datagram",
        sealed_attacks.flipped_bit_in_a_datagram,
        ("seal-unchecked", "start-unchecked", "own-name-taken", "any-receiver", "any-key"),
    ),
    Line("a flipped bit in each field of a train", sealed_attacks.flipped_bit_in_a_train, ("seal-unchecked",)),
    Line("a replay from this view", sealed_attacks.replay_of_this_view, ("replay-taken",)),
    Line("a replay from an earlier view", sealed_attacks.replay_of_an_earlier_view, ("replay-taken",)),
    Line(
        "a replay from before a restart of the sender",
        sealed_attacks.replay_from_before_the_sender_restarted,
        ("challenge-skipped",),
    ),
    Line(
        "a replay from before a restart of the receiver",
        sealed_attacks.replay_from_before_the_receiver_restarted,
        ("challenge-skipped", "replay-taken"),
    ),
    Line("an own packet reflected", sealed_attacks.reflected_packet, ("own-name-taken",)),
    Line("a packet for another daemon", sealed_attacks.packet_for_another, ("any-receiver",)),
    Line("the name of another daemon within a seal", sealed_attacks.name_within_a_seal, ("any-inner-sender",)),
    Line("a segment injected into a train", sealed_attacks.injected_segment, ("seal-unchecked",)),
    Line("a counter at its end", sealed_attacks.counter_at_its_end, ("counter-unbounded",)),
    # With keys: TCP links.
    Line(
        "a certificate of another daemon",
        sealed_attacks.certificate_of_another_daemon,
        ("dialled-unchecked", "greeting-believed"),
    ),
    Line(
        "10,000 half-open handshakes", process_attacks.half_open_handshakes, ("pending-unbounded", "ended-kept")
    ),
    # Key files.
    Line("a key file with a short key", process_attacks.short_key_file, ("short-key-taken",)),
    Line("an empty key file", process_attacks.empty_key_file, ("empty-file-taken",)),
    Line("a key file that is a link", process_attacks.linked_key_file, ("link-followed",)),
    Line("a world-readable key file", process_attacks.readable_key_file, ("mode-unchecked",)),
    Line("a key file of another user", process_attacks.key_file_of_another_user, ("owner-unchecked",)),
    # Clients.
    Line("an expired token", process_attacks.expired_token, ("expiry-unchecked",)),
    Line("a token that is not yet valid", process_attacks.token_not_yet_valid, ("begin-unchecked",)),
    Line("a token of a foreign issuer", process_attacks.token_of_a_foreign_issuer, ("issuer-unchecked",)),
    Line(
        "a token for somebody else",
        process_attacks.token_for_somebody_else,
        ("audience-unchecked", "subject-unchecked"),
    ),
    Line("a token with alg none", process_attacks.token_without_algorithm, ("signature-unchecked",)),
    Line("a token with HS256", process_attacks.token_of_a_shared_secret, ("algorithm-believed",)),
    Line("a hello without credentials", process_attacks.hello_without_credentials, ("hello-taken",)),
    Line("a join without the right", process_attacks.join_without_right, ("any-join",)),
    Line("a message without the right", process_attacks.send_without_right, ("any-send",)),
    Line("a listing without the right", process_attacks.list_without_right, ("any-listing",)),
    Line("an app without the right", process_attacks.app_without_right, ("any-app",)),
    Line("a name without the right", process_attacks.name_without_right, ("any-name",)),
    # Without keys.
    Line("promises with sequences to 2^64", clear_attacks.promised_sequences, ("seq-unbounded",)),
    Line(
        "promises with stamps to 2^64", clear_attacks.promised_stamps, ("stamp-unbounded", "promise-unbounded")
    ),
    Line("bundles with sequences to 2^64", clear_attacks.bundle_sequences, ("seq-unbounded",)),
    Line("bundles with stamps to 2^64", clear_attacks.bundle_stamps, ("stamp-unbounded",)),
    Line("counters far ahead", clear_attacks.counters_far_ahead, ("counter-believed",)),
    Line("records far ahead", clear_attacks.records_far_ahead, ("record-believed",)),
    Line("NEWMEMB with a counter far ahead", clear_attacks.newmemb_far_ahead, ("attempt-believed",)),
    Line("NEWMEMB of nobody", clear_attacks.newmemb_of_nobody, ("newmemb-unchecked",)),
    Line("bundles of oneself", clear_attacks.bundle_of_oneself, ("own-bundle-believed",)),
    Line(
        "connections for networks to come, before the real ones",
        clear_attacks.connections_that_come_first,
        ("first-early-stays",),
    ),
    Line(
        "connections for networks to come, with many bytes and for long",
        clear_attacks.connections_that_send_early,
        ("early-unbounded", "early-for-ever"),
    ),
    Line("no descriptors left for clients", process_attacks.no_descriptors_left, ("all-for-clients",)),
    Line("no descriptor left to dial", clear_attacks.no_descriptor_to_dial, ("dial-unguarded",)),
)
