"""Data directories that are refused, and those that are only told (bad input 77)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from pylog_broker.process.places import Place, file_system_of, judge, look_at, mount_id_of
from pylog_broker.storage.errors import DirectoryUnwritable

GOOD = Place("/data/pylog", owner=7, mode=0o40755, file_system="ext4", user=7)
MOUNTS = """\
/dev/vda1 / ext4 rw 0 0
tmpfs /run/user\\040dir tmpfs rw 0 0
server:/export /mnt/share nfs4 rw 0 0
/dev/vdb1 /mnt/share/disk xfs rw 0 0
"""


def test_a_directory_of_ones_own_is_fine() -> None:
    assert judge(GOOD, own=True) == judge(GOOD, own=False) == []


APPLICATION = PurePosixPath("/spark", "work", "app-20260101120000-0007")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (replace(GOOD, mode=0o100644), "/data/pylog is not a directory; move it away"),
        (replace(GOOD, mode=0o40777), "chmod o-w /data/pylog"),
        (replace(GOOD, owner=8), "belongs to user 8, this is user 7: chown it"),
        (
            replace(GOOD, path=str(APPLICATION / "3" / "data")),
            f"lies in {APPLICATION}, which Spark removes",
        ),
        (
            replace(GOOD, path="/tmp/spark-0a1b2c3d-0000-4000-8000-00112233aabb/data"),
            "spark.pylog.data.dir to a directory that stays",
        ),
        (replace(GOOD, path="/y/usercache/me/appcache/application_1_2/x"), "appcache/application_"),
    ],
)
def test_places_that_are_refused(place: Place, words: str) -> None:
    with pytest.raises(DirectoryUnwritable) as refused:
        judge(place, own=True)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("place", "own", "words"),
    [
        (replace(GOOD, file_system="tmpfs"), False, "is on tmpfs: everything in it is gone after"),
        (replace(GOOD, file_system="nfs4"), False, "is on nfs4: locks and syncs"),
        (replace(GOOD, mode=0o40777), False, "can be written by every user"),
        (replace(GOOD, owner=8, user=0), True, "belongs to user 8, but this runs as root"),
    ],
)
def test_places_that_are_told(place: Place, own: bool, words: str) -> None:
    (warning,) = judge(place, own=own)
    assert words in warning


def test_a_sticky_root_is_fine() -> None:
    assert judge(replace(GOOD, mode=0o41777), own=False) == []


def test_a_directory_that_others_could_read_is_tightened_and_told(tmp_path: Path) -> None:
    own, root = tmp_path / "broker-1", tmp_path
    own.mkdir()
    own.chmod(0o755)
    root.chmod(0o755)
    (warning,) = look_at(str(root), [str(own), str(root / "broker-2")])
    assert warning == f"{own} had the mode 755, so that others could read records: it is 700 now"
    assert (own.stat().st_mode & 0o777, root.stat().st_mode & 0o777) == (0o700, 0o755)
    assert look_at(str(root), [str(own)]) == []


def test_a_new_root_is_made_and_a_file_in_its_place_is_named(tmp_path: Path) -> None:
    root = tmp_path / "a" / "b"
    look_at(str(root), [str(root / "broker-1")])
    assert root.is_dir()
    assert root.stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_text("")
    with pytest.raises(DirectoryUnwritable, match="file/base"):
        look_at(str(tmp_path / "file" / "base"), [])


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data", "ext4"),
        ("/run/user dir/x", "tmpfs"),
        ("/mnt/share/a", "nfs4"),
        ("/mnt/share/disk/a", "xfs"),
        ("/mnt/shared", "ext4"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert file_system_of(path, MOUNTS) == kind


def test_a_mount_is_known_by_what_the_kernel_keeps_of_it(tmp_path: Path) -> None:
    data, sysfs = tmp_path / "data", tmp_path / "sys"
    data.mkdir()
    device = data.stat().st_dev
    assert mount_id_of(str(data), str(sysfs)) == "", "nothing is told"
    (sysfs / "devices" / "loop3").mkdir(parents=True)
    (sysfs / "dev" / "block").mkdir(parents=True)
    block = sysfs / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}"
    block.symlink_to("../../devices/loop3")
    mounted = sysfs / "fs" / file_system_of(str(data)) / "loop3"
    mounted.mkdir(parents=True)
    found = mount_id_of(str(data), str(sysfs))
    assert found == f"loop3:{mounted.stat().st_ino}"
    assert mount_id_of(str(data / "not" / "made" / "yet"), str(sysfs)) == found
    mounted.rename(mounted.with_name("earlier"))
    mounted.mkdir()
    assert mount_id_of(str(data), str(sysfs)) not in ("", found)
