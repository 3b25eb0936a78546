"""Books of the paged KV cache: which block belongs to whom, and how far each sequence got.

A block holds `block_size` slots. A sequence reserves slots before a pass, and commits, after
it, those whose tokens survived; what it does not commit is simply overwritten by the next
pass. That is all that rollback is.

    cache = KVCache(BlockPool(blocks=64, block_size=32))
    cache.reserve(7, slots=40)      # blocks for 40 tokens
    cache.commit(7, slots=38)       # two draft tokens did not survive
    cache.release(7)

Knows nothing of tensors: a runner holds the keys and values, `fork` takes its `copy_block`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pilotfish.errors import OutOfBlocks, PilotfishError


class BlockPool:
    """The blocks of one runner, shared by the engines that run on it.

    The books: free + held == total, where a block held by several tables counts once. `promised`
    is how many blocks the engines together have told their running requests they may come to hold.
    """

    def __init__(self, *, blocks: int, block_size: int) -> None:
        self.total = blocks
        self.block_size = block_size
        self.promised = 0
        self._free = list(range(blocks - 1, -1, -1))
        self._holders = [0] * blocks

    @property
    def free(self) -> int:
        """How many blocks nobody holds."""
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """Take free blocks. Raises OutOfBlocks, and takes none, where there are too few."""
        if count > len(self._free):
            raise OutOfBlocks(
                f"{count} cache blocks asked for, {len(self._free)} of {self.total} are free; "
                "shorten the requests, run fewer at once or enlarge the cache"
            )
        taken = [self._free.pop() for _ in range(count)]
        for block in taken:
            self._holders[block] = 1
        return taken

    def share(self, blocks: list[int]) -> None:
        """Count one more holder for each block."""
        for block in blocks:
            self._holders[block] += 1

    def give_back(self, blocks: list[int]) -> None:
        """Count one holder less; a block without holders is free again."""
        for block in blocks:
            self._holders[block] -= 1
            if self._holders[block] == 0:
                self._free.append(block)

    def shared(self, block: int) -> bool:
        """True when more than one table holds the block: it must not be written."""
        return self._holders[block] > 1

    def check(self, tables: list[list[int]]) -> None:
        """Compare the books with the tables of all holders. Raises PilotfishError with the terms."""
        held: dict[int, int] = {}
        for table in tables:
            for block in table:
                held[block] = held.get(block, 0) + 1
        counted = {block: holders for block, holders in enumerate(self._holders) if holders}
        if held != counted or len(held) + self.free != self.total or set(held) & set(self._free):
            raise PilotfishError(
                f"the cache's books are wrong: free {self.free} + held {len(held)} != total {self.total}, "
                f"or holders {counted} != tables {held}"
            )


@dataclass
class _Table:
    blocks: list[int] = field(default_factory=list)
    committed: int = 0  # slots whose tokens are part of the sequence for good


class KVCache:
    """Block tables by sequence id: reserve before a pass, commit after it, release at the end."""

    def __init__(self, pool: BlockPool) -> None:
        self.pool = pool
        self._tables: dict[int, _Table] = {}

    def blocks_for(self, slots: int) -> int:
        """How many blocks hold this many slots."""
        return -(-slots // self.pool.block_size)

    def reserve(self, sequence: int, slots: int) -> list[int]:
        """Make the table cover `slots` slots in all and return it.

        Raises OutOfBlocks and changes nothing where blocks lack.
        """
        table = self._tables.get(sequence) or _Table()
        lacking = self.blocks_for(slots) - len(table.blocks)
        if lacking > 0:
            table.blocks.extend(self.pool.take(lacking))
        self._tables[sequence] = table
        return table.blocks

    def commit(self, sequence: int, slots: int) -> None:
        """The first `slots` slots now hold tokens of the sequence for good.

        Blocks beyond them stay reserved: the next round needs them.
        """
        table = self._tables[sequence]
        if not table.committed <= slots <= len(table.blocks) * self.pool.block_size:
            raise PilotfishError(
                f"sequence {sequence} cannot commit {slots} slots: {table.committed} are committed, "
                f"{len(table.blocks)} blocks are reserved"
            )
        table.committed = slots

    def committed(self, sequence: int) -> int:
        """How many slots of the sequence are committed (0 for one without a table)."""
        return self._tables[sequence].committed if sequence in self._tables else 0

    def fork(self, parent: int, child: int, copy_block: Callable[[int, int], None]) -> None:
        """Give `child` the committed tokens of `parent`: full blocks are shared, the tail is copied.

        Raises OutOfBlocks and changes nothing where no block is free for the tail.
        """
        table = self._tables[parent]
        full, tail = divmod(table.committed, self.pool.block_size)
        own = self.pool.take(1 if tail else 0)
        shared = table.blocks[:full]
        self.pool.share(shared)
        for block in own:
            copy_block(table.blocks[full], block)
        self._tables[child] = _Table(shared + own, table.committed)

    def release(self, sequence: int) -> None:
        """Give back all blocks of a sequence; nothing happens for one that has none."""
        table = self._tables.pop(sequence, None)
        if table is not None:
            self.pool.give_back(table.blocks)

    def check(self) -> None:
        """Check the books (this cache being the pool's only user). Raises PilotfishError."""
        self.pool.check([table.blocks for table in self._tables.values()])
