"""The stylesheet, which each page holds itself: with a request more for it a browser would paint
later.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Final

STYLESHEET: Final = (Path(__file__).parent / "templates" / "console.css").read_text("utf-8")
STYLESHEET_HASH: Final = "sha256-" + b64encode(sha256(STYLESHEET.encode()).digest()).decode()
"""As a content security policy names the text between the tags (CSP level 3)."""
