"""Found by Spark by its name: modules called `pyspark_*` that have a `DefaultSource` are registered
by themselves, so `format("pylog")` works after `pip install` without a line of set-up.
"""

from pylog_connector.datasource import PylogDataSource

DefaultSource = PylogDataSource

__all__ = ["DefaultSource"]
