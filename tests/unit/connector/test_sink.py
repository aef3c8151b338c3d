"""The tasks that may write."""

from __future__ import annotations

from typing import cast

import pytest
from pyspark import TaskContext

from pylog_connector.errors import SaveMode
from pylog_connector.sink import check_is_no_table


class Task:
    """A task's context, as far as it is asked."""

    def __init__(self, **properties: str) -> None:
        self._properties = {name.replace("_", "."): value for name, value in properties.items()}

    def getLocalProperty(self, key: str) -> str | None:
        return self._properties.get(key.lower())


def check(**properties: str) -> None:
    check_is_no_table(cast(TaskContext, Task(**properties)))


def test_a_write_of_its_own_and_one_of_a_stream_may() -> None:
    check_is_no_table(None)
    check()
    check(spark_sql_execution_id="7")
    check(spark_sql_execution_id="7", spark_sql_execution_root_id="7")
    check(spark_sql_execution_id="8", spark_sql_execution_root_id="7", streaming_sql_batchid="0")


def test_a_write_inside_another_command_may_not() -> None:
    with pytest.raises(SaveMode, match=r"saveAsTable .* write with save\(\)"):
        check(spark_sql_execution_id="8", spark_sql_execution_root_id="7")
