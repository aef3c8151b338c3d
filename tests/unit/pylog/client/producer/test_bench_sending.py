from __future__ import annotations

import pytest

from bench.sending import main


def test_the_bench_runs(capsys: pytest.CaptureFixture[str]) -> None:
    main(50, 1, 500)
    printed = capsys.readouterr().out
    for what in ("send(topic, value)", "key=", "encoded", "message", "acknowledged"):
        assert what in printed
