"""The little of Prometheus' language that `monitoring/alerts.yml` speaks, over samples in memory.

An expression is tried at one moment, over what was scraped then and what was scraped before. A rate
is the difference of the two, divided by the time between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import eq, gt, lt
from typing import Final

Labels = frozenset[tuple[str, str]]
Samples = dict[tuple[str, Labels], float]
Vector = dict[Labels, float]

_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {"<": lt, ">": gt, "==": eq}


class Rules:
    """Evaluates expressions over two scrapes that lie `seconds` apart."""

    def __init__(self, before: Samples, now: Samples, seconds: float) -> None:
        self._before = before
        self._now = now
        self._seconds = seconds

    def fires(self, expression: str) -> bool:
        """Whether an alert with that expression has anything to say."""
        return bool(self._compared(" ".join(expression.split())))

    def _compared(self, text: str) -> Vector:
        found = re.fullmatch(r"(.+) (<|>|==) (\S+)", text)
        if found is None or text.startswith("absent("):
            return self._value(text)
        left, right = self._value(found[1]), found[3]
        compare = _COMPARISONS[found[2]]
        if re.fullmatch(r"[\d.]+", right):
            return {at: value for at, value in left.items() if compare(value, float(right))}
        other = self._value(right)
        return {at: v for at, v in left.items() if at in other and compare(v, other[at])}

    def _value(self, text: str) -> Vector:
        if found := re.fullmatch(r"absent\((.+)\)", text):
            return {} if self._compared(found[1]) else {frozenset(): 1.0}
        if found := re.fullmatch(r"histogram_quantile\(([\d.]+), (.+)\)", text):
            return _quantiles(float(found[1]), self._value(found[2]))
        if found := re.fullmatch(r"sum(?: by \(([\w, ]+)\))? ?\((.+)\)", text):
            return _summed(self._value(found[2]), (found[1] or "").replace(" ", "").split(","))
        if found := re.fullmatch(r"(rate|increase)\((\S+)\[\d+m\]\)", text):
            over = self._seconds if found[1] == "rate" else 1.0
            now, before = self._series(self._now, found[2]), self._series(self._before, found[2])
            return {at: (value - before.get(at, 0.0)) / over for at, value in now.items()}
        if found := re.fullmatch(r"(\S+) / (\S+)", text):
            left, right = self._value(found[1]), self._value(found[2])
            return {at: value / right[at] for at, value in left.items() if at in right}
        return self._series(self._now, text)

    def _series(self, samples: Samples, text: str) -> Vector:
        found = re.fullmatch(r"(\w+)(?:\{(\w+)=\"(\w+)\"\})?", text)
        assert found is not None, f"cannot read {text}"
        return {
            labels: value
            for (name, labels), value in samples.items()
            if name == found[1] and (not found[2] or (found[2], found[3]) in labels)
        }


def _summed(vector: Vector, by: list[str]) -> Vector:
    sums: Vector = {}
    for labels, value in vector.items():
        kept = frozenset(pair for pair in labels if pair[0] in by)
        sums[kept] = sums.get(kept, 0.0) + value
    return sums


def _quantiles(q: float, buckets: Vector) -> Vector:
    """The upper bound of the bucket in which each quantile lies."""
    by_series: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        bound = next(value for name, value in labels if name == "le")
        rest = frozenset(pair for pair in labels if pair[0] != "le")
        by_series.setdefault(rest, []).append((float(bound), count))
    found: Vector = {}
    for series, bounds in by_series.items():
        bounds.sort()
        total = bounds[-1][1]
        if total > 0:
            found[series] = next(bound for bound, count in bounds if count >= q * total)
    return found
