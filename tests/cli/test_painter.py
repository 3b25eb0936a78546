"""Pieces of one origin that together are exactly the text of the events."""

from __future__ import annotations

from pathlib import Path

from pilotfish.cli.painter import Painter, legend
from pilotfish.engine.request import Event
from pilotfish.model.load import Target
from pilotfish.model.tokenizer import load_tokenizer
from pilotfish.model.weights import open_checkpoint
from tests.fixtures.tiny_gguf import write_gguf
from tests.fixtures.tiny_sentencepiece import embedding, metadata


def test_a_character_over_several_tokens_has_the_origin_of_the_last(loaded: Target) -> None:
    tokens = loaded.tokenizer.encode("🐟")
    assert len(tokens) > 1
    painter = Painter(loaded.tokenizer)
    origins = [f"source{index}" for index in range(len(tokens))]
    pieces = []
    for index, (token, origin) in enumerate(zip(tokens, origins, strict=True)):
        text = "🐟" if index == len(tokens) - 1 else ""
        pieces += painter.paint(Event(0, 0, text=text, tokens=(token,), origins=(origin,)))
    assert pieces == [("🐟", origins[-1])]


def test_text_that_is_held_back_or_cut_is_not_painted(loaded: Target) -> None:
    tokens = tuple(loaded.tokenizer.encode("one two END"))
    painter = Painter(loaded.tokenizer)
    assert painter.paint(Event(0, 0, text="on", tokens=tokens[:1], origins=("suffix",))) == [("on", "suffix")]
    origins = ("target",) * (len(tokens) - 1)
    event = Event(0, 0, text="e two ", tokens=tokens[1:], origins=origins, finish_reason="stop")
    pieces = painter.paint(event)
    assert pieces[0] == ("e", "suffix")
    assert "".join(text for text, _ in pieces) == "e two "


def test_an_unfinished_character_is_shown_at_the_end(loaded: Target) -> None:
    token = loaded.tokenizer.encode("🐟")[0]
    painter = Painter(loaded.tokenizer)
    event = Event(0, 0, text="\ufffd", tokens=(token,), origins=("target",), finish_reason="length")
    assert painter.paint(event) == [("\ufffd", "target")]


def test_a_space_that_begins_a_reply_is_painted(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "t.gguf", metadata=metadata(), tensors=embedding())
    tokenizer = load_tokenizer(open_checkpoint(path))
    tokens = tuple(tokenizer.encode("hello world"))
    event = Event(0, 0, text=" hello world", tokens=tokens, origins=("target", "suffix"))
    assert Painter(tokenizer).paint(event) == [(" hello", "target"), (" world", "suffix")]


def test_the_legend_names_what_occurred() -> None:
    shown = legend({"target": 3, "suffix": 2, "corrected": 1})
    assert [name for name in ("suffix 2", "corrected 1", "target 3") if name in shown] != []
    assert shown.index("suffix 2") < shown.index("corrected 1") < shown.index("target 3")
    assert "ngram" not in shown
