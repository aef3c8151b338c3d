"""The complaints of Kafka's dump tool, on words that it really printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.kafka_dump_tool import (
    complaints,
    error_complaints,
    files_of,
    sanity_complaints,
)

BATCH = (
    "baseOffset: 0 lastOffset: 4 count: 5 baseSequence: 0 lastSequence: 4 producerId: 7 "
    "producerEpoch: 12 partitionLeaderEpoch: 0 isTransactional: true isControl: false "
    "deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1700000000004 size: 156 magic: 2 "
    "compresscodec: none crc: 891931524 isvalid: true"
)
GOOD = f"""\
Dumping /d/0.index
offset: 29 position: 792
offset: 53 position: 1698
Dumping /d/0.log
Log starting offset: 0
{BATCH}
| offset: 0 CreateTime: 1700000000000 keySize: 3 valueSize: 9 sequence: 0 headerKeys: []
| offset: 5 CreateTime: 1 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: COMMIT
Dumping /d/0.timeindex
/d/0.timeindex is empty.
Dumping /d/0.txnindex
version: 0 producerId: 7 firstOffset: 130 lastOffset: 141 lastStableOffset: 136
Dumping /d/5.snapshot
producerId: 7 producerEpoch: 13 coordinatorEpoch: 0 currentTxnFirstOffset: OptionalLong.empty\
 lastTimestamp: 1795223554465\x20
"""
SIZES = {
    "/d/0.index": 16, "/d/0.log": 156, "/d/0.timeindex": 0, "/d/0.txnindex": 34, "/d/5.snapshot": 56
}  # fmt: skip


def test_nothing_to_complain_about() -> None:
    assert complaints(GOOD, SIZES) == []


@pytest.mark.parametrize(
    "line",
    [
        "  Index offset: 156, log offset: 155",
        "The following indexed offsets are not found in the log.",
        "Found 12 invalid bytes at the end of 0.log",
        "Snapshot is corrupt (CRC is no longer valid). Stored crc: 8. Computed crc: 1",
        BATCH.replace("isvalid: true", "isvalid: false"),
        "version: 1 producerId: 7 firstOffset: 1 lastOffset: 2 lastStableOffset: 3",
    ],
)
def test_a_complaint(line: str) -> None:
    assert any(line in complaint for complaint in complaints(GOOD + line + "\n", SIZES))


def test_bytes_that_the_tool_did_not_see() -> None:
    for path in SIZES:
        (found,) = complaints(GOOD, SIZES | {path: SIZES[path] + 3})
        assert found.startswith(f"{path}: {SIZES[path]} of its ")
    assert complaints("", {"/d/0.log": 8}) == ["/d/0.log: 0 of its 8 bytes were seen"]


def test_sanity_checks() -> None:
    files = [Path("/d/0.index"), Path("/d/0.timeindex")]
    good = (
        "Dumping /d/0.index\n/d/0.index passed sanity check.\n"
        "Dumping /d/0.timeindex\n/d/0.timeindex is empty.\n"
    )
    assert sanity_complaints(good, files) == []
    assert sanity_complaints("Dumping /d/0.index\nsome words\n" + good, files) == ["some words"]
    assert sanity_complaints(good, [*files, Path("/d/9.index")]) == [
        "/d/9.index: its sanity was not confirmed"
    ]


def test_which_files(tmp_path: Path) -> None:
    for name in ("0" * 20 + ".log", "0" * 20 + ".deleted", "server.log", "partition.metadata"):
        (tmp_path / name).touch()
    assert [path.name for path in files_of(tmp_path)] == ["0" * 20 + ".log"]


def test_words_at_the_end(tmp_path: Path) -> None:
    assert error_complaints("") == []
    log, index = tmp_path / "t-0" / "0.log", tmp_path / "t-0" / "0.timeindex"
    holes = f"Non-consecutive offsets in {log}\n  34 is followed by 77\n  5 is followed by 34\n"
    emptied = f"Found timestamp mismatch in :{index}\n  Index timestamp: 17, log timestamp: -1\n"
    assert len(error_complaints(holes)) == 3
    assert len(error_complaints(emptied)) == 2
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 80\n")
    assert error_complaints(holes + emptied) == []
    wrong = f"{emptied}  Index timestamp: 18, log timestamp: 19\n"
    assert error_complaints(wrong) == [
        f"Found timestamp mismatch in :{index} Index timestamp: 18, log timestamp: 19"
    ]
    other = f"Mismatches in :{index}\n  Index offset: 156, log offset: 155\nended with 1\n"
    assert len(error_complaints(holes + other)) == 3
