"""Block books: reserve, commit, fork, release; and planted errors are found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.errors import OutOfBlocks, PilotfishError
from pilotfish.model.cache import BlockPool, KVCache


def make(blocks: int = 8) -> KVCache:
    return KVCache(BlockPool(blocks=blocks, block_size=4))


def no_copy(source: int, destination: int) -> None:
    raise AssertionError("nothing to copy")


def test_reserve_commit_release() -> None:
    cache = make()
    table = list(cache.reserve(7, 5))
    assert len(table) == 2 and cache.pool.free == 6
    assert list(cache.reserve(7, 8)) == table and list(cache.reserve(7, 3)) == table
    cache.commit(7, 5)
    cache.commit(7, 5)
    assert cache.committed(7) == 5 and cache.committed(99) == 0
    assert len(cache.reserve(7, 9)) == 3
    cache.check()
    cache.release(7)
    cache.release(7)
    assert cache.pool.free == 8
    cache.check()


def test_commit_refuses_what_is_not_reserved_or_goes_back() -> None:
    cache = make()
    cache.reserve(1, 4)
    cache.commit(1, 3)
    for slots in (2, 5):
        with pytest.raises(PilotfishError, match="cannot commit"):
            cache.commit(1, slots)


def test_out_of_blocks_changes_nothing() -> None:
    cache = make(3)
    cache.reserve(1, 8)
    with pytest.raises(OutOfBlocks, match=r"2 cache blocks .* 1 of 3"):
        cache.reserve(2, 8)
    with pytest.raises(OutOfBlocks):
        cache.reserve(1, 17)
    assert cache.pool.free == 1 and len(cache.reserve(1, 8)) == 2
    cache.release(2)
    cache.commit(1, 6)
    cache.reserve(3, 1)
    with pytest.raises(OutOfBlocks):
        cache.fork(1, 4, no_copy)
    cache.check()


def test_fork_shares_full_blocks_and_copies_the_tail() -> None:
    cache, copied = make(), []
    table = list(cache.reserve(1, 10))
    cache.commit(1, 9)
    cache.fork(1, 2, lambda source, destination: copied.append((source, destination)))
    twin = list(cache.reserve(2, 9))
    assert twin[:2] == table[:2] and twin[2] not in table and copied == [(table[2], twin[2])]
    assert cache.pool.shared(table[0]) and not cache.pool.shared(table[2])
    assert cache.committed(2) == 9 and cache.pool.free == 4
    cache.check()
    cache.release(1)
    assert cache.pool.free == 5  # only the parent's tail: the rest has another holder
    cache.check()
    cache.release(2)
    assert cache.pool.free == 8


def test_fork_at_a_block_edge_copies_nothing() -> None:
    cache = make()
    cache.reserve(1, 9)
    cache.commit(1, 8)
    cache.fork(1, 2, no_copy)
    assert cache.pool.free == 5 and len(cache.reserve(2, 9)) == 3
    cache.check()


def test_planted_errors_are_found() -> None:
    cache = make()
    cache.reserve(1, 8)
    cache._tables[1].blocks.append(cache._tables[1].blocks[0])  # one block twice
    with pytest.raises(PilotfishError, match="books"):
        cache.check()
    cache = make()
    cache.reserve(1, 8)
    cache._tables.clear()  # a table is lost
    with pytest.raises(PilotfishError, match="books"):
        cache.check()
    cache = make()
    cache.reserve(1, 8)
    cache.pool.give_back(list(cache._tables[1].blocks))  # given back while in use
    with pytest.raises(PilotfishError, match="books"):
        cache.check()
    cache = make()
    cache.reserve(1, 8)
    cache.pool._free.append(cache._tables[1].blocks[0])  # free and held
    with pytest.raises(PilotfishError, match="books"):
        cache.check()


@given(st.lists(st.tuples(st.sampled_from("rcfx"), st.integers(0, 5), st.integers(0, 30)), max_size=60))
def test_books_hold_whatever_happens(actions: list[tuple[str, int, int]]) -> None:
    cache = make(12)
    alive: set[int] = set()
    for action, sequence, amount in actions:
        try:
            if action == "r":
                cache.reserve(sequence, amount)
                alive.add(sequence)
            elif action == "c" and sequence in alive:
                cache.commit(sequence, amount)
            elif action == "f" and sequence in alive and amount not in alive:
                cache.fork(sequence, amount, lambda source, destination: None)
                alive.add(amount)
            elif action == "x":
                cache.release(sequence)
                alive.discard(sequence)
        except PilotfishError:
            pass
        cache.check()
    for sequence in alive:
        cache.release(sequence)
    assert cache.pool.free == 12
