"""The comparison of replicas as they lie on the disks."""

from pathlib import Path

from pylog.records.builder import encode_batch
from tests.verify.disks_replicas import difference


def batch(offset: int, value: bytes) -> bytes:
    return offset.to_bytes(8, "big") + encode_batch([value])[8:]


def replica(at: Path, *segments: bytes) -> Path:
    at.mkdir()
    for number, data in enumerate(segments):
        (at / f"{number:020d}.log").write_bytes(data)
    return at


def test_equal_replicas_may_be_cut_into_segments_differently(tmp_path: Path) -> None:
    first, second = batch(0, b"a"), batch(1, b"b")
    one = replica(tmp_path / "1", first + second)
    other = replica(tmp_path / "2", first, second + bytes(4096))
    assert difference({1: one, 2: other}, 2) == ""


def test_what_lies_behind_the_end_does_not_count(tmp_path: Path) -> None:
    one = replica(tmp_path / "1", batch(0, b"a") + batch(1, b"b"))
    other = replica(tmp_path / "2", batch(0, b"a") + batch(1, b"c"))
    torn = replica(tmp_path / "3", batch(0, b"a") + batch(1, b"b")[:20])
    assert difference({1: one, 2: other, 3: torn}, 1) == ""
    assert difference({1: one, 2: other}, 2) == "the batch at 1 differs: brokers 1 and 2"
    assert difference({1: one, 3: torn}, 2) == "the batch at 1 is not in both: brokers 1 and 3"


def test_an_empty_replica_is_not_equal_to_another(tmp_path: Path) -> None:
    one = replica(tmp_path / "1", batch(0, b"a"))
    empty = replica(tmp_path / "2")
    assert "is not in both" in difference({1: one, 2: empty}, 1)
    assert "is not in both" in difference({1: empty, 2: one}, 1)
