"""The `pylog` script, and `python -m pylog.cli`: signals, from before the command line is imported.

Ctrl-C during the import ends the process without a trace. SIGTERM ends a command as Ctrl-C does: a
consumer commits and leaves its group, whose other members need not wait for its session to end.
"""

from __future__ import annotations

import signal
import sys
from typing import Final

INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


def main() -> int:
    """Run the command line; the exit status comes back."""
    terminated = False

    def on_sigterm(*_: object) -> None:
        nonlocal terminated
        terminated = True
        raise Terminated

    signal.signal(signal.SIGTERM, on_sigterm)
    try:
        from pylog.cli.main import main as run

        status = run()
    except KeyboardInterrupt:
        status = INTERRUPTED
    return TERMINATED if terminated else status


if __name__ == "__main__":
    sys.exit(main())
