"""Every error pilotfish raises on purpose.

    PilotfishError
    ├── BadRequest        a prompt or parameter that cannot be served as asked (also a ValueError)
    ├── BadModel          a model that is missing, broken or not supported
    │   └── BadTokenizer  a tokenizer that is missing, broken or does not fit the model
    ├── BadDraft          a proposer broke its promise (malformed tree, wrong law)
    ├── BadLogits         the runtime returned numbers that no law can be made of
    ├── OutOfBlocks       the KV cache has no free block left
    └── Unproven          `bitwise` was demanded and the self-check could not prove it

A message says what was asked, what was found and what to do about it.
"""


class PilotfishError(Exception):
    """Base of all errors raised on purpose."""


class BadRequest(PilotfishError, ValueError):
    """A prompt or parameter that cannot be served as asked."""


class BadModel(PilotfishError):
    """A model that is missing, broken or not supported."""


class BadTokenizer(BadModel):
    """A tokenizer that is missing, broken or does not fit the model."""


class BadDraft(PilotfishError):
    """A proposer returned a draft that is no tree, or a law that is no law."""


class BadLogits(PilotfishError):
    """The runtime returned NaN or nothing but minus infinity."""


class OutOfBlocks(PilotfishError):
    """The KV cache has no free block left for what was reserved."""


class Unproven(PilotfishError):
    """`bitwise` was demanded, but the self-check did not prove it on this machine."""
