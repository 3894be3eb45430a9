"""A short version of tests/netns/fairness.py: neither flow starves the other."""

import pytest
from tests.netns.fairness import FairnessSetting, run

pytestmark = [pytest.mark.netns, pytest.mark.slow, pytest.mark.usefixtures("namespaces")]


def test_hop_and_tcp_share_a_bottleneck() -> None:
    result = run(FairnessSetting(seconds=20, congestion="cubic"))

    ratio, total = result["ratio"], result["total_mbit_per_s"]
    assert isinstance(ratio, float)
    assert isinstance(total, float)
    assert 1 / 4 < ratio < 4
    assert total > 15
