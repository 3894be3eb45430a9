"""The order of deliveries at one session, over all its groups: 2.11, 2.12, 2.13(2); and between sessions."""

from hopring.check.evs.order import agreed_order, causal_order, fifo_order, order_agreement
from hopring.check.evs_c.history import ClientHistory
from hopring.check.evs_c.words import of_clients
from hopring.check.verdict import Verdict


def fifo(history: ClientHistory) -> Verdict:
    """2.11: a FIFO message (or better) comes after each earlier one of its session, of whatever group."""
    return of_clients(fifo_order(history.whole))


def causal(history: ClientHistory) -> Verdict:
    """2.12: the stamp of a send is above those of all that its session had sent or got before."""
    return of_clients(causal_order(history.whole))


def agreed(history: ClientHistory) -> Verdict:
    """2.13(2): after an agreed message nothing reliable with a lower stamp, of whatever group."""
    return of_clients(agreed_order(history.whole))


def one_order(history: ClientHistory) -> Verdict:
    """No two sessions get two agreed messages in opposite orders."""
    return of_clients(order_agreement(history.whole))
