"""The page of `steer reproduce` in a real browser: `make test-browser`. Screenshots go to `results/browser`."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import Browser, browser, missing

import steer

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(missing()), reason=missing() or "all is there")]
SHOTS = Path(__file__).parents[2] / "results" / "browser"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return steer.reproduce("seed1", out=tmp_path_factory.mktemp("page"), episodes=12).index


@pytest.fixture(scope="module")
def chrome(page: Path):
    with browser() as one:
        one.open(page)
        yield one


def column(chrome: Browser, number: int) -> list[str]:
    return chrome.run(
        f"return [...document.querySelectorAll('#claims tbody tr')].map(r => r.cells[{number}].textContent.trim())"
    )


def test_every_link_leads_somewhere(chrome: Browser, page: Path):
    links = chrome.run("return [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    assert len(links) > 30
    lost = chrome.run(
        "return [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
        ".filter(h => h.startsWith('#') && !document.getElementById(decodeURIComponent(h.slice(1))))"
    )
    assert lost == []
    assert all((page.parent / link).is_file() for link in links if not link.startswith("#"))
    assert chrome.run("return [...document.images].every(image => image.complete && image.naturalWidth > 0)")


def test_a_click_on_a_claims_recipe_shows_its_figure_and_back(chrome: Browser):
    chrome.click("#claims tbody tr:last-child td:last-child a")
    assert chrome.run("return location.hash") == "#swap_index"
    top = chrome.run("return document.getElementById('swap_index').getBoundingClientRect().top")
    assert 0 <= top + 5 < 900
    chrome.click("#swap_index figcaption a")
    assert chrome.run("return location.hash").startswith("#claim-")


def test_claims_are_sorted_by_a_click_and_again_the_other_way_round(chrome: Browser):
    before = column(chrome, 5)
    chrome.click("#claims th:nth-child(6) button")
    up = column(chrome, 5)
    assert up == chrome.run(f"return {before!r}.sort((a, b) => a.localeCompare(b, 'en', {{numeric: true}}))")
    assert up != before
    chrome.click("#claims th:nth-child(6) button")
    assert column(chrome, 5) == up[::-1]


def test_recipe_rows_and_provenance_unfold(chrome: Browser):
    # Newer browsers lay out what is folded too, so its height says nothing.
    shown = "return document.querySelector('#swap_index pre').checkVisibility()"
    assert chrome.run(shown) is False
    chrome.run("document.querySelectorAll('#swap_index details').forEach(d => d.open = true)")
    assert chrome.run(shown) is True
    assert "kind: position-swap" in chrome.run("return document.querySelector('#swap_index pre').textContent")
    assert chrome.run("return document.querySelectorAll('#swap_index details').length") == 3


@pytest.mark.parametrize(("name", "width"), [("wide", 1280), ("narrow", 480)])
def test_nothing_is_wider_than_the_window(chrome: Browser, name: str, width: int):
    chrome.resize(width, 1400)
    assert chrome.run("return document.documentElement.scrollWidth <= window.innerWidth")
    chrome.run("window.scrollTo(0, 0)")
    SHOTS.mkdir(parents=True, exist_ok=True)
    assert chrome.picture(SHOTS / f"{name}.png").stat().st_size > 10_000
    chrome.run("document.getElementById('fig05a_k_sources').scrollIntoView()")
    chrome.picture(SHOTS / f"{name}-figure.png")
