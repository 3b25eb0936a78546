"""What an audit covers: drafts by sampling parameters by settings, and the requests of each cell.

    cells = all_cells(("ngram", "suffix"))            # 2 drafts x 3 samplings x 3 settings
    cells = few_cells(DRAFTS)                         # each pair of two at least once, a third of the work

Knows nothing of engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pilotfish.bench.workload import Prompt, spread
from pilotfish.sampling import SamplingParams

DRAFTS = ("ngram", "suffix", "recycle", "suffix+recycle", "replay:0.7")
SAMPLINGS: dict[str, SamplingParams] = {
    "greedy": SamplingParams(ignore_eos=True),
    "temperature 0.8, top-p 0.95": SamplingParams(ignore_eos=True, temperature=0.8, top_p=0.95),
    "temperature 1, penalties": SamplingParams(
        ignore_eos=True,
        temperature=1.0,
        repetition_penalty=1.1,
        presence_penalty=0.3,
        frequency_penalty=0.2,
    ),
}
ALONE, BATCH, CHUNKS = "alone", "batch of 6", "chunks of 23"
SETTINGS = (ALONE, BATCH, CHUNKS)
BATCH_SIZE = 6
ODD_CHUNK = 23
FULL_PROMPTS = 40
_ECHOED = 300  # characters of a text
_LENGTHS = (1.0, 0.5, 0.75, 1.0, 0.625, 0.875)  # of the places in a batch: they end at different times


@dataclass(frozen=True, kw_only=True)
class Case:
    """One cell of the audit."""

    draft: str
    sampling: str
    setting: str


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One request of a cell: a prompt (by its place), how it is sampled, how long it gets."""

    prompt: int
    sampling: str
    tokens: int


def all_cells(drafts: Sequence[str], samplings: Sequence[str] = tuple(SAMPLINGS)) -> list[Case]:
    """Every combination."""
    return [
        Case(draft=draft, sampling=sampling, setting=setting)
        for draft in drafts
        for sampling in samplings
        for setting in SETTINGS
    ]


def few_cells(drafts: Sequence[str], samplings: Sequence[str] = tuple(SAMPLINGS)) -> list[Case]:
    """A Latin square: every draft meets every sampling and every setting, but not all three at once.

    A draft of DRAFTS meets the same ones whichever others are audited.
    """
    shifts = [DRAFTS.index(draft) if draft in DRAFTS else place for place, draft in enumerate(drafts)]
    return [
        Case(draft=draft, sampling=sampling, setting=SETTINGS[(shift + place) % len(SETTINGS)])
        for draft, shift in zip(drafts, shifts, strict=True)
        for place, sampling in enumerate(samplings)
    ]


def requests(
    case: Case, *, subjects: Iterable[int], prompts: int, tokens: int, samplings: Sequence[str]
) -> list[list[Wanted]]:
    """The groups of requests of a cell; those of a group run together.

    subjects  the places of the cell's own prompts among all `prompts`; the others only fill up batches
    """
    places = list(subjects)
    if case.setting != BATCH:
        return [[Wanted(prompt=place, sampling=case.sampling, tokens=tokens)] for place in places]
    size = min(BATCH_SIZE, prompts)
    return [
        [_place(case, (start + place) % prompts, place, tokens, samplings=samplings) for place in range(size)]
        for start in places[::size]
    ]


def _place(case: Case, prompt: int, place: int, tokens: int, *, samplings: Sequence[str]) -> Wanted:
    """Every third place of a batch has the parameters of another cell."""
    others = [name for name in samplings if name != case.sampling]
    other = others[place // 3 % len(others)] if place % 3 == 2 and others else case.sampling
    return Wanted(prompt=prompt, sampling=other, tokens=max(1, round(tokens * _LENGTHS[place])))


def with_raw_twins(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    """At least `count` prompts, where that can be: the first ones come again without the chat template."""
    lacking = max(0, count - len(prompts))
    plain = [prompt for prompt in prompts if not prompt.raw]
    twins = [replace(prompt, id=f"{prompt.id} (raw)", raw=True) for prompt in plain[:lacking]]
    return [*prompts, *twins]


def echo(prompt: Prompt) -> Prompt:
    """The end of a prompt's text three times, and once more broken off: a model goes on copying, in a
    table even at temperature 1 under penalties, so that every proposer has something to find."""
    text = prompt.turns[0][-_ECHOED:]
    turn = "\n\n".join([text, text, text, text[: len(text) // 3]])
    return replace(prompt, id=f"{prompt.id} (echo)", turns=(turn,), raw=True)


def chosen(prompts: Sequence[Prompt], first: Sequence[str]) -> list[Prompt]:
    """The prompts of all kinds in turn, those with the ids in `first` leading."""
    lead = {name: rank for rank, name in enumerate(first)}
    return sorted(spread(prompts), key=lambda prompt: lead.get(prompt.id, len(lead)))
