"""The past under pushes, pops and forks equals a past built afresh."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotfish.errors import BadRequest
from pilotfish.sampling import History

TOKENS = st.integers(0, 7)


def check(history: History, prompt: list[int], output: list[int]) -> None:
    assert history.output_length == len(output)
    seen = history.seen_ids.tolist()
    assert len(seen) == len(set(seen)) and set(seen) == set(prompt) | set(output)
    counted = zip(history.output_ids.tolist(), history.output_counts.tolist(), strict=True)
    assert dict(counted) == dict(Counter(output))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(TOKENS, max_size=6), st.lists(st.one_of(TOKENS, st.just(-1)), max_size=40), st.integers(0, 40)
)
def test_pushes_and_pops_equal_a_fresh_history(prompt: list[int], steps: list[int], opened: int) -> None:
    history, output = History(prompt, 8), list[int]()
    for at, step in enumerate(steps):
        if step >= 0:
            history.push(step)
            output.append(step)
        elif output:
            assert history.pop() == output.pop()
        if at >= opened:  # the books open late: at any moment they must come out right
            check(history, prompt, output)
    check(history, prompt, output)


@pytest.mark.parametrize("opened", [False, True])
def test_forks_go_their_own_ways(opened: bool) -> None:
    trunk = History([1, 2], 8)
    trunk.push(3)
    if opened:
        check(trunk, [1, 2], [3])
    left, right = trunk.fork(), trunk.fork()
    left.push(4)
    right.push(5)
    right.push(3)
    trunk.pop()
    check(trunk, [1, 2], [])
    check(left, [1, 2], [3, 4])
    check(right, [1, 2], [3, 5, 3])


def test_many_distinct_tokens_grow_and_shrink() -> None:
    history = History([], 1000)
    check(history, [], [])
    for token in range(1000):
        history.push(token)
    check(history, [], list(range(1000)))
    for token in reversed(range(500, 1000)):
        assert history.pop() == token
    check(history, [], list(range(500)))


@pytest.mark.parametrize("token", [-1, 8])
def test_a_prompt_outside_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(BadRequest, match=f"token {token} .* 8"):
        History([1, token], 8)
