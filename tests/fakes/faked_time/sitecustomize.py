"""`time.sleep` under libfaketime.

Python imports this at the start of every process that has this folder in its PYTHONPATH. Where
libfaketime 0.9.10 leaves the monotonic clock alone it turns the end of a sleep, which `time.sleep`
gives by that clock, into a time before 1970, and the call fails. A `select` takes no time of day.
"""

from __future__ import annotations

import select
import time


def _sleep(seconds: float, /) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep  # noqa: TID251
