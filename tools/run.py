"""`make run`: a three-broker cluster by spark-submit, the flights through it, and then it serves.

`--once` ends after the result. Exit status 0 only when the table was right.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READY = re.compile(r"^pylog ready: .*bootstrap=(\S+)")


def environment() -> dict[str, str]:
    """This interpreter for Spark's drivers and workers; Spark on loopback."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def spark_submit() -> str:
    """The spark-submit of this interpreter's pyspark."""
    return str(Path(sys.executable).parent / "spark-submit")


def start_cluster(extra: list[str]) -> tuple[subprocess.Popen[str], str]:
    """The broker application, once every broker is registered, and its bootstrap address."""
    command = [spark_submit(), "--properties-file", "spark-conf/local.conf", *extra]
    cluster = subprocess.Popen(
        [*command, "broker_app.py"], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert cluster.stdout is not None
    for line in cluster.stdout:
        print(line, end="", flush=True)
        ready = READY.match(line)
        if ready:
            return cluster, ready[1]
    raise SystemExit(cluster.wait() or 1)


def run_flights(bootstrap: str) -> int:
    """The demonstration's exit status."""
    command = [spark_submit(), "--master", "local[2]", "--conf", "spark.driver.memory=1g"]
    command += ["--conf", "spark.log.level=ERROR", "--conf", "spark.ui.enabled=false"]
    log4j = "-Dlog4j2.configurationFile=spark-conf/log4j2.properties"
    command += ["--conf", f"spark.driver.extraJavaOptions={log4j}"]
    command += ["examples/flights.py", "--bootstrap", bootstrap]
    return subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode


def stop(cluster: subprocess.Popen[str]) -> None:
    """End the broker application in order."""
    if cluster.poll() is None:
        cluster.send_signal(signal.SIGTERM)
    try:
        cluster.wait(timeout=20)
    except subprocess.TimeoutExpired:
        cluster.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true", help="end after the result")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    extra = [part for setting in options.conf for part in ("--conf", setting)]
    cluster, bootstrap = start_cluster(extra)
    try:
        status = run_flights(bootstrap)
        if options.once or status:
            return status
        print(f"\nserving on {bootstrap} until Ctrl-C", flush=True)
        return cluster.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        stop(cluster)


if __name__ == "__main__":
    sys.exit(main())
