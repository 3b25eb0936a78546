"""Worlds for tests: a target whose law is known exactly, and proposers that behave as told.

    target = MarkovTarget.random(seed=1, vocab=5)
    params = SamplingParams(max_tokens=8, temperature=1.0, seed=3)
    plain = run_world(target, Nothing(), params, kind="coupled", prompt=[0])
    again = run_world(target, Oracle(plain.tokens), params, kind="coupled", prompt=[0])
    assert again.tokens == plain.tokens and again.accepted == [7]

    markov      the target: the next law depends on the last few tokens
    proposers   Oracle, Contrarian, Coin, Overlong, OutOfVocabulary, Nothing, Sampled
    world       decodes with real keyed noise, round by round, without an engine
    runner      WorldRunner, a runtime over the target, with a paged cache and planted faults
    exact       goes through every random outcome of a procedure; a chi-square test
    laws        the exact laws of plain decoding and of one round

Nothing here needs a runtime, a tokenizer or a test framework.
"""

from pilotfish.propose import Nothing
from pilotfish.testing.exact import Fork, ForkedChance, chi_square_deviation, outcomes
from pilotfish.testing.laws import PlainLaw, round_law
from pilotfish.testing.markov import MarkovTarget
from pilotfish.testing.proposers import Coin, Contrarian, Oracle, OutOfVocabulary, Overlong, Sampled
from pilotfish.testing.runner import Faults, WorldRunner
from pilotfish.testing.world import Decoded, Round, WorldContinuation, run_round, run_world

__all__ = [
    "Coin",
    "Contrarian",
    "Decoded",
    "Faults",
    "Fork",
    "ForkedChance",
    "MarkovTarget",
    "Nothing",
    "Oracle",
    "OutOfVocabulary",
    "Overlong",
    "PlainLaw",
    "Round",
    "Sampled",
    "WorldContinuation",
    "WorldRunner",
    "chi_square_deviation",
    "outcomes",
    "round_law",
    "run_round",
    "run_world",
]
