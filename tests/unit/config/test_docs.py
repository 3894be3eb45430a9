"""The page on configuration names every key, and its example works."""

from dataclasses import fields
from pathlib import Path

from hopring.config import AdminTuning, AdminVerb, SpoolTuning, parse_config
from hopring.config.settings import (
    CLIENT_SETTINGS,
    LINK_SETTINGS,
    LOG_SETTINGS,
    MEMBERSHIP_SETTINGS,
    RING_SETTINGS,
)
from hopring.config.spooling import SPOOL_SETTINGS
from hopring.membership.options import MembershipOptions

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()


def test_the_example_is_a_configuration() -> None:
    example = PAGE.split("```toml\n")[1].split("```")[0]

    assert [site.name for site in parse_config(example).sites] == ["asia", "eu", "us"]


def test_every_tuning_key_has_a_row() -> None:
    links, rest = PAGE.split("## Ring:")
    ring, rest = rest.split("## Membership:")
    membership, own = rest.split("## Clients and log:")

    assert all(f"\n| `{setting.key}` |" in links for setting in LINK_SETTINGS)
    assert all(f"\n| `{setting.key}` |" in ring for setting in RING_SETTINGS)
    assert all(f"\n| `{setting.key}` |" in membership for setting in MEMBERSHIP_SETTINGS)
    assert all(f"\n| `{setting.key}` |" in own for setting in (*CLIENT_SETTINGS, *LOG_SETTINGS))


def test_rows_of_membership_have_the_default_and_the_range_that_are_in_force() -> None:
    for setting in MEMBERSHIP_SETTINGS:
        default = setting.write(getattr(MembershipOptions(), setting.field))
        limits = f"`{setting.write(setting.low)}` to `{setting.write(setting.high)}`"
        assert f"\n| `{setting.key}` | `{default}` | {limits} | " in PAGE


def test_the_keys_of_the_admin_channel_have_a_row() -> None:
    admin = PAGE.split("## Admin:")[1]

    assert all(f"\n| `{field.name}` |" in admin for field in fields(AdminTuning))
    assert all(f'`"{verb}"`' in admin for verb in AdminVerb)


def test_the_keys_of_spools_have_a_row_and_the_example_works() -> None:
    spools = PAGE.split("## Spools:")[1].split("## Users and grants:")[0]
    rest = "directory", "groups", "daemons", "retain_until_archived"

    assert {field.name for field in fields(SpoolTuning)} == {*rest, *[one.field for one in SPOOL_SETTINGS]}
    assert all(f"`{key}`" in spools for key in (*rest, *[one.key for one in SPOOL_SETTINGS]))
    table = spools.split("```toml\n")[1].split("```")[0].replace('"us1"', '"eu2"')
    daemons = [f'[[sites.eu.daemons]]\nname = "eu{at}"\naddress = "10.0.0.{at}"\n' for at in (1, 2)]
    spool = parse_config("".join(daemons) + table).spool
    assert (spool.daemons, spool.retain_bytes) == (("eu1", "eu2"), 10 * 2**30)
