import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Hop

from hopring.config import cluster_hash, config_digest, load_config, parse_config

SPREAD = """\
EventTimeStamp
Spread_Segment 239.1.2.3:4803 {
    alpha 10.0.0.1
    beta  10.0.0.2
}
Spread_Segment 10.9.255.255:4803 {
    gamma 10.9.0.1
}
"""


def test_a_valid_configuration_is_summarized(hop: Hop, triangle: Path) -> None:
    result = hop("config", "check", triangle)

    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout == (
        f"cluster triangle, hash {cluster_hash(load_config(triangle)):08x}, "
        f"digest {config_digest(load_config(triangle))}\n"
        "3 sites, 4 daemons\n"
        "  ap  ap1\n"
        "  eu  eu1 eu2\n"
        "  us  us1\n"
        "3 links\n"
        "  ap  eu  weight 80000, hop\n"
        "  ap  us  weight 60000, tcp\n"
        "  eu  us  weight 40000, hop\n"
    )


def test_the_summary_as_json_has_the_same_facts(hop: Hop, triangle: Path) -> None:
    facts = json.loads(hop("config", "check", "--json", triangle).stdout)

    assert facts["cluster"] == "triangle"
    assert facts["sites"] == {"ap": ["ap1"], "eu": ["eu1", "eu2"], "us": ["us1"]}
    assert {"between": ["ap", "us"], "weight": 60_000, "protocol": "tcp"} in facts["links"]
    assert f"hash {facts['hash']}" in hop("config", "check", triangle).stdout


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('cluster = "triangle"', 'clutser = "triangle"', ":1: clutser: unknown key; did you mean cluster?"),
        ('"10.1.0.2"', '"10.1.0.2"\nport = 70000', ":10: sites.eu.daemons[1].port: 70000 is not a port; "),
        ('"40ms"', "40ms", ":21: not valid TOML: "),
        ('["eu", "us"]', '["eu", "mars"]', ":19: links[0]: there is no site 'mars'; "),
    ],
)
def test_a_bad_configuration_is_exit_code_7_with_file_line_and_remedy(
    hop: Hop, triangle: Path, before: str, after: str, told: str
) -> None:
    triangle.write_text(triangle.read_text().replace(before, after, 1))
    for verb in (["config", "check"], ["routes"]):
        result = hop(*verb, triangle)

        assert result.exit_code == 7
        assert result.stdout == ""
        assert result.stderr.startswith(f"hop: {triangle}{told}")
        assert "; " in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", [("config", "check"), ("config", "import-spread"), ("routes",)])
def test_a_missing_file_is_exit_code_7(hop: Hop, tmp_path: Path, verb: tuple[str, ...]) -> None:
    result = hop(*verb, tmp_path / "nowhere")

    assert (result.exit_code, result.stdout) == (7, "")
    assert result.stderr == (
        f"hop: {tmp_path / 'nowhere'}: cannot be read (No such file or directory); "
        "check the path and its permissions\n"
    )


def test_the_example_is_a_valid_configuration(hop: Hop, tmp_path: Path) -> None:
    file = tmp_path / "hop.toml"
    file.write_text(hop("config", "example").stdout)

    assert hop("config", "check", file).exit_code == 0
    uncommented = file.read_text().replace('# rate = "200Mbit"', 'rate = "200Mbit"')
    uncommented = uncommented.replace("# silence", "silence").replace('# protocol = "tcp"', 'protocol = "tcp"')
    uncommented = uncommented.replace("# multicast =", "multicast =")
    assert [link.protocol for link in parse_config(uncommented).links] == ["tcp", "hop"]


def test_spread_conf_becomes_toml_on_stdout_and_notes_on_stderr(hop: Hop, tmp_path: Path) -> None:
    file = tmp_path / "spread.conf"
    file.write_text(SPREAD)
    result = hop("config", "import-spread", file)

    assert result.exit_code == 0
    assert [site.name for site in parse_config(result.stdout).sites] == ["seg1", "seg2"]
    assert f"{file}: line 1: EventTimeStamp has no counterpart and is ignored\n" in result.stderr


def test_spread_conf_goes_to_a_file_if_asked(hop: Hop, tmp_path: Path) -> None:
    (tmp_path / "spread.conf").write_text(SPREAD)
    result = hop(
        "config", "import-spread", tmp_path / "spread.conf", "-o", tmp_path / "o.toml", "--cluster", "old"
    )

    assert (result.exit_code, result.stdout) == (0, "")
    assert parse_config((tmp_path / "o.toml").read_text()).cluster == "old"


def test_a_file_that_cannot_be_written_is_a_failure(hop: Hop, tmp_path: Path) -> None:
    (tmp_path / "spread.conf").write_text(SPREAD)
    result = hop("config", "import-spread", tmp_path / "spread.conf", "-o", tmp_path / "no" / "o.toml")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(
        "o.toml: cannot be written (No such file or directory); choose another file for -o\n"
    )


def test_a_broken_spread_conf_is_exit_code_7(hop: Hop, tmp_path: Path) -> None:
    file = tmp_path / "spread.conf"
    file.write_text("Spread_Segment 239.1.2.3:4803 {\n  alpha 10.0.0.1\n")
    result = hop("config", "import-spread", file)

    assert (result.exit_code, result.stdout) == (7, "")
    assert result.stderr.startswith(f"hop: {file}:2: the file ends too early; ")


def test_the_commented_parts_of_the_example_are_valid_too(hop: Hop, tmp_path: Path) -> None:
    lines = hop("config", "example").stdout.splitlines()
    keys = [line.removeprefix("# ") for line in lines]
    tables = [line for line in keys if line in ("[admin]", "[membership]")]
    assert len(tables) == 2
    wanted = ("[admin]", "[membership]", "socket =", "allow =", "update_delta =")
    text = "\n".join([key if key.startswith(wanted) else line for key, line in zip(keys, lines, strict=True)])
    file = tmp_path / "hop.toml"
    file.write_text(text)

    assert hop("config", "check", file).exit_code == 0
    config = load_config(file)
    assert (config.admin.socket, config.membership.update_delta_us) == ("/run/hopring/{name}.admin", 20_000)
