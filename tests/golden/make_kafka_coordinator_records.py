"""Write `kafka_coordinator/records.jsonl`: records of Kafka's coordinators, by Kafka's own classes.

    .venv/bin/python -m tests.golden.make_kafka_coordinator_records SCRATCH

Needs a JDK of 17 or later, and the jars of Kafka 4.2.0's group, share and transaction coordinators,
as `tools/kafka_jars.py` finds them. Compiles `MakeKafkaCoordinatorRecords.java` in the folder
SCRATCH. The output is the same on every run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.kafka_jars import libs

OUTPUT: Final = Path(__file__).parent / "kafka_coordinator" / "records.jsonl"
SOURCE: Final = Path(__file__).parent / "MakeKafkaCoordinatorRecords.java"
_JAVA_S: Final = 120


def main() -> None:
    """Compile and run it."""
    scratch = Path(sys.argv[1])
    scratch.mkdir()
    jars = f"{libs()}/*"
    utf8 = ["-Dfile.encoding=utf8", "-Dstdout.encoding=utf8"]
    subprocess.run(
        ["javac", "-encoding", "utf8", "-cp", jars, "-d", f"{scratch}", f"{SOURCE}"],
        check=True,
        timeout=_JAVA_S,
    )
    with OUTPUT.open("wb") as output:
        subprocess.run(
            ["java", *utf8, "-cp", f"{jars}:{scratch}", SOURCE.stem],
            stdout=output,
            check=True,
            timeout=_JAVA_S,
        )


if __name__ == "__main__":
    main()
