"""Things by name: shipped ones, and those that installed packages offer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from steer.base.errors import SteerError
from steer.base.registry import Registry


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a package with one module and entry points of the group `steer.toys`."""

    def install(**offered: str) -> None:
        (tmp_path / "toybox.py").write_text("BEAR, BALL = 'bear', 'ball'\n")
        folder = tmp_path / "toybox-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: toybox\nVersion: 1\n")
        lines = [f"{name} = {place}" for name, place in offered.items()]
        (folder / "entry_points.txt").write_text("\n".join(["[steer.toys]", *lines, ""]))
        monkeypatch.syspath_prepend(tmp_path)

    yield install
    sys.modules.pop("toybox", None)


def test_shipped_things_are_loaded_on_first_use():
    found = Registry[str]("steer.toys", {"name": "string:digits", "lost": "no_such_module:X", "none": "string:toy"})
    assert list(found) == ["name", "lost", "none"]
    assert found["name"] == "0123456789"
    for name in ("lost", "none"):
        with pytest.raises(SteerError, match=f"steer.toys: '{name}' cannot be loaded from"):
            found[name]


def test_an_installed_package_offers_more(installed):
    installed(bear="toybox:BEAR")
    found = Registry[str]("steer.toys", {"name": "string:digits"})
    assert list(found) == ["name", "bear"]
    assert "bear" in found
    assert "toybox" not in sys.modules
    assert found["bear"] == "bear"


def test_two_of_one_name_are_a_fault(installed):
    installed(name="toybox:BALL")
    with pytest.raises(SteerError, match=r"'name' is offered twice, by string:digits and by toybox:BALL"):
        Registry[str]("steer.toys", {"name": "string:digits"})["name"]


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(SteerError, match=r"no toy named 'nmae'; did you mean name\?"):
        Registry[str]("steer.toys", {"name": "string:digits"})["nmae"]
