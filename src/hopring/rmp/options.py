"""Options of a ring: timers, numbers of tries, and limits.

Implements  the constants of Whetten, Montgomery, Kaplan (4.2 to 4.4, 4.6), those that they leave open too.
Above       the parts of a ring, which read them, and drivers, which choose a preset.
Deviations  the defaults find a dead member on a LAN in half a second: tries are clamped at 100 ms, not 2 s, and
            a quiet ring rotates the token four times a second, and the window is that of CUBIC. `paper_options`
            has what the paper has.
"""

from dataclasses import dataclass, field, replace

from hopring.rmp.flow.policies import FlowOptions, FlowPolicy


@dataclass(frozen=True, slots=True)
class PeerRingOptions:
    """Options of one ring at one member; members of a ring may differ in them."""

    # A packet that wants an answer is sent again after `first_us`, twice as long each time up to `clamp_us`.
    first_us: int = 5_000
    clamp_us: int = 100_000
    tries_max: int = 8  # After so many tries without an answer a recovery begins.
    slow_us: int = 2_000_000  # A token site that is heard, and does not accept, is given up after this.

    ack_delay_us: int = 0  # How long an ACK waits for company if more than one packet is here.
    null_us: int = 1_000_000  # A NULL ACK for mere stability, with `rest_us` of 0.
    rest_us: int = 250_000  # One rotation of a quiet ring; 0: the token rests for ever.

    who_us: int = 20_000  # Between two questions who is there.
    who_tries: int = 4
    join_us: int = 10_000  # Between two requests to join, and two New Lists to a joiner.
    join_tries: int = 12

    nack_delay_us: int = 1_000  # A hole that is only a packet overtaken closes before.
    nack_named_tries: int = 4  # Further ones may be answered by anybody.
    resend_gap_us: int = 3_000  # The same packet is not sent again twice within this.

    start_us: int = 10_000  # Between two Recovery Starts, doubled up to `clamp_us`.
    recovery_tries: int = 7  # Starts without progress before an attempt leaves out who is missing.
    suspect_us: int = 60_000  # A suspect has this long to be heard in an attempt.
    backoff_us: int = 30_000  # The first pause after an attempt that failed: a random part of it, doubled.
    backoff_max_us: int = 1_000_000
    suspended_us: int = 250_000  # Between two attempts of a suspended ring, on average.

    absorb: bool = True  # Members of the lesser of two rings of one name leave it (trap 26).
    absorb_ask_us: int = 100_000  # Between two questions to rings that are heard.
    absorb_lost_us: int = 300_000  # Between two questions to members that a recovery left out.
    serve_us: int = 2_000_000  # A leaver answers others for at most this.

    flow: FlowOptions = field(default_factory=FlowOptions)
    stranger_idle_us: int = 60_000_000  # Twice the life of a packet: silent strangers may be flushed then.
    window_packets: int = 64  # Own packets without a place in the order, whatever their bytes.
    submit_max: int = 1024  # Own packets that wait to be sent.
    data_per_source_max: int = 512  # Packets of one source without a place in the order.

    @property
    def detection_us(self) -> int:
        """From the first copy of a packet to the end of all its tries."""
        gap, total = self.first_us, 0
        for _ in range(self.tries_max):
            total += gap
            gap = min(2 * gap, self.clamp_us)
        return total


def paper_options(options: PeerRingOptions | None = None) -> PeerRingOptions:
    """The numbers of the paper: ten tries clamped at 2 s, a NULL ACK each second, no rotation at rest."""
    one = options or PeerRingOptions()
    flow = replace(one.flow, policy=FlowPolicy.RMP)
    return replace(one, clamp_us=2_000_000, tries_max=10, rest_us=0, null_us=1_000_000, flow=flow)
