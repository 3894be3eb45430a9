"""A picture of a history: a space-time diagram as one SVG text, pure and always the same for the same history.

`marks` reads the history as marks on lanes, `scene` chooses the content and its places, `drawing` and `svg`
draw the lanes, and `page` joins everything. `docs/trace.md` says how to read the picture.
"""

from hopring.check.picture.marks import PictureError
from hopring.check.picture.page import draw
from hopring.check.picture.scene import PictureOptions

__all__ = ["PictureError", "PictureOptions", "draw"]
