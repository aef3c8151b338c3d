"""Ends one half of the driver when the other half has died: `command` starts it.

Under spark-submit the JVM is the parent of the Python driver, and neither reliably ends when the
other is killed. This third process, in a session of its own so that Ctrl-C does not reach it, holds
a pidfd of each (a number could be reused, a pidfd cannot). When one half is gone it gives the other
a moment to end by itself, in order, and then kills it. It ends when both are gone.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import Final

# Together with the time until the death is seen this stays below the promised two seconds, and it
# leaves the survivor time to flush.
GRACE_MS: Final = 1_400


def command(first: int, second: int) -> list[str]:
    """The command that starts a guardian of two processes. Without the current directory among the
    places of modules: a user's `select.py` there would be taken for the standard library's.
    """
    return [sys.executable, "-P", "-m", "pylog_broker.spark.guardian", str(first), str(second)]


def guard(first: int, second: int) -> None:
    """Watch both pidfds; when either process has ended, end the other."""
    poller = select.poll()
    poller.register(first, select.POLLIN)
    poller.register(second, select.POLLIN)
    gone = {fd for fd, _ in poller.poll()}
    for survivor in {first, second} - gone:
        watch = select.poll()
        watch.register(survivor, select.POLLIN)
        if not watch.poll(GRACE_MS):
            signal.pidfd_send_signal(survivor, signal.SIGKILL)
            watch.poll()


def main(arguments: list[str]) -> int:
    """Arguments: the two process ids. Prints one line when it watches both."""
    try:
        fds = [os.pidfd_open(int(pid)) for pid in arguments]
    except ProcessLookupError:
        return 1
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # It must outlive what it guards; it holds nothing and ends by itself.
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.write("watching\n")
    sys.stdout.flush()
    guard(*fds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
