"""The little evaluator of alert rules."""

from __future__ import annotations

import pytest

from tests.fakes.alert_rules import Labels, Rules, Samples


def at(**labels: str) -> Labels:
    return frozenset(labels.items())


BEFORE: Samples = {("c", at(i="1")): 5, ("c", at(i="2")): 5}
NOW: Samples = {
    ("c", at(i="1")): 5,
    ("c", at(i="2")): 35,
    ("g", at(i="1")): 4,
    ("g", at(i="2")): 8,
    ("h", at(i="1")): 10,
    ("h", at(i="2")): 10,
    ("l_bucket", at(le="0.1")): 0,
    ("l_bucket", at(le="0.5")): 98,
    ("l_bucket", at(le="+Inf")): 100,
}


@pytest.mark.parametrize(
    ("expression", "fires"),
    [
        ("g > 7", True),
        ("g > 8", False),
        ('g{i="1"} > 7', False),
        ("sum(g) > 11", True),
        ("sum by (i) (g) > 11", False),
        ("g / h < 0.5", True),
        ("g / h < 0.4", False),
        ("g < h", True),
        ("rate(c[5m]) > 2", True),
        ("rate(c[5m]) > 3", False),
        ("increase(c[5m]) > 29", True),
        ("absent(g == 5)", True),
        ("absent(g == 4)", False),
        ("histogram_quantile(0.5, sum by (le) (rate(l_bucket[5m]))) > 0.4", True),
        ("histogram_quantile(0.5, sum by (le) (rate(l_bucket[5m]))) > 0.5", False),
        ("histogram_quantile(0.99, sum by (le) (rate(l_bucket[5m]))) > 0.5", True),
    ],
)
def test_an_expression_fires(expression: str, fires: bool) -> None:
    assert Rules(BEFORE, NOW, 10).fires(expression) is fires
