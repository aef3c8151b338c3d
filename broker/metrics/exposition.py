"""Prometheus' text format (version 0.0.4), written in pieces small enough for an event loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

from pylog_broker.metrics.counters import BOUNDS, Histogram
from pylog_broker.metrics.names import Metric

Value = int | float
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (*(repr(bound) for bound in BOUNDS), "+Inf")


def labels(metric: Metric, values: Iterable[object]) -> str:
    """`{a="1",b="x"}`, escaped; empty without labels."""
    pairs = zip(metric.labels, values, strict=True)
    inside = ",".join(f'{name}="{_escaped(str(value))}"' for name, value in pairs)
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class Page:
    """One scrape's text. Every metric is added once, with all its samples."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def add(self, metric: Metric, value: Value) -> None:
        """A metric without labels."""
        self.add_lines(metric, [f"{metric.name} {value}"])

    def add_all(self, metric: Metric, samples: Mapping[tuple[object, ...], Value]) -> None:
        """A metric's samples by the values of its labels."""
        self.add_lines(
            metric,
            [f"{metric.name}{labels(metric, at)} {value}" for at, value in samples.items()],
        )

    def add_histograms(
        self, metric: Metric, histograms: Mapping[tuple[object, ...], Histogram]
    ) -> None:
        """A histogram's samples by the values of its labels."""
        lines = []
        for at, histogram in histograms.items():
            here = labels(metric, at)
            opened = f"{here[:-1]}," if here else "{"
            for bound, count in zip(_BUCKETS, accumulate(histogram.counts), strict=True):
                lines.append(f'{metric.name}_bucket{opened}le="{bound}"}} {count}')
            lines.append(f"{metric.name}_sum{here} {histogram.sum}")
            lines.append(f"{metric.name}_count{here} {sum(histogram.counts)}")
        self.add_lines(metric, lines)

    def add_lines(self, metric: Metric, lines: list[str]) -> None:
        """Samples that are written already: the short way for many partitions."""
        self._parts.append(f"# HELP {metric.name} {_help(metric)}")
        self._parts.append(f"# TYPE {metric.name} {metric.kind}")
        self._parts.extend(lines)

    def text(self) -> str:
        """The whole of it."""
        return "\n".join((*self._parts, ""))


def _help(metric: Metric) -> str:
    return metric.help.replace("\\", r"\\").replace("\n", " ")
