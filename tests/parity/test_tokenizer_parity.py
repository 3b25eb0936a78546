"""Token ids equal to transformers', id for id: the embedded GGUF and the tiny folder.

transformers reads a GGUF vocabulary right, but not the rule that cuts words: it always takes
GPT-2's, while the file names `smollm` (every digit is a word), as the model's own tokenizer.json
and llama.cpp do. So texts without digits are compared with transformers as it is, and all texts
with transformers after that rule has been put in.
"""

from __future__ import annotations

import copy
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from pilotfish.model.tokenizer import Tokenizer, load_tokenizer
from pilotfish.model.weights import embedded_path, open_checkpoint

TINY = Path(__file__).parents[1] / "fixtures" / "tiny_llama"
TEXTS = (
    "",
    " ",
    "Hello, world!",
    "def f(x):\n\treturn x ** 2  # squared\n\n\nprint(f(3))\n",
    '{"a": [1, 2.5e-3, null], "b": "\\u00e9"}',
    "for (int i = 0; i < 10; ++i) {\r\n  sum += a[i];\r\n}",
    "   leading and trailing   ",
    "a  b   c    d     e" + " " * 50 + "f",
    "tabs\t\tand\n\n\nnewlines\r\n \n \t\n",
    "1234567890 3.14159 1,000,000 2024-05-06 0x1F v1.2.3",
    "in 2024  there were  42   things",
    "I'm you're they've it'll he'd we're don't IT'S",
    "日本語のテキスト、漢字とかな。中文测试文本。한국어 문장입니다.",
    "مرحبا بالعالم، كيف حالك؟ שלום עולם",
    "नमस्ते दुनिया สวัสดีชาวโลก",
    "🎉🚀👩‍👩‍👧‍👦🏳️‍🌈 👍🏽 ❤️",
    "e\u0301 \u00e9 \ufb01 \u212b \u1e9b\u0323 Å",
    "zero\u200bwidth\u200d\ufeff\u00a0nbsp\u2003em\u3000ideographic",
    "½ ² ³ ① Ⅷ ٣ ४ 𝟙 万",
    "\u0000\u0001\u0007\u001b[31mred\u001b[0m\u007f",
    "\U0010ffff \ufdd0 \ufffd",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "<|im_start|> <|im_end|>x<|im_end|>",
    "<|im_start <|im_start| im_end|> <||> <repo_name>x<file_sep>",
    "https://example.com/a_b?c=d&e=%20#f",
    "ThisIsCamelCase and_snake_case and-kebab-case SHOUTING",
    "$\\frac{1}{2} \\int_0^\\infty e^{-x^2} dx$",
)
WORDS = st.sampled_from(
    [
        "the",
        " the",
        "  ",
        "\n",
        "\t",
        "12",
        " 7",
        "é",
        "日本",
        "🎉",
        "<|im_end|>",
        "'s",
        "'LL",
        "_",
        "—",
        "\u0301",
        "\r\n",
    ]
)
ANY = st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=12).map("".join))
CHATS = (
    [{"role": "user", "content": "hi"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2+2?"}],
    [
        {"role": "user", "content": "Write code.\n\n```python\nprint(1)\n```"},
        {"role": "assistant", "content": "  Sure 🎉  "},
        {"role": "user", "content": "日本語で\tお願い"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "thanks\n"},
    ],
)


@pytest.fixture(scope="module", params=["embedded", "tiny"])
def pair(request: pytest.FixtureRequest) -> tuple[Tokenizer, PreTrainedTokenizerFast]:
    if request.param == "tiny":
        return load_tokenizer(open_checkpoint(TINY)), AutoTokenizer.from_pretrained(TINY)
    theirs = copy.deepcopy(request.getfixturevalue("untouched"))
    theirs.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return load_tokenizer(open_checkpoint(embedded_path())), theirs


@pytest.fixture(scope="module")
def untouched() -> PreTrainedTokenizerFast:
    path = embedded_path()
    return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


@pytest.fixture(scope="module")
def embedded() -> Tokenizer:
    return load_tokenizer(open_checkpoint(embedded_path()))


def check(ours: Tokenizer, theirs: PreTrainedTokenizerFast, text: str) -> None:
    ids = theirs(text)["input_ids"]
    assert ours.encode_with_control(text) == ids
    assert ours.encode(text) == theirs(text, split_special_tokens=True, add_special_tokens=False)["input_ids"]
    assert ours.decode(ids, skip_control=False) == theirs.decode(ids, skip_special_tokens=False)
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("text", TEXTS)
def test_texts(pair: tuple[Tokenizer, PreTrainedTokenizerFast], text: str) -> None:
    check(*pair, text)


@settings(max_examples=400, deadline=None)
@given(text=ANY)
def test_any_text(pair: tuple[Tokenizer, PreTrainedTokenizerFast], text: str) -> None:
    check(*pair, text)


def without_digits(text: str) -> str:
    return "".join(char for char in text if not unicodedata.category(char).startswith("N"))


@settings(max_examples=400, deadline=None)
@given(text=ANY)
def test_any_text_without_digits(embedded: Tokenizer, untouched: PreTrainedTokenizerFast, text: str) -> None:
    check(embedded, untouched, without_digits(text))


@pytest.mark.parametrize("text", TEXTS)
def test_texts_without_digits(embedded: Tokenizer, untouched: PreTrainedTokenizerFast, text: str) -> None:
    check(embedded, untouched, without_digits(text))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_ids_decode_alike(pair: tuple[Tokenizer, PreTrainedTokenizerFast], data: st.DataObject) -> None:
    ours, theirs = pair
    ids = data.draw(st.lists(st.integers(0, ours.vocab_size - 1), max_size=30))
    assert ours.decode(ids, skip_control=False) == theirs.decode(ids, skip_special_tokens=False)
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("prompt", [True, False])
@pytest.mark.parametrize("messages", CHATS)
def test_chats(
    pair: tuple[Tokenizer, PreTrainedTokenizerFast], messages: list[dict[str, str]], prompt: bool
) -> None:
    ours, theirs = pair
    expected = theirs.apply_chat_template(messages, add_generation_prompt=prompt)["input_ids"]
    assert ours.chat(messages, add_generation_prompt=prompt) == expected


@settings(max_examples=150, deadline=None)
@given(contents=st.lists(ANY, min_size=1, max_size=4))
def test_any_chat(pair: tuple[Tokenizer, PreTrainedTokenizerFast], contents: list[str]) -> None:
    """With control strings in it too: each content is what transformers makes of it as mere text."""
    ours, theirs = pair
    messages = [{"role": "user", "content": content.strip()} for content in contents]

    def text(words: str) -> list[int]:
        return theirs(words, split_special_tokens=True, add_special_tokens=False)["input_ids"]

    ids = [token for m in messages for token in (1, *text(f"user\n{m['content']}"), 2, *text("\n"))]
    first = theirs.apply_chat_template([{"role": "user", "content": ""}])["input_ids"]
    first = first[: len(first) - len([1, *text("user\n"), 2, *text("\n")])]
    assert ours.chat(messages, add_generation_prompt=False) == first + ids
    if "<|im_end|>" not in "".join(contents):
        plain = theirs.apply_chat_template(messages, add_generation_prompt=True)
        assert ours.chat(messages) == plain["input_ids"]


def test_end_ids(pair: tuple[Tokenizer, PreTrainedTokenizerFast]) -> None:
    ours, theirs = pair
    assert ours.eos_ids == {theirs.eos_token_id} and ours.bos_id == theirs.bos_token_id
