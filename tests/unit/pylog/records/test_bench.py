from __future__ import annotations

import pytest

from bench.codec import main


def test_the_bench_runs(capsys: pytest.CaptureFixture[str]) -> None:
    main(200)
    printed = capsys.readouterr().out
    for what in ("encode from Arrow", "decode to Arrow", "check CRC", "record.value", "partitions"):
        assert what in printed
