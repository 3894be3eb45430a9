"""Widths that pictures are drawn for, by the class that the style sheet shows on such a screen."""

from typing import Final

WIDTHS: Final = {"wide": 1104.0, "middle": 704.0, "narrow": 360.0}
"""Of the whole page: a desk, a tablet or a sheet of paper, a phone."""

HALVES: Final = {"large": 536.0, "small": 348.0}
"""Of plots that stand side by side; one of the small ones fills a phone."""
