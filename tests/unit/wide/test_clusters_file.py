"""The clusters file: what it says, what is refused with which remedy, and what two clusters compare."""

import pytest

from hopring.config.error import ConfigError
from hopring.haul.ids import ClusterId, clusters_mask
from hopring.haul.link.schedule import DAY_US, Always, OnDemand, Windows
from hopring.wide.clusters_file import AccessPoint, dump_clusters, parse_clusters, read_schedule
from hopring.wide.process.transport_security import check_wide_exposure

MINUTE_US = 60_000_000

FILE = """\
wide = "ims"

[clusters.hub]
id = 1
members = ["h1", "h2", "h3"]
access = ["127.0.0.1:4990", "127.0.0.1:4991", "[::1]"]
daemons = ["hop://127.0.0.1:4893"]

[clusters.norway]
id = 3
members = ["n1"]
access = ["127.0.0.1:4993"]

[clusters.sandiego]
id = 2
members = ["s1"]
access = ["127.0.0.1:4994"]

[[links]]
between = ["norway", "hub"]
dial = "norway"
schedule = "every 15min for 2min"
"""


def test_a_file_reads_as_its_clusters_in_the_order_of_their_ids() -> None:
    file = parse_clusters(FILE)
    hub, sandiego, norway = file.clusters

    assert [one.name for one in (hub, sandiego, norway)] == ["hub", "sandiego", "norway"]
    assert hub.access_of("h3") == AccessPoint("::1", 4990)
    assert str(hub.access_of("h3")) == "[::1]:4990"
    assert hub.daemons == ("hop://127.0.0.1:4893",)
    assert file.peers_of("hub") == clusters_mask([ClusterId(2), ClusterId(3)])


def test_the_smaller_id_dials_unless_the_link_says_otherwise() -> None:
    file = parse_clusters(FILE)

    assert file.dials("hub") == clusters_mask([ClusterId(2)])
    assert file.dials("norway") == clusters_mask([ClusterId(1)])
    assert file.dials("sandiego") == clusters_mask([ClusterId(3)])
    assert file.schedules("hub") == {ClusterId(3): Windows(15 * MINUTE_US, 2 * MINUTE_US)}


def test_two_clusters_compare_what_concerns_their_link_and_nothing_else() -> None:
    file = parse_clusters(FILE)
    moved = parse_clusters(FILE.replace("4994", "4995").replace('"s1"', '"s2"'))
    often = parse_clusters(FILE.replace("for 2min", "for 3min"))

    assert file.digests("hub") == moved.digests("hub")
    assert file.digest("hub", "norway") == file.digest("norway", "hub")
    assert file.digest("hub", "norway") != often.digest("hub", "norway")
    assert file.digest("hub", "sandiego") == often.digest("hub", "sandiego")
    assert file.whole_digest != moved.whole_digest


def test_what_is_written_reads_as_the_same_clusters() -> None:
    file = parse_clusters(FILE)

    assert parse_clusters(dump_clusters(file)) == file


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("always", Always()),
        ("every 15min for 2min", Windows(15 * MINUTE_US, 2 * MINUTE_US)),
        ("22:00-06:00", Windows(DAY_US, 8 * 60 * MINUTE_US, 22 * 60 * MINUTE_US)),
        ("on demand, after 1MiB or 10min", OnDemand(2**20, 10 * MINUTE_US)),
        ("every 2min for 2min", None),
        ("every 2min", None),
        ("06:00-06:00", None),
        ("24:00-06:00", None),
        ("on demand", None),
        ("often", None),
    ],
)
def test_schedules_are_written_in_words(text: str, schedule: object) -> None:
    assert read_schedule(text) == schedule


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('wide = "ims"', 'wide = "ims"\nlonghaul = 1', 2, "longhaul: unknown key; known here"),
        ('wide = "ims"', 'wide = "i m s"', 1, "is no name"),
        ("id = 3", "id = 1", 10, "hub has the id 1 too; ids are never reused"),
        ("id = 3", "id = 65", 10, "65 is not a cluster id; choose 1 to 64"),
        ("id = 3\n", "", 9, "clusters.norway.id: missing; give each cluster one for ever"),
        ('["n1"]', '["n1", "n2"]', 11, "2 names; give 1, 3 or 5 different ones"),
        ('["n1"]', '["n 1"]', 11, "is no name"),
        ('["n1"]', '"n1"', 11, 'is no list of strings; write members = ["h1", "h2", "h3"]'),
        ('["127.0.0.1:4993"]', '["127.0.0.1:0"]', 12, 'is no access point; write "host:4990"'),
        ('["127.0.0.1:4993"]', '["127.0.0.1:4994"]', 17, "127.0.0.1:4994 too; give each its own"),
        ("127.0.0.1:4991", "127.0.0.1:4990", 6, "two members at 127.0.0.1:4990"),
        ('["127.0.0.1:4993"]', '["a:1", "b:2"]', 12, "2 access points for 1 members; give one for each"),
        ("hop://127.0.0.1:4893", "http://127.0.0.1", 7, "write daemons ="),
        ('"norway", "hub"]', '"norway", "oslo"]', 20, "no two clusters; choose of hub, norway, sandiego"),
        ('dial = "norway"', 'dial = "sandiego"', 21, "write one of its ends"),
        ("every 15min for 2min", "often", 22, 'write "always"'),
        ("every 15min for 2min", "on demand, after 1B or 1s", 21, 'on demand takes dial = "both"'),
        ("[clusters.hub]", "[clusters.both]", 4, "a cluster cannot be called 'both'"),
    ],
)
def test_a_mistake_is_refused_with_its_line_and_a_remedy(old: str, new: str, line: int, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_clusters(FILE.replace(old, new, 1), "clusters.toml")

    assert said in str(refused.value)
    assert refused.value.line == line


def test_a_link_has_one_entry_and_a_file_two_clusters() -> None:
    with pytest.raises(ConfigError, match="two links between"):
        parse_clusters(FILE + '\n[[links]]\nbetween = ["hub", "norway"]\n')
    with pytest.raises(ConfigError, match=r"1 clusters; give 2 to 64"):
        parse_clusters('wide = "w"\n[clusters.a]\nid = 1\nmembers = ["m"]\naccess = ["h:1"]\n')


def test_clear_text_beyond_loopback_is_refused_with_the_commands_that_make_keys() -> None:
    file = parse_clusters(FILE.replace("127.0.0.1:4993", "192.0.2.1:4993"), "clusters.toml")

    with pytest.raises(ConfigError) as refused:
        check_wide_exposure(file, "clusters.toml")
    assert "192.0.2.1:4993 is beyond this host, and there are no keys" in str(refused.value)
    assert "`hop keys new --cluster ims` and `hop keys daemon norway`" in str(refused.value)
    check_wide_exposure(parse_clusters(FILE), "clusters.toml")
    with pytest.raises(ConfigError, match=r"--listen: 0\.0\.0\.0:1"):
        check_wide_exposure(parse_clusters(FILE), "clusters.toml", AccessPoint("0.0.0.0", 1))
