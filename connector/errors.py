"""The errors that the connector raises: one class for each condition, whose name stands first in
the message.

Spark wraps every error of a Python data source (`PYTHON_DATA_SOURCE_ERROR`, `STREAM_FAILED`), so
only the text reaches the user. It therefore always begins `[PYLOG_...]`, says which option, topic
or column is meant and what value it had, and ends with what to do.
"""

from __future__ import annotations

from typing import ClassVar

from pylog import errors


class ConnectorError(errors.PylogError):
    """The class from which all errors of the connector derive."""

    condition: ClassVar[str] = "PYLOG_ERROR"

    def __init__(self, message: str) -> None:
        super().__init__(f"[{self.condition}] {message}")

    def __reduce__(self) -> tuple[object, ...]:
        # The message holds the condition already; unpickling must not put it in front again.
        return _unpickled, (type(self), str(self))


def _unpickled(kind: type[ConnectorError], text: str) -> ConnectorError:
    return kind(text.removeprefix(f"[{kind.condition}] "))


# ---- options ----------------------------------------------------------------------------------


class UnknownOption(ConnectorError):
    """No such option; the message names the nearest."""

    condition = "PYLOG_UNKNOWN_OPTION"


class InvalidOption(ConnectorError):
    """An option's value is not allowed."""

    condition = "PYLOG_INVALID_OPTION"


class MissingOption(ConnectorError):
    """A required option is not given."""

    condition = "PYLOG_MISSING_OPTION"


class OptionNotOffered(ConnectorError):
    """An option of Spark's Kafka connector that this version does not have."""

    condition = "PYLOG_OPTION_NOT_OFFERED"


class OptionNotApplicable(ConnectorError):
    """An option that means nothing for this kind of read or write."""

    condition = "PYLOG_OPTION_NOT_APPLICABLE"


# ---- schema and rows --------------------------------------------------------------------------


class SourceSchema(ConnectorError):
    """A user schema that is no selection of the source's columns."""

    condition = "PYLOG_SOURCE_SCHEMA"


class SinkSchema(ConnectorError):
    """A column that the sink needs is missing or has a type that it cannot write."""

    condition = "PYLOG_SINK_SCHEMA"


class SinkRow(ConnectorError):
    """A row that cannot be written."""

    condition = "PYLOG_SINK_ROW"


class SaveMode(ConnectorError):
    """A save mode that the sink does not have, or not with these options."""

    condition = "PYLOG_SAVE_MODE"


# ---- topics, offsets, data --------------------------------------------------------------------


class UnknownTopic(ConnectorError):
    """The cluster has no such topic."""

    condition = "PYLOG_UNKNOWN_TOPIC"


class StartAfterEnd(ConnectorError):
    """A batch read whose start lies behind its end."""

    condition = "PYLOG_START_AFTER_END"


class OffsetBeyondEnd(ConnectorError):
    """A start that lies behind the newest record."""

    condition = "PYLOG_OFFSET_BEYOND_END"


class NoOffsetAtTime(ConnectorError):
    """A partition has no record of the wanted time or later."""

    condition = "PYLOG_NO_OFFSET_AT_TIME"


class NoCommittedOffset(ConnectorError):
    """The group that a read is to start from has no position in a partition."""

    condition = "PYLOG_NO_COMMITTED_OFFSET"


class CommitGroupInUse(ConnectorError):
    """The group that a query is to commit to has live members, which alone may commit."""

    condition = "PYLOG_COMMIT_GROUP_IN_USE"


class DataLoss(ConnectorError):
    """Records that the query was to read are gone, and `failOnDataLoss` is true."""

    condition = "PYLOG_DATA_LOSS"


class DamagedBatch(ConnectorError):
    """Records that the query was to read have rotted on their broker's disk, and `failOnDataLoss`
    is true.
    """

    condition = "PYLOG_DAMAGED_BATCH"


class CheckpointInvalid(ConnectorError):
    """The offset in the checkpoint cannot be used: damaged, or written by a later version."""

    condition = "PYLOG_CHECKPOINT_INVALID"


class CheckpointMismatch(ConnectorError):
    """The checkpoint belongs to other topics than the query."""

    condition = "PYLOG_CHECKPOINT_MISMATCH"


class ReadFailed(ConnectorError):
    """Records could not be fetched within the time-out."""

    condition = "PYLOG_READ_FAILED"


class WriteFailed(ConnectorError):
    """Records were not acknowledged; Spark runs the task again."""

    condition = "PYLOG_WRITE_FAILED"


class SinkSuperseded(ConnectorError):
    """A newer run of the query writes to the sink."""

    condition = "PYLOG_SINK_SUPERSEDED"


class BatchAlreadyWritten(ConnectorError):
    """The batch, or a later one, was written to the sink by another write."""

    condition = "PYLOG_BATCH_ALREADY_WRITTEN"


class SinkTaken(ConnectorError):
    """Another query has written with the same `sinkId`."""

    condition = "PYLOG_SINK_TAKEN"


class IdempotencyConflict(ConnectorError):
    """A write with the same `idempotencyKey` has written other rows."""

    condition = "PYLOG_IDEMPOTENCY_CONFLICT"


class ProgressFailed(ConnectorError):
    """How far a source has come cannot be committed with what its query writes."""

    condition = "PYLOG_PROGRESS_FAILED"


class SinkIdentity(ConnectorError):
    """Spark does not tell the tasks of which batch they are."""

    condition = "PYLOG_SINK_IDENTITY"
