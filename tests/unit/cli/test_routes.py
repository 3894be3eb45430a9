import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Hop

ALL = """\
ap          weight    distance
├── eu       80000       80000
└── us       60000       60000

eu          weight    distance
├── ap       80000       80000
└── us       40000       40000

us          weight    distance
├── ap       60000       60000
└── eu       40000       40000
"""

AROUND = """\
eu              weight    distance
└── us           40000       40000
    └── ap       60000      100000
"""

DEEP = """\
a                  weight    distance
└── b                   1           1
    ├── c               1           2
    │   └── e           1           3
    └── d               1           2
"""


def test_every_site_has_its_tree(hop: Hop, triangle: Path) -> None:
    result = hop("routes", triangle)

    assert (result.exit_code, result.stdout, result.stderr) == (0, ALL, "")


def test_a_cut_link_is_routed_around(hop: Hop, triangle: Path) -> None:
    result = hop("routes", triangle, "--from", "eu", "--cut", "ap,eu")

    assert (result.exit_code, result.stdout, result.stderr) == (0, AROUND, "")


def test_vertical_lines_continue_past_the_children_of_earlier_branches(hop: Hop, tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    daemons = [
        f'[[sites.{name}.daemons]]\nname = "{name}1"\naddress = "10.0.0.{at}"'
        for at, name in enumerate("abcde", 1)
    ]
    links = [f'[[links]]\nbetween = ["{one}", "{two}"]\nweight = 1' for one, two in ("ab", "bc", "bd", "ce")]
    file.write_text("\n".join(["mesh = false", *daemons, *links]))

    assert hop("routes", file, "--from", "a").stdout == DEEP


def test_unreachable_sites_are_listed(hop: Hop, triangle: Path) -> None:
    result = hop("routes", triangle, "--cut", "ap,eu", "--cut", "us, ap", "--from", "ap")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[1:] == ["eu is not reached", "us is not reached"]
    assert result.stderr == "hop: the sites fall apart: ap | eu us\n"


def test_json_has_parents_weights_and_distances(hop: Hop, triangle: Path) -> None:
    result = hop("routes", triangle, "--json", "--from", "eu", "--cut", "ap,eu")

    assert json.loads(result.stdout) == [
        {
            "source": "eu",
            "reached": [
                {"site": "ap", "parent": "us", "weight": 60_000, "distance": 100_000},
                {"site": "us", "parent": "eu", "weight": 40_000, "distance": 40_000},
            ],
            "not_reached": [],
        }
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--from", "mars"], "no site 'mars'; there are ap, eu, us"),
        (["--cut", "eu"], "'eu' does not name two sites; write A,B"),
        (["--cut", "eu,mars"], "no site 'mars'; there are ap, eu, us"),
        (["--cut", "eu,eu"], "there is no link between eu and eu"),
    ],
)
def test_a_site_or_link_that_is_not_there_is_a_usage_error(
    hop: Hop, triangle: Path, arguments: list[str], told: str
) -> None:
    result = hop("routes", triangle, *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ((), "give FILE, or --at URL"),
        (("--at", "hop://localhost", "hop.toml"), "give FILE, or --at URL"),
        (("--at", "hop://localhost", "--from", "eu"), "--from and --cut are for trees of FILE"),
        (("--at", "hop://localhost", "--cut", "eu,us"), "--from and --cut are for trees of FILE"),
        (("--at", "http://localhost"), "Invalid value for '--at'"),
    ],
)
def test_trees_need_a_file_and_weights_need_a_daemon(hop: Hop, command: tuple[str, ...], problem: str) -> None:
    result = hop("routes", *command)

    assert result.exit_code == 2
    assert problem in result.stderr
