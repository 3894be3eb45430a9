"""Payloads as columns: `schema.json` beside the spools says what the messages of groups and types contain.

The file is a JSON list, an object for each kind of message:

    [{"name": "trade", "groups": ["trades.*"], "types": [0], "format": "json",
      "columns": "symbol string, price double"}]

`decoded` adds a column for each object. It is an expression over the columns of records: no query runs for it,
and streams can use it.
"""

import re
from collections.abc import Sequence
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from hopring.spark.errors import ForeignInput
from hopring.spark.schema import RECORDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SCHEMA_FILE: Final = "schema.json"
SCHEMA_BYTES_MAX: Final = 1024 * 1024
SCHEMAS_MAX: Final = 1000
MALFORMED: Final = "malformed"
"""The column that is true where a payload is not what its schema says; its columns are null then."""

TYPE_MAX: Final = 0xFFFF
_CORRUPT: Final = "_corrupt"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_GLOB: Final = re.compile(r"[*?\[]")


class PayloadSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of some messages: which ones, and the column that their payloads become."""

    name: str  # Of the column.
    groups: tuple[str, ...]  # Names and shell globs.
    format: Literal["json", "csv", "text"]
    types: tuple[int, ...] = ()  # Empty means all types.
    columns: str = ""  # As in CREATE TABLE; text has none.


def read_schemas(where: Path | str) -> tuple[PayloadSchema, ...]:
    """The schemas of a file, or of `schema.json` in a directory; ForeignInput with a remedy if one is wrong."""
    path = Path(where)
    path = path / SCHEMA_FILE if path.is_dir() else path
    try:
        with path.open("rb") as file:
            content = file.read(SCHEMA_BYTES_MAX + 1)
    except OSError as error:
        remedy = f"write {SCHEMA_FILE} beside the spools: docs/spark.md has an example"
        raise ForeignInput(f"{path}: {error.strerror}", remedy) from None
    if len(content) > SCHEMA_BYTES_MAX:
        raise ForeignInput(f"{path}: larger than {SCHEMA_BYTES_MAX} bytes", "remove what is not used")
    try:
        found = msgspec.json.decode(content, type=tuple[PayloadSchema, ...])
    except msgspec.DecodeError as error:
        raise ForeignInput(
            f"{path}: {error}", "write a list of objects: docs/spark.md has an example"
        ) from None
    _check(path, found)
    return found


def _check(path: Path, schemas: Sequence[PayloadSchema]) -> None:
    names = [one.name for one in schemas]
    if len(schemas) > SCHEMAS_MAX:
        raise ForeignInput(f"{path}: more than {SCHEMAS_MAX} schemas", "remove those that are not used")
    for at, one in enumerate(schemas):
        if not _NAME.fullmatch(one.name) or one.name in (*RECORDS, MALFORMED) or one.name in names[:at]:
            remedy = "take letters, digits and _, no column of records, and each name once"
            raise ForeignInput(f"{path}: {one.name!r} cannot be the name of a column", remedy)
        if not one.groups:
            raise ForeignInput(f"{path}: {one.name} has no groups", 'name them, or write ["*"]')
        if not all(0 <= number <= TYPE_MAX for number in one.types):
            raise ForeignInput(f"{path}: {one.name} has a type that is not from 0 to {TYPE_MAX}", "correct it")
        if (one.format == "text") == bool(one.columns.strip()):
            remedy = 'write them as "symbol string, price double"; text has none'
            raise ForeignInput(f"{path}: {one.name} has the wrong columns for {one.format}", remedy)


def decoded(records: "DataFrame", where: Path | str) -> "DataFrame":
    """The records with a column for each schema that is beside the spools, and the column `malformed`.

    A column is null in records that its schema does not describe, and where the payload is not what it says.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    columns: dict[str, Column] = {}
    malformed = F.lit(False)
    for one in read_schemas(where):
        described = _described(one)
        value, is_whole = _value(one)
        columns[one.name] = F.when(described & is_whole, value)
        malformed = malformed | (described & ~is_whole)
    return records.withColumns({**columns, MALFORMED: malformed})


def _described(schema: PayloadSchema) -> "Column":
    """Whether a record is a message of these groups and types."""
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    group = F.col("group")
    names = group.isin([name for name in schema.groups if not _GLOB.search(name)])
    for glob in schema.groups:
        if _GLOB.search(glob):
            names = names | group.rlike(f"^{translate(glob)}".replace(r"\Z", r"\z"))
    types = F.col("type").isin(list(schema.types)) if schema.types else F.lit(True)
    return (F.col("kind") == "message") & names & types


def _value(schema: PayloadSchema) -> "tuple[Column, Column]":
    """The decoded payload, and whether it is what the schema says."""
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    text = F.col("payload").cast("string")
    if schema.format == "text":
        return text, F.is_valid_utf8(text)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parse = F.from_json if schema.format == "json" else F.from_csv
    parsed = parse(text, f"{schema.columns}, {_CORRUPT} string", options)
    return parsed.dropFields(_CORRUPT), parsed.isNotNull() & parsed[_CORRUPT].isNull()
