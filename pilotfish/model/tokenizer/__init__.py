"""tokenizer: text, ids and chat templates of a model.

    tokenizer = load_tokenizer(open_checkpoint(path))
    tokenizer.chat([{"role": "user", "content": "hi"}])

Knows nothing of weights or runtimes.
"""

from __future__ import annotations

from pilotfish.errors import BadTokenizer
from pilotfish.model.tokenizer.folder_tokenizer import folder_tokenizer
from pilotfish.model.tokenizer.gguf_tokenizer import gguf_tokenizer
from pilotfish.model.tokenizer.stream import TextStream
from pilotfish.model.tokenizer.tokenizer import Tokenizer
from pilotfish.model.weights.checkpoint import Checkpoint

__all__ = ["TextStream", "Tokenizer", "load_tokenizer"]


def load_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer that belongs to a checkpoint.

    Raises BadTokenizer where it is missing, damaged, not supported, or does not fit the weights.
    """
    tokenizer = gguf_tokenizer(checkpoint) if checkpoint.is_gguf else folder_tokenizer(checkpoint)
    if tokenizer.vocab_size > checkpoint.config.vocab:
        raise BadTokenizer(
            f"{checkpoint.path}: the tokenizer has ids up to {tokenizer.vocab_size - 1}, the embedding only"
            f" {checkpoint.config.vocab} rows. They belong to different models."
        )
    return tokenizer
