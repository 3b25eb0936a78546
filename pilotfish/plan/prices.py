"""Prices: the step times measured at start, corrected by what passes really take.

    prices = Prices(steps)
    prices.seconds(4, alone=True)
    prices.learn(4, 0.021, alone=True)

A measurement at start is short, and its caches are warm; contexts grow; other programs come and go. So
each row count has a factor of its own, the running mean of what passes took over what was measured, and
row counts not seen yet have the factor of all. Knows nothing of drafts or survival.
"""

from __future__ import annotations

from pilotfish.model.steptimes import StepTimes

MEMORY = 0.95  # of a factor, from one pass to the next
LEAST, MOST = 0.5, 3.0  # of a factor: what is far off was no property of the row count


class Prices:
    """Seconds of passes. `alone`: of one sequence; several together have factors of their own."""

    def __init__(self, steps: StepTimes) -> None:
        self.steps = steps
        self._factors: dict[tuple[bool, int], float] = {}
        self._general = {True: 1.0, False: 1.0}

    def seconds(self, rows: int, *, alone: bool) -> float:
        """What a pass of so many rows is expected to take, without a switch."""
        return self.steps.seconds(rows) * self._factors.get((alone, rows), self._general[alone])

    def learn(self, rows: int, seconds: float, *, alone: bool) -> None:
        """A pass after one of the same shape took so long."""
        found = min(MOST, max(LEAST, seconds / self.steps.seconds(rows)))
        known = self._factors.get((alone, rows), self._general[alone])
        self._factors[alone, rows] = known + (1 - MEMORY) * (found - known)
        self._general[alone] += (1 - MEMORY) * (found - self._general[alone])
