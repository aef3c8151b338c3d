"""Write `pylog/`: the batches that `read_ours.py` lets the other clients read.

.venv/bin/python -m tests.golden.make_ours
"""

from __future__ import annotations

from pathlib import Path

from pylog.records.builder import encode_batch
from pylog.records.compression import CODEC_NAMES
from tests.golden.client_cases import CASES

FOLDER = Path(__file__).parent / "pylog"


def main() -> None:
    """Write every case."""
    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        keys, values, timestamps, headers = map(list, zip(*case.rows, strict=True))
        producer_id, producer_epoch, base_sequence = case.producer
        batch = encode_batch(
            values,
            keys=keys,
            headers=headers,
            timestamps=timestamps,
            compression=CODEC_NAMES[case.codec],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=case.transactional,
        )
        (FOLDER / f"{case.name}.bin").write_bytes(batch)


if __name__ == "__main__":
    main()
