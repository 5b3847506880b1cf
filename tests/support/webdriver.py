"""A small client of ChromeDriver: the requests of WebDriver that the tests need.

Source: https://www.w3.org/TR/webdriver2/.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.eventually import eventually
from tests.support.processes import ProgramProcess, free_port
from tools.testbed.artifacts import browser
from tools.testbed.progress import StepPrinter

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""Key of an element's reference, by the standard."""
KEYS = {"tab": "\ue004", "enter": "\ue007"}


class WebDriverError(Exception):
    """ChromeDriver refused a command."""


class Browser:
    """One window of a headless Chromium."""

    def __init__(self, http: aiohttp.ClientSession, session: str) -> None:
        self._http, self._session = http, session

    async def open(self, url: str) -> None:
        """Load a page, and wait for its end."""
        await self._command("POST", "url", {"url": url})

    async def url(self) -> str:
        """Return the present address."""
        return str(await self._command("GET", "url"))

    async def run(self, script: str, *arguments: Any) -> Any:
        """Return the result of a script in the page."""
        return await self._command("POST", "execute/sync", {"script": script, "args": arguments})

    async def text(self, selector: str = "body") -> str:
        """Return the text of an element as it is seen."""
        found = await self.run(
            "const e = document.querySelector(arguments[0]); return e ? e.innerText : ''", selector
        )
        return str(found)

    async def press(self, key: str) -> None:
        """Press and release a key."""
        code = KEYS[key]
        down = [{"type": kind, "value": code} for kind in ("keyDown", "keyUp")]
        await self._command(
            "POST", "actions", {"actions": [{"type": "key", "id": "k", "actions": down}]}
        )

    async def click(self, selector: str) -> None:
        """Click an element."""
        found = await self._command("POST", "element", {"using": "css selector", "value": selector})
        await self._command("POST", f"element/{found[_ELEMENT]}/click", {})

    async def focused(self) -> str:
        """Return the text of the element with the focus."""
        return str(await self.run("return document.activeElement.innerText")).strip()

    async def logs(self) -> list[str]:
        """Return the messages of the console since the last call."""
        found = await self._command("POST", "se/log", {"type": "browser"})
        return [str(each["message"]) for each in found]

    async def prefer(self, scheme: str) -> None:
        """Let the user prefer `dark` or `light`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self._command(
            "POST",
            "goog/cdp/execute",
            {"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}},
        )

    async def screenshot(self) -> bytes:
        """Return a picture of the window, as PNG."""
        return base64.b64decode(await self._command("GET", "screenshot"))

    async def cookies(self) -> list[dict[str, Any]]:
        """Return the cookies that apply to the page."""
        return list(await self._command("GET", "cookie"))

    async def _command(self, method: str, path: str, body: Any = None) -> Any:
        return await _request(self._http, method, f"session/{self._session}/{path}", body)


async def _request(http: aiohttp.ClientSession, method: str, path: str, body: Any = None) -> Any:
    async with http.request(method, f"/{path}", json=body) as response:
        value = (await response.json()).get("value")
        if response.status != 200:
            raise WebDriverError(f"{method} {path}: {value}")
        return value


@asynccontextmanager
async def open_browser(folder: Path) -> AsyncIterator[Browser]:
    """Run Chromium for the length of a block."""
    port = free_port()
    base = browser.build(StepPrinter(quiet=True))
    driver = ProgramProcess(browser.build_driver_command(base, port), folder / "chromedriver.log")
    capabilities = {
        "alwaysMatch": {
            "goog:chromeOptions": {
                "binary": "/usr/bin/chromium",
                "args": [*browser.CHROMIUM_FLAGS, "--user-data-dir=/tmp/profile"],
            },
            "goog:loggingPrefs": {"browser": "ALL"},
        }
    }
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:

            async def is_ready() -> bool:
                if driver.has_ended:
                    raise AssertionError(driver.tail())
                try:
                    return bool((await _request(http, "GET", "status"))["ready"])
                except aiohttp.ClientError:
                    return False

            await eventually(is_ready, within=60)
            made = await _request(http, "POST", "session", {"capabilities": capabilities})
            try:
                yield Browser(http, made["sessionId"])
            finally:
                await _request(http, "DELETE", f"session/{made['sessionId']}")
    finally:
        await driver.stop()
