import pytest

from hopring.spark.errors import SparkError
from hopring.spark.session import memory_mbytes, session


@pytest.mark.parametrize(("machine", "java"), [(1_000, 1_024), (6_000, 3_000), (64_000, 8_192)])
def test_java_gets_half_of_the_machine_within_limits(machine: int, java: int) -> None:
    assert memory_mbytes(machine) == java


def test_a_master_and_a_remote_do_not_go_together() -> None:
    with pytest.raises(SparkError, match="give one of them"):
        session("test", master="local[1]", remote="sc://localhost")
