"""The sink as it is, in processes that die at a given moment, or let others die there.

A trial puts an order into the folder that `FOLDER_VARIABLE` names: a file called like the moment,
whose text says what happens there. The first process that comes to the moment takes the order,
writes `reached`, and then kills itself, raises, or waits while the trial kills somebody else. Where
there is such a folder the query uses the format `pylog_placed`, whose writer is the sink's but for
that.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

from pylog.client.sinks.sink_decider import SinkDecider
from pylog.client.sinks.staging_producer import StagingProducer
from pylog.clock import SYSTEM_CLOCK
from pylog_connector import sink
from pylog_connector.datasource import PylogDataSource
from pylog_connector.sink import StreamWriter

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER_VARIABLE: Final = "PYLOG_PLACED_KILLS"
REACHED: Final = "reached"
DONE: Final = "done"
"""The trial has killed somebody: go on."""
WAIT_S: Final = 20.0
ON_ITS_WAY_S: Final = 0.005

BEGINS, BEGUN = "a task begins", "a task has begun"
PREPARES, PREPARED = "a task prepares", "a task is prepared"
DECIDES, ON_ITS_WAY, DECIDED = "a decision", "a decision on its way", "behind a decision"
ABORTS, ABORTED = "an abort", "behind an abort"

ITSELF, DRIVER, COORDINATOR, BROKER = "itself", "the driver", "the coordinator", "a broker"
RAISES: Final = "raises"
"""Once, in the process that comes there first."""
FAILS: Final = "fails"
"""Raises in every process that comes there, until the order is taken back."""

ORDERS: Final = (
    *((moment, ITSELF) for moment in (BEGINS, BEGUN, PREPARES, PREPARED)),
    *((moment, DRIVER) for moment in (BEGUN, PREPARED)),
    *((moment, BROKER) for moment in (BEGUN, PREPARES)),
    (PREPARED, COORDINATOR),
    *((moment, who) for moment in (DECIDES, ON_ITS_WAY, DECIDED)
      for who in (ITSELF, DRIVER, COORDINATOR)),
    (DECIDED, RAISES),
    *((moment, who) for moment in (ABORTS, ABORTED) for who in (ITSELF, DRIVER, COORDINATOR)),
)  # fmt: skip
"""Each moment with each that may die there."""


class Placed(Exception):
    """A process raises this by order."""


def order(folder: Path, moment: str, victim: str) -> None:
    """Have it happen when the moment comes."""
    for name in (REACHED, DONE):
        (folder / name).unlink(missing_ok=True)
    written = folder / "order"
    written.write_text(victim)
    written.rename(folder / moment)


def take_back(folder: Path, moment: str) -> None:
    """It need not happen any more."""
    (folder / moment).unlink(missing_ok=True)


def reach(moment: str) -> None:
    """The moment has come."""
    folder = os.environ.get(FOLDER_VARIABLE)
    victim = _taken(Path(folder), moment) if folder else None
    if victim is None:
        return
    assert folder is not None
    if victim == FAILS:
        raise Placed(moment)
    reached = Path(folder) / REACHED
    if victim == ITSELF and moment == ON_ITS_WAY:
        threading.Thread(target=_die_soon, args=(reached,), daemon=True).start()
        return
    reached.write_text(moment)
    if victim == ITSELF:
        os.kill(os.getpid(), signal.SIGKILL)
    if victim == RAISES:
        raise Placed(moment)
    if moment != ON_ITS_WAY:
        _wait(Path(folder) / DONE)


def _taken(folder: Path, moment: str) -> str | None:
    """The order for the moment, where this process is the first there."""
    try:
        if (folder / moment).read_text() == FAILS:
            return FAILS
        taken = folder / f"taken by {os.getpid()}"
        (folder / moment).rename(taken)
        return taken.read_text()
    except FileNotFoundError:
        return None


def _die_soon(reached: Path) -> None:
    SYSTEM_CLOCK.sleep(random.uniform(0, ON_ITS_WAY_S))
    reached.write_text(ON_ITS_WAY)
    os.kill(os.getpid(), signal.SIGKILL)


def _wait(done: Path) -> None:
    deadline_ms = SYSTEM_CLOCK.monotonic_ms() + round(WAIT_S * 1000)
    while not done.exists() and SYSTEM_CLOCK.monotonic_ms() < deadline_ms:
        SYSTEM_CLOCK.sleep(0.01)


def _around(before: str | None, call: Callable[..., Any], behind: str | None) -> Any:
    def called(*given: Any, **named: Any) -> Any:
        if before is not None:
            reach(before)
        answer = call(*given, **named)
        if behind is not None:
            reach(behind)
        return answer

    return called


class PlacedWriter(StreamWriter):
    """The sink's writer, which comes by each moment."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> sink.Written | sink.Reported:
        reach(BEGINS)
        with_moments()
        return super().write(iterator)

    def commit(self, messages: sink.Messages, batchId: int) -> None:
        with_moments()
        reach(DECIDES)
        super().commit(messages, batchId)
        reach(DECIDED)

    def abort(self, messages: sink.Messages, batchId: int) -> None:
        reach(ABORTS)
        super().abort(messages, batchId)
        reach(ABORTED)


_production: Final = (
    StagingProducer.begin_attempt, StagingProducer.prepare_attempt, SinkDecider.decide
)  # fmt: skip


def with_moments() -> None:
    """This process's producers and deciders come by the moments, too."""
    begin, prepare, decide = _production
    patched: Any = StagingProducer
    patched.begin_attempt = _around(None, begin, BEGUN)
    patched.prepare_attempt = _around(PREPARES, prepare, PREPARED)
    patched = SinkDecider
    patched.decide = _around(ON_ITS_WAY, decide, None)


class PlacedDataSource(PylogDataSource):
    """The format of the query."""

    @classmethod
    def name(cls) -> str:
        return "pylog_placed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        made = super().streamWriter(schema, overwrite)
        return PlacedWriter(made._options, made._columns)
