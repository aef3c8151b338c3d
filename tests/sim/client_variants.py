"""Known bugs of producers, consumers and what answers them, put in on purpose.

The rows cited (B-..) are those of the reference of known bugs, each once in a real system.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pylog.client.fetching.fetch_events import Listed
from pylog.client.fetching.fetch_state import InFlight
from pylog.client.fetching.fetch_state import Partition as FetchedPartition
from pylog.client.fetching.offset_look_ups import OffsetLookUps
from pylog.client.fetching.positions import Positions
from pylog.client.sending.accumulator import Accumulator
from pylog.client.sending.lanes import Lane, LaneState
from pylog.client.sending.producer_batch import Batch, BatchState
from pylog.client.sending.send_events import Ack
from pylog.client.sending.sender import Sender
from pylog.model import (
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from pylog.records.batch import Buffer
from pylog_broker.replication import fetches, offsets
from pylog_broker.replication.fetch_messages import PartitionFetch
from pylog_broker.replication.partition import Partition
from pylog_broker.storage.checkpoints.leader_epochs import EpochEndOffset, LeaderEpochCache
from pylog_broker.storage.log import log_reader
from tests.sim.swarm import Swarm, Upkeep
from tests.sim.variant import Variant
from tests.sim.variant_parts import FOR_EVER, many_clients, many_topics, much_forgotten

_production_on_acks = Sender.on_acks


def _kept_in_memory(self: Accumulator, batch: Batch) -> None:
    batch.become(BatchState.RESOLVED)
    del self.incomplete[batch]


def _answers_turned_round(
    self: Sender, now_ms: int, broker: int, answers: Iterable[tuple[int, Sequence[Ack]]]
) -> Any:
    turned = [(correlation, acks[::-1]) for correlation, acks in answers]
    return _production_on_acks(self, now_ms, broker, turned)


def _counts_on(self: Lane, producer_id: int, producer_epoch: int) -> None:
    self.producer_id, self.producer_epoch = producer_id, producer_epoch
    self.become(LaneState.FIRST)
    for batch in self.unresolved:
        if batch.state is BatchState.REFUSED:
            batch.become(BatchState.WAITING)
        self.sequence(batch)


def _one_sequence(self: Lane, batch: Batch, parts: Sequence[Batch]) -> None:
    _production_lane_replace(self, batch, parts)
    for part in parts:
        part.base_sequence = batch.base_sequence


_production_lane_replace = Lane.replace


def _any_place(self: InFlight, partition: FetchedPartition) -> bool:
    return partition.topic_partition in self.wanted and partition.position is not None


def _where_the_last_one_went(self: Lane, broker: int) -> bool:
    return self.broker == broker


def _whatever_became_of_it(self: Lane, batch: Batch) -> bool:
    if self.unresolved[-1] is not batch or batch.producer_id != self.producer_id or self.gap:
        return False
    self.next_sequence = batch.base_sequence
    return True


def _parts_turned_round(self: Lane, batch: Batch, parts: Sequence[Batch]) -> None:
    _production_lane_replace(self, batch, parts[::-1])


_production_take = Accumulator.take


def _newest_first(self: Accumulator, topic_partition: TopicPartition, now_ms: int) -> Batch:
    self._queues[topic_partition].rotate(1)
    return _production_take(self, topic_partition, now_ms)


def _newest_seen(self: Accumulator, topic_partition: TopicPartition) -> Batch | None:
    queue = self._queues.get(topic_partition)
    return queue[-1] if queue and topic_partition in self._due else None


_production_drop_buffer = Positions._drop_buffer


def _buffer_kept(self: Positions, partition: FetchedPartition) -> None:
    buffer, size = tuple(partition.buffer), partition.buffered_bytes
    _production_drop_buffer(self, partition)
    partition.buffer.extend(buffer)
    partition.buffered_bytes = size


_production_on_listed = OffsetLookUps.on_listed


def _of_any_seek(self: OffsetLookUps, now_ms: int, answers: Sequence[Listed]) -> Any:
    known = self._positions.partitions
    answers = [
        replace(answer, generation=known[answer.topic_partition].generation)
        for answer in answers
        if answer.topic_partition in known and not answer.code
    ]
    return _production_on_listed(self, now_ms, answers)


def _same_place(
    _self: Positions, partition: FetchedPartition, topic_id: str, _effects: object
) -> None:
    partition.topic_id = topic_id


_production_behind = fetches._behind


def _one_batch_further(item: PartitionFetch, records: Buffer) -> PartitionFetch:
    following = _production_behind(item, records)
    return following._replace(fetch_offset=Offset(following.fetch_offset + 1))


def _all_that_a_follower_has(_self: fetches.Fetches, partition: Partition, request: Any) -> Offset:
    if partition.leading is None:
        return partition.log.bounds.end
    if request.read_committed:
        return partition.last_stable_offset
    return partition.high_watermark


def _in_racks(swarm: Swarm) -> Swarm:
    return replace(swarm, racks=2)


def _always_sure(_partition: Partition) -> None:
    return None


def _leaders_that_have_told(swarm: Swarm) -> Swarm:
    """Have leaders die that have reported their log's end."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        faults=("told_leader_dies",),
        fault_interval_ms=1_500.0,
        away_ms=500,
        produce_interval_ms=20.0,
        quiet_share=0.0,
    )


_production_first_at = log_reader.first_at_or_after


def _at_any_offset(*args: Any, start: int, end: int) -> Any:
    return _production_first_at(*args, start=start, end=FOR_EVER)


_production_end_of_epoch = LeaderEpochCache.end_offset_for


def _ends_with_the_log(
    self: LeaderEpochCache, epoch: LeaderEpoch, log_end_offset: Offset
) -> EpochEndOffset:
    found = _production_end_of_epoch(self, epoch, log_end_offset)
    return found if found.end_offset < 0 else found._replace(end_offset=log_end_offset)


def _moving_leaders(swarm: Swarm) -> Swarm:
    """They lose their office while they live, and more waits to be sent than brokers take."""
    swarm = many_clients(swarm)
    return replace(
        swarm,
        weak_producers=0,
        producers=1,
        produce_interval_ms=4.0,
        records_max=4,
        quiet_share=0.0,
        net=replace(swarm.net, delay_mean_ms=20.0, tail_share=0.0, drop=0.0, reset=0.0),
        faults=("kill",),
        fault_interval_ms=1_000.0,
        away_ms=300,
        rebalance_ms=300,
        clients=replace(swarm.clients, linger_ms=0, life_ms=1e9),
    )


def _impatient(swarm: Swarm) -> Swarm:
    """Batches that nobody answers in time, on logs that do not begin at 0. A long backoff keeps
    refused batches from being sent too often, or a run would take long.
    """
    swarm = much_forgotten(swarm)
    clients = replace(
        swarm.clients,
        delivery_timeout_ms=1_500,
        request_bytes_max=100_000,
        retry_backoff_ms=500,
    )
    return replace(
        swarm,
        clients=clients,
        partitions=1,
        producers=1,
        weak_producers=0,
        produce_interval_ms=100.0,
        faults=("pause", "pause", "kill", "delete_records"),
    )


def _too_large(swarm: Swarm) -> Swarm:
    """Batches of many records, of which a broker takes only small ones now and then."""
    swarm = many_clients(swarm)
    return replace(
        swarm,
        upkeep=Upkeep("delete", -1, -1, 0, 40, 0.0, 700.0, ()),
        clients=replace(swarm.clients, batch_size=1_000, linger_ms=40),
        faults=("reconfigure", "reconfigure", "reset"),
        fault_interval_ms=200.0,
    )


CLIENT_VARIANTS: dict[str, Variant] = {
    "fresh_id_counts_on": Variant(
        "A lane that goes on under a fresh producer id does not begin with sequence 0",
        ((Lane, "adopt", _counts_on),),
        leaning=_impatient,
    ),
    "split_under_one_sequence": Variant(
        "The parts of a batch that was too large all bear its sequence",
        ((Lane, "replace", _one_sequence),),
        leaning=_too_large,
        caught_by=1,
    ),
    "past_the_leader_before": Variant(
        "New batches go to a leader while the one before has not answered for older ones",
        ((Lane, "is_at", _where_the_last_one_went),),
        leaning=_moving_leaders,
    ),
    "sequence_given_back": Variant(
        "A batch whose time is up leaves its sequence to the next one, though it may be stored",
        ((Lane, "take_back", _whatever_became_of_it),),
        leaning=_impatient,
    ),
    "parts_turned_round": Variant(
        "The parts of a batch that was too large are sent the last one first",
        ((Lane, "replace", _parts_turned_round),),
        leaning=_too_large,
    ),
    "newest_first": Variant(
        "Of the batches that wait for a partition the newest one is sent first",
        ((Accumulator, "take", _newest_first), (Accumulator, "peek", _newest_seen)),
        leaning=many_clients,
    ),
    "buffer_outlives_a_seek": Variant(
        "What was fetched stays in the buffer when the consumer goes elsewhere",
        ((Positions, "_drop_buffer", _buffer_kept),),
        caught_by=3,
    ),
    "look_up_outlives_a_seek": Variant(
        "A look-up's answer counts though the consumer has gone elsewhere meanwhile",
        ((OffsetLookUps, "on_listed", _of_any_seek),),
        leaning=many_clients,
    ),
    "old_place_in_a_new_topic": Variant(
        "A consumer goes on at its offset in a topic that was made anew",
        ((Positions, "_on_new_topic", _same_place),),
        leaning=many_topics,
        caught_by=3,
    ),
    "acks_turned_round": Variant(
        "The answers to a request for several partitions are taken in the wrong order",
        ((Sender, "on_acks", _answers_turned_round),),
        leaning=many_clients,
    ),
    "memory_kept": Variant(
        "The memory of batches that are done is not free again",
        ((Accumulator, "resolve", _kept_in_memory),),
        leaning=many_clients,
    ),
    "answer_to_an_old_question": Variant(
        "A consumer takes an answer about a place that it has left",
        ((InFlight, "asks_for", _any_place),),
        leaning=many_clients,
    ),
    "standing_fetch_skips": Variant(
        "A standing fetch goes on one record too far",
        ((fetches, "_behind", _one_batch_further),),
    ),
    "followers_show_all": Variant(
        "KIP-392: a follower shows its readers what is not committed",
        ((fetches.Fetches, "upper_bound", _all_that_a_follower_has),),
        leaning=_in_racks,
        caught_by=1,
    ),
    "latest_too_early": Variant(
        "KIP-207: a new leader tells an end offset before it knows what is committed",
        ((offsets, "unsure_of_end", _always_sure),),
        leaning=_leaders_that_have_told,
    ),
    "offset_above_high_watermark": Variant(
        "An offset by time may be of a record that is not committed",
        ((log_reader, "first_at_or_after", _at_any_offset),),
        caught_by=4,
    ),
    "epoch_ends_with_the_log": Variant(
        "KIP-101: a leader tells the end of its log for the end of every epoch",
        ((LeaderEpochCache, "end_offset_for", _ends_with_the_log),),
    ),
}
