"""The shape of the package as a test: import arrows point down, files and functions stay small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pilotfish"
FILES = sorted(PACKAGE.rglob("*.py"))

# A part may import parts of lower levels, and itself.
LEVELS = {
    "errors": 0,
    "draft": 1,
    "sampling": 1,
    "verify": 2,
    "propose": 2,
    "model": 3,
    "plan": 4,
    "engine": 5,
    "testing": 5,  # worlds stand in for what the engine works with, never for the engine
    "llm": 6,
    "serve": 7,
    "bench": 7,
    "audit": 8,
    "train": 8,
    "cli": 9,
    "__init__": 10,
    "__main__": 10,
}
HEAVY = {"torch", "transformers"}
MAY_BE_HEAVY = ("model/torch/", "train/")
FORBIDDEN_NAMES = {"utils", "util", "helper", "helpers", "manager", "common", "base", "misc"}
MOST_LINES, MOST_FUNCTION_LINES, MOST_POSITIONAL = 300, 40, 5
DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
CONTAINERS = {"list", "dict", "set", "defaultdict", "deque", "Counter", "OrderedDict"}
MUTATORS = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"}
MUTATORS |= {"setdefault", "update"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def part_of(path: Path) -> str:
    """The part of the package a file belongs to: errors.py and verify/block.py -> errors, verify."""
    return Path(name_of(path)).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """The full names of all modules a file imports, wherever in it."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno} imports relatively"
            yield node.module or ""
            if node.module == "pilotfish":
                yield from (f"pilotfish.{alias.name}" for alias in node.names)


def functions(path: Path) -> list[Function]:
    return [node for node in ast.walk(tree(path)) if isinstance(node, Function)]


each_file = pytest.mark.parametrize("path", FILES, ids=name_of)


@each_file
def test_imports_point_down(path: Path) -> None:
    own = part_of(path)
    assert own in LEVELS, f"{own} has no level: say where it belongs"
    for module in imported(path):
        root, _, rest = module.partition(".")
        other = rest.partition(".")[0]
        if root != "pilotfish" or other in ("", own):
            continue
        if other not in LEVELS:  # a name that the front door re-exports, such as __version__
            assert LEVELS[own] > LEVELS["model"], f"{name_of(path)} imports the front door"
            continue
        assert LEVELS[other] < LEVELS[own], f"{name_of(path)} imports {module}, which is not below {own}"


@each_file
def test_the_core_needs_no_torch(path: Path) -> None:
    if name_of(path).startswith(MAY_BE_HEAVY):
        return
    heavy = {module.partition(".")[0] for module in imported(path)} & HEAVY
    assert not heavy, f"{name_of(path)} imports {heavy}"


def test_only_models_know_a_runtime() -> None:
    users = {name_of(path) for path in FILES if "openvino" in {m.partition(".")[0] for m in imported(path)}}
    assert all(name.startswith("model/") for name in users), users


@each_file
def test_files_are_small_and_named_for_what_they_do(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    assert path.stem not in FORBIDDEN_NAMES and path.parent.name not in FORBIDDEN_NAMES
    assert ast.get_docstring(tree(path)), f"{name_of(path)} does not say what it does"


@each_file
def test_functions_are_small(path: Path) -> None:
    for node in functions(path):
        where = f"{name_of(path)}:{node.lineno} {node.name}"
        assert (node.end_lineno or 0) - node.lineno < MOST_FUNCTION_LINES, f"{where} is too long"
        positional = [arg.arg for arg in [*node.args.posonlyargs, *node.args.args]]
        count = len(positional) - (positional[:1] in (["self"], ["cls"]))
        assert count <= MOST_POSITIONAL, f"{where} takes {count} positional arguments; make some keyword-only"


@each_file
def test_everything_is_annotated(path: Path) -> None:
    for node in functions(path):
        where = f"{name_of(path)}:{node.lineno} {node.name}"
        assert node.returns is not None, f"{where} has no return annotation"
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        arguments += [extra for extra in (node.args.vararg, node.args.kwarg) if extra]
        bare = [arg.arg for arg in arguments if arg.annotation is None and arg.arg not in ("self", "cls")]
        assert not bare, f"{where} does not annotate {bare}"


@each_file
def test_no_bare_except_and_no_global(path: Path) -> None:
    for node in ast.walk(tree(path)):
        where = f"{name_of(path)}:{getattr(node, 'lineno', 0)}"
        assert not (isinstance(node, ast.ExceptHandler) and node.type is None), f"{where}: bare except"
        assert not isinstance(node, ast.Global), f"{where}: global"


@each_file
def test_no_module_level_mutable_state(path: Path) -> None:
    """A container at module level is a constant: named as one, and nothing in the module changes it."""
    constants = dict(module_containers(tree(path)))
    for name, line in constants.items():
        assert name.strip("_").isupper() or name == "__all__", f"{name_of(path)}:{line} {name} is no constant"
    for function in functions(path):
        for name, line in changes(function):
            assert name not in constants, f"{name_of(path)}:{line} changes {name}"


def module_containers(module: ast.Module) -> Iterator[tuple[str, int]]:
    for node in module.body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        value = getattr(node, "value", None)
        called = isinstance(value, ast.Call) and getattr(value.func, "id", "") in CONTAINERS
        if isinstance(value, DISPLAYS) or called:
            yield from ((target.id, node.lineno) for target in targets if isinstance(target, ast.Name))


def changes(function: Function) -> Iterator[tuple[str, int]]:
    """Names whose contents a function changes: name[..] = .., del name[..], name.append(..)."""
    for node in ast.walk(function):
        changed: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            changed = [target.value for target in node.targets if isinstance(target, ast.Subscript)]
        elif isinstance(node, ast.AugAssign):
            changed = [node.target.value if isinstance(node.target, ast.Subscript) else node.target]
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS
        ):
            changed = [node.func.value]
        yield from ((target.id, target.lineno) for target in changed if isinstance(target, ast.Name))


def test_the_checks_find_what_they_look_for() -> None:
    bad = ast.parse("STATE = {}\nseen: list[int] = list()\ndef f(x):\n    STATE[1] = x\n    seen.append(x)")
    assert [name for name, _ in module_containers(bad)] == ["STATE", "seen"]
    function = bad.body[-1]
    assert isinstance(function, ast.FunctionDef)
    assert [name for name, _ in changes(function)] == ["STATE", "seen"]
