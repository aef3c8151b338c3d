"""The place of pylog-client's sources: in the tree two folders up, or beside this file in a source
distribution, which has its own copy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "pylog"
DOCUMENTATION = (
    "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs", "examples", "notebooks",
)  # fmt: skip


class SourcesHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the package and its documentation into the wheel or the source distribution."""
        del version
        included: dict[str, str] = build_data["force_include"]
        copied = Path(self.root) / PACKAGE
        if copied.is_dir():
            included[str(copied)] = PACKAGE
            return
        tree = Path(self.root).parents[1]
        included[str(tree / PACKAGE)] = PACKAGE
        for name in DOCUMENTATION:
            included[str(tree / name)] = f"{PACKAGE}/documentation/{name}"
