"""Authorization header of an endpoint, current after the renewal of a bound token.

Owns reading the token file: at most once a second, and at once after a 401.

Hazard: the path must be opened again for each read, and never be kept open. The kubelet replaces
symbolic links, so an open file keeps the old token.
"""

import time
from collections.abc import Callable
from pathlib import Path

from kubeio.config.endpoint import Endpoint, is_token
from kubeio.errors import CredentialsProblem

_LOOK_EVERY = 1.0  # seconds


class Credentials:
    """Value of the Authorization header. Empty if the client certificate is enough."""

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._title = endpoint.title
        self._file: Path | None = endpoint.token_file
        self._looked = clock()
        self._seen: tuple[int, int] = (0, 0)
        if self._file is not None:
            self._header = ""
            self._read(self._file)
        elif endpoint.token:
            self._header = f"Bearer {endpoint.token}"
        else:
            self._header = endpoint.authorization

    def header(self) -> str:
        """Return the header. The file is checked first if the last check is at least 1 s ago."""
        if self._file is not None and self._clock() - self._looked >= _LOOK_EVERY:
            self._looked = self._clock()
            if self._stamp(self._file) != self._seen:
                self._read(self._file)
        return self._header

    def refresh(self) -> bool:
        """Read the file after a 401, whatever its modification time.

        Returns whether the token changed.
        """
        if self._file is None:
            return False
        before = self._header
        self._read(self._file)
        return self._header != before

    def _read(self, file: Path) -> None:
        try:
            self._seen = self._stamp(file)
            token = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise CredentialsProblem(
                f"the token for {self._title} cannot be read from {file}; mount it again"
            ) from problem
        if not token:
            raise CredentialsProblem(f"the token file {file} for {self._title} is empty")
        if not is_token(token):
            raise CredentialsProblem(
                f"the token file {file} for {self._title} holds more than a token; write it anew"
            )
        self._header = f"Bearer {token}"

    def _stamp(self, file: Path) -> tuple[int, int]:
        try:
            found = file.stat()
        except OSError:
            return self._seen  # between two symbolic links, and the current token is still valid
        return (found.st_mtime_ns, found.st_ino)
