"""Write `metadata/<form>/`: the controller's directory, as this version keeps it.

    .venv/bin/python -m tests.golden.make_metadata_directory

A directory that is there stays: a later version must open what an earlier one wrote. `FORM` names
what this version writes; a change of that gives it a new name and runs this once.

    metadata/1/    snapshots end with `.checkpoint`; batches have no timestamps, and the first one
                   of a controller carries the epoch of the controller before it
    metadata/2/    snapshots end with `.metadata-snapshot`; batches have the epoch and the time of
                   their append, and a large append lies in several
    metadata/3/    registrations list listeners and tell the software, and the log says the level of
                   each feature
"""

from __future__ import annotations

import json
from pathlib import Path

from pylog.model import LeaderEpoch
from pylog_broker.controller import metadata_batches
from pylog_broker.controller.effects import AppendRecords, Effect
from pylog_broker.controller.metadata_log import MetadataLog
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.dump.rows import plain
from pylog_broker.metadata.admin import AlterConfigs, ConfigChange, DeleteTopics
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.records import ConfigResourceType
from pylog_broker.storage.files import OsFiles
from tests.fakes.controller_shell import ControllerShell, counting_ids

FOLDER = Path(__file__).parent / "metadata"
FORM = "3"


class DurableShell(ControllerShell):
    """A controller on a directory."""

    def __init__(self, directory: Path) -> None:
        self.metadata = MetadataLog.open(OsFiles(), str(directory), boot_id="boot")
        image = self.metadata.image
        super().__init__(
            image,
            settings=ControllerSettings(expected_brokers=3),
            ids=counting_ids(prefix=image.controller_epoch + 2),  # others in each life
            next_offset=self.metadata.end_offset,
        )
        self.metadata.remember_cluster(self.controller.image.cluster_id)

    def perform(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, AppendRecords):
                epoch = LeaderEpoch(self.controller.controller_epoch)
                self.metadata.append(effect, epoch=epoch, wall_ms=self.now_ms)
                self.metadata.flush()
        return super().perform(effects)

    def snapshot(self) -> Path:
        """Writes one; its file."""
        task = self.metadata.snapshot_task(self.controller.image)
        task.run()
        self.metadata.on_snapshot(task)
        return Path(task.path)


def described(image: MetadataImage) -> str:
    """The image's records as JSON, one a line."""
    rows = [{"type": type(record).__name__, "record": plain(record)} for record in image.records()]
    lines = ",\n".join(f"  {json.dumps(row, sort_keys=True)}" for row in rows)
    return f'{{"offset": {image.offset}, "records": [\n{lines}\n]}}\n'


def _settings_of(topic: str, values: dict[str, str | None]) -> AlterConfigs:
    return AlterConfigs((ConfigChange(ConfigResourceType.TOPIC, topic, values),))


def main() -> None:
    """Two lives of a controller: records of every kind, two snapshots, and a log behind them."""
    directory = FOLDER / FORM
    directory.mkdir(parents=True)
    shell = DurableShell(directory)
    brokers = [shell.join(number) for number in (1, 2, 3)]
    shell.create("orders", partitions=3, config={"retention.ms": "5", "retention.bytes": "7"})
    shell.create("short-lived", partitions=2)
    shell.call("allocate_producer_ids", brokers[0].broker_id, brokers[0].epoch)
    shell.snapshot()
    shell.call("delete_topics", DeleteTopics(("short-lived",)))
    change = _settings_of("orders", {"retention.ms": "9", "retention.bytes": None})
    shell.call("alter_configs", change)
    shell.lose(brokers[1])
    shell.metadata.close()

    metadata_batches.BATCH_RECORDS_MAX = 3  # type: ignore[misc]  # large enough to be several
    shell = DurableShell(directory)
    for number in (1, 3):
        shell.join(number, life=2)
    shell.snapshot()
    shell.call("unregister_broker", brokers[1].broker_id)
    shell.create("payments", partitions=2, replication=2)
    shell.metadata.close()
    (directory / ".lock").unlink()
    (directory / "image.json").write_text(described(shell.controller.image), encoding="utf-8")


if __name__ == "__main__":
    main()
