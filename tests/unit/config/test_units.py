"""Parsing and formatting of quantities with units."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopring.config.units import DURATION, RATE, SIZE, Quantity


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (DURATION, "200ms", 200_000),
        (DURATION, "1.5s", 1_500_000),
        (DURATION, "2 min", 120_000_000),
        (DURATION, "0us", 0),
        (SIZE, "1MiB", 1_048_576),
        (SIZE, "1.5KiB", 1_536),
        (SIZE, "2MB", 2_000_000),
        (SIZE, "1400B", 1_400),
        (RATE, "20Mbit", 2_500_000),
        (RATE, "1Gbit/s", 125_000_000),
        (RATE, "8bit", 1),
    ],
)
def test_quantities_are_read(kind: Quantity, text: str, value: int) -> None:
    assert kind.read(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(
            (DURATION, text)
            for text in ("", "ms", "200", "-1s", "1e3s", "1 s ", "1,5s", "٣s", "1S", "1ms/s", "1" * 16 + "s")
        ),
        *((SIZE, text) for text in ("1M", "1mib", "1KB", "0.5B")),
        *((RATE, text) for text in ("20mbit", "20MB", "4bit", "1Mbit/m")),
    ],
)
def test_everything_else_is_refused(kind: Quantity, text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        kind.read(text)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (DURATION, 1_500_000, "1500ms"),
        (DURATION, 0, "0us"),
        (SIZE, 65_536, "64KiB"),
        (SIZE, 1_400, "1400B"),
        (RATE, 2_500_000, "20Mbit"),
        (RATE, 1, "8bit"),
    ],
)
def test_quantities_are_written_in_the_largest_unit_that_divides_them(
    kind: Quantity, value: int, text: str
) -> None:
    assert kind.write(value) == text


@settings(max_examples=50, deadline=None)
@given(st.sampled_from([DURATION, SIZE, RATE]), st.integers(0, 10**14 - 1))
def test_a_formatted_quantity_reads_back_the_same(kind: Quantity, value: int) -> None:
    assert kind.read(kind.write(value)) == value
