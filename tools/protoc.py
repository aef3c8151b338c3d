"""Regenerates pylog/rpc/v1 from proto/:

`python tools/protoc.py`, or with `--check` says whether it is up to date.
"""

from __future__ import annotations

import filecmp
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
GENERATED = Path("pylog/rpc/v1")


def generate(into: Path) -> None:
    sources = sorted(str(p) for p in (ROOT / "proto").rglob("*.proto"))
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    status = protoc.main(
        ["protoc", f"-I{ROOT / 'proto'}", f"-I{well_known}", f"--python_out={into}",
         f"--pyi_out={into}", f"--grpc_python_out={into}", *sources]
    )  # fmt: skip
    if status:
        raise SystemExit(status)
    for grpc_module in (into / GENERATED).glob("*_pb2_grpc.py"):
        if "Servicer" not in grpc_module.read_text():
            grpc_module.unlink()  # a file of messages only


def main() -> int:
    if "--check" not in sys.argv[1:]:
        (ROOT / GENERATED).mkdir(parents=True, exist_ok=True)
        generate(ROOT)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = Path(folder) / GENERATED
        names = {p.name for p in fresh.iterdir()} | {
            p.name for p in (ROOT / GENERATED).glob("*_pb2*")
        }
        _, differ, missing = filecmp.cmpfiles(fresh, ROOT / GENERATED, sorted(names), shallow=False)
    if differ or missing:
        stale = " ".join(sorted(differ + missing))
        print(f"not up to date, run `make proto`: {stale}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
