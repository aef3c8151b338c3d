"""From pylog's errors to kafka-python's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pylog import errors
from pylog.compat.kafka_python import errors as kafka_errors

_BY_CLASS: Final[tuple[tuple[type[errors.PylogError], type[kafka_errors.KafkaError]], ...]] = (
    (errors.BootstrapFailed, kafka_errors.NoBrokersAvailable),
    (errors.RequestTimedOut, kafka_errors.KafkaTimeoutError),  # also of deliveries
    (errors.BufferExhausted, kafka_errors.KafkaTimeoutError),
    (errors.ClientClosed, kafka_errors.IllegalStateError),
    (errors.WrongThread, kafka_errors.IllegalStateError),
    (errors.ForkedProcess, kafka_errors.IllegalStateError),
    (errors.NoOffsetForPartition, kafka_errors.NoOffsetForPartitionError),
    (errors.CommitFailed, kafka_errors.CommitFailedError),
    (errors.TransactionAborted, kafka_errors.TransactionAbortedError),
    (errors.LogTruncated, kafka_errors.LogTruncationError),
    (errors.BrokerUnreachable, kafka_errors.KafkaConnectionError),
    (errors.PartialFailure, kafka_errors.BrokerResponseError),
)
"""Those that no server sends; all others go by their code."""


def translated(error: errors.PylogError) -> kafka_errors.KafkaError:
    """The error as kafka-python has it, with the same words; pylog's is its cause."""
    made: kafka_errors.KafkaError | None = None
    for ours, theirs in _BY_CLASS:
        if isinstance(error, ours):
            made = theirs(str(error))
            break
    if made is None:
        made = kafka_errors.for_code(error.code)(str(error))
    made.__cause__ = error
    return made


@contextmanager
def translating() -> Iterator[None]:
    """Raise pylog's errors from the block as kafka-python's."""
    try:
        yield
    except errors.PylogError as error:
        raise translated(error) from error


@contextmanager
def constructing() -> Iterator[None]:
    """The same for a constructor: what is wrong with settings is a KafkaConfigurationError."""
    try:
        yield
    except errors.InvalidConfig as error:
        raise kafka_errors.KafkaConfigurationError(str(error)) from error
    except errors.PylogError as error:
        raise translated(error) from error
