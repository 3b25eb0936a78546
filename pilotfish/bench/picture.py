"""What draft tokens cost, as a picture: seconds of a step by its rows, one sequence.

    draw(Path("steps.png"), {"bitwise": target.steps.table}, title="...")
    draw(Path("steps.png"), measure(target.runner, {"bitwise": target.form, "numeric": NUMERIC}), title="...")

matplotlib is imported only here, when a picture is drawn. Knows nothing of proposers or prompts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pilotfish.errors import PilotfishError
from pilotfish.model.runner import Form, Runner, Slice

Curve = Mapping[int, float]  # rows -> seconds
ROWS = range(1, 33)
_CONTEXT = 256
_REPEATS = 5


def measure(
    runner: Runner, forms: Mapping[str, Form], *, rows: range = ROWS, repeats: int = _REPEATS
) -> dict[str, Curve]:
    """Medians of passes of one sequence, all forms and row counts interleaved.

    A form that wants more tokens than there are rows gets pads, as in decoding. The runner must not
    hold anything: its first blocks are written over.
    """
    start = min(_CONTEXT, runner.context // 2)
    length = start + max(rows)
    blocks = list(range(-(-length // runner.block_size)))
    tokens = [int(token) for token in np.random.default_rng(7).integers(0, runner.vocab, length)]
    for begin in range(0, start, 32):
        runner.forward([Slice(tokens[begin : min(begin + 32, start)], begin, blocks, range(0))])
    taken: dict[str, dict[int, list[float]]] = {name: {count: [] for count in rows} for name in forms}
    for _ in range(repeats):
        for count in rows:
            for name, form in forms.items():
                part = Slice(tokens[start : start + max(count, form.min_tokens)], start, blocks, range(count))
                runner.forward([part])  # the first pass of another row count prepares the graph anew
                began = time.perf_counter()
                runner.forward([part])
                taken[name][count].append(time.perf_counter() - began)
    return {
        name: {count: float(np.median(times)) for count, times in by.items()} for name, by in taken.items()
    }


def draw(path: Path, curves: Mapping[str, Curve], *, title: str) -> None:
    """Draw the curves to a PNG file, the plain step of each marked. Raises PilotfishError without
    matplotlib, or where the file cannot be written."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PilotfishError(
            "a picture was asked for and matplotlib is not installed; pip install 'pilotfish[dev]'"
        ) from None
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, curve) in enumerate(curves.items()):
        rows, colour = sorted(curve), f"C{number}"
        plain = rows[0]
        axes.plot(rows, [1e3 * curve[count] for count in rows], "o-", markersize=3, color=colour, label=name)
        axes.axhline(1e3 * curve[plain], color=colour, linestyle=":", linewidth=1)
        axes.plot([plain], [1e3 * curve[plain]], "D", markersize=8, color=colour)
        axes.annotate(
            f"plain step, {name}: {1e3 * curve[plain]:.1f} ms",
            (plain, 1e3 * curve[plain]),
            xytext=(14, -20 - 18 * number),
            textcoords="offset points",
            color=colour,
        )
    axes.set_xlabel("rows in the pass: the last token and its draft (one sequence)")
    axes.set_ylabel("milliseconds a pass")
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    try:
        figure.savefig(path, dpi=150, format="png")
    except OSError as problem:
        raise PilotfishError(f"cannot write the picture {path}: {problem.strerror or problem}") from None
