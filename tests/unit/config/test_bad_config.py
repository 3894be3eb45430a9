"""Every mistake is reported with its place and a remedy."""

import time
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.decoding import Tally

from hopring.cli.main import cli
from hopring.config import ConfigError, dump_toml, load_config, local_config, parse_config
from hopring.ids import DAEMONS_MAX, SITES_MAX

EU = '[sites.eu]\n[[sites.eu.daemons]]\nname = "eu1"\naddress = "10.0.0.1"\n'
US = '[sites.us]\n[[sites.us.daemons]]\nname = "us1"\naddress = "10.0.1.1"\n'
LINK = '[[links]]\nbetween = ["eu", "us"]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # The form of the file.
        ("cluster = ", "hop.toml:1: not valid TOML: Invalid value; correct the syntax (toml.io)"),
        ("\n\n[sites\n", "hop.toml:3: not valid TOML: Expected ']' at the end of a table declaration; "),
        ('\na = """\n', "hop.toml:2: not valid TOML: Unterminated string; "),
        ("a = 1\na = 2", "hop.toml:2: not valid TOML: Cannot overwrite a value; "),
        ("a = " + "1" * 5_000, "hop.toml: not valid TOML: Exceeds the limit"),
        ("a = " + "[" * 5_000, "hop.toml:1: nested more than 16 deep; "),
        # Keys.
        ('clutser = "x"', "hop.toml:1: clutser: unknown key; did you mean cluster?"),
        (
            "wombat = 1",
            "hop.toml:1: wombat: unknown key; known here: admin, clients, cluster, default_protocol, ",
        ),
        (EU + "prot = 1", "hop.toml:5: sites.eu.daemons[0].prot: unknown key; did you mean port?"),
        ("[sites.eu]\ndaemon = []", "hop.toml:2: sites.eu.daemon: unknown key; did you mean daemons?"),
        ('[sites."a.b"]\nx = 1', 'hop.toml:2: sites."a.b".x: unknown key; '),
        (EU + "[sites.eu.ring]\ntoken_los = 1", "hop.toml:6: sites.eu.ring.token_los: unknown key; did you"),
        (EU + US + LINK + "wieght = 1", "hop.toml:11: links[0].wieght: unknown key; did you mean weight?"),
        # Types.
        ("sites = 3", "hop.toml:1: sites: 3 is not a table; write [sites]"),
        ("links = 3", "hop.toml:1: links: not an array of tables; write [[links]]"),
        ("[sites.eu.daemons]\nname = 1", "hop.toml:1: sites.eu.daemons: not an array of tables; write [[sites"),
        ("cluster = 5", 'hop.toml:1: cluster: 5 is not a string; write cluster = "..."'),
        ("mesh = 1", "hop.toml:1: mesh: 1 is neither true nor false; write mesh = true or mesh = false"),
        ('weights = "guessed"', 'weights: \'guessed\' is not known; choose "fixed" or "measured"'),
        ("default_protocol = []", 'default_protocol: [] is not known; choose "hop" or "tcp"'),
        # Names, addresses, ports.
        ('cluster = "a b"', "hop.toml:1: cluster: 'a b' is not a name; use at most 32 "),
        (EU.replace("eu1", "#"), "hop.toml:3: sites.eu.daemons[0].name: '#' is not a name; "),
        (EU.replace("eu1", "e" * 33), "sites.eu.daemons[0].name: 'eee"),
        ('[sites.""]', "hop.toml:1: sites.\"\": '' is not a name; "),
        ("[[sites.eu.daemons]]", 'hop.toml:1: sites.eu.daemons[0].name: missing; add name = "..."'),
        (EU.replace("10.0.0.1", "db1"), "sites.eu.daemons[0].address: 'db1' is not an IP address; write"),
        (EU.replace("10.0.0.1", "239.1.1.1"), "address: 239.1.1.1 is not the address of a host; give"),
        (EU.replace("10.0.0.1", "0.0.0.0"), "address: 0.0.0.0 is not the address of a host; give"),
        (EU.replace("10.0.0.1", "fe80::1%eth0"), "address: fe80::1%eth0 has a zone; "),
        (EU + "port = 70000", "hop.toml:5: sites.eu.daemons[0].port: 70000 is not a port; choose 1 to 65535"),
        (EU + "port = 0", "sites.eu.daemons[0].port: 0 is not a port; "),
        (EU + "port = true", "sites.eu.daemons[0].port: true is not a port; "),
        (EU + 'client_port = "x"', "sites.eu.daemons[0].client_port: 'x' is not a port; "),
        (EU + "spread_port = -1", "sites.eu.daemons[0].spread_port: -1 is not a port; "),
        (
            EU.replace("eu1", "e" * 20) + "spread_port = 4803",
            "sites.eu.daemons[0]: Spread clients cannot spell eeeeeeeeeeeeeeeeeeee; give it a name",
        ),
        (
            EU + "client_port = 4803\nspread_port = 4803",
            "client address 10.0.0.1 port 4803 is in use at sites.eu.daemons[0]; ",
        ),
        (
            EU + '[clients]\nspread_slow = "spill"',
            "clients.spread_slow: 'spill' is not known; choose \"kick\" or ",
        ),
        (EU + '[clients]\nallow = "block"', "clients.allow: 'block' is no list; write allow = ["),
        (EU + '[clients]\nallow = ["block"]\n[grants]', "clients.allow: beside [grants], which decide alone; "),
        (EU + '[clients]\nspread_identity = "uid:x"', "clients.spread_identity: 'uid:x' is no identity; "),
        (EU + '[[users]]\nkey = "x"', "users[0].name: neither or both of name and issuer; "),
        (EU + '[[users]]\nname = "a*"\nkey = "x"', "users[0].name: 'a*' is no name of a user; "),
        (EU + '[[users]]\nname = "anonymous"\nkey = "x"', "users[0].name: 'anonymous' is no name of a user; "),
        (EU + '[[users]]\nname = "a"', 'users[0].key: missing; add key = "..."'),
        (EU + '[[users]]\nname = "a"\nkey = "x"\n' * 2, "users[1].name: 'a' is there twice; "),
        (EU + '[grants.a]\njoin = "x"', "grants.a.join: 'x' is no list of patterns; "),
        (EU + '[grants.a]\nslow = ["wait"]', "grants.a.slow: 'wait' is no policy; choose of kick, spill, drop"),
        (EU + '[grants.a]\njion = ["x"]', "grants.a.jion: unknown key; did you mean join?"),
        (EU + '[spool]\ngroups = ["a"]', 'spool.directory: missing; add directory = "..."'),
        (
            EU + '[spool]\ndirectory = "{nam}"\ngroups = ["a"]',
            "spool.directory: '{nam}' is no directory; write",
        ),
        (EU + '[spool]\ndirectory = "{name}"\ngroups = ["a"]', "spool.directory: '{name}' is no directory; w"),
        (EU + '[spool]\ndirectory = "s"', 'spool.groups: missing; write groups = ["trades.*"]'),
        (EU + '[spool]\ndirectory = "s"\ngroups = []', "spool.groups: 0 patterns; give 1 to 256 of them"),
        (EU + '[spool]\ndirectory = "s"\ngroups = "a"', "spool.groups: 'a' is no list; write groups = ["),
        (EU + '[spool]\ndirectory = "s"\ngroups = [""]', "spool.groups: '' is no name; write groups = ["),
        (
            EU + '[spool]\ndirectory = "s"\ngroups = ["a"]\ndaemons = ["us1"]',
            "spool.daemons: there is no daemon 'us1'; name those of [sites]",
        ),
        (EU + '[spool]\ndirectory = "s"\ngroups = ["a"]\nsync = "2h"', "spool.sync: '2h' is not a duration; "),
        (
            EU + '[spool]\ndirectory = "s"\ngroups = ["a"]\nretian = "2B"',
            "spool.retian: unknown key; did you mean",
        ),
        (EU + '[security]\naudit = ""', "security.audit: '' is no file; "),
        (EU + '[security]\nrevoked = "ab"', "security.revoked: 'ab' is no list; "),
        (EU + '[security]\nrevoked = ["ab"]', "security.revoked: 'ab' is no SHA-256 digest; "),
        (EU + "[security]\nrevoked = [7]", "security.revoked: 7 is no SHA-256 digest; "),
        (EU + '[clients]\nallow = ["drop"]', "clients.allow: 'drop' is not known; write allow = ["),
        (
            EU + '[clients]\nspread_access = "10.0.0.0/8"',
            "clients.spread_access: '10.0.0.0/8' is no list; write",
        ),
        (EU + '[clients]\nspread_access = ["ten"]', "clients.spread_access: 'ten' does not appear to be"),
        (EU + "[clients]\nspread_access = [true]", "clients.spread_access: true is no network; write"),
        (EU + US.replace("10.0.1.1", "::1"), "address: ::1 is IPv6, but 10.0.0.1 is IPv4; use one of the two"),
        (EU + '[sites.eu.multicast]\ngroup = "10.0.0.9"', "group: 10.0.0.9 is not a multicast group; choose"),
        (
            EU + '[sites.eu.multicast]\ngroup = "239.0.0.1"\nttl = 0',
            "sites.eu.multicast.ttl: 0 is not a TTL; choose 1 to 255",
        ),
        (EU + "[sites.eu.multicast]\nport = 5", "hop.toml:5: sites.eu.multicast.group: missing; "),
        # Parts that clash.
        (
            EU + US.replace("us1", "eu1"),
            "sites.us.daemons[0]: daemon eu1 exists already at sites.eu.daemons[0]; ",
        ),
        (
            EU + US.replace("10.0.1.1", "10.0.0.1"),
            "address 10.0.0.1 port 4892 is in use at sites.eu.daemons[0]; ",
        ),
        (
            EU + "client_port = 9\n" + US.replace("10.0.1.1", "10.0.0.1") + "port = 8\nclient_port = 9",
            "client address 10.0.0.1 port 9 is in use at sites.eu.daemons[0]; change one of the two",
        ),
        (
            EU + "client_port = 4892\n" + US + LINK + 'protocol = "tcp"',
            "hop.toml:2: sites.eu.daemons[0]: the tcp links of eu1 and clients would share port 4892; choose",
        ),
        # Whole configurations.
        ("", "hop.toml: there are no sites; describe at least one, with one daemon"),
        ("[sites.eu]", "hop.toml:1: sites.eu: site eu has no daemons; add one, or remove the site"),
        (
            "mesh = false\n" + EU + US,
            "hop.toml:6: sites.us: no links lead from eu to us; add [[links]] that join them, or set mesh",
        ),
        # Links.
        (
            EU + US + '[[links]]\nbetween = ["eu", "uk"]',
            "hop.toml:9: links[0]: there is no site 'uk'; choose two",
        ),
        (EU + US + '[[links]]\nbetween = ["eu", "eu"]', "links[0]: a link from eu to itself; name two"),
        (EU + US + LINK + LINK, "hop.toml:11: links[1]: eu and us are linked already; keep one"),
        (EU + US + "[[links]]", "links[0].between: missing; write between = "),
        (EU + US + '[[links]]\nbetween = ["eu"]', "links[0].between: ['eu'] does not name two sites; "),
        (EU + US + LINK + "weight = 0", "links[0].weight: 0 is not a weight; choose 1 to 4294967295"),
        (EU + US + LINK + 'weight = "0ms"', "links[0].weight: 0ms is out of range; "),
        ("default_weight = 1.5", "default_weight: 1.5 is not a weight; "),
        # Tuning.
        (
            EU + US + LINK + "silence = 3",
            'links[0].silence: 3 is not a duration; write it with a unit, as "200ms"',
        ),
        (
            EU + US + LINK + 'silence = "3"',
            "links[0].silence: '3' is not a duration; write a number and one of us, ",
        ),
        (EU + US + LINK + 'silence = "3h"', "links[0].silence: '3h' is not a duration; "),
        (
            EU + US + LINK + 'silence = "0.1us"',
            "links[0].silence: '0.1us' is no whole number of microseconds; ",
        ),
        (EU + US + LINK + 'silence = "500us"', "links[0].silence: 500us is out of range; choose 1ms to 3600s"),
        (EU + US + LINK + 'silence = "3s/s"', "links[0].silence: '3s/s' is not a duration; "),
        (EU + US + LINK + 'window = "1ms"', "links[0].window: '1ms' is not a size; "),
        (
            EU + US + LINK + 'rate = "20MiB"',
            "links[0].rate: '20MiB' is not a rate; write a number and one of bit, ",
        ),
        (EU + US + LINK + "nacks_max = 0", "links[0].nacks_max: 0 is not a count; choose 1 to 1000"),
        (
            EU + US + LINK + 'heartbeat = "200ms"\nsilence = "400ms"',
            "links[0].heartbeat: heartbeat is not well below silence; make silence ",
        ),
        (
            EU + US + LINK + 'protocol = "tcp"\nrate = "1Mbit"',
            "links[0].rate: not for tcp links; remove it, or",
        ),
        (EU + '[clients]\nwindow = "1GiB"', "clients.window: 1GiB is out of range; choose 4KiB to 4MiB"),
        (EU + '[log]\nformat = "xml"', "log.format: 'xml' is not known; choose"),
        (
            EU + "[membership]\nupdate_delta = 20",
            "membership.update_delta: 20 is not a duration; write it with a unit",
        ),
        (
            EU + '[membership]\nwindow = "1GiB"',
            "membership.window: 1GiB is out of range; choose 64KiB to 64MiB",
        ),
        (
            EU + '[membership]\nupdate_delta = "2s"\nupdate_floor = "1s"',
            "membership.update_delta: update_delta is not below update_floor; make update_floor at least",
        ),
        (
            EU + '[admin]\nsocket = "eu1.admin"',
            "admin.socket: 'eu1.admin' is no absolute path; write socket =",
        ),
        (EU + '[admin]\nsocket = "/"', "admin.socket: '/' is no absolute path"),
        (
            EU + '[admin]\nsocket = "/run/{nmae}.admin"',
            "of what is in braces only {name} and {cluster} are known",
        ),
        (EU + '[admin]\nmode = "0666"', """admin.mode: '0666' is not known; choose "0600" or "0660\""""),
        (EU + "[admin]\nmode = 600", "admin.mode: 600 is not a string"),
        (EU + '[admin]\nallow = "cut"', "admin.allow: 'cut' is no list; choose of"),
        (EU + '[admin]\nallow = ["cut", "explode"]', "admin.allow: 'explode' is no verb; choose of \"cut\", "),
        (EU + "[admin]\nallow = [1]", "admin.allow: 1 is no verb"),
        (EU + "[admin]\nverbs = []", "admin.verbs: unknown key; known here: allow, mode, socket"),
        (EU + '[sites.eu.ring]\nhold = "200ms"', "sites.eu.ring.hold: hold is not well below token_loss; make"),
        (
            EU + '[sites.eu.ring]\ntoken_loss = "20ms"',
            "sites.eu.ring.token_loss: token_resend is not well below",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_remedy(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(text)

    assert message in str(refused.value)


def test_an_error_has_its_parts_as_fields() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(EU + "port = 70000", "my.toml")

    error = refused.value
    assert (error.file, error.where, error.line) == ("my.toml", "sites.eu.daemons[0].port", 5)
    assert (error.problem, error.remedy) == ("70000 is not a port", "choose 1 to 65535")


def test_a_syntax_error_names_its_line_as_the_place() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config("\nx =")

    assert (refused.value.where, refused.value.line) == ("line 2", 2)


def test_two_sites_may_not_share_a_multicast_group() -> None:
    group = 'multicast = { group = "239.0.0.1", port = 5000 }\n'

    with pytest.raises(ConfigError, match=r"group 239\.0\.0\.1 port 5000 is in use at sites\.eu"):
        parse_config(
            EU.replace("[sites.eu]\n", "[sites.eu]\n" + group) + US.replace("us]\n", "us]\n" + group, 1)
        )


def test_there_is_a_limit_to_sites() -> None:
    text = "".join(
        f'[sites.s{at}]\ndaemons = [{{ name = "d{at}", address = "10.0.0.{at}" }}]\n'
        for at in range(1, SITES_MAX + 2)
    )

    with pytest.raises(ConfigError, match=f"sites.s65: more than {SITES_MAX} sites; merge sites"):
        parse_config(text)


def test_there_is_a_limit_to_daemons() -> None:
    daemons = ",".join(
        f'{{ name = "d{at}", address = "10.0.0.1", port = {at + 1} }}' for at in range(DAEMONS_MAX + 1)
    )

    with pytest.raises(ConfigError, match=rf"daemons\[4096\]: more than {DAEMONS_MAX} daemons; make two"):
        parse_config(f"[sites.eu]\ndaemons = [{daemons}]")


WORDS = st.sampled_from(
    [
        *("cluster", "sites", "eu", "us", "daemons", "links", "between", "name", "address", "port", "weight"),
        *(
            "ring",
            "multicast",
            "group",
            "silence",
            "mesh",
            "=",
            ".",
            "[",
            "]",
            "[[",
            "]]",
            "{",
            "}",
            ",",
            "\n",
            "#",
        ),
        *(
            '"eu"',
            '"10.0.0.1"',
            '"3s"',
            '"',
            "'",
            '"""',
            "1",
            "-1",
            "70000",
            "1.5",
            "true",
            "1979-05-27",
            "nan",
        ),
    ]
)


def test_no_text_raises_anything_but_a_config_error() -> None:
    tally, good = Tally(ConfigError), dump_toml(local_config({"eu": 2, "us": 1}))

    @settings(max_examples=50, deadline=None, derandomize=True, database=None)
    @given(st.lists(WORDS, max_size=60).map(" ".join) | st.text(max_size=200))
    @example("[sites.eu]\ndaemons = [1]")
    @example('links = [{ between = [["a"], {}] }]')
    @example("[sites.'\ud800']")
    def one(text: str) -> None:
        for whole in (text, good, f"# {text.splitlines()[0] if text.splitlines() else ''}\n{good}"):
            with tally.attempt():
                config = parse_config(whole)
                assert parse_config(dump_toml(config)) == config

    one()
    tally.expect(1 / 2)  # A third is valid, a third has any text in a comment.


DEEP = {
    "dotted key": "a" + ".a" * 50_000 + " = 1",
    "quoted key": '"a"' + ' . "a"' * 50_000 + " = 1",
    "header": "[a" + ".a" * 50_000 + "]",
    "array header": "[[a" + ".a" * 50_000 + "]]",
    "key in a table": "x = { a" + ".a" * 50_000 + " = 1 }",
    "arrays": "x = " + "[" * 50_000 + "]" * 50_000,
    "tables": "x = " + "{ a = " * 50_000 + "1" + "}" * 50_000,
    "behind strings": "s = \"\"\"a\\\"\"\"\"\"\nt = '''b''''\nu = '#'\n" + "a" + ".a" * 50_000 + " = 1",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())
def test_what_is_nested_too_deeply_is_refused_before_it_is_read(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError, match="nested more than 16 deep; remove some brackets, or parts") as caught:
        parse_config(text)

    assert caught.value.line == text.count("\n") + 1
    assert time.process_time() - began < 1.0


SHALLOW = (
    "# " + "a." * 100 + "[[[[" * 100,
    's = "' + "a." * 100 + "[" * 100 + '"',
    "s = '" + "a." * 100 + "[" * 100 + "'",
    's = """\n' + "a.[" * 100 + '\n"" \\""" ' + "a." * 100 + '"""""',
    "s = '''\n" + "a.[" * 100 + "\n'' " + "a." * 100 + "''''",
    "s = [" + "1.5, " * 100 + "]",
    "s = [" + "[1.5],\n" * 100 + "]",
    "a.b.c.d = 1",
)


@pytest.mark.parametrize("text", SHALLOW)
def test_dots_and_brackets_in_strings_comments_and_lists_are_no_depth(text: str) -> None:
    tomllib.loads(text)
    with pytest.raises(ConfigError) as caught:
        parse_config(text)

    assert "nested" not in caught.value.problem


@pytest.mark.parametrize("quotes", ['"""', "'''", '"', "'"])
def test_a_string_without_an_end_is_found_quickly(quotes: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError):
        parse_config("s = " + quotes + f"\\{quotes} x" * 100_000)

    assert time.process_time() - began < 2.0


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "hop.toml"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)

    with pytest.raises(ConfigError, match=r"larger than 4194304 bytes; is this the right file\?"):
        load_config(file)
    shown = CliRunner().invoke(cli, ["config", "import-spread", str(file)])
    assert shown.exit_code == 7
    assert "larger than 4194304 bytes; is this the right file?" in shown.output
