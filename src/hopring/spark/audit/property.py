"""A property of the thesis as a query that returns its violations."""

from collections.abc import Callable

from hopring.spark.audit.masks import Masks
from hopring.value import Value


class Property(Value, frozen=True):
    """One property; it holds in every history of which the query returns nothing.

    The query has a column `run` and the columns that the witness names. Of several violations the least is
    shown, compared by the columns from left to right.
    """

    name: str  # As the plain checker calls it.
    paper: str  # Where the thesis says it.
    query: Callable[[Masks], str]
    witness: str  # A sentence with the names of columns in braces.
    when_quiet: bool = False  # Judged only where all had come to rest at the end.
    per_session: bool = False  # Not judged where a daemon speaks for several sessions.
    with_components: bool = False  # Judged only where it is known who could reach whom at the end.
