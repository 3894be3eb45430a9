"""The windows of a daemon that runs: what they are, and other ones. `docs/monitor.md` says what each is for."""

from dataclasses import replace
from typing import Final

from hopring.config.tuning import RING_SETTINGS
from hopring.daemon.admin import Refusal, SetWindow
from hopring.membership.membership import Membership

_LIMITS: Final = {setting.key: (setting.low, setting.high) for setting in RING_SETTINGS}
BYTES_MIN: Final = 64 * 1024
BUNDLES_MIN: Final = 16


def windows(membership: Membership) -> dict[str, object]:
    """All of them, by the names of the request that sets them."""
    ring, outbox = membership.present.stack_options.ring, membership.traffic.outbox
    return {
        "personal_segments": ring.personal_window_segments,
        "global_segments": ring.global_window_segments,
        "packet_segments": ring.packet_segments_max,
        "bytes": outbox.window_bytes,
        "bundles": outbox.window_bundles,
    }


def set_windows(membership: Membership, request: SetWindow) -> None:
    """Sets what is given; Refusal, and nothing has changed, if something cannot be."""
    options, outbox, present = membership.options, membership.traffic.outbox, membership.present
    ring = present.stack_options.ring
    personal = _fits("personal_segments", request.personal_segments, *_LIMITS["personal_window"])
    together = _fits("global_segments", request.global_segments, *_LIMITS["global_window"])
    packet = _fits("packet_segments", request.packet_segments, *_LIMITS["packet"])
    # Others have made room for what a daemon may have under way by default, and not for more.
    some_bytes = _fits("bytes", request.bytes, BYTES_MIN, options.window_bytes)
    bundles = _fits("bundles", request.bundles, BUNDLES_MIN, options.window_bundles)
    ring = replace(
        ring,
        personal_window_segments=personal or ring.personal_window_segments,
        global_window_segments=together or ring.global_window_segments,
        packet_segments_max=packet or ring.packet_segments_max,
    )
    present.stack_options = replace(present.stack_options, ring=ring)
    if present.stack is not None:
        present.stack.tune_ring(ring)
    outbox.window_bytes = some_bytes or outbox.window_bytes
    outbox.window_bundles = bundles or outbox.window_bundles


def _fits(name: str, value: int | None, low: int, high: int) -> int | None:
    if value is not None and not low <= value <= high:
        raise Refusal(f"{name} cannot be {value}", f"choose {low} to {high}")
    return value
