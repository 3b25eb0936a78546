"""Sampling: parameters, processors, keyed noise, and the draw of one token.

    params = SamplingParams(temperature=0.7, top_p=0.95)
    history = History(prompt, vocab)
    token = draw(process(row, history, params, eos_ids), Noise(seed=7), position=len(prompt))
    history.push(token)

One call chain serves plain decoding and verification alike. Knows nothing of drafts, models,
caches or text.
"""

from pilotfish.sampling.draw import draw, draw_from_law
from pilotfish.sampling.history import History
from pilotfish.sampling.noise import Field, Noise, Purpose
from pilotfish.sampling.params import SamplingParams
from pilotfish.sampling.process import Scores, TokenLogprobs, law, logprobs, process

__all__ = [
    "Field",
    "History",
    "Noise",
    "Purpose",
    "SamplingParams",
    "Scores",
    "TokenLogprobs",
    "draw",
    "draw_from_law",
    "law",
    "logprobs",
    "process",
]
