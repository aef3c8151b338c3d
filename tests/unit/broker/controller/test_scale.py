"""A thousand partitions are no matter: the core takes far less than a second for each change.

The bounds are ten times what an idle core needs, so that only a change of order fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.fakes.controller_shell import ControllerShell


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def test_a_thousand_partitions_are_created_lose_a_broker_and_get_it_back() -> None:
    shell = ControllerShell()
    brokers = [shell.join(number) for number in (1, 2, 3)]
    assert cpu_seconds(lambda: shell.create(partitions=1_000)) < 0.3
    assert cpu_seconds(lambda: shell.lose(brokers[0])) < 0.3
    assert all(shell.partition(number=n).leader in (2, 3) for n in range(1_000))
    assert cpu_seconds(lambda: shell.join(1, life=2)) < 0.3
