"""The `timeout` arguments of public calls."""

from __future__ import annotations

from typing import Final

from pylog import errors

LONGEST_S: Final = 2_147_483.0
"""24 days stand for "without end": locks and timers take no infinity, and a request says its limit
in milliseconds of 32 bits.
"""


def seconds(timeout: float) -> float:
    """The time in seconds, from 0 to 24 days; less than nothing is nothing, infinity is the most.

    Raises InvalidRequest for what is no number.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout != timeout:
        raise errors.InvalidRequest(
            f"timeout={timeout!r}: give a number of seconds, such as 1.5, or math.inf"
        )
    return float(min(max(timeout, 0), LONGEST_S))


def seconds_or_none(timeout: float | None) -> float | None:
    """The same, where None says that the call has a limit of its own, or none at all."""
    return None if timeout is None else seconds(timeout)
