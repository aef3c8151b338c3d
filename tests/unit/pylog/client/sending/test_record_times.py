"""The timestamps of a batch's records, as runs of equal ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pylog.client.sending.record_times import RecordTimes

MS = 1_000_000


def test_records_of_one_millisecond_share_it() -> None:
    times = RecordTimes()
    times.begin(0, 7 * MS + 3)
    assert (times.until_ns, times.common, times[0], times[99]) == (8 * MS, 7, 7, 7)
    times.begin(5, 9 * MS)
    assert (times.common, times[4], times[5]) == (None, 7, 9)


def test_a_given_timestamp_is_of_one_record_only() -> None:
    times = RecordTimes()
    times.begin(0, 7 * MS)
    times.give(1, 3)
    assert times.until_ns == 0
    times.begin(2, 7 * MS)
    assert [times[index] for index in range(3)] == [7, 3, 7]


def test_the_later_of_two_runs_from_one_record_counts() -> None:
    times = RecordTimes()
    times.begin(0, 7 * MS)
    times.begin(0, 8 * MS)  # Ctrl-C came before the record was added, which came then
    assert (times[0], times.common) == (8, None)


@given(st.lists(st.one_of(st.integers(0, 5), st.integers(-5, -1)), min_size=1, max_size=60))
def test_like_a_list_of_stamps(steps: list[int]) -> None:
    times, now_ns, expected = RecordTimes(), 10 * MS, []
    for index, step in enumerate(steps):
        if step < 0:
            times.give(index, -step)
            expected.append(-step)
        else:
            now_ns += step * MS // 3
            if now_ns >= times.until_ns:
                times.begin(index, now_ns)
            expected.append(now_ns // MS)
    assert [times[index] for index in range(len(steps))] == expected
    assert list(times.of(range(len(steps)))) == expected
    assert list(times.of_all(len(steps))) == expected
    some = [index for index in range(len(steps)) for _ in range(index % 3)]
    assert list(times.of(some)) == [expected[index] for index in some]
