"""The secret of a cluster, by which its processes know each other. Imports cheaply."""

from __future__ import annotations

import logging
import os
import stat
from typing import Final

from pylog import errors

_log = logging.getLogger("pylog.process")

SECRET_VARIABLE: Final = "PYLOG_CLUSTER_SECRET"
"""Environment variable with the cluster's secret in hexadecimal; never an argument, because every
user of the machine can read those."""
SECRET_BYTES_MIN: Final = 16


def read_secret(path: str | None) -> bytes:
    """The cluster's secret; InvalidConfig when there is none or it is not hexadecimal."""
    if path is not None:
        with open(path, encoding="ascii", errors="replace") as source:  # noqa: PTH123
            mode = stat.S_IMODE(os.fstat(source.fileno()).st_mode)
            text = source.read().strip()
        if mode & 0o077:
            _log.warning(
                "the cluster secret in %s can be read by other users (mode %o): chmod 600 it",
                path,
                mode,
            )
    else:
        text = os.environ.pop(SECRET_VARIABLE, "").strip()
    try:
        return bytes.fromhex(text)
    except ValueError:
        where = path or f"${SECRET_VARIABLE}"
        raise errors.InvalidConfig(f"the cluster secret in {where} is not hexadecimal") from None
