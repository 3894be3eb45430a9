"""URLs of peers: what each part means, and one line with the remedy for what is none."""

import pytest

from hopring import NotOffered, WrongValue, connect, sync
from hopring.client.arguments import parse_url, parse_urls
from hopring.client.peer_url import PeerUrl, parse_peer_url
from hopring.credentials.files import CredentialError
from hopring.wire.rmp.lists import MINIMUM_ALL, MINIMUM_MAJORITY


def test_a_url_without_parts_stays_on_this_host() -> None:
    url = parse_peer_url("rmp://")

    assert url == PeerUrl("rmp://")
    assert (url.address, url.port, url.ttl, url.minimum, url.found) == ("127.0.0.1", 0, 0, 1, None)
    assert url.is_local


def test_each_part_of_a_url() -> None:
    text = (
        "rmp://192.0.2.7:4000/market?ttl=2&interface=eth1&minimum=majority&found=yes&via=192.0.2.8:5000"
        "&via=192.0.2.9:5001&flow=rate&host=process&insecure=yes"
    )

    assert parse_peer_url(text) == PeerUrl(
        text,
        "192.0.2.7",
        4000,
        "market",
        2,
        "eth1",
        MINIMUM_MAJORITY,
        True,
        (("192.0.2.8", 5000), ("192.0.2.9", 5001)),
        "rate",
        "process",
        insecure=True,
    )


def test_the_words_for_a_minimum_and_for_founding() -> None:
    assert parse_peer_url("rmp://?minimum=majority").minimum == MINIMUM_MAJORITY
    assert parse_peer_url("rmp://?minimum=all").minimum == MINIMUM_ALL
    assert parse_peer_url("rmp://?minimum=3").minimum == 3
    assert parse_peer_url("rmp://?found=no").found is False
    assert parse_peer_url("rmp://?found=yes").found is True


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("rmp://nohost", "no IPv4 address; give an IPv4 address of this host"),
        ("rmp://0.0.0.0", "no address of one host"),
        ("rmp://239.1.2.3", "no address of one host"),
        ("rmp://127.0.0.1:x", "write rmp://"),
        ("rmp://127.0.0.1:99999", "write rmp://"),
        ("rmp://anna@127.0.0.1", "a user or a fragment"),
        ("rmp:///a/b", "domain 'a/b'; give 64 bytes at most"),
        ("rmp://?ttl=256", "ttl=256; give a number from 0 to 255"),
        ("rmp://?ttl=-1", "ttl=-1; give a number"),
        ("rmp://?minimum=0", "minimum=0; give majority, all, or a number from 1"),
        ("rmp://?minimum=most", "minimum=most; give majority"),
        ("rmp://?found=maybe", "found=maybe; give yes or no"),
        ("rmp://?via=somewhere", "via=somewhere; give host:port"),
        ("rmp://?via=127.0.0.1:0", "via=0; give a number from 1"),
        ("rmp://?flow=fast", "flow=fast; give rmp, cubic or rate"),
        ("rmp://?host=thread2", "host=thread2; give thread, loop or process"),
        ("rmp://?colour=red", "no part 'colour'; there are ttl, interface"),
        ("rmp://?ttl=1&ttl=2", "ttl twice"),
        ("rmp://?ttl", "write rmp://"),
    ],
)
def test_a_wrong_part_is_refused_with_the_remedy(url: str, says: str) -> None:
    with pytest.raises(WrongValue) as refused:
        connect(url)

    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_peer_is_no_address_among_others() -> None:
    assert parse_url("rmp:///x").peer == parse_peer_url("rmp:///x")
    assert parse_urls("rmp://?via=127.0.0.1:1,127.0.0.1:2") == ("rmp://?via=127.0.0.1:1,127.0.0.1:2",)
    with pytest.raises(WrongValue, match="among other addresses"):
        parse_urls(["rmp://", "hop://localhost"])


@pytest.mark.parametrize("url", ["rmp://192.0.2.7", "rmp://?ttl=1"])
def test_without_keys_nothing_leaves_this_host_unless_it_is_said(url: str) -> None:
    with pytest.raises(CredentialError, match="nothing seals"):
        connect(url)
    connect(f"{url}{'&' if '?' in url else '?'}insecure=yes")


def test_a_file_of_keys_is_read_at_the_call() -> None:
    with pytest.raises(CredentialError, match="no-such-file"):
        connect("rmp://?keys=no-such-file")


@pytest.mark.parametrize(
    "options", [{"slow": "spill"}, {"slow": "block"}, {"priority": True}, {"user": "anna", "key": "anna.key"}]
)
def test_what_peers_do_not_offer_is_refused_at_the_call(options: dict[str, object]) -> None:
    with pytest.raises(NotOffered, match="hop://"):
        connect("rmp://", **options)  # type: ignore[call-overload]
    with pytest.raises(NotOffered, match="hop://"):
        sync.connect("rmp://", **options)  # type: ignore[call-overload]
