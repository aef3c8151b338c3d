"""`python -m pylog`: the `pylog` command."""

from __future__ import annotations

import sys

from pylog.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
