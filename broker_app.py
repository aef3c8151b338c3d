"""The application for spark-submit: `spark-submit --properties-file spark-conf/local.conf
broker_app.py`.

The driver becomes controller and gateway, each executor one broker. Settings: `spark.pylog.*`.
"""

import sys

try:
    from pylog_broker.spark.driver import main
except ModuleNotFoundError as error:
    sys.exit(
        f"pylog: {error.name} is not installed for {sys.executable}: run spark-submit from the "
        "environment that pylog-spark is installed in, or set PYSPARK_PYTHON to its python"
    )

if __name__ == "__main__":
    sys.exit(main())
