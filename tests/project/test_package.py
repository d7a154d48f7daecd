"""The wheel: everything it needs is inside, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from steer.base.shipped import checkpoint_names, preset_names, recipe_names

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_the_wheel_has_a_name_of_its_own_and_the_command_is_steer(wheel: Path):
    """Another project has the name `steer` on the package index."""
    assert wheel.name.startswith("steer_interp-")
    files = zipfile.ZipFile(wheel)
    inside = {Path(name).name: name for name in files.namelist() if ".dist-info/" in name}
    assert "steer = steer.__main__:main" in files.read(inside["entry_points.txt"]).decode()
    told = files.read(inside["METADATA"]).decode()
    assert "Name: steer-interp" in told
    assert "Provides-Extra: hf" in told


def test_the_wheel_holds_recipes_checkpoints_and_presets(wheel: Path):
    files = set(zipfile.ZipFile(wheel).namelist())
    assert {f"steer/recipes/{name}.yaml" for name in recipe_names()} <= files
    assert {f"steer/models/shipped/{name}/model.safetensors" for name in checkpoint_names()} <= files
    assert {f"steer/models/training/presets/{name}.yaml" for name in preset_names()} <= files
    assert not any("test" in name or "__pycache__" in name for name in files)


def test_the_wheel_works_away_from_the_checkout(wheel: Path, tmp_path: Path):
    """In an environment of its own (which borrows the libraries of this one), from an unrelated folder."""
    venv.create(tmp_path / "env", system_site_packages=False, with_pip=False)
    site = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    zipfile.ZipFile(wheel).extractall(site)
    libraries = next(Path(p) for p in sys.path if p.endswith("site-packages"))
    run = (
        f"import sys; sys.path.append({str(libraries)!r}); "
        "import steer; assert 'env' in steer.__file__, steer.__file__; "
        "from steer.commands import app; app(sys.argv[1:])"
    )
    python = tmp_path / "env" / "bin" / "python"
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # which may lead to the checkout
    for arguments in (["eval", "--checkpoint", "tiny", "--split", "validation"], ["validate", "swap_index"], ["ls"]):
        done = subprocess.run(
            [python, "-c", run, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "results" / "eval-tiny" / "result.json").exists()
