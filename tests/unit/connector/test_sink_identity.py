from __future__ import annotations

import pytest

from pylog.client.sinks.sink_types import SinkKey
from pylog_connector.errors import SinkIdentity
from pylog_connector.options import SinkOptions, sink_options
from pylog_connector.sink_identity import (
    BATCH,
    DESCRIPTION,
    JOB_GROUP,
    QUERY,
    QUERYS_SESSION,
    SinkBatchId,
    batch_of_job,
    batch_of_query,
    check_is_of_no_batch,
)

RUN = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
TOLD = f"my query<br/>id = {OTHER}<br/>runId = {RUN}<br/>batch = 4"


def options(**given: str) -> SinkOptions:
    base = {"pylog.bootstrap.servers": "h:1", "pylog.exactly.once": "true"}
    return sink_options({**base, **given})


def batch(to: SinkOptions, **properties: str) -> SinkBatchId | None:
    names = {"query": QUERY, "batch": BATCH, "group": JOB_GROUP, "description": DESCRIPTION}
    return batch_of_query({names[n]: v for n, v in properties.items()}.get, to)


def test_the_query_run_and_batch_are_what_spark_tells() -> None:
    expected = SinkBatchId(SinkKey("q", "a"), RUN, 4)
    to = options(topic="a")
    assert batch(to, query="q", batch="4", group=RUN, description=TOLD) == expected
    assert batch(to, query="q", batch="4", group=RUN) == expected
    # The user has set a job group: the description still tells the run.
    assert batch(to, query="q", batch="4", group=OTHER, description=TOLD) == expected
    assert batch(to, query="q", batch="4", group="mine", description=TOLD) == expected


def test_the_querys_name_may_look_like_anything() -> None:
    found = batch(options(), query="q", batch="4", description=f"runId = {OTHER}, {TOLD}")
    assert found is not None
    assert found.run_id == RUN


def test_outside_of_a_query_there_is_none() -> None:
    assert batch(options(topic="a")) is None
    assert batch(options(topic="a"), group="mine", query="q") is None


@pytest.mark.parametrize("group", ["mine", ""])
def test_a_run_that_is_not_told_is_an_error_that_says_why(group: str) -> None:
    with pytest.raises(SinkIdentity, match=r"job group is .*setJobGroup.*exactly\.once=false"):
        batch(options(topic="a"), query="q", batch="4", group=group, description="mine")


def test_a_write_of_a_batch_that_spark_does_not_tell_has_to_name_it() -> None:
    in_a_session = {QUERYS_SESSION: "200"}
    with pytest.raises(SinkIdentity, match=r"Spark Connect.*idempotencyKey.*\{batch_id\}"):
        check_is_of_no_batch(in_a_session.get)
    check_is_of_no_batch({**in_a_session, QUERY: "q", BATCH: "4"}.get)
    outside: dict[str, str] = {}
    check_is_of_no_batch(outside.get)


def test_sinks_are_told_apart_by_their_id_or_destination() -> None:
    def sink(**given: str) -> str:
        found = batch(options(**given), query="q", batch="0", group=RUN)
        assert found is not None
        return found.sink.sink_id

    assert sink(topic="a") == "a"
    assert sink() == "*"
    assert sink(topic="a", sinkId="mine/1") == "mine/1"


def test_a_job_of_its_own_is_remembered_for_a_while() -> None:
    assert batch_of_job("j", options(topic="a")) == SinkBatchId(
        SinkKey("job:j", "a"), "j", 0, 600_000
    )


def test_a_key_is_of_its_destination() -> None:
    first = batch_of_job("j", options(topic="a", idempotencyKey="day-7"))
    assert first == SinkBatchId(SinkKey("key:day-7", "a"), "j", 0, 604_800_000, True)
    assert batch_of_job("k", options(topic="a", idempotencyKey="day-7")).sink == first.sink
    assert batch_of_job("j", options(topic="b", idempotencyKey="day-7")).sink != first.sink
    for odd in ("day/7", "day 7", "x" * 201, "ä"):
        query = batch_of_job("j", options(topic="a", idempotencyKey=odd)).sink.query_id
        assert query.startswith("sha256:")
        assert len(query) < 249
        assert "/" not in query
