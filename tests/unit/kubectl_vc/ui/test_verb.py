"""The URL reaches the browser in a private file, never as an argument."""

import stat
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.ui import verb


def test_the_file_for_the_browser_is_private_and_short_lived():
    with verb.redirect_file("http://127.0.0.1:1/a/?key=s&x=1") as path:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert "url=http://127.0.0.1:1/a/?key=s&amp;x=1" in path.read_text()
    assert not path.parent.exists()


def test_a_browser_gets_the_file_and_not_the_secret(monkeypatch: pytest.MonkeyPatch):
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with verb.redirect_file("http://127.0.0.1:1/a/?key=secret") as path:
        verb.open_browser(path)
        assert Path(unquote(urlsplit(opened[0]).path)) == path
    assert "secret" not in opened[0]


def test_a_browser_that_cannot_start_is_no_error(monkeypatch: pytest.MonkeyPatch):
    def fail(_: str) -> None:
        raise webbrowser.Error("none")

    monkeypatch.setattr(webbrowser, "open", fail)
    with verb.redirect_file("http://x") as path:
        verb.open_browser(path)


def test_a_port_in_use_is_an_error():
    with verb.listen(0) as first:
        port = first.getsockname()[1]
        with (
            pytest.raises(CliError, match=f"port {port} of 127.0.0.1 cannot be used"),
            verb.listen(port),
        ):
            pass
