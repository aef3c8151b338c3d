"""Builds the client in Go of examples/go, with what is generated from proto/:

`python tools/go_client.py [FOLDER]` makes FOLDER/client (build/go by default). It takes Go, which
fetches the modules that examples/go/go.mod pins. Nothing generated is checked in.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
MODULE = "pylog.example/client"
PLUGINS = {
    "protoc-gen-go": "google.golang.org/protobuf/cmd/protoc-gen-go",
    "protoc-gen-go-grpc": "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
}


def go(folder: Path, *arguments: str) -> None:
    """Run Go there; what it says is the user's to read."""
    subprocess.run(["go", *arguments], cwd=folder, check=True)


def generate(into: Path) -> None:
    """`into`/rpc from proto/, by plugins of the versions that go.mod pins."""
    for name, source in PLUGINS.items():
        go(into, "build", "-o", str(into / name), source)
    files = sorted(path.relative_to(ROOT / "proto") for path in (ROOT / "proto").rglob("*.proto"))
    command = ["protoc", f"-I{ROOT / 'proto'}", f"-I{Path(grpc_tools.__file__).parent / '_proto'}"]
    for plugin in PLUGINS:
        language = plugin.removeprefix("protoc-gen-")
        command += [f"--plugin={plugin}={into / plugin}", f"--{language}_out={into}"]
        command += [f"--{language}_opt=module={MODULE}"]
        command += [f"--{language}_opt=M{file}={MODULE}/rpc" for file in files]
    if protoc.main([*command, *map(str, files)]):
        raise SystemExit("protoc has failed")


def build(into: Path) -> Path:
    """The program."""
    shutil.copytree(ROOT / "examples/go", into, dirs_exist_ok=True)
    generate(into)
    go(into, "build", "-o", str(into / "client"), ".")
    return into / "client"


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/go"
    folder.mkdir(parents=True, exist_ok=True)
    print(build(folder.resolve()))
