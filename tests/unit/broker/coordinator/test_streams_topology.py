"""The needs of a topology, and their consequences for its internal topics and tasks."""

from __future__ import annotations

import pytest

from pylog.errors import StreamsInvalidTopology
from pylog.model import TopicId
from pylog_broker.coordinator.generated.streams_group_topology import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)
from pylog_broker.coordinator.groups.consumer.topics import SubscribedTopic
from pylog_broker.coordinator.groups.streams import topology as module
from pylog_broker.coordinator.groups.streams.messages import Status, StatusCode
from pylog_broker.coordinator.groups.streams.topology import (
    ConfiguredTopology,
    configured,
    required_topics,
    source_topics,
)
from tests.fakes.group_shard import ShardTopics
from tests.fakes.streams_members import COUNTS


def topics(**counts: int) -> ShardTopics:
    return ShardTopics(
        {
            name.replace("_", "-"): SubscribedTopic(
                name.replace("_", "-"), TopicId(name.ljust(22, "A")), count
            )
            for name, count in counts.items()
        }
    )


def found(*subtopologies: Subtopology, **counts: int) -> ConfiguredTopology:
    return configured(StreamsGroupTopologyValue(0, subtopologies), topics(**counts))


def test_the_topics_of_a_topology() -> None:
    assert required_topics(COUNTS) == {"t", "g-repartition", "g-changelog"}
    assert source_topics(COUNTS) == {"t", "g-repartition"}


def test_internal_topics_have_the_partitions_of_what_they_follow() -> None:
    made = found(*COUNTS.subtopologies, t=3)
    assert made.tasks == {"0": 3, "1": 3}
    assert made.stateful == {"1"}
    assert made.to_create == (TopicInfo("g-changelog", 3), TopicInfo("g-repartition", 3))
    assert made.status == Status(
        StatusCode.MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: g-changelog, g-repartition",
    )
    assert not made.is_ready
    ready = found(*COUNTS.subtopologies, t=3, g_repartition=3, g_changelog=3)
    assert (ready.is_ready, ready.to_create, ready.status) == (True, (), None)
    assert ready.topics_hash not in (0, made.topics_hash)


def test_a_number_that_the_program_gives_counts() -> None:
    parts = (
        Subtopology("0", source_topics=("t",), repartition_sink_topics=("r",)),
        Subtopology("1", repartition_source_topics=(TopicInfo("r", 7),)),
    )
    assert found(*parts, t=3).to_create == (TopicInfo("r", 7),)
    assert found(*parts, t=3).tasks == {"0": 3, "1": 7}


def test_a_chain_of_repartition_topics_is_followed() -> None:
    parts = (
        Subtopology("2", repartition_source_topics=(TopicInfo("s"),)),
        Subtopology(
            "1", repartition_source_topics=(TopicInfo("r"),), repartition_sink_topics=("s",)
        ),
        Subtopology("0", source_topics=("t", "u"), repartition_sink_topics=("r",)),
    )
    assert found(*parts, t=3, u=5).tasks == {"2": 5, "1": 5, "0": 5}


def test_missing_source_topics_are_named() -> None:
    parts = Subtopology("0", source_topics=("a", "b", "c", "d", "t"))
    assert found(parts, t=1).status == Status(
        StatusCode.MISSING_SOURCE_TOPICS,
        "Source topics a, b, c and 1 additional topics are missing.",
    )


def test_an_internal_topic_of_another_size_is_refused() -> None:
    made = found(*COUNTS.subtopologies, t=3, g_repartition=3, g_changelog=4)
    assert made.status == Status(
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic g-changelog has different number of partitions: expected 3, found 4",
    )
    assert made.tasks == {}


def joined(*repartition: TopicInfo, sources: tuple[str, ...] = ("a", "b")) -> Subtopology:
    """All of these are read together."""
    group = CopartitionGroup(tuple(range(len(sources))), (), tuple(range(len(repartition))))
    return Subtopology(
        "0",
        source_topics=sources,
        repartition_source_topics=repartition,
        copartition_groups=(group,),
    )


def test_topics_that_are_read_together_have_the_same_number() -> None:
    assert found(joined(), a=3, b=3).tasks == {"0": 3}
    assert found(joined(), a=3, b=4).status == Status(
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS, "Topics not co-partitioned: [a=3, b=4]"
    )
    writer = Subtopology("w", source_topics=("t",), repartition_sink_topics=("r",))
    part = joined(TopicInfo("r"), sources=("a",))
    assert found(part, writer, a=3, t=8).to_create == (TopicInfo("r", 3),)
    fixed = joined(TopicInfo("r", 4), sources=("a",))
    assert found(fixed, a=3).status == Status(
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Number of partitions [4] of repartition topic [r] doesn't match number of partitions [3] "
        "of the source topic.",
    )
    two = joined(TopicInfo("r", 4), TopicInfo("s", 5), sources=())
    assert found(two).status == Status(
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [r=4, s=5]",
    )
    one_open = joined(TopicInfo("r", 4), TopicInfo("s"), sources=())
    feeds = Subtopology("w", source_topics=("t",), repartition_sink_topics=("s",))
    assert found(one_open, feeds, t=9).to_create == (TopicInfo("r", 4), TopicInfo("s", 4))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((Subtopology("0"),), "subtopology '0' reads no topics"),
        (
            (Subtopology("0", repartition_source_topics=(TopicInfo("r"),)),),
            "repartition topics r follows from nothing",
        ),
        (
            (
                Subtopology(
                    "0",
                    source_topics=("t",),
                    copartition_groups=(CopartitionGroup((4,), (), ()),),
                ),
            ),
            "names a topic by a number that the subtopology does not have",
        ),
    ],
)
def test_what_no_topics_could_run(parts: tuple[Subtopology, ...], words: str) -> None:
    with pytest.raises(StreamsInvalidTopology) as told:
        found(*parts, t=1)
    assert words in str(told.value)


def test_tasks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TASKS_MAX", 5)
    with pytest.raises(StreamsInvalidTopology, match="has 6 tasks on these topics; the limit"):
        found(Subtopology("0", source_topics=("t",)), t=6)
