"""The laws of the house: who may import whom, and what must load without torch. Read off the source, not off a run."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from made import made_result, made_row

from steer.base.registry import Registry
from steer.measures import MEASURES
from steer.recipe.kinds import KINDS
from steer.results.files import write_result

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import house  # noqa: E402

ALONE = {  # a library -> the one folder that may import it
    "nnsight": "steer/engine/backends",
    "dask": "steer/experiments",
    "distributed": "steer/experiments",
    "matplotlib": "steer/drawing/figures",
    "seaborn": "steer/drawing/figures",
}
WITHOUT_TORCH = (
    "steer/base", "steer/anatomy", "steer/results", "steer/tasks", "steer/plan", "steer/measures", "steer/recipe",
    "steer/engine/schedule.py", "steer/engine/text.py", "steer/models/families.py", "steer/models/plain/family.py",
    *(f"steer/models/huggingface/{name}.py" for name in ("family", "place", "tokenizer", "layout", "rows", "steps")),
)  # fmt: skip
COMMANDS = (["plan", "swap_index"], ["validate", "recipes"], ["schema"], ["ls"])


def imported(file: Path) -> set[str]:
    """The modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import, which the laws do not see"
            found.add(node.module or "")
    return found


FILES = {file.relative_to(ROOT).as_posix(): imported(file) for file in sorted((ROOT / "steer").rglob("*.py"))}


def test_every_folder_is_a_room():
    rooms = {path.parent.name for path in (ROOT / "steer").glob("*/*.py")}
    assert rooms == set(house.ROOMS)


def test_rooms_import_only_rooms_above_them():
    assert house.upward(house.imports()) == {}


def test_rooms_are_joined_by_few_imports():
    assert len(house.imports()) <= 70


def test_the_house_is_not_too_high():
    assert max(house.storeys(house.imports()).values()) <= 8


def test_a_storey_is_one_above_the_highest_room_below():
    found = {("anatomy", "base"): ["a"], ("plan", "anatomy"): ["b"], ("plan", "base"): ["c"]}
    assert {room: house.storeys(found)[room] for room in ("base", "anatomy", "tasks", "plan")} == {
        "base": 1, "anatomy": 2, "tasks": 1, "plan": 3,
    }  # fmt: skip


def test_the_laws_see_an_import_that_breaks_them(tmp_path: Path):
    for room, line in (("base", "from steer.engine.engine import Engine"), ("plan", "from steer import base")):
        (tmp_path / "steer" / room).mkdir(parents=True)
        (tmp_path / "steer" / room / "some.py").write_text(f"def late():\n    {line}\n")
    found = house.imports(tmp_path / "steer")
    assert found == {("base", "engine"): ["steer/base/some.py:2"], ("plan", "base"): ["steer/plan/some.py:2"]}
    assert set(house.upward(found)) == {("base", "engine")}


@pytest.mark.parametrize("library", ALONE)
def test_a_library_is_imported_in_one_place_only(library: str):
    users = {file for file, modules in FILES.items() if any(name.split(".")[0] == library for name in modules)}
    assert users
    assert not {file for file in users if not file.startswith(f"{ALONE[library]}/")}


def test_only_what_stands_in_a_file_has_keys_of_any_kind():
    """Everywhere else a class, a `TypedDict` or an alias says what a mapping holds."""
    bags = {
        f"{file}:{node.lineno}"
        for file in FILES
        for node in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(node, ast.Subscript) and ast.unparse(node) in ("dict[str, Any]", "dict[str, object]")
    }
    assert {bag.partition(":")[0] for bag in bags} == {"steer/base/json.py"}, bags


def modules(place: str) -> list[str]:
    files = [file for file in FILES if file == place or file.startswith(f"{place}/")]
    assert files, place
    return [file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in files]


def started(program: str, *arguments: str) -> str:
    """What a fresh process says that is free of all that this one has loaded."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_names_tasks_plans_and_recipes_load_without_torch():
    """All in one process: the first module after which torch is there is the one to blame."""
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    heavy = {'torch', 'nnsight', 'matplotlib'} & set(sys.modules)\n"
        "    assert not heavy, f'{name} loads {heavy}'\n"
        "print(len(sys.argv) - 1)"
    )
    names = [name for place in WITHOUT_TORCH for name in modules(place)]
    assert int(started(program, *names)) == len(names) > 40


def test_what_a_recipe_means_is_told_without_torch():
    """All commands in one process, each with something to say."""
    program = (
        "import json, sys\n"
        "from typer.testing import CliRunner\n"
        "from steer.commands import app\n"
        "for arguments in json.loads(sys.argv[1]):\n"
        "    done = CliRunner().invoke(app, arguments)\n"
        "    assert done.exit_code == 0 and done.stdout.strip(), (arguments, done.output, done.exception)\n"
        "    heavy = {'torch', 'nnsight', 'matplotlib'} & set(sys.modules)\n"
        "    assert not heavy, f'{arguments} loads {heavy}'\n"
    )
    started(program, json.dumps(COMMANDS))


def test_a_saved_result_is_drawn_without_torch(tmp_path: Path):
    rows = [made_row(0.5, 0.4, 0.6, condition=name, measure="exact-match") for name in ("clean", "after")]
    write_result(made_result(rows), tmp_path)
    program = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from steer.commands import app\n"
        "done = CliRunner().invoke(app, ['draw', sys.argv[1]])\n"
        "assert done.exit_code == 0, (done.output, done.exception)\n"
        "assert not {'torch', 'nnsight'} & set(sys.modules)\n"
    )
    started(program, str(tmp_path))
    assert list(tmp_path.glob("*.png"))


@pytest.mark.parametrize(("folder", "registry"), [("measures", MEASURES), ("recipe/kinds", KINDS)])
def test_no_measure_knows_another_and_no_kind_does(folder: str, registry: Registry):
    """What several share stands in files that offer none of them."""
    offering = {registry.places[name].partition(":")[0] for name in registry}
    assert len(offering) >= 6
    assert offering <= set(modules(f"steer/{folder}"))
    for module in offering:
        others = FILES[module.replace(".", "/") + ".py"] & (offering - {module})
        assert not others, f"{module} imports {others}"
