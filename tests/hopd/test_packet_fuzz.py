"""A short fuzz of a cluster of daemons with changed real packets; `make fuzz` has the long one."""

import asyncio
from pathlib import Path

import pytest
from tests.fuzz.packets import fuzz_packets

# The recorder of clients extends classes of the library. The daemons are compiled, if that was done.
pytestmark = [pytest.mark.slow, pytest.mark.interpreted]


def test_a_cluster_under_load_stands_twenty_thousand_changed_packets(tmp_path: Path) -> None:
    fuzz = asyncio.run(fuzz_packets(1, 20_000, tmp_path))

    inside, outside = ([one for one in fuzz.results if one.inside is which] for which in (True, False))
    assert sum(one.packets for one in [*inside, *outside]) == 20_000
    assert not [one.excused for one in outside if one.excused]
    assert fuzz.decoded_share > 0.6
