"""A real browser, driven over the web driver's own protocol (W3C WebDriver): Debian's chromium, without a screen."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

DRIVERS, BROWSERS = ("chromedriver",), ("chromium", "chromium-browser", "google-chrome")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name of a reference to an element


def missing() -> str:
    """What a browser test needs and this machine has not; empty: all is there."""
    for kind, names in (("web driver", DRIVERS), ("browser", BROWSERS)):
        if not any(map(shutil.which, names)):
            return f"no {kind} here ({' or '.join(names)}): apt-get install chromium chromium-driver"
    return ""


class Browser:
    def __init__(self, address: str) -> None:
        self.address = address
        options = {"binary": next(filter(None, map(shutil.which, BROWSERS))), "args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        ]}  # fmt: skip
        asked = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        self.session = call(f"{address}/session", asked)["sessionId"]

    def do(self, what: str, given: dict[str, Any] | None = None) -> Any:
        return call(f"{self.address}/session/{self.session}/{what}", given)

    def open(self, page: Path) -> None:
        self.do("url", {"url": page.resolve().as_uri()})

    def resize(self, width: int, height: int) -> None:
        self.do("window/rect", {"width": width, "height": height})

    def run(self, script: str) -> Any:
        """What a script returns."""
        return self.do("execute/sync", {"script": script, "args": []})

    def click(self, selector: str) -> None:
        found = self.do("element", {"using": "css selector", "value": selector})
        self.do(f"element/{found[ELEMENT]}/click", {})

    def picture(self, path: Path) -> Path:
        path.write_bytes(b64decode(self.do("screenshot")))
        return path


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser that is gone afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = next(filter(None, map(shutil.which, DRIVERS)))
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait(f"http://127.0.0.1:{port}/status")
        one = Browser(f"http://127.0.0.1:{port}")
        try:
            yield one
        finally:
            call(f"{one.address}/session/{one.session}", method="DELETE")
    finally:
        process.terminate()
        process.wait()


def wait(address: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            call(address)
            return
        except URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def call(address: str, given: dict[str, Any] | None = None, method: str = "") -> Any:
    data = None if given is None else json.dumps(given).encode()
    request = Request(address, data, {"Content-Type": "application/json"}, method=method or ("POST" if data else "GET"))
    with urlopen(request, timeout=300) as answer:
        return json.load(answer)["value"]
