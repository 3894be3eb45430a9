"""The page on configuration names every key, and its example works."""

from pathlib import Path

from hopring.config import parse_config
from hopring.config.tuning import CLIENT_SETTINGS, LINK_SETTINGS, LOG_SETTINGS, RING_SETTINGS

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()


def test_the_example_is_a_configuration() -> None:
    example = PAGE.split("```toml\n")[1].split("```")[0]

    assert [site.name for site in parse_config(example).sites] == ["asia", "eu", "us"]


def test_every_tuning_key_has_a_row() -> None:
    links, rest = PAGE.split("## Ring:")
    ring, own = rest.split("## Clients and log:")

    assert all(f"\n| `{setting.key}` |" in links for setting in LINK_SETTINGS)
    assert all(f"\n| `{setting.key}` |" in ring for setting in RING_SETTINGS)
    assert all(f"\n| `{setting.key}` |" in own for setting in (*CLIENT_SETTINGS, *LOG_SETTINGS))
