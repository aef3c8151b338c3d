"""Write `kafka_compacted/`: partitions before and after a pass of Apache Kafka's cleaner.

    .venv/bin/python -m tests.golden.make_kafka_compacted SCRATCH

As `make_kafka_logs.py`, with the records of `MakeKafkaCompacted.java`. One broker, started in turn
without and with its cleaner, and copied after each stop:

    1-before/  2-after/  3-before/  4-after/

The cleaner makes one pass over each partition every time. `times.json` holds when, in ms.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Final

from pylog.clock import SYSTEM_CLOCK
from tests.golden.make_kafka_logs import Broker, await_true
from tools.kafka_jars import libs

FOLDER: Final = Path(__file__).parent / "kafka_compacted"
SOURCE: Final = Path(__file__).parent / "MakeKafkaCompacted.java"
_CHECKPOINT: Final = "cleaner-offset-checkpoint"


def _topics(data: Path) -> list[Path]:
    return sorted(p for p in data.iterdir() if p.is_dir() and not p.name.startswith("__"))


def _all_cleaned(data: Path) -> bool:
    checkpoint = data / _CHECKPOINT
    known = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    return all(
        f"{path.name.removesuffix('-0')} 0 {max(int(log.stem) for log in path.glob('*.log'))}"
        in known
        and not list(path.glob("*.deleted"))
        for path in _topics(data)
    )


def _copy(data: Path, name: str) -> None:
    for path in _topics(data):
        shutil.copytree(path, FOLDER / name / path.name)
    if (data / _CHECKPOINT).exists():
        shutil.copyfile(data / _CHECKPOINT, FOLDER / name / _CHECKPOINT)


def main(scratch: Path) -> None:
    """See the head of this file."""
    scratch.mkdir(parents=True)
    broker = Broker(scratch, f"{libs()}/*", source=SOURCE)
    shutil.rmtree(FOLDER, ignore_errors=True)
    times = {}
    for number, part in ((1, "first"), (3, "second")):
        with broker.running(cleaner=False):
            broker.write(part)
        _copy(broker.data, f"{number}-before")
        with broker.running():
            await_true(lambda: _all_cleaned(broker.data), "the cleaner")
        _copy(broker.data, f"{number + 1}-after")
        times[f"{number + 1}-after"] = SYSTEM_CLOCK.wall_ms()
    (FOLDER / "times.json").write_text(json.dumps(times) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
