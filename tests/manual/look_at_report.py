"""Checks the report in a real browser: no console errors, plots of the right size, no overflow.

    python -m tests.manual.look_at_report [--keep DIR]      also leaves the screenshots there

This is not part of `make test`: it needs Chromium (apt-get install chromium), and says so if there is none.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path
from typing import Any, Final

from tests.unit.spark.report_sample import write_sample

from hopring.spark.report import write_report
from hopring.spark.report.page import script_hash

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-default-apps", "--disable-extensions", "--virtual-time-budget=2000"),
)
SECONDS_MAX: Final = 60
SCREENS: Final = {"desk": (1280, 4200), "tablet": (800, 4200), "phone": (500, 7000)}
"""Chromium has no window narrower than 500 pixels; the layout for phones begins at 640."""

FIRST: Final = """<script>
const found = { errors: [] };
addEventListener("error", (event) => found.errors.push(String(event.message)));
addEventListener("securitypolicyviolation", (event) => found.errors.push("policy: " + event.violatedDirective));
for (const name of ["error", "warn"]) console[name] = (...words) => found.errors.push(words.join(" "));
</script>"""
LAST: Final = """<script>
addEventListener("load", () => setTimeout(() => {
  const seen = [...document.querySelectorAll("svg")].filter((one) => one.getClientRects().length);
  found.plots = seen.map((one) => {
    const box = one.getBoundingClientRect(), drawn = one.getBBox();
    return [box.width, box.height, drawn.width, drawn.height, one.viewBox.baseVal.width];
  });
  found.wide = document.documentElement.scrollWidth - innerWidth;
  const hit = seen[0].querySelector(".strand").getBoundingClientRect();
  const at = { bubbles: true, clientX: hit.x + 5, clientY: hit.y + 5 };
  seen[0].querySelector(".strand").dispatchEvent(new PointerEvent("pointermove", at));
  found.tip = document.getElementById("tip").textContent;
  document.getElementById("theme").click();
  found.theme = document.documentElement.dataset.theme;
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
}, 100));
</script>"""


def browser() -> str | None:
    """The path of the browser on this machine."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def opened(program: str, file: Path, size: tuple[int, int], *flags: str) -> "subprocess.CompletedProcess[str]":
    """Opens a page in the browser with an empty profile."""
    with tempfile.TemporaryDirectory(prefix="hopring-look-") as home:
        command = [program, *FLAGS, f"--user-data-dir={home}", f"--window-size={size[0]},{size[1]}"]
        return subprocess.run(
            [*command, *flags, file.as_uri()], capture_output=True, text=True, timeout=SECONDS_MAX, check=True
        )


def asked(program: str, page: Path, size: tuple[int, int]) -> dict[str, Any]:
    """Values that scripts around those of the page read from it."""
    text = page.read_text()
    probe = page.with_name("probe.html")
    # The first script stands before the page's policy; the last one needs to be allowed by it.
    allowed = script_hash(LAST.removeprefix("<script>").removesuffix("</script>"))
    text = text.replace("script-src ", f"script-src {allowed} ", 1)
    probe.write_text(text.replace("<head>", f"<head>{FIRST}", 1).replace("</body>", f"{LAST}</body>", 1))
    said = opened(program, probe, size, "--dump-dom").stdout
    found = re.search(r'<pre id="found">(.*?)</pre>', said, re.DOTALL)
    assert found is not None, f"the page did not finish: {said[-500:]}"
    facts: dict[str, Any] = json.loads(unescape(found.group(1)))
    return facts


def problems(facts: dict[str, Any]) -> list[str]:
    """Describes everything that is wrong with the page."""
    found = [f"on the console: {error}" for error in facts["errors"]]
    if len(facts["plots"]) < 10:
        found.append(f"only {len(facts['plots'])} plots are seen")
    for width, height, drawn_width, drawn_height, wished in facts["plots"]:
        if min(width, height, drawn_width, drawn_height) < 40:
            found.append(
                f"a plot is {width:.0f} by {height:.0f}, drawn {drawn_width:.0f} by {drawn_height:.0f}"
            )
        if not 0.8 < width / wished < 1.6:
            found.append(
                f"a plot made for {wished:.0f} pixels is {width:.0f} wide: its letters are too small or large"
            )
    if facts["wide"] > 0:
        found.append(f"the page is {facts['wide']} pixels wider than the window")
    if " in view " not in facts["tip"]:
        found.append(f"a strand tells {facts['tip']!r}")
    if facts["theme"] not in ("dark", "light"):
        found.append("the button does not change the theme")
    return found


def main(arguments: list[str]) -> int:
    """Checks all screen sizes; returns 1 if something is wrong."""
    program = browser()
    if program is None:
        print("skipped: no Chromium here; apt-get install chromium")
        return 0
    failures = 0
    with tempfile.TemporaryDirectory(prefix="hopring-report-") as place:
        keep = Path(arguments[1]).absolute() if arguments[:1] == ["--keep"] else Path(place)
        keep.mkdir(parents=True, exist_ok=True)
        page = write_report(write_sample(Path(place) / "out", broken=True, crash=True))
        for name, size in SCREENS.items():
            wrong = problems(asked(program, page, size))
            failures += bool(wrong)
            print(f"{name:8}{'; '.join(wrong) or 'good'}")
            for mode, flags in (("light", ()), ("dark", ("--force-dark-mode",))):
                picture = keep / f"{name}-{mode}.png"
                opened(program, page, size, f"--screenshot={picture}", *flags)
                assert picture.stat().st_size > 20_000, f"{picture} is empty"
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
