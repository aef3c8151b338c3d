"""One worker that reads numbers and writes them on, in transactions, and says so in lines.

`python -m tests.verify.ctp_worker BOOTSTRAP SOURCE TARGET GROUP PROTOCOL ID` runs until its
standard input ends. It is killed and stopped by `tests.verify.transactions`.
"""

from __future__ import annotations

import random
import sys
import threading

from pylog import Consumer, Producer, errors

TRANSACTION_TIMEOUT_MS = 8_000
ABORTS = 0.1
"""So many transactions the worker aborts by itself."""


class _WantsAbortError(Exception):
    """Nothing is wrong."""


class Worker:
    """The loop of one process."""

    def __init__(
        self, bootstrap: str, source: str, target: str, group: str, protocol: str, name: str
    ) -> None:
        times = {"session_timeout_ms": 6_000} if protocol == "classic" else {}
        self._target = target
        self._rng = random.Random(name)
        self._consumer = Consumer(
            source,
            bootstrap_servers=bootstrap,
            group_id=group,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=200,
            max_poll_interval_ms=20_000,
            **times,
        )
        self._producer = Producer(
            bootstrap_servers=bootstrap,
            transactional_id=name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=5_000,
            delivery_timeout_ms=30_000,
            max_block_ms=60_000,
        )

    def run(self, ends: threading.Event) -> None:
        """Until it is told to end. Raises what no worker should meet."""
        producer = self._producer
        producer.init_transactions()
        while not ends.is_set():
            records = self._consumer.poll(0.2)
            if not records:
                continue
            try:
                with producer.transaction():
                    for record in records:
                        producer.send(self._target, record.value, key=record.key)
                    producer.send_offsets_to_transaction(
                        records.next_offsets, self._consumer.group_metadata()
                    )
                    if self._rng.random() < ABORTS:
                        raise _WantsAbortError
            except _WantsAbortError:
                say("aborted", "by itself")
                self._rewind()
            except errors.PylogError as error:
                if isinstance(error, errors.RequestTimedOut):
                    self._finish()
                elif not error.abortable:
                    raise
                say("aborted", f"{error.name}: {error}")
                self._rewind()
            else:
                say("committed", str(len(records)))

    def _finish(self) -> None:
        """A commit or an abort takes long: its end is waited for, however long that is."""
        while True:
            try:
                self._producer.commit_transaction()
            except errors.RequestTimedOut:
                continue
            except errors.PylogError as error:
                if not error.abortable:
                    raise
            else:
                return
            try:
                self._producer.abort_transaction()
            except errors.RequestTimedOut:
                continue
            except errors.InvalidTxnState:
                return  # it has ended meanwhile
            else:
                return

    def _rewind(self) -> None:
        while True:
            try:
                partitions = self._consumer.assignment()
                committed = self._consumer.committed(partitions) if partitions else {}
            except errors.RequestTimedOut:
                continue
            for tp, offset in committed.items():
                if offset is None:
                    self._consumer.seek_to_beginning(tp)
                else:
                    self._consumer.seek(tp, offset)
            return

    def close(self) -> None:
        self._producer.close(10)
        self._consumer.close(10)


def say(what: str, more: str = "") -> None:
    """A line for the process that started it."""
    print(what, " ".join(more.split()), flush=True)


def main() -> None:
    worker = Worker(*sys.argv[1:7])
    ends = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ends.set()

    threading.Thread(target=listen, daemon=True).start()
    try:
        worker.run(ends)
    except errors.PylogError as error:
        say("ended", f"{error.name}: {error}")
        raise SystemExit(0 if error.fatal else 1) from error
    finally:
        worker.close()


if __name__ == "__main__":
    main()
