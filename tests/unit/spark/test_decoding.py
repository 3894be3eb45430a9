"""The file `schema.json` beside spools, without Spark."""

import json
from pathlib import Path
from typing import Any

import pytest

from hopring.spark.decoding import SCHEMA_BYTES_MAX, PayloadSchema, read_schemas
from hopring.spark.errors import ForeignInput

TRADE = {"name": "trade", "groups": ["trades.*"], "format": "json", "columns": "symbol string"}


def test_the_schemas_are_beside_the_spools_or_in_a_named_file(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(json.dumps([TRADE, {**TRADE, "name": "note", "types": [7]}]))

    found = read_schemas(tmp_path)

    assert found[0] == PayloadSchema("trade", ("trades.*",), "json", (), "symbol string")
    assert (found[1].name, found[1].types) == ("note", (7,))
    assert read_schemas(str(tmp_path / "schema.json")) == found


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("{", r"schema.json: .*; write a list of objects"),
        ({"trade": {}}, r"Expected `array`.*; write a list"),
        ([{**TRADE, "colums": ""}], "unknown field `colums`"),
        ([{**TRADE, "format": "xml"}], "Invalid enum value 'xml'"),
        ([TRADE, TRADE], "'trade' cannot be the name of a column; take letters"),
        ([{**TRADE, "name": "payload"}], "'payload' cannot be the name of a column"),
        ([{**TRADE, "name": "malformed"}], "'malformed' cannot be the name of a column"),
        ([{**TRADE, "name": "a b"}], "'a b' cannot be the name of a column"),
        ([{**TRADE, "groups": []}], "trade has no groups; name them"),
        ([{**TRADE, "types": [65536]}], "trade has a type that is not from 0 to 65535"),
        ([{**TRADE, "columns": " "}], "trade has the wrong columns for json; write them as"),
        ([{**TRADE, "format": "text"}], "trade has the wrong columns for text"),
        ([{**TRADE, "name": f"n{at}"} for at in range(1001)], "more than 1000 schemas"),
        (" " * (SCHEMA_BYTES_MAX + 1), "larger than 1048576 bytes"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_with_a_remedy(tmp_path: Path, content: Any, match: str) -> None:
    (tmp_path / "schema.json").write_text(content if isinstance(content, str) else json.dumps(content))

    with pytest.raises(ForeignInput, match=match) as caught:
        read_schemas(tmp_path)

    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(ForeignInput, match=r"No such file or directory; write schema\.json beside the spools"):
        read_schemas(tmp_path)
