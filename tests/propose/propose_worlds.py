"""Sequences, and a walk over a target that is a list, for the proposer tests."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pilotfish.draft import ROOT, Draft, Verdict
from pilotfish.propose import Observation, Proposer


@dataclass
class Text:
    """A sequence as proposers see it."""

    tokens: list[int]
    prompt_length: int = 0
    id: int = 0


@dataclass
class Target:
    """Writes a fixed text. Its ranked ids are the right one, then the next integers."""

    prompt: list[int]
    output: list[int]
    width: int = 8
    drafts: list[Draft] = field(default_factory=list)

    def run(self, proposer: Proposer, budget: int, identity: int = 0) -> Text:
        """Decode with the proposer; returns the finished sequence, not yet forgotten."""
        text = Text(list(self.prompt), len(self.prompt), identity)
        while (done := len(text.tokens) - len(self.prompt)) < len(self.output):
            [draft] = proposer.propose([text], budget)
            self.drafts.append(draft)
            verdict = walk(draft, self.output[done:])
            text.tokens.extend(verdict.emitted(draft))
            proposer.observe([self.observation(text, draft, verdict)])
        return text

    def observation(self, text: Text, draft: Draft, verdict: Verdict) -> Observation:
        before = len(text.tokens) - len(verdict.path) - 2
        read = np.array([text.tokens[before], *draft.tokens])
        right = {row + 1: t for row, t in zip((ROOT, *verdict.path), verdict.emitted(draft), strict=True)}
        ranked = [self._ranked(right.get(row, 0)) for row in range(len(read))]
        return Observation(text, draft, verdict, read, np.array(ranked))

    def _ranked(self, best: int) -> list[int]:
        return [best, *(token for token in range(self.width) if token != best)][: self.width]


def walk(draft: Draft, output: list[int]) -> Verdict:
    """Follow what will be written; the token that ends the text is the verdict's own."""
    path: list[int] = []
    for token in output[:-1]:
        node = draft.child(path[-1] if path else ROOT, token)
        if node is None:
            break
        path.append(node)
    return Verdict(tuple(path), output[len(path)])
