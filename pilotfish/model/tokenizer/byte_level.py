"""byte_level: the vocabulary of a GGUF whose tokenizer is `gpt2`, byte-level BPE.

    byte_level(fields, tokens, kinds).backend().encode("Hello")

GGUF stores tokens and merges, but only the *name* of the rule that cuts a text into words; RULES
holds the rules that are known. Knows nothing of chat templates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tokenizers import Regex, models, normalizers, pre_tokenizers

from pilotfish.errors import BadTokenizer
from pilotfish.model.tokenizer.spelling import BYTE_LEVEL
from pilotfish.model.tokenizer.vocabulary import (
    PREFIX,
    Vocabulary,
    added_tokens,
    listed_merges,
)
from pilotfish.model.weights.fields import Fields


@dataclass(frozen=True)
class Rule:
    """What the name of a rule stands for.

    cut      makes the part that cuts a text into words
    whole    a word that is a token is that token, whatever the merges make of it
    adds_bos what holds where the file does not say whether a text begins with the bos token
    """

    cut: Callable[[], pre_tokenizers.PreTokenizer]
    whole: bool = False
    adds_bos: bool = False
    composes: bool = False


def _gpt2() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _smollm() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt2()])


def _split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


BLANKS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


def _words(digits: str) -> pre_tokenizers.PreTokenizer:
    """The cutting rule of Llama 3 and Qwen 2, which differ in how many digits make a word."""
    return _split(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
        + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        + BLANKS
    )


def _tekken() -> pre_tokenizers.PreTokenizer:
    """Mistral's rule: a word may begin with capitals or hold them all, but a capital ends a word."""
    before, upper, lower = (
        r"[^\r\n\p{L}\p{N}]?",
        r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]",
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]",
    )
    words = f"{before}{upper}*{lower}+|{before}{upper}+{lower}*"
    return _split(words + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + BLANKS)


LLAMA3 = Rule(lambda: _words(r"\p{N}{1,3}"), whole=True, adds_bos=True)
QWEN2 = Rule(lambda: _words(r"\p{N}"), composes=True)
RULES: Mapping[str, Rule] = {
    "smollm": Rule(_smollm),
    "gpt-2": Rule(_gpt2),
    "qwen2": QWEN2,
    "deepseek-r1-qwen": QWEN2,
    "llama-bpe": LLAMA3,
    "llama3": LLAMA3,
    "llama-v3": LLAMA3,
    # Llama 3's words without its bos token: SmolLM3.
    "smaug-bpe": Rule(LLAMA3.cut, whole=True),
    "tekken": Rule(_tekken, whole=True, adds_bos=True),
}


def byte_level(fields: Fields, tokens: Sequence[str], kinds: Sequence[int]) -> Vocabulary:
    """The vocabulary of a file. Raises BadTokenizer for an unknown rule or a wrong merge."""
    name = fields.text(PREFIX + "pre", default="")
    rule = RULES.get(name)
    if rule is None:
        raise BadTokenizer(
            f"{fields.where}: {PREFIX}pre is {name or 'absent'}, known are {', '.join(RULES)}. Without the"
            " rule that cuts words the ids would be wrong; convert the model again, or use its folder."
        )
    return Vocabulary(
        added=added_tokens(tokens, kinds),
        model=models.BPE(
            {token: number for number, token in enumerate(tokens)},
            listed_merges(fields, tokens, kinds),
            ignore_merges=rule.whole,
        ),
        normalizer=normalizers.NFC() if rule.composes else None,
        pre_tokenizer=rule.cut(),
        spelling=BYTE_LEVEL,
        adds_bos=rule.adds_bos,
    )
