"""The scheduler: rows are never too many, prompts do not starve, turns are fair."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pilotfish.engine.scheduler import Scheduler, SchedulerConfig
from pilotfish.engine.sequence import Limits, Sequence
from pilotfish.engine.text import GrowingText
from pilotfish.model.runner import Form
from tests.engine.engine_worlds import Letters, ask

LIMITS = Limits(vocab=8, context=4096, eos_ids=frozenset())


def sequence(number: int, length: int, computed: int = 0) -> Sequence:
    text = GrowingText(Letters(), ())
    made = Sequence(ask([1] * length), id=number, request_id=number, text=text, limits=LIMITS)
    made.computed = computed
    return made


def decoding(count: int) -> list[Sequence]:
    return [sequence(number, 5, 4) for number in range(count)]


def form(rows: int, least: int = 2) -> Form:
    return Form(min_tokens=least, max_rows=rows, bitwise=True)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 39)), max_size=12),
    st.integers(4, 40),
    st.integers(1, 3),
    st.integers(0, 7),
)
def test_rows_and_reads_are_within_bounds(
    shapes: list[tuple[int, int]], rows: int, least: int, chunk: int
) -> None:
    running = [sequence(n, length, min(done, length - 1)) for n, (length, done) in enumerate(shapes)]
    scheduler = Scheduler(form(rows, least), SchedulerConfig(prefill_chunk=chunk))
    works = scheduler.schedule(running)
    assert bool(works) == bool(running)
    assert sum(max(work.read, least) for work in works) <= rows
    assert len({work.sequence.id for work in works}) == len(works)
    for work in works:
        assert 1 <= work.read <= min(work.sequence.uncomputed, chunk or rows)
        assert work.completes == (work.read == work.sequence.uncomputed)


def test_turns_are_fair() -> None:
    running, scheduler = decoding(7), Scheduler(form(6), SchedulerConfig())
    taken = Counter(work.sequence.id for _ in range(14) for work in scheduler.schedule(running))
    assert set(taken.values()) == {6} and len(taken) == 7


def test_a_prompt_is_read_beside_many_that_decode() -> None:
    running = [*decoding(20), sequence(99, 100)]
    works = Scheduler(form(16), SchedulerConfig()).schedule(running)
    assert [work.read for work in works if work.sequence.id == 99] == [8]
    assert sum(work.sequence.id != 99 for work in works) == 4


def test_prompts_share_what_is_left_in_the_order_they_came() -> None:
    running = [sequence(0, 5), sequence(1, 9), sequence(2, 3)]
    works = Scheduler(form(12), SchedulerConfig()).schedule(running)
    assert [(work.read, work.completes) for work in works] == [(5, True), (7, False)]
    chunked = Scheduler(form(12), SchedulerConfig(prefill_chunk=4)).schedule(running)
    assert [work.read for work in chunked] == [4, 4, 3]


def test_a_remainder_of_one_is_padded_not_refused() -> None:
    [work] = Scheduler(form(12), SchedulerConfig(prefill_chunk=1)).schedule([sequence(0, 3, 1)])
    assert (work.read, work.completes) == (1, False)
