import os
import sys
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from hopring.spark.errors import NoSpark, SparkError
from hopring.spark.session import check_master, cores_of, memory_mbytes, no_cluster, session, suited_to


@pytest.mark.parametrize(("machine", "java"), [(1_000, 1_024), (6_000, 3_000), (64_000, 8_192)])
def test_java_gets_half_of_the_machine_within_limits(machine: int, java: int) -> None:
    assert memory_mbytes(machine) == java


def test_a_master_and_a_remote_do_not_go_together() -> None:
    with pytest.raises(SparkError, match="give one of them"):
        session("test", master="local[1]", remote="sc://localhost")


@pytest.mark.parametrize("master", [None, "local", "local[*]", "spark://head:7077", "yarn", "k8s://head"])
def test_a_valid_master_passes(master: str | None) -> None:
    check_master(master)


@pytest.mark.parametrize("master", ["nonsense", "", "http://head", "spark://", "localhost"])
def test_an_invalid_master_is_refused_before_java_starts(master: str) -> None:
    with pytest.raises(SparkError, match=r"is not the address of a cluster; write it as local\[2\]"):
        check_master(master)


def test_an_unreachable_cluster_is_an_error_with_a_remedy() -> None:
    told = str(no_cluster("spark://head:7077", None))

    assert told == (
        "no session at spark://head:7077; check its address, that it runs, "
        "and that it reaches this host; the log has Spark's messages"
    )


def test_spark_connect_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> object:
        return None if name == "grpc" else name

    # The package has a function of the same name as the module.
    monkeypatch.setattr(sys.modules["hopring.spark.session"], "find_spec", find)
    with pytest.raises(NoSpark, match=r"sc://head needs grpcio; pip install 'hopring\[connect\]'"):
        session("test", remote="sc://head")


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[4, 2]", 4)])
def test_a_local_session_has_as_many_partitions_as_its_master_has_cores(master: str, cores: int) -> None:
    assert cores_of(master) == cores


def test_without_a_number_the_cores_are_those_of_the_machine() -> None:
    assert cores_of(None) == cores_of("local[*]") == os.cpu_count()


class Settings(dict[str, str]):
    """The settings of a session, by the methods that Spark's have."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


@pytest.mark.parametrize(
    ("ours", "rows", "during"), [("true", 5, "false"), ("true", 10**7, "true"), ("no", 5, "true")]
)
def test_settings_for_few_rows_are_set_back_and_never_set_in_foreign_sessions(
    ours: str, rows: int, during: str
) -> None:
    before = {
        **{"spark.sql.adaptive.enabled": "true", "spark.sql.codegen.wholeStage": "true"},
        **{"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.autoBroadcastJoinThreshold": "10MB"},
        **{"spark.sql.shuffle.partitions": "200", "spark.hopring.session": ours},
    }
    spark: Any = SimpleNamespace(conf=Settings(before))

    with suppress(ZeroDivisionError), suited_to(spark, rows, 7):
        assert spark.conf["spark.sql.adaptive.enabled"] == during
        assert spark.conf["spark.sql.shuffle.partitions"] == ("7" if ours == "true" else "200")
        raise ZeroDivisionError

    assert spark.conf == before
