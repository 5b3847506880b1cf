"""The tenant that tests of seats have in common; one that needs more has its own `split`."""

from __future__ import annotations

import pytest

from syncer.controllers.pods import candidates
from tests.unit.syncer.splits import Split


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> Split:
    monkeypatch.setattr(candidates, "_refusal", lambda *_: "")
    return Split()
