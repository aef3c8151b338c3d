"""The web console of the driver: a process of its own, because pages must not hold a controller up.

It is started again when it ends, a few times; brokers do not need it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from typing import Any, Final

from pylog import errors

START_SECONDS_MAX: Final = 30.0
STARTS_MAX: Final = 6
START_AGAIN_SECONDS: Final = 5.0
SETTING: Final = "spark.pylog.console.listen"

logger = logging.getLogger("pylog.console")


class ConsoleProcess:
    """Owned by the driver's loop. `address`: where the pages are, as `http://host:port`."""

    def __init__(
        self,
        bootstrap: str,
        listen: str,
        *,
        allow_writes: bool,
        allow_plaintext: bool,
        host_name: str | None,
    ) -> None:
        self._arguments = ["--bootstrap-servers", bootstrap, "--listen", listen, "--name", SETTING]
        self._arguments += ["--parent-pid", str(os.getpid())]
        self._arguments += ["--allow-writes"] if allow_writes else []
        self._arguments += ["--allow-plaintext"] if allow_plaintext else []
        self._arguments += ["--host-name", host_name] if host_name else []
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._stopped = False
        self.address = ""

    async def start(self) -> None:
        """Return once its pages can be had. Raises its own error, which names the setting."""
        self._starts += 1
        ready, ready_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pylog.console", *self._arguments,
                 "--ready-fd", str(ready_write)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[ready_write],
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )  # fmt: skip
        except BaseException:
            os.close(ready)
            raise
        finally:
            os.close(ready_write)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                said = await _line(ready)
        except TimeoutError:
            said = b""
        finally:
            os.close(ready)
        answer: dict[str, Any] = json.loads(said or b"{}")
        if "console" not in answer:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
            raise errors.from_code(
                int(answer.get("error", errors.BrokerNotAvailable.code)),
                str(answer.get("message", f"{SETTING}: the console did not start; its lines above "
                               "tell why")),
            )  # fmt: skip
        self.address = str(answer["console"])
        watched = os.pidfd_open(self._process.pid)
        loop.add_reader(watched, self._on_end, watched)

    def stop(self) -> None:
        """Tell it to end; it is not waited for, and ends with this process at the latest."""
        self._stopped = True
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def _on_end(self, watched: int) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(watched)
        os.close(watched)
        assert self._process is not None
        status = self._process.poll()
        if self._stopped:
            return
        if self._starts >= STARTS_MAX:
            logger.error("the console ended (%s) after %d starts and stays away", status,
                         self._starts)  # fmt: skip
            return
        logger.warning("the console ended (%s); it is started again in %.0f s", status,
                       START_AGAIN_SECONDS)  # fmt: skip
        loop.call_later(START_AGAIN_SECONDS, lambda: loop.create_task(self._again()))

    async def _again(self) -> None:
        if self._stopped:
            return
        try:
            await self.start()
        except (errors.PylogError, OSError) as error:
            logger.error("the console could not be started again: %s", error)
        else:
            logger.warning("the console runs again at %s/", self.address)


async def _line(descriptor: int) -> bytes:
    """The bytes written there up to a line's end, or up to the end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    said = bytearray()

    def take() -> None:
        data = os.read(descriptor, 65536)
        said.extend(data)
        if (not data or said.endswith(b"\n")) and not done.done():
            loop.remove_reader(descriptor)
            done.set_result(None)

    loop.add_reader(descriptor, take)
    try:
        await done
    finally:
        loop.remove_reader(descriptor)
    return bytes(said)
