"""Reading the configuration files of Spread."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.decoding import Tally

from hopring.config import (
    ConfigError,
    Daemon,
    MulticastConfig,
    Site,
    dump_toml,
    import_spread_conf,
    parse_config,
)

TWO_SEGMENTS = """
# Two buildings.
Spread_Segment  239.20.30.1:4803 {
    north1  192.168.7.1
    north2  192.168.7.2   # the one in the cellar
}

Spread_Segment  192.168.8.255:5803 { south1 192.168.8.1
                                     south2 192.168.8.2 }

EventLogFile = /var/log/spread.log
DebugFlags = { PRINT
               EXIT }
EventTimeStamp
"""


def test_each_segment_becomes_a_site() -> None:
    config, _ = import_spread_conf(TWO_SEGMENTS)

    assert config.sites == (
        Site(
            "seg1",
            (
                Daemon("north1", "192.168.7.1", 4803, spread_port=4803),
                Daemon("north2", "192.168.7.2", 4803, spread_port=4803),
            ),
            MulticastConfig("239.20.30.1", 4803),
        ),
        Site(
            "seg2",
            (
                Daemon("south1", "192.168.8.1", 5803, spread_port=5803),
                Daemon("south2", "192.168.8.2", 5803, spread_port=5803),
            ),
        ),
    )


def test_settings_that_are_not_imported_are_noted() -> None:
    _, notes = import_spread_conf(TWO_SEGMENTS)

    assert notes == [
        "line 11: EventLogFile has no counterpart and is ignored",
        "line 12: DebugFlags has no counterpart and is ignored",
        "line 14: EventTimeStamp has no counterpart and is ignored",
        "line 3: segment 239.20.30.1:4803 is site seg1",
        "line 8: segment 192.168.8.255:5803 is site seg2",
        "line 8: no multicast at 192.168.8.255; the ring sends to each daemon",
    ]


def test_an_imported_configuration_can_be_written_as_toml() -> None:
    config, _ = import_spread_conf(TWO_SEGMENTS, cluster="old")

    assert parse_config(dump_toml(config)) == config


def test_the_port_may_be_left_out() -> None:
    config, _ = import_spread_conf("spread_segment 127.0.0.255 { here 127.0.0.1 }")

    assert config.daemons == (Daemon("here", "127.0.0.1", 4803, spread_port=4803),)


@pytest.mark.parametrize(
    ("daemon", "address", "noted"),
    [
        ("a 10.0.0.1 { 10.0.0.1 }", "10.0.0.1", False),
        ("a 10.0.0.1 { D 10.0.0.2 C 10.0.0.3 }", "10.0.0.2", True),
        ("a 10.0.0.1 { C 10.0.0.3 }", "10.0.0.1", True),
        ("a { D 10.0.0.2 }", "10.0.0.2", False),
        ("a 10.0.0.1 {\n d 10.0.0.4\n c 10.0.0.5\n 10.0.0.6\n}", "10.0.0.4", True),
        ("a 10.0.0.1 { }", "10.0.0.1", False),
    ],
)
def test_of_several_interfaces_the_first_for_daemons_is_used(daemon: str, address: str, noted: bool) -> None:
    config, notes = import_spread_conf(f"Spread_Segment 239.1.1.1:4803 {{ {daemon} }}")

    assert config.daemons == (Daemon("a", address, 4803, spread_port=4803),)
    assert (f"line 1: of the interfaces of a only {address} is used" in notes) is noted


def test_sites_are_numbered_in_the_order_of_the_file() -> None:
    text = "\n".join(f"Spread_Segment 239.1.1.{at}:4803 {{ d{at} 10.0.0.{at} }}" for at in range(1, 12))

    config, _ = import_spread_conf(text)

    assert [site.name for site in config.sites] == [f"seg{at:02}" for at in range(1, 12)]
    assert [site.daemons[0].name for site in config.sites] == [f"d{at}" for at in range(1, 12)]


SEGMENT = "Spread_Segment 239.1.1.1:4803 "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "spread.conf: there is no Spread_Segment; "),
        ("\n}", "spread.conf:2: '}' is not an option; check the braces before it"),
        ("\nSpread_Segment", "spread.conf:2: the file ends too early; add an address after Spread_Segment"),
        (
            "Spread_Segment { }",
            "spread.conf:1: '{' is not the address of a segment; write it as 239.1.2.3:4803",
        ),
        ("Spread_Segment 239.1.1.1:x { }", "spread.conf:1: 'x' is not a port; choose 1 to 65535"),
        ("Spread_Segment 239.1.1.1:70000 { }", "spread.conf:1: '70000' is not a port; "),
        (SEGMENT + "a 10.0.0.1", "spread.conf:1: 'a' where { belongs; put { before it"),
        (SEGMENT + "{ }", "spread.conf:1: site seg1 has no daemons; "),
        (SEGMENT + "{\na 10.0.0.1", "spread.conf:2: the file ends too early; add a daemon or } to end"),
        (SEGMENT + "{\n a\n}", "spread.conf:2: daemon a has no IP address; write its address after the name"),
        (SEGMENT + "{ a 10.0.0.1 {\n X } }", "spread.conf:2: 'X' is not an interface; write D, C or nothing"),
        (SEGMENT + "{ a 10.0.0.1 { D } }", "spread.conf:1: '}' is not an interface; "),
        (SEGMENT + "{ a 10.0.0.1 {", "the file ends too early; add an interface or }"),
        (SEGMENT + "{\na 10.0.0.1\na 10.0.0.2 }", "spread.conf:3: daemon a exists already at line 2; "),
        (
            SEGMENT + "{\na 10.0.0.1\nb 10.0.0.1 }",
            "spread.conf:3: address 10.0.0.1 port 4803 is in use at line 2; ",
        ),
        ("Flags = { A", "spread.conf:1: the file ends too early; add } to end the list"),
        (SEGMENT + '{ "a" 10.0.0.1 }', "spread.conf:1: '\"a\"' is not the name of a daemon; check the braces"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        import_spread_conf(text)

    assert message in str(refused.value)


WORDS = st.sampled_from(
    [
        *(
            "Spread_Segment",
            "239.1.1.1:4803",
            "10.0.0.1",
            "10.0.0.2",
            "a",
            "b",
            "{",
            "}",
            "D",
            "C",
            "=",
            "#",
            "\n",
            '"',
        )
    ]
)


def test_no_text_raises_anything_but_a_config_error() -> None:
    tally = Tally(ConfigError)

    @settings(max_examples=50, deadline=None, derandomize=True, database=None)
    @given(st.lists(WORDS, max_size=40).map(" ".join) | st.text(max_size=100))
    @example("Spread_Segment ::1 { a ::2 }")
    @example("Spread_Segment fe80::1%x { a 10.0.0.1 }")
    def one(text: str) -> None:
        for whole in (text, f"# {' '.join(text.split())}\n{TWO_SEGMENTS}"):
            with tally.attempt():
                config, _ = import_spread_conf(whole)
                assert whole == text or len(config.daemons) == 4

    one()
    tally.expect(1 / 2)  # All valid ones.
