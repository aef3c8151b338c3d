"""The stack of an error as Spark gets it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator

import pytest

from pylog_connector.datasource import PylogDataSource
from pylog_connector.errors import ConnectorError, ReadFailed, UnknownOption
from pylog_connector.plainly import plainly, plainly_each
from pylog_connector.source import StreamReader


def fails(error: Exception) -> None:
    try:
        raise KeyError("inside")
    except KeyError as cause:
        raise error from cause


@plainly
def call(error: Exception) -> int:
    """Doc."""
    fails(error)
    return 1


@plainly_each
def each(error: Exception) -> Iterator[int]:
    yield 1
    fails(error)


def test_an_error_of_the_connector_comes_alone() -> None:
    with pytest.raises(ReadFailed) as called:
        call(ReadFailed("why"))
    items = each(ReadFailed("why"))
    assert next(items) == 1
    with pytest.raises(ReadFailed) as read:
        next(items)
    for error in (called, read):
        text = "".join(traceback.format_exception(error.value))
        assert "inside" not in text
        assert "in fails" not in text
        assert text.endswith("pylog_connector.errors.ReadFailed: [PYLOG_READ_FAILED] why\n")


def test_a_defect_keeps_its_stack() -> None:
    with pytest.raises(ZeroDivisionError) as error:
        call(ZeroDivisionError())
    text = "".join(traceback.format_exception(error.value))
    assert "in fails" in text
    assert "inside" in text


def test_spark_still_sees_the_signatures() -> None:
    assert call.__doc__ == "Doc."
    # Spark looks at the parameters to find out whether a reader has limits.
    assert list(inspect.signature(StreamReader.latestOffset).parameters) == [
        "self", "start", "limit",
    ]  # fmt: skip


def test_a_wrong_option_shows_no_inner_frames() -> None:
    with pytest.raises(UnknownOption) as error:
        PylogDataSource({"startingOffset": "1"})
    assert isinstance(error.value, ConnectorError)
    assert "check_names" not in "".join(traceback.format_exception(error.value))
