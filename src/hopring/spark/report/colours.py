"""Colours of the page as variables of its style sheet, light and dark: those of the pictures, and of sites."""

from collections.abc import Iterable, Sequence
from typing import Final

from hopring.check.picture.style import FAINT, INK, LINE, PAPER, SERVICES, VIEWS

SITES: Final = (
    ("#2f6fdf", "#79b0ff"),
    ("#c2540a", "#ff9d5c"),
    ("#0b7f6f", "#3fd0bb"),
    ("#b0267e", "#f07cc0"),
    ("#75700b", "#cfc74a"),
    ("#6d43c9", "#b39bff"),
    ("#b3372f", "#ff8a80"),
    ("#566273", "#a9b6c8"),
)
GOOD: Final = ("#15803d", "#4ade80")
BAD: Final = ("#b91c1c", "#ff8f8f")
PALE: Final = ("#f4f5f7", "#1c2027")
_SERVICE_NAMES: Final = {service.name.lower(): service for service in SERVICES}


def sheet() -> str:
    """Light; dark where the reader likes it dark or asks for it; light on paper."""
    light = f"{{ color-scheme: light; {_variables(0)} }}"
    dark = f"{{ color-scheme: dark; {_variables(1)} }}"
    rules = [
        f":root {light}",
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {dark} }}',
        f':root[data-theme="dark"] {dark}',
        f"@media print {{ :root, :root:not([data-theme]), :root[data-theme] {light} }}",
        *_classes(),
    ]
    return "\n".join(rules) + "\n"


def site_classes(sites: Iterable[str]) -> dict[str, str]:
    """The class of each site, the same in all plots."""
    return {site: f"site{number % len(SITES)}" for number, site in enumerate(sorted(set(sites)))}


def service_class(service: str) -> str:
    """That of the pictures; a service that is not known has a plain one."""
    name = service.lower()
    return f"service-{name}" if name in _SERVICE_NAMES else "service-other"


def service_order(services: Iterable[str]) -> list[str]:
    """The weakest promise first; what is not known last."""
    return sorted(set(services), key=lambda one: (_SERVICE_NAMES.get(one.lower(), 99), one))


def _variables(mode: int) -> str:
    fixed: Sequence[tuple[str, tuple[str, str]]] = (
        *(("paper", PAPER), ("ink", INK), ("faint", FAINT), ("line", LINE), ("pale", PALE)),
        *(("good", GOOD), ("bad", BAD)),
    )
    found = [*fixed, *[(f"site{number}", pair) for number, pair in enumerate(SITES)]]
    found += [(f"view{number}", pair) for number, pair in enumerate(VIEWS)]
    found += [(f"service-{service.name.lower()}", pair) for service, pair in SERVICES.items()]
    found.append(("service-other", FAINT))
    return " ".join([f"--{name}: {pair[mode]};" for name, pair in found])


def _classes() -> list[str]:
    names = [f"site{number}" for number in range(len(SITES))]
    names += [f"service-{name}" for name in (*_SERVICE_NAMES, "other")]
    rules = [f".{name} {{ --mine: var(--{name}) }}" for name in names]
    return rules + [f".v{number} {{ --mine: var(--view{number}) }}" for number in range(len(VIEWS))]
