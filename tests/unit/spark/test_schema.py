import pytest

from hopring.check.trace_row import TraceRow
from hopring.spark.errors import ForeignInput
from hopring.spark.schema import TRACE, check_columns, check_version


def test_the_columns_are_those_of_a_row_in_their_order() -> None:
    assert tuple(TRACE) == TraceRow.__struct_fields__
    assert TRACE["members"] == "array<string>"
    assert TRACE["position"] == "bigint"


def test_an_older_file_may_lack_the_later_columns() -> None:
    check_columns([(name, kind) for name, kind in TRACE.items() if name != "peer"], "here")


def test_a_foreign_file_is_named_with_the_column_it_lacks() -> None:
    with pytest.raises(ForeignInput, match="here: this is not a trace, it has no column schema; give what"):
        check_columns([("a", "bigint")], "here")


def test_a_column_of_another_type_is_named() -> None:
    columns = TRACE | {"position": "string"}

    with pytest.raises(ForeignInput, match="its column position is string and not bigint"):
        check_columns(columns.items(), "here")


def test_another_version_is_refused_with_the_remedy() -> None:
    check_version([1], "here")
    with pytest.raises(
        ForeignInput, match="a trace of schema 2, and this hopring reads schema 1; read it with"
    ):
        check_version([1, 2], "here")
