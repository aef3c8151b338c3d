"""confluent-kafka's errors, and how pylog's become them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pylog import errors
from pylog.compat.confluent_kafka.error_codes import NAMES, ErrorCodes, text_of


class KafkaError(ErrorCodes):
    """An error as a value: a code, a text, and what is to be done about it."""

    def __init__(
        self,
        error: int,
        reason: str | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        self._code = int(error)
        self._reason = text_of(self._code) if reason is None else reason
        self._fatal, self._retriable, self._abort = fatal, retriable, txn_requires_abort

    def code(self) -> int:
        """The code."""
        return self._code

    def name(self) -> str:
        """The code's name."""
        return NAMES.get(self._code, f"ERR_{self._code}?")

    def str(self) -> str:
        """The error in words."""
        return self._reason

    def fatal(self) -> bool:
        """Whether the client is of no more use."""
        return self._fatal

    def retriable(self) -> bool:
        """Whether the same call may succeed later."""
        return self._retriable

    def txn_requires_abort(self) -> bool:
        """Whether the transaction has to be aborted."""
        return self._abort

    def __str__(self) -> Any:
        fatal = "FATAL," if self._fatal else ""
        return f'KafkaError{{{fatal}code={self.name()},val={self._code},str="{self._reason}"}}'

    __repr__ = __str__

    def __bool__(self) -> bool:
        return self._code != 0

    def __hash__(self) -> int:
        return hash(self._code)

    def __eq__(self, other: object) -> bool:
        return self._code == _code_of(other)

    def __lt__(self, other: object) -> bool:
        return self._code < _ordered(other)

    def __le__(self, other: object) -> bool:
        return self._code <= _ordered(other)

    def __gt__(self, other: object) -> bool:
        return self._code > _ordered(other)

    def __ge__(self, other: object) -> bool:
        return self._code >= _ordered(other)


def _code_of(other: object) -> object:
    return other._code if isinstance(other, KafkaError) else other


def _ordered(other: object) -> int:
    code = _code_of(other)
    if not isinstance(code, int):
        raise TypeError(f"a KafkaError is not ordered against {other!r}")
    return code


class KafkaException(Exception):
    """Raised with a KafkaError as its first argument."""


class _ClientError(KafkaException):
    def __init__(
        self,
        kafka_error: KafkaError,
        exception: BaseException | None = None,
        kafka_message: Any = None,
    ) -> None:
        super().__init__(kafka_error)
        self.exception = exception
        self.kafka_message = kafka_message

    @property
    def code(self) -> int:
        """The error's code."""
        return int(self.args[0].code())

    @property
    def name(self) -> str:
        """The error's name."""
        return str(self.args[0].name())


class SerializationError(KafkaException):
    """A serializer or deserializer failed."""


class ConsumeError(_ClientError):
    """A message could not be consumed."""


class KeyDeserializationError(ConsumeError, SerializationError):
    """A key could not be deserialized."""

    def __init__(self, exception: BaseException | None = None, kafka_message: Any = None) -> None:
        error = KafkaError(KafkaError._KEY_DESERIALIZATION, str(exception))
        super().__init__(error, exception, kafka_message)


class ValueDeserializationError(ConsumeError, SerializationError):
    """A value could not be deserialized."""

    def __init__(self, exception: BaseException | None = None, kafka_message: Any = None) -> None:
        error = KafkaError(KafkaError._VALUE_DESERIALIZATION, str(exception))
        super().__init__(error, exception, kafka_message)


class ProduceError(_ClientError):
    """A message could not be produced."""

    def __init__(self, kafka_error: KafkaError, exception: BaseException | None = None) -> None:
        super().__init__(kafka_error, exception)


class KeySerializationError(ProduceError, SerializationError):
    """A key could not be serialized."""

    def __init__(self, exception: BaseException | None = None) -> None:
        error = KafkaError(KafkaError._KEY_SERIALIZATION, str(exception))
        super().__init__(error, exception)


class ValueSerializationError(ProduceError, SerializationError):
    """A value could not be serialized."""

    def __init__(self, exception: BaseException | None = None) -> None:
        error = KafkaError(KafkaError._VALUE_SERIALIZATION, str(exception))
        super().__init__(error, exception)


class IllegalStateException(RuntimeError):
    """A call that the client's state does not allow."""


class ConcurrentModificationException(RuntimeError):
    """A consumer that two threads use at a time."""


_LOCAL: Final[tuple[tuple[type[errors.PylogError], int], ...]] = (
    (errors.BootstrapFailed, KafkaError._TRANSPORT),
    (errors.BrokerUnreachable, KafkaError._TRANSPORT),
    (errors.DeliveryTimedOut, KafkaError._MSG_TIMED_OUT),
    (errors.RequestTimedOut, KafkaError._TIMED_OUT),
    (errors.BufferExhausted, KafkaError._QUEUE_FULL),
    (errors.ClientClosed, KafkaError._DESTROY),
    (errors.WrongThread, KafkaError._CONFLICT),
    (errors.NoOffsetForPartition, KafkaError._AUTO_OFFSET_RESET),
    (errors.CommitFailed, KafkaError.ILLEGAL_GENERATION),
    (errors.TransactionAborted, KafkaError._PURGE_QUEUE),
    (errors.LogTruncated, KafkaError._LOG_TRUNCATION),
    (errors.NotOffered, KafkaError._UNSUPPORTED_FEATURE),
    (errors.ProducerFenced, KafkaError._FENCED),
)
"""Those that no server sends, and the one that librdkafka has its own code for; all others go by
their code.
"""


def error_of(error: errors.PylogError) -> KafkaError:
    """pylog's error as a value, with its words."""
    code = error.code
    for kind, local in _LOCAL:
        if isinstance(error, kind):
            code = local
            break
    return KafkaError(code, str(error), error.fatal, error.retriable, error.abortable)


def exception_of(error: errors.PylogError) -> KafkaException:
    """pylog's error, to be raised."""
    raised = KafkaException(error_of(error))
    raised.__cause__ = error
    return raised


@contextmanager
def translating() -> Iterator[None]:
    """Raise pylog's errors from the block as KafkaException."""
    try:
        yield
    except errors.PylogError as error:
        raise exception_of(error) from error


def local(code: int, reason: str) -> KafkaException:
    """An error that the adapter itself raises."""
    return KafkaException(KafkaError(code, reason))
