"""A process that can reach one address of the world and no other, for as long as it runs.

    unshare --net python -m tests.fakes.one_way_out PORT SOCKET SCRIPT [ARGUMENT ...]

It has a network of its own with nothing in it but loopback; `PORT` there leads over the Unix socket
`SOCKET` to the process that serves it outside (`relay`). Needs root.
"""

from __future__ import annotations

import contextlib
import runpy
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path


def available() -> bool:
    """Whether this user may make a network of its own."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return tried.returncode == 0


@contextlib.contextmanager
def relay(listener: socket.socket, connect: Callable[[], socket.socket]) -> Iterator[None]:
    """Join each connection of `listener` to a new one of `connect`, on threads."""

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def join(near: socket.socket) -> None:
        with near, contextlib.suppress(OSError), connect() as far:
            back = threading.Thread(target=pump, args=(far, near), daemon=True)
            back.start()
            pump(near, far)
            back.join()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                threading.Thread(target=join, args=(near,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def run(port: int, folder: Path, *script: str, timeout: float = 60) -> str:
    """The output of `script`, run where only 127.0.0.1:`port` can be reached."""
    path = str(folder / "out.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    with relay(listener, lambda: socket.create_connection(("127.0.0.1", port))):
        done = subprocess.run(
            ["unshare", "--net", sys.executable, "-m", __spec__.name, str(port), path, *script],
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _over_unix(path: str) -> socket.socket:
    out = socket.socket(socket.AF_UNIX)
    out.connect(path)
    return out


def main() -> None:
    """Inside: bring loopback up, open the one way out, run the script."""
    port, path, script, *arguments = sys.argv[1:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    listener = socket.create_server(("127.0.0.1", int(port)))
    with relay(listener, lambda: _over_unix(path)):
        sys.argv = [script, *arguments]
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
