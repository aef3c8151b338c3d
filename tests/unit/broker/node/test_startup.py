"""The work of a start on its log directories, before and after the claim."""

from __future__ import annotations

import asyncio
import errno
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from pylog.clock import SYSTEM_CLOCK
from pylog.errors import InvalidConfig
from pylog.model import BrokerId, ControllerEpoch
from pylog_broker.config import BrokerConfig
from pylog_broker.metadata.messages import BrokerClaim, ClaimBroker
from pylog_broker.node.settings import ANY_BROKER, NEW_BROKER
from pylog_broker.node.startup import Startup
from pylog_broker.storage.directories.directory import MetaProperties, write_meta
from pylog_broker.storage.errors import OtherBrokersDirectory, StorageStartError
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.manager.log_directories import LogDirectories
from tests.fakes.short_files import Shortage, refuse_one_of

CLAIM = BrokerClaim(BrokerId(1), None, "c", ControllerEpoch(1))


def startup(
    root: Path,
    pool: Any,
    log_dirs: str = "",
    only: int = ANY_BROKER,
    *,
    files: OsFiles | None = None,
    link: object = None,
) -> Startup:
    return Startup(
        cast(Any, link), files or OsFiles(), SYSTEM_CLOCK, pool, asyncio.Event(),
        root=str(root), config=BrokerConfig.from_mapping({"log.dirs": log_dirs}), only_broker=only,
    )  # fmt: skip


def opened(root: Path, log_dirs: str = "") -> LogDirectories:
    async def run() -> LogDirectories:
        with ThreadPoolExecutor(4) as pool:
            start = startup(root, pool, log_dirs)
            start.check_directories()
            return await start.open_logs(CLAIM)

    return asyncio.run(run())


def test_one_directory_or_several_are_opened(tmp_path: Path) -> None:
    logs = opened(tmp_path)
    assert [m.directory for m in logs.live] == [f"{tmp_path}/broker-1"]
    logs.close(clean=True)
    logs = opened(tmp_path, f"{tmp_path},{tmp_path}/../other")
    assert [m.directory for m in logs.live] == [
        f"{tmp_path}/broker-1",
        f"{tmp_path.parent}/other/broker-1",
    ]
    logs.close(clean=True)
    with pytest.raises(InvalidConfig, match="leaves out"):
        opened(tmp_path, "d1,d2")


def test_the_others_are_given_up_by_name_only(tmp_path: Path) -> None:
    data, disk = tmp_path / "data", tmp_path / "disk"
    opened(data, f"{data},{disk}").close(clean=True)
    with pytest.raises(InvalidConfig, match=f"has logs in {disk}/broker-1 beside"):
        opened(data)
    opened(data, str(data)).close(clean=True)
    logs = opened(data)
    assert logs.is_one
    logs.close(clean=True)


def test_two_names_of_one_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    with pytest.raises(InvalidConfig, match="twice the same directory"):
        opened(tmp_path / "data", f"{tmp_path}/disk,{tmp_path}/link")


def test_a_file_in_the_place_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "disk").write_text("")
    with pytest.raises(StorageStartError, match="disk is not a directory"):
        opened(tmp_path / "data", f"{tmp_path}/disk,d")


@pytest.mark.parametrize("only", [1, NEW_BROKER])
def test_a_wrong_directory_is_told_before_the_claim(tmp_path: Path, only: int) -> None:
    (tmp_path / "disk/broker-1").mkdir(parents=True)
    meta = MetaProperties("c", BrokerId(2), "id", "boot")
    write_meta(OsFiles(), f"{tmp_path}/disk/broker-1", meta)
    for root, log_dirs in ((tmp_path / "disk", ""), (tmp_path / "data", f"{tmp_path}/disk,d")):
        with pytest.raises(OtherBrokersDirectory, match="belongs to broker 2, not 1"):
            startup(root, None, log_dirs, only).check_directories()
        startup(root, None, log_dirs, 3).check_directories()
        startup(root, None, log_dirs, ANY_BROKER).check_directories()


def test_a_claim_waits_until_the_directories_can_be_looked_at(tmp_path: Path) -> None:
    """A directory that the claim does not name is taken for gone, and the process for a new
    broker."""
    meta = MetaProperties("c", BrokerId(2), "id", "boot")
    (tmp_path / "data/broker-2").mkdir(parents=True)
    write_meta(OsFiles(), f"{tmp_path}/data/broker-2", meta)
    asked: list[ClaimBroker] = []

    class Link:
        async def claim(self, request: ClaimBroker, seconds: float) -> BrokerClaim:
            asked.append(request)
            return CLAIM

    async def run(start: Startup) -> BrokerClaim:
        return await start.claim("incarnation", "host", 1)

    for number in count():
        asked.clear()
        files, shortage = OsFiles(), Shortage(number, errno.EMFILE)
        refuse_one_of(files, shortage)
        log_dirs = f"{tmp_path}/data,{tmp_path}/other"
        start = startup(tmp_path / "data", None, log_dirs, files=files, link=Link())
        assert asyncio.run(run(start)) is CLAIM
        assert [[each.broker_id for each in request.directories] for request in asked] == [[2]]
        if not shortage.refused:
            break
