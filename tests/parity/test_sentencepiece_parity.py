"""SentencePiece vocabularies: ids and texts equal to transformers' and to Google's library.

The vocabularies are trained on the spot, on the files of this repository. The real one of Gemma 3
is compared only where PILOTFISH_GEMMA names a Gemma 3 GGUF: that test says when it was not run.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, GemmaTokenizer, LlamaTokenizer, PreTrainedTokenizerBase

from pilotfish.model.tokenizer import TextStream, Tokenizer, load_tokenizer
from pilotfish.model.tokenizer.folder_tokenizer import folder_tokenizer
from pilotfish.model.tokenizer.gguf_tokenizer import gguf_tokenizer
from pilotfish.model.weights import Checkpoint, open_checkpoint
from pilotfish.model.weights.gguf_file import GgufFile
from tests.fixtures.tiny_gguf import write_gguf
from tests.fixtures.tiny_sentencepiece import embedding, rules, write_folder
from tests.parity.test_tokenizer_parity import TEXTS

ROOT = Path(__file__).parents[2]
GEMMA = os.environ.get("PILOTFISH_GEMMA")
CONTROL = (
    "<s>hi</s>",
    "</s>",
    "<s><s> x </s>y",
    "<unk>",
    "<0x0A>",
    "a <b>b</b>\n\n\n\nc",
    " lead",
    "   three",
    "\n",
)
WORDS = st.sampled_from(
    [
        "the",
        " the",
        " ",
        "  ",
        "\n",
        "\n\n",
        "\t",
        "12",
        "é",
        "日本",
        "🎉",
        "<s>",
        "</s>",
        "self",
        "aaa",
        "ab",
        "ba",
        "==",
    ]
)
ANY = st.one_of(st.text(max_size=30), st.lists(WORDS, max_size=15).map("".join))
# Google's library ends a text at NUL and reads ▁ as a space.
CLEAN = ANY.map(lambda text: text.replace("\0", "").replace("▁", ""))


@dataclass(frozen=True)
class Trained:
    """A trained vocabulary and what a GGUF says of it."""

    model: sentencepiece.SentencePieceProcessor
    metadata: dict[str, Any]


def train(**options: object) -> Trained:
    made = io.BytesIO()
    texts = [path.read_text() for path in sorted((ROOT / "pilotfish").rglob("*.py"))[:40]]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in (*TEXTS, *texts) for line in text.split("\n") if line]),
        model_writer=made,
        model_type="bpe",
        vocab_size=1500,
        byte_fallback=True,
        split_digits=True,
        allow_whitespace_only_pieces=True,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        character_coverage=0.99,
        minloglevel=2,
        **options,
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())
    ids = range(model.get_piece_size())
    fields = {
        "model": "llama",
        "pre": "default",
        "tokens": [model.id_to_piece(token) for token in ids],
        "scores": [model.get_score(token) for token in ids],
        "token_type": [_kind(model, token) for token in ids],
        "merges": None,
        "unknown_token_id": 0,
    }
    return Trained(model, {f"tokenizer.ggml.{name}": value for name, value in fields.items()})


def _kind(model: sentencepiece.SentencePieceProcessor, token: int) -> int:
    if model.is_unknown(token):
        return 2
    return 3 if model.is_control(token) else 6 if model.is_byte(token) else 1


@pytest.fixture(scope="module")
def trained() -> Trained:
    return train()


@pytest.fixture(scope="module")
def file(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = embedding(trained.model.get_piece_size())
    return write_gguf(tmp_path_factory.mktemp("gguf") / "t.gguf", metadata=trained.metadata, tensors=rows)


@pytest.fixture(scope="module")
def ours(file: Path) -> Tokenizer:
    return load_tokenizer(open_checkpoint(file))


def check(ours: Tokenizer, theirs: PreTrainedTokenizerBase, text: str) -> None:
    ids = theirs(text)["input_ids"]
    assert ours.encode_with_control(text) == ids
    plain = theirs(text, split_special_tokens=True, add_special_tokens=False)["input_ids"]
    assert ours.encode(text) == plain
    for found in (ids, plain):
        decoded = theirs.decode(found, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        stream = TextStream(ours)
        assert ours.decode(found) == decoded
        assert "".join(map(stream.push, found)) + stream.finish() == decoded
        everything = theirs.decode(found, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert ours.decode(found, skip_control=False) == everything


@pytest.mark.parametrize("text", [text for text in (*TEXTS, *CONTROL) if "\0" not in text])
def test_texts_as_googles_library(trained: Trained, ours: Tokenizer, text: str) -> None:
    assert ours.encode(text) == trained.model.encode(text)
    assert ours.decode(ours.encode(text)) == trained.model.decode(trained.model.encode(text)) == text


@settings(max_examples=500, deadline=None)
@given(text=CLEAN)
def test_any_text_as_googles_library(trained: Trained, ours: Tokenizer, text: str) -> None:
    assert ours.encode(text) == trained.model.encode(text)
    assert ours.decode(ours.encode(text)) == text


@settings(max_examples=300, deadline=None)
@given(text=ANY)
def test_any_text_as_transformers_reads_a_gguf(file: Path, ours: Tokenizer, text: str) -> None:
    """transformers puts no space before a text that begins with one, nor after a control token;
    Google's library, llama.cpp and the tokenizer.json of Llama 2 and Mistral do."""
    theirs = _gguf(str(file))
    text = "x" + text.replace("<", "(")
    assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]


_LOADED: dict[str, PreTrainedTokenizerBase] = {}


def _gguf(path: str) -> PreTrainedTokenizerBase:
    if path not in _LOADED:
        _LOADED[path] = AutoTokenizer.from_pretrained(Path(path).parent, gguf_file=Path(path).name)
    return _LOADED[path]


@pytest.fixture(scope="module", params=["llama", "gemma", "prepend", "first", "never"])
def folder(
    request: pytest.FixtureRequest, trained: Trained, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, PreTrainedTokenizerBase]:
    path = tmp_path_factory.mktemp("model") / "folder"
    if request.param in ("llama", "gemma"):
        _saved(request.param, trained).save_pretrained(path)
    else:
        write_folder(path, rules(begins=request.param))
    return folder_tokenizer(_bare(path, bos=1)), AutoTokenizer.from_pretrained(path)


def _bare(path: Path, *, bos: int, metadata: dict[str, Any] | None = None) -> Checkpoint:
    """Only what a tokenizer is read from: there are no weights that fit it."""
    config = SimpleNamespace(bos_id=bos, eos_ids=frozenset({bos + 1}))
    return cast(Checkpoint, SimpleNamespace(path=path, config=config, metadata=metadata))


def _saved(kind: str, trained: Trained) -> PreTrainedTokenizerBase:
    tokens = trained.metadata["tokenizer.ggml.tokens"]
    known = {token: number for number, token in enumerate(tokens)}
    merges = [
        (token[:cut], token[cut:])
        for token in tokens[3 + 256 :]
        for cut in range(len(token) - 1, 0, -1)
        if token[:cut] in known and token[cut:] in known
    ]
    make = LlamaTokenizer if kind == "llama" else GemmaTokenizer
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    if kind == "gemma":
        names |= {"pad_token": "<s>", "mask_token": "</s>"}
    return cast(PreTrainedTokenizerBase, make(vocab=known, merges=merges, add_bos_token=True, **names))


@pytest.mark.parametrize("text", (*TEXTS, *CONTROL))
def test_folders(folder: tuple[Tokenizer, PreTrainedTokenizerBase], text: str) -> None:
    check(*folder, text)


@settings(max_examples=300, deadline=None)
@given(text=ANY)
def test_folders_with_any_text(folder: tuple[Tokenizer, PreTrainedTokenizerBase], text: str) -> None:
    check(*folder, text)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_ids_decode_alike(folder: tuple[Tokenizer, PreTrainedTokenizerBase], data: st.DataObject) -> None:
    """But for bytes that are no UTF-8: transformers writes U+FFFD for every byte of a run of byte
    tokens that holds one, pilotfish only for those that are in no character, and can so stream."""
    ours, theirs = folder
    ids = data.draw(st.lists(st.integers(0, ours.vocab_size - 1), max_size=30))
    decoded, everything = ours.decode(ids), ours.decode(ids, skip_control=False)
    if "\ufffd" not in decoded:
        assert decoded == theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    if "\ufffd" not in everything:
        assert everything == theirs.decode(ids, clean_up_tokenization_spaces=False)


@pytest.fixture(scope="module")
def gemma() -> tuple[Tokenizer, PreTrainedTokenizerBase]:
    if GEMMA is None:
        pytest.skip("NOT RUN: the real vocabulary; set PILOTFISH_GEMMA to the path of a Gemma 3 GGUF")
    fields = dict(GgufFile.read(Path(GEMMA)).metadata)
    return gguf_tokenizer(_bare(Path(GEMMA), bos=2, metadata=fields)), _gguf(GEMMA)


def test_the_real_gemma_vocabulary(gemma: tuple[Tokenizer, PreTrainedTokenizerBase]) -> None:
    files = [path.read_text() for path in sorted(ROOT.rglob("*.py"))]
    control = (
        "<start_of_turn>user\nhi<end_of_turn>\n",
        "<bos><unused7>",
        "[multimodal]",
        "▁▁a",
        " " * 70,
        "\n" * 70,
    )
    for text in (*TEXTS, *CONTROL, *control, *files):
        check(*gemma, text)
