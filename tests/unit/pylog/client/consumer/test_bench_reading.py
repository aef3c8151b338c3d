from __future__ import annotations

import pytest

from bench.reading import main


def test_the_bench_runs(capsys: pytest.CaptureFixture[str]) -> None:
    main(50, 1, 2, 4_096)
    printed = capsys.readouterr().out
    for what in ("answer parsed", "columns decoded", "poll_arrow", "iteration", "by protobuf"):
        assert what in printed
