"""A share consumer whose own code fails."""

from __future__ import annotations

from typing import Any

import pytest

from pylog import ShareConsumer, errors


def test_a_defect_in_a_step_of_the_loop_reaches_the_poll_and_does_not_end_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[int] = []
    broken = AssertionError("a move that is not in the table")

    def poll(now_ms: int) -> Any:
        steps.append(now_ms)
        if len(steps) == 1:
            raise broken
        return polled(now_ms)

    with ShareConsumer("t", bootstrap_servers="127.0.0.1:1", group_id="g") as consumer:
        polled = consumer._core.poll
        monkeypatch.setattr(consumer._core, "poll", poll)
        with pytest.raises(errors.UnknownServerError, match="not in the table") as fault:
            consumer.poll(30)
        assert fault.value.__cause__ is broken
        assert not consumer.poll(0.01)
        consumer.close(0)
    assert len(steps) > 1
