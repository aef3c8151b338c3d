"""What Prometheus would have of a cluster's processes, and the rules that are shipped for it."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from pylog import LocalCluster
from tests.fakes.alert_rules import Rules, Samples

AS_SCRAPED: Final = ("job", "pylog")
ALERTS: Final = dict(
    re.findall(
        r"- alert: (\w+)\n\s+expr: (?:>-\n)?((?:.+(?:\n {10,}.+)*))",
        (Path(__file__).parents[2] / "monitoring/alerts.yml").read_text(),
    )
)
"""The expressions of the rules."""


def get(url: str) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def scrape(url: str) -> Samples:
    """The samples of one process."""
    status, text = get(f"{url}/metrics")
    assert status == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    """The value of one sample."""
    return samples[name, frozenset(labels.items())]


def seen_by_prometheus(cluster: LocalCluster) -> Samples:
    """All that the processes export, with what Prometheus puts to it; of one that does not answer
    this alone.
    """
    found: Samples = {}
    for who, url in cluster.metrics_urls.items():
        here = {AS_SCRAPED, ("instance", f"{cluster.bootstrap_servers}/{who}")}
        try:
            samples = scrape(url)
        except OSError:
            found["up", frozenset(here)] = 0
            continue
        found["up", frozenset(here)] = 1
        for (name, labels), number in samples.items():
            found[name, labels | here] = number
    return found


def firing(before: Samples, now: Samples, seconds: float = 300) -> set[str]:
    """The alerts that have something to say, were the scrapes so far apart."""
    rules = Rules(before, now, seconds)
    return {name for name, rule in ALERTS.items() if rules.fires(rule)}
