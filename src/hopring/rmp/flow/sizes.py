"""Packet sizes: how much of what is offered goes into the next packet.

Implements  Whetten, Montgomery, Kaplan, figure 4.2.
Deviations  the figure sends more than is offered if that is less than the smallest packet, and lets a small
            packet that fits wait (trap 27). Here no packet is longer than what is offered, and one waits only
            if neither it nor a smallest packet fits.
"""


def packet_bytes(
    offered_bytes: int, window_bytes: int, available_bytes: int, least_bytes: int, most_bytes: int
) -> int:
    """The size of the next packet, up to half of the window; 0: wait for an ACK.

    `available_bytes` is what is left of the window, which is never below `least_bytes`.
    """
    if available_bytes < min(offered_bytes, least_bytes):
        return 0
    size = max(min(offered_bytes, window_bytes // 2), least_bytes)
    return min(size, available_bytes, most_bytes, offered_bytes)
