"""Prometheus' text format: families of samples with their help texts."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Reason = TypeVar("Reason", bound=str)
Sample = tuple[dict[str, str], float]
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> str:
    """A family of samples, each with its labels; `kind` is counter or gauge."""
    full = f"hopring_{name}"
    lines = [f"# HELP {full} {text}\n# TYPE {full} {kind}\n"]
    for labels, value in samples:
        inner = ",".join([f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items()])
        lines.append(f"{full}{{{inner}}} {value}\n" if inner else f"{full} {value}\n")
    return "".join(lines)


def single(name: str, kind: str, text: str, value: float) -> str:
    """A family of one sample without labels."""
    return family(name, kind, text, [({}, value)])


def by_reason(name: str, text: str, counts: Mapping[Reason, int]) -> str:
    """A family of counters with the label `reason`."""
    samples: list[Sample] = sorted([({"reason": str(one)}, count) for one, count in counts.items()], key=str)
    return family(name, "counter", text, samples)
