"""Write `kafka_python/*.bin`: record batches made by kafka-python, checked in.

    .venv/bin/python -m tests.golden.make_kafka_python

Run it again only to add cases; the files must not change with a version of pylog.
"""

from __future__ import annotations

from pathlib import Path

from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.golden.kafka_python_cases import CASES, Case

FOLDER = Path(__file__).parent / "kafka_python"


def build(case: Case) -> bytes:
    """The batch as kafka-python writes it."""
    producer_id, producer_epoch, base_sequence = case.producer
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=case.codec,
        is_transactional=case.transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=1 << 24,
    )
    for offset, (key, value, timestamp, headers) in enumerate(case.rows):
        appended = builder.append(offset, timestamp, key, value, list(headers))
        assert appended is not None
    return bytes(builder.build())


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        (FOLDER / f"{case.name}.bin").write_bytes(build(case))


if __name__ == "__main__":
    main()
