"""A real Chromium, driven over the W3C's WebDriver protocol, which is JSON over HTTP."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.fakes.waiting import eventually

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
INSTALLED = CHROMIUM is not None and CHROMEDRIVER is not None
WAIT_SECONDS = 60.0
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
TAB = "\ue004"
ENTER = "\ue007"


class Chromium:
    """One window."""

    def __init__(self, folder: Path, *, width: int = 1280, dark: bool = False) -> None:
        assert CHROMEDRIVER is not None
        self._driver = subprocess.Popen(
            [CHROMEDRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._driver.stdout is not None
        for line in self._driver.stdout:
            found = re.search(r"successfully on port (\d+)", line)
            if found:
                break
        self._at = f"http://127.0.0.1:{found[1] if found else 0}/session"
        arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                     "--disable-background-networking", "--no-first-run",
                     f"--user-data-dir={folder}", f"--window-size={width},900"]  # fmt: skip
        options: dict[str, Any] = {"binary": CHROMIUM, "args": arguments}
        options["prefs"] = {"download.default_directory": str(folder / "downloads")}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self._call("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self._at += f"/{answer['sessionId']}"
        self._call("POST", "/goog/cdp/execute", {
            "cmd": "Emulation.setDeviceMetricsOverride",
            "params": {"width": width, "height": 900, "deviceScaleFactor": 1,
                       "mobile": width < 600},
        })  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("POST", "/goog/cdp/execute", {
            "cmd": "Emulation.setEmulatedMedia", "params": {"features": [scheme]},
        })  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(10)
            assert self._driver.stdout is not None
            self._driver.stdout.close()

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self._at + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.loads(error.read())["value"]["message"]) from None

    # ---- what a person does -----------------------------------------------------------------

    def go(self, address: str) -> None:
        self._call("POST", "/url", {"url": address})

    @property
    def address(self) -> str:
        return str(self._call("GET", "/url"))

    def run(self, script: str, *arguments: Any) -> Any:
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_later(self, script: str) -> Any:
        """The result of a script that calls the function which it is given."""
        return self._call("POST", "/execute/async", {"script": script, "args": []})

    def find(self, selector: str) -> str:
        found = self._call("POST", "/element", {"using": "css selector", "value": selector})
        return str(found[ELEMENT])

    def click(self, selector: str) -> None:
        self._call("POST", f"/element/{self.find(selector)}/click")

    def type(self, selector: str, text: str) -> None:
        self._call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, keys: str) -> None:
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self._call("POST", "/actions", {"actions": [keyboard]})

    # ---- what a person sees -----------------------------------------------------------------

    @property
    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    def sees(self, words: str) -> None:
        """Once the page says it."""
        eventually(WAIT_SECONDS, lambda: words in self.text, f"the page says {words!r}")

    def becomes(self, ask: Callable[[], bool], what: str) -> None:
        eventually(WAIT_SECONDS, ask, what)

    def complaints(self) -> list[str]:
        """The complaints in the browser's console: errors of scripts, and of the page's own
        policy."""
        lines = self._call("POST", "/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] in ("SEVERE", "WARNING")]

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))
