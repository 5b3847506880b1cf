import ssl
import time
from types import SimpleNamespace

import pytest

from kubeio.http import tls_sessions
from kubeio.http.tls_sessions import SESSION_SECONDS, ResumingContext

NAME = "tenant.example"


@pytest.fixture
def context(monkeypatch):
    """A context whose connections begin with nothing but the session that is offered."""
    monkeypatch.setattr(ssl.SSLContext, "wrap_bio", lambda *arguments: arguments[-1])
    return ResumingContext(ssl.PROTOCOL_TLS_CLIENT)


def connection(made_by, **other):
    """Return a verified connection of TLS 1.3 whose ticket has arrived."""
    found = {
        "context": made_by,
        "session_reused": False,
        "version": lambda: "TLSv1.3",
        "session": SimpleNamespace(has_ticket=True),
    }
    return SimpleNamespace(**{**found, **other})


def offered(context, name=NAME):
    return context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=name)


def test_session_is_offered_to_its_server_alone(context):
    first = connection(context)
    context.remember_session(first, NAME, time.monotonic())
    assert offered(context) is first.session
    assert offered(context, "other.example") is None
    assert offered(context, None) is None


@pytest.mark.parametrize(
    "other",
    [
        {"session_reused": True},
        {"version": lambda: "TLSv1.2"},
        {"session": None},
        {"session": SimpleNamespace(has_ticket=False)},
        {"context": None},
    ],
    ids=["resumed itself", "TLS 1.2", "no session", "no ticket", "another context"],
)
def test_session_is_not_kept(context, other):
    context.remember_session(connection(context, **other), NAME, time.monotonic())
    assert offered(context) is None


def test_session_without_a_verified_name_is_not_kept(context):
    context.remember_session(connection(context), None, time.monotonic())
    context.remember_session(None, NAME, time.monotonic())
    assert offered(context) is None


def test_session_ends_after_its_lifetime(context, monkeypatch):
    proved = time.monotonic()
    context.remember_session(connection(context), NAME, proved)
    clock = SimpleNamespace(monotonic=lambda: proved + SESSION_SECONDS)
    monkeypatch.setattr(tls_sessions, "time", clock)
    assert offered(context) is None


def test_later_handshake_replaces_an_earlier_one_only(context):
    proved, first, later = time.monotonic(), connection(context), connection(context)
    context.remember_session(later, NAME, proved)
    context.remember_session(first, NAME, proved - 1.0)
    assert offered(context) is later.session
    context.remember_session(first, NAME, proved + 1.0)
    assert offered(context) is first.session


def test_answer_from_before_a_refusal_restores_no_session(context):
    proved = time.monotonic()
    context.remember_session(connection(context), NAME, proved)
    context.forget_session()
    assert offered(context) is None
    context.remember_session(connection(context), NAME, proved)
    assert offered(context) is None
    context.remember_session(connection(context), NAME, time.monotonic() + 1.0)
    assert offered(context) is not None
