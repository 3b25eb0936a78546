"""Tokenizer: text <-> ids for one model, byte-level BPE or SentencePiece BPE.

    tokenizer = load_tokenizer(checkpoint)
    tokenizer.decode(tokenizer.encode("Hello"))
    tokenizer.chat([{"role": "user", "content": "hi"}])

What a user wrote never becomes a control token: `encode` and the contents given to `chat` are
text, whatever they look like. Knows nothing of files or models.

A SentencePiece vocabulary may put a space before a text. `decode` takes it away, as transformers
does; with `continues` it does not, because a reply follows a prompt: its text is what its tokens
add to the prompt's, and a space that begins it is part of it. Bytes that are no UTF-8 become U+FFFD
one by one; transformers gives up a whole run of byte tokens (<0x0A>) that holds one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tokenizers

from pilotfish.errors import BadRequest
from pilotfish.model.tokenizer.control import MARKS, Control
from pilotfish.model.tokenizer.spelling import BYTE_LEVEL, Spelling
from pilotfish.model.tokenizer.template import ChatTemplate


class Tokenizer:
    """One vocabulary with its rules.

    parsing   a tokenizer that reads control strings in a text as control tokens
    literal   the same vocabulary with `encode_special_tokens` set: control strings are text
    eos_ids   every id that ends a text
    bos_id    the id that begins one, or None; `adds_bos` says whether the model wants it
    spelling  the bytes its entries stand for; `strips` says whether `decode` takes a first space away
    inner     `literal` for a part of a text that is not its beginning, where that differs

    Where the vocabulary has no token for a byte, that byte vanishes in encoding, as in transformers.
    SmolLM2 lacks six control characters (04 06 13 14 16 1D) and the lead bytes F1 and F2 (U+40000 to
    U+BFFFF); the other 13 it lacks never stand in UTF-8.
    """

    def __init__(
        self,
        *,
        parsing: tokenizers.Tokenizer,
        literal: tokenizers.Tokenizer,
        template: ChatTemplate | None,
        eos_ids: frozenset[int],
        bos_id: int | None,
        adds_bos: bool,
        spelling: Spelling = BYTE_LEVEL,
        inner: tokenizers.Tokenizer | None = None,
    ) -> None:
        self._parsing, self._literal, self._template = parsing, literal, template
        self._inner = inner or literal
        self.strips = spelling.strips
        self.eos_ids, self.bos_id, self.adds_bos = eos_ids, bos_id, adds_bos and bos_id is not None
        added = parsing.get_added_tokens_decoder()
        specials = {token: entry for token, entry in added.items() if entry.special}
        self._control_ids = frozenset(specials)
        self._control = Control.of(specials.values())
        vocabulary = parsing.get_vocab(with_added_tokens=True)
        self._bytes = [b""] * (max(vocabulary.values(), default=-1) + 1)
        for text, token in vocabulary.items():
            self._bytes[token] = (spelling.of_added if token in added else spelling.of_token)(text)

    @property
    def vocab_size(self) -> int:
        """Number of ids; the model's embedding may have more rows."""
        return len(self._bytes)

    @property
    def has_chat_template(self) -> bool:
        """True when `chat` can be used."""
        return self._template is not None

    def encode(self, text: str) -> list[int]:
        """The ids of a text. Control strings in it stay text; nothing is added."""
        return self._ids(self._literal, text)

    def prompt(self, text: str) -> list[int]:
        """The ids of a raw prompt: `encode`, after the id that begins a text where the model wants it."""
        ids = self.encode(text)
        return [self.bos_id, *ids] if self.adds_bos and self.bos_id is not None else ids

    def encode_with_control(self, text: str) -> list[int]:
        """The ids of a trusted text: control strings become control tokens, and what the model
        wants around a text is added, as transformers does."""
        return self._ids(self._parsing, text, add_special_tokens=True)

    def decode(self, ids: Iterable[int], skip_control: bool = True, *, continues: bool = False) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD. With `continues` the ids follow
        others, so that a space at their beginning is part of the text."""
        whole = b"".join(self.token_bytes(token, skip_control) for token in ids)
        if self.strips and not continues:
            whole = whole.removeprefix(b" ")
        return whole.decode("utf-8", "replace")

    def token_bytes(self, token: int, skip_control: bool = True) -> bytes:
        """The exact bytes of one token; empty for control tokens, unless they are asked for, and
        for the unused embedding rows above the vocabulary."""
        if token < 0:
            raise BadRequest(f"{token} is no token id; ids begin at 0.")
        if token >= len(self._bytes) or (skip_control and token in self._control_ids):
            return b""
        return self._bytes[token]

    def is_control(self, token: int) -> bool:
        """True for a token that steers the model and is no part of a text."""
        return token in self._control_ids

    def chat(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> list[int]:
        """The ids of a conversation by the model's chat template.

        Raises BadRequest where the model has no template, or the template refuses the messages.
        """
        if self._template is None:
            raise BadRequest("this model has no chat template. Send a raw prompt instead of messages.")
        if isinstance(messages, str) or not messages:
            raise BadRequest("messages must be a list with at least one message.")
        mark = _unused_mark(messages)
        marked = [self._message(message, mark) for message in messages]
        rendered = self._template.render(marked, add_generation_prompt=add_generation_prompt)
        if mark not in rendered:
            return self._ids(self._parsing, rendered)
        ids: list[int] = []
        backend = self._literal
        for ordinary, control in self._control.split(rendered):
            ids += self._ids(backend, ordinary.replace(mark, ""))
            if control is not None:
                ids += self._ids(self._parsing, control)
            backend = self._inner
        return ids

    def _message(self, message: object, mark: str) -> dict[str, object]:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise BadRequest(f"a message needs a role and a content, found {message!r:.80}.")
        # Null fields count as absent: many templates would write them out as "None".
        return {key: self._plain(item, mark) for key, item in message.items() if item is not None}

    def _plain(self, value: object, mark: str) -> object:
        """The value with its control strings broken up, rebuilt from plain types only."""
        if isinstance(value, str):
            return self._control.break_up(str(value), mark)
        if isinstance(value, Mapping):
            return {str(key): self._plain(item, mark) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(item, mark) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        raise BadRequest(f"a message may hold texts, numbers, lists and tables, found {value!r:.80}.")

    def _ids(
        self, backend: tokenizers.Tokenizer, text: str, *, add_special_tokens: bool = False
    ) -> list[int]:
        try:
            # The backend accepts lone surrogates on some paths and panics on others.
            text.encode("utf-8")
        except (UnicodeEncodeError, AttributeError) as problem:
            raise BadRequest(f"the prompt is no valid text ({problem}). Send Unicode text.") from None
        return list(backend.encode(text, add_special_tokens=add_special_tokens).ids)


def _unused_mark(messages: object) -> str:
    """A mark that stands nowhere in the messages."""
    shown = _texts(messages)
    for mark in MARKS:
        if mark not in shown:
            return mark
    raise BadRequest("the messages hold all 32 Unicode noncharacters from U+FDD0. Remove one of them.")


def _texts(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return "".join(_texts(part) for item in value.items() for part in item)
    if isinstance(value, list | tuple):
        return "".join(map(_texts, value))
    return ""
