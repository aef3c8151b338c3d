"""The faults of a batch's compressed records, in the same words for every codec."""

from __future__ import annotations

from pylog.errors import InvalidRecord


def over_limit(codec: str, max_bytes: int) -> InvalidRecord:
    """The stream holds, or says that it holds, more than may come out of a batch."""
    return InvalidRecord(
        f"the batch's {codec} records decompress to more than the limit of {max_bytes} bytes"
    )


def cut(codec: str) -> InvalidRecord:
    """The bytes end before the stream does."""
    return InvalidRecord(f"the batch's {codec} stream is cut")


def malformed(codec: str, why: object) -> InvalidRecord:
    """The bytes are not a stream of that codec."""
    return InvalidRecord(f"the batch's {codec} stream is malformed: {why}")


def trailing(codec: str, size: int) -> InvalidRecord:
    """A batch holds one stream and nothing else."""
    return InvalidRecord(f"{size} bytes follow the end of the batch's {codec} stream")
