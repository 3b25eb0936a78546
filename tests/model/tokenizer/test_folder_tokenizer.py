"""folder_tokenizer: what a Hugging Face folder may say, and refusal of what it may not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pilotfish.errors import BadTokenizer
from pilotfish.model.tokenizer import Tokenizer, load_tokenizer
from pilotfish.model.weights import open_checkpoint

TINY = Path(__file__).parents[2] / "fixtures" / "tiny_llama"
HELLO = [{"role": "user", "content": " hi "}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TINY, tmp_path / "model"))


def load(folder: Path) -> Tokenizer:
    return load_tokenizer(open_checkpoint(folder))


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))


def test_the_folder_as_it_is(folder: Path) -> None:
    tokenizer = load(folder)
    assert tokenizer.vocab_size == 512 and tokenizer.eos_ids == {2} and tokenizer.bos_id == 1
    assert [token for token in range(512) if tokenizer.is_control(token)] == [0, 1, 2]
    text = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.chat(HELLO) == tokenizer.encode_with_control(text)


def test_the_template_may_stand_in_the_settings(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    assert not load(folder).has_chat_template
    settings = folder / "tokenizer_config.json"
    edit(settings, lambda fields: fields.update(chat_template="{{ messages[0].content }}{{ eos_token }}"))
    assert load(folder).chat(HELLO) == load(folder).encode_with_control(" hi <|im_end|>")
    named = [{"name": "tools", "template": "x"}, {"name": "default", "template": "y"}]
    edit(settings, lambda fields: fields.update(chat_template=named))
    assert load(folder).decode(load(folder).chat(HELLO)) == "y"
    edit(settings, lambda fields: fields.update(chat_template=named[:1]))
    with pytest.raises(BadTokenizer, match=r"\['tools'\], none is 'default'"):
        load(folder)


def test_special_tokens_may_be_tables(folder: Path) -> None:
    settings = folder / "tokenizer_config.json"
    edit(settings, lambda fields: fields.update(eos_token={"content": "<|endoftext|>", "special": True}))
    for name in ("config.json", "generation_config.json"):
        edit(folder / name, lambda fields: fields.update(eos_token_id=None))
    assert load(folder).eos_ids == {0}
    edit(settings, lambda fields: fields.update(eos_token=[1]))
    with pytest.raises(BadTokenizer, match="'eos_token' is"):
        load(folder)


def test_what_the_settings_call_special_is_control(folder: Path) -> None:
    def rename_the_last_token(fields: dict[str, Any]) -> None:
        vocabulary = fields["model"]["vocab"]
        del vocabulary[next(word for word, token in vocabulary.items() if token == 511)]
        vocabulary["<pad>"] = 511
        fields["model"]["merges"].pop()

    edit(folder / "tokenizer.json", rename_the_last_token)
    assert not load(folder).is_control(511)
    edit(folder / "tokenizer_config.json", lambda fields: fields.update(pad_token="<pad>"))
    tokenizer = load(folder)
    assert tokenizer.is_control(511) and tokenizer.encode_with_control("<pad>") == [511]
    assert 511 not in tokenizer.encode("<pad>")


def test_a_word_stays_a_word_whatever_the_settings_call_it(folder: Path) -> None:
    edit(folder / "tokenizer_config.json", lambda fields: fields.update(pad_token="!"))
    tokenizer = load(folder)
    assert tokenizer.decode(tokenizer.encode("hi!")) == "hi!"


def test_settings_may_be_absent(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    assert load(folder).bos_id == 1 and load(folder).eos_ids == {2}


def test_a_tokenizer_of_another_model(folder: Path) -> None:
    extra = {"id": 512, "content": "<more>", "special": True, "normalized": False}
    extra |= {"single_word": False, "lstrip": False, "rstrip": False}
    edit(folder / "tokenizer.json", lambda fields: fields["added_tokens"].append(extra))
    with pytest.raises(BadTokenizer, match=r"up to 512.*only 512 rows"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda fields: fields["model"].update(type="WordPiece"), "kind 'WordPiece'"),
        (lambda fields: fields.update(decoder={"type": "Metaspace"}), "reads byte-level BPE"),
        (lambda fields: fields.update(decoder=None), "reads byte-level BPE"),
        (lambda fields: fields.update(model=None), "kind None"),
        (lambda fields: fields["model"].update(merges=[["zz", "yy"]]), "no readable tokenizer"),
        (lambda fields: fields["model"].update(vocab=7), "no readable tokenizer"),
    ],
)
def test_other_kinds_and_damage_are_named(
    change: Callable[[dict[str, Any]], Any], named: str, folder: Path
) -> None:
    edit(folder / "tokenizer.json", change)
    with pytest.raises(BadTokenizer, match=named):
        load(folder)


@pytest.mark.parametrize("stored", [None, b"", b"{", b"[]", b"\xff"])
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_files_that_are_none(name: str, stored: bytes | None, folder: Path) -> None:
    path = folder / name
    path.unlink()
    if stored is None and name == "tokenizer_config.json":
        return
    if stored is not None:
        path.write_bytes(stored)
    with pytest.raises(BadTokenizer, match=name):
        load(folder)
