"""The connections of one Python worker, kept from task to task.

Spark reuses workers (idle ones end after a minute) and runs one task at a time in each, so a few
clients by their settings are enough. Nothing is loaded before a task asks for a client.
"""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pyspark import TaskContext

from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.config import INT_MAX, LONG_MAX, ConfigTable
from pylog.errors import PylogError
from pylog_connector.option_names import SINK_DEFAULTS
from pylog_connector.options import SinkOptions, SourceOptions

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient
    from pylog.client.producer.producer import Producer
    from pylog.client.ranges.range_reader import RangeReader
    from pylog.client.sinks.staging_producer import StagingProducer

CLIENTS_MAX: Final = 4
"""More clusters or settings than this in one worker: the least used one is closed."""

BATCHES_BUFFERED_MIN: Final = 8
"""So many batches of a sink's own size have room in `buffer.memory`, so that some are on their way
while others are made."""

TOPICS_AGE_MS_MAX: Final = 250
"""The longest time that a producer believes what it knows of a topic from task to task. A topic
that was made anew meanwhile refuses the task's first records."""
TOPICS_REMEMBERED_MAX: Final = 10_000

_PATIENCE: Final = "bootstrap.timeout.ms"

C = TypeVar("C")
P = TypeVar("P", bound="Producer")


class ClientCache(Generic[C]):
    """At most `CLIENTS_MAX` clients by key, of this process only: a fork starts empty."""

    def __init__(self, close: Callable[[C], None]) -> None:
        self._close = close
        self._clients: OrderedDict[object, C] = OrderedDict()
        self._pid = os.getpid()

    def get(self, key: object, make: Callable[[], C]) -> C:
        """The client of `key`, made if there is none."""
        if self._pid != os.getpid():
            self._clients, self._pid = OrderedDict(), os.getpid()
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = make()
            while len(self._clients) > CLIENTS_MAX:
                self._close_quietly(self._clients.popitem(last=False)[1])
        self._clients.move_to_end(key)
        return client

    def drop(self, key: object) -> None:
        """Close the client of `key`: after a failure the next task begins with a fresh one."""
        client = self._clients.pop(key, None)
        if client is not None:
            self._close_quietly(client)

    def _close_quietly(self, client: C) -> None:
        with contextlib.suppress(PylogError):
            self._close(client)


class KeptProducer(Generic[P]):
    """A producer that outlives its task, and looks topics up again when it was idle.

    Between two tasks a topic may have been re-created: a producer that does not know would refuse
    to put records meant for the old one into the new one.
    """

    def __init__(self, producer: P, clock: Clock = SYSTEM_CLOCK) -> None:
        self.producer = producer
        self._clock = clock
        self._looked_up_ms: dict[str, int] = {}

    def begin(self, topic: str, *, surely: bool = False) -> bool:
        """A task is going to write to the topic; whether it was looked up for that, as it is
        `surely` or where that is long ago. If not, its first records may be refused with
        UnknownTopicId.
        """
        now_ms = self._clock.monotonic_ms()
        known_ms = now_ms - self._looked_up_ms.get(topic, -TOPICS_AGE_MS_MAX)
        if known_ms < TOPICS_AGE_MS_MAX and not surely:
            return False
        self.producer.refresh(topic)
        if len(self._looked_up_ms) >= TOPICS_REMEMBERED_MAX:
            self._looked_up_ms.clear()
        self._looked_up_ms[topic] = now_ms
        return True


_readers: ClientCache[RangeReader] = ClientCache(lambda reader: reader.close())
# A producer is dropped after a failure or when idle: what is unacknowledged then is not waited for.
_producers: ClientCache[KeptProducer[Producer]] = ClientCache(
    lambda kept: kept.producer.close(timeout=0)
)
_staging_producers: ClientCache[KeptProducer[StagingProducer]] = ClientCache(
    lambda kept: kept.producer.close(timeout=0)
)

_progress_producers: ClientCache[KeptProducer[StagingProducer]] = ClientCache(
    lambda kept: kept.producer.close(timeout=0)
)


def _patient(
    client: Mapping[str, Any], as_long_as: str, defaults: ConfigTable
) -> Mapping[str, Any]:
    """The client's settings in this process. The driver has reached the cluster before there is a
    task, so a task that reaches no server waits, as for everything else, as long as the setting
    `as_long_as` says: the cluster may be starting again.
    """
    if client.get(_PATIENCE) is not None:
        return client
    known_by = as_long_as if TaskContext.get() is not None else _PATIENCE
    known = client.get(known_by)
    return {**client, _PATIENCE: defaults[known_by].default if known is None else known}


def _reader_key(options: SourceOptions) -> object:
    return options.bootstrap, options.local_reads, tuple(sorted(options.client.items()))


def reader_for(options: SourceOptions) -> RangeReader:
    """This process's range reader for a source's cluster and settings."""

    def make() -> RangeReader:
        from pylog.client.ranges.range_reader import RangeReader
        from pylog.client.settings import CONSUMER_SETTINGS

        client = _patient(options.client, "default.api.timeout.ms", CONSUMER_SETTINGS)
        given = {name.replace(".", "_"): value for name, value in client.items()}
        given["bootstrap_servers"] = [str(address) for address in options.bootstrap]
        return RangeReader(CONSUMER_SETTINGS.parse(given), local_reads=options.local_reads)

    return _readers.get(_reader_key(options), make)


def drop_reader(options: SourceOptions) -> None:
    """Close the reader of these options: the query ended."""
    _readers.drop(_reader_key(options))


def admin_for(options: SourceOptions) -> AdminClient:
    """A client for what a source asks of groups, with the source's settings: the caller closes it.
    It has connections of its own, so that nothing waits behind a coordinator that hangs.
    """
    from pylog.client.admin.admin import AdminClient
    from pylog.client.settings import ADMIN_SETTINGS, CONSUMER_SETTINGS

    client = _patient(options.client, "default.api.timeout.ms", CONSUMER_SETTINGS)
    given = {
        name.replace(".", "_"): value for name, value in client.items() if name in ADMIN_SETTINGS
    }
    given["bootstrap_servers"] = [str(address) for address in options.bootstrap]
    return AdminClient(**given)


def bounds_reader_for(options: SinkOptions) -> RangeReader:
    """A reader of where partitions begin and end, for a sink's driver: the caller closes it."""
    from pylog.client.ranges.range_reader import RangeReader
    from pylog.client.settings import CONSUMER_SETTINGS

    given = {
        name.replace(".", "_"): value
        for name, value in options.client.items()
        if name in CONSUMER_SETTINGS
    }
    given["bootstrap_servers"] = [str(address) for address in options.bootstrap]
    return RangeReader(CONSUMER_SETTINGS.parse(given))


def producer_for(options: SinkOptions) -> KeptProducer[Producer]:
    """This process's producer for a sink's cluster and settings: acks=all, idempotent."""

    def make() -> KeptProducer[Producer]:
        from pylog.client.producer.producer import Producer

        return KeptProducer(Producer(**_producer_arguments(options)))

    return _producers.get(_producer_key(options), make)


def drop_producer(options: SinkOptions) -> None:
    """Close the producer of these options after it failed."""
    _producers.drop(_producer_key(options))


def staging_producer_for(options: SinkOptions) -> KeptProducer[StagingProducer]:
    """This process's producer for batches that count once, of a sink's cluster and settings."""

    def make() -> KeptProducer[StagingProducer]:
        from pylog.client.sinks.staging_producer import StagingProducer

        return KeptProducer(StagingProducer(**_producer_arguments(options)))

    return _staging_producers.get(_producer_key(options), make)


def drop_staging_producer(options: SinkOptions) -> None:
    """Close the producer of these options, which aborts what it has written and not prepared."""
    _staging_producers.drop(_producer_key(options))


def progress_producer_for(options: SourceOptions) -> KeptProducer[StagingProducer]:
    """This process's producer for the positions of a source, with the source's settings."""

    def make() -> KeptProducer[StagingProducer]:
        from pylog.client.settings import CONSUMER_SETTINGS, PRODUCER_SETTINGS
        from pylog.client.sinks.staging_producer import StagingProducer

        client = _patient(options.client, "default.api.timeout.ms", CONSUMER_SETTINGS)
        given = {
            name.replace(".", "_"): value
            for name, value in client.items()
            if name in PRODUCER_SETTINGS and value is not None
        }
        given["max_block_ms"] = client["default.api.timeout.ms"]
        given["delivery_timeout_ms"] = INT_MAX  # no record is sent
        servers = [str(address) for address in options.bootstrap]
        return KeptProducer(StagingProducer(bootstrap_servers=servers, **given))

    return _progress_producers.get(_reader_key(options), make)


def drop_progress_producer(options: SourceOptions) -> None:
    """Close the producer of these options, which aborts what it has not prepared."""
    _progress_producers.drop(_reader_key(options))


def _producer_arguments(options: SinkOptions) -> dict[str, Any]:
    from pylog.client.settings import PRODUCER_SETTINGS

    client = _patient(options.client, "max.block.ms", PRODUCER_SETTINGS)
    settings = {**SINK_DEFAULTS, **client, "acks": "all", "enable.idempotence": True}
    if "batch.size" not in options.client:  # ours must fit to what was given
        settings["batch.size"] = min(
            settings["batch.size"],
            options.client.get("batch.max.size", settings["batch.size"]),
            options.client.get("buffer.memory", LONG_MAX) // BATCHES_BUFFERED_MIN,
        )
    return {
        "bootstrap_servers": [str(address) for address in options.bootstrap],
        **{name.replace(".", "_"): value for name, value in settings.items()},
    }


def _producer_key(options: SinkOptions) -> object:
    return options.bootstrap, tuple(sorted(options.client.items()))
