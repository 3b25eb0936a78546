"""Prompt files: the built-in one, and everything that can be wrong with another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pilotfish.bench.workload import read_prompts, spread
from pilotfish.errors import BadRequest

GOOD = '{"id": "a", "category": "chat", "turns": ["Hello"]}'


def written(folder: Path, *lines: str) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_built_in_prompts_are_equally_many_of_each_of_eight_tasks() -> None:
    prompts = read_prompts(None)
    categories = [prompt.category for prompt in prompts]
    counts = {categories.count(name) for name in categories}
    assert len(set(categories)) == 8 and len(counts) == 1 and min(counts) >= 3
    assert len(read_prompts(None, limit=1)) == 8
    assert all(len(prompt.turns) == 1 for prompt in read_prompts(None, first_turn=True))


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([GOOD, "{not json"], "line 2: not JSON"),
        ([GOOD, "", "[1, 2]"], "line 3: found list"),
        (['{"id": "a", "turns": ["x"]}'], "line 1: lacks category"),
        (["{}"], "lacks id, category, turns; found nothing"),
        ([GOOD, GOOD], "line 2: the id 'a' was used in line 1"),
        ([""], "holds no prompts"),
        (['{"id": "a", "category": "c", "turns": []}'], "line 1: turns must be"),
        (['{"id": "a", "category": "c", "turns": "x"}'], "turns must be"),
        (['{"id": "a", "category": "c", "turns": [""]}'], "turns must be"),
        (['{"id": null, "category": "c", "turns": ["x"]}'], "id must be"),
        (['{"id": true, "category": "c", "turns": ["x"]}'], "id must be"),
        (['{"id": "a", "category": 3, "turns": ["x"]}'], "category must be"),
        (['{"id": "a", "category": "c", "turns": ["x"], "raw": "yes"}'], "raw must be true or false"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, lines: list[str], says: str) -> None:
    path = written(tmp_path, *lines)
    with pytest.raises(BadRequest, match=says) as refused:
        read_prompts(path)
    assert str(path) in str(refused.value)


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="is a folder"):
        read_prompts(tmp_path)
    with pytest.raises(BadRequest, match=r"none\.jsonl: No such file"):
        read_prompts(tmp_path / "none.jsonl")
    path = tmp_path / "latin.jsonl"
    path.write_bytes(GOOD.encode() + b'\n{"id": "\xe9"}\n')
    with pytest.raises(BadRequest, match="line 2: not UTF-8"):
        read_prompts(path)
    with pytest.raises(BadRequest, match="limit must be at least 1"):
        read_prompts(None, limit=0)


def test_limit_counts_per_category_in_file_order_and_later_lines_are_still_checked(tmp_path: Path) -> None:
    rows = [{"id": i, "category": "ab"[i % 2], "turns": ["x", "y"]} for i in range(6)]
    path = written(tmp_path, *map(json.dumps, rows))
    assert [prompt.id for prompt in read_prompts(path, limit=2)] == ["0", "1", "2", "3"]
    assert [prompt.id for prompt in spread(read_prompts(path)[::2] + read_prompts(path)[1:2])] == [
        "0",
        "1",
        "2",
        "4",
    ]


def test_the_categories_of_mt_bench_are_one_task_in_spec_bench_files_only(tmp_path: Path) -> None:
    row = {"id": "1", "category": "writing", "turns": ["x"], "raw": True}
    ours = read_prompts(written(tmp_path, json.dumps(row)))
    theirs = read_prompts(written(tmp_path, json.dumps(row | {"source": "hemingkx/Spec-Bench"})))
    assert (ours[0].category, theirs[0].category) == ("writing", "mt_bench")
    assert ours[0].raw and theirs[0].raw
    kept = read_prompts(written(tmp_path, json.dumps(row | {"id": "spec_bench-1", "category": "rag"})))
    assert kept[0].category == "rag"
