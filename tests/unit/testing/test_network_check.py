"""Handwritten histories of the network, right and wrong. One event per word, in order:

a=ab  a starts a network of a and b     a+x  a multicasts x to all     a+x>b  only for b
b-x   b receives x                      a!   the network fails at a

Networks of a daemon are numbered by its starts.
"""

from collections import Counter

import pytest

from hopring.testing.network_check import (
    NetworkEvent,
    NetworkTrace,
    Ninit,
    Nlinkfailed,
    Nmcast,
    Nreceive,
    check_network,
    network_end,
    no_invention,
    reliable_multicast,
    server_set,
)


def history(words: str) -> NetworkTrace:
    starts: Counter[str] = Counter()
    return [event(at_us, word, starts) for at_us, word in enumerate(words.split(), start=1)]


def event(at_us: int, word: str, starts: Counter[str]) -> NetworkEvent:
    daemon, sign, rest = word[0], word[1], word[2:]
    match sign:
        case "=":
            starts[daemon] += 1
            return Ninit(at_us, daemon, tuple(rest), starts[daemon])
        case "+":
            bundle, _arrow, wanted_by = rest.partition(">")
            return Nmcast(at_us, daemon, bundle.encode(), tuple(wanted_by or "ab"))
        case "-":
            return Nreceive(at_us, daemon, rest.encode())
        case _:
            return Nlinkfailed(at_us, daemon, "tired")


@pytest.mark.parametrize(
    "words",
    [
        "",
        "a=ab b=ab a+x a-x b-x",
        "a=ab b=ab a+x a+y b-y b-x a-x a-y",  # The network does not order bundles.
        "a=ab b=ab a+x>b b-x",  # A bundle is owed only where it is wanted.
        "a=ab b=ab a+x a-x a! b!",  # A network that fails owes nothing.
        "a=ab b=ab a! b! a=ab b=ab b+x a-x b-x",
        "a=ab b=ab a+x a-x b-x a=ab b=ab a+x a-x b-x",  # The same payload in a new network is another bundle.
    ],
)
def test_a_right_history_holds(words: str) -> None:
    assert [verdict.witness for verdict in check_network(history(words)) if not verdict] == []


@pytest.mark.parametrize(
    ("words", "witness"),
    [
        ("a=ab b=abc", "network 1 is ('a', 'b') at a, ('a', 'b', 'c') at b"),
        ("a=b", "a starts network 1 without itself"),
    ],
)
def test_members_that_disagree_are_found(words: str, witness: str) -> None:
    assert server_set(history(words)).witness == witness


@pytest.mark.parametrize(
    ("words", "witness"),
    [
        ("a=ab b=ab a+x a-x", "b'x' from a never came to b in network 1"),
        ("a=ab b=ab a+x b-x", "b'x' from a never came to a in network 1"),
        ("a=ab b=ab a+x a-x a=ab b=ab b-x", "b'x' from a never came to b in network 1"),
    ],
)
def test_a_bundle_that_never_arrives_is_found(words: str, witness: str) -> None:
    assert reliable_multicast(history(words)).witness == witness


@pytest.mark.parametrize(
    ("words", "witness"),
    [
        ("a+x", "a acts at 1 us before its first ninit"),
        ("a=ab a! a+x", "a failed at 2 us, yet Nmcast at 3 us"),
        ("a=ab b=ab b+x a! a-x", "a failed at 4 us, yet Nreceive at 5 us"),
        ("a=ab a! a!", "a failed at 2 us, yet Nlinkfailed at 3 us"),
    ],
)
def test_what_happens_after_the_end_is_found(words: str, witness: str) -> None:
    assert network_end(history(words)).witness == witness


@pytest.mark.parametrize(
    ("words", "witness"),
    [
        ("a=ab b=ab b-x", "b received b'x', which nobody sent"),
        ("a=ab b=ab b-x a+x", "b received b'x', which nobody sent"),
        ("a=ab b=ab a+x b-x b-x", "b received b'x' twice"),
        ("a=ab b=ab a+x a=ab b=ab b-x", "b received b'x', which nobody sent"),
    ],
)
def test_a_receipt_without_a_multicast_or_a_second_one_is_found(words: str, witness: str) -> None:
    assert no_invention(history(words)).witness == witness
