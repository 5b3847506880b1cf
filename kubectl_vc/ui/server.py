"""HTTP server of the pages on loopback.

Owns routes, answers and the session cookie. Must not know how a page is read. Hazard: every route
must pass the guard, files included.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from kubectl_vc.output.cli_errors import CliError, describe_error
from kubectl_vc.ui import page_facts, pod_facts
from kubectl_vc.ui.connection_renewal import RenewedConnection
from kubectl_vc.ui.object_kinds import DEFAULT_KIND, KINDS
from kubectl_vc.ui.page_facts import MissingObjectError, NamespaceQuery
from kubectl_vc.ui.page_templates import FOLDER, PageTemplates
from kubectl_vc.ui.request_guard import (
    COOKIE,
    KEY_PARAMETER,
    SECURITY_HEADERS,
    AccessSecrets,
    is_key,
    refuse_request,
)
from kubectl_vc.ui.urls import Urls
from kubeio import errors
from tenancy import names

STATIC_FILES: Mapping[str, str] = {
    "htmx.min.js": "text/javascript",
    "ui.js": "text/javascript",
    "ui.css": "text/css",
    "ui.svg": "image/svg+xml",
}
PAGE_SECONDS = 30.0
"""Time limit in seconds of one page."""
SHUTDOWN_SECONDS = 1.0
LIVE = "live"
"""Value of the parameter `part`: only the live part of a page."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class PageError:
    """Status and sentence of a page that cannot be shown."""

    status: int
    text: str


@contextlib.asynccontextmanager
async def serve_pages(
    renewed: RenewedConnection, listening: socket.socket
) -> AsyncIterator[AccessSecrets]:
    """Serve the pages on a bound socket for the length of a block."""
    secret = AccessSecrets(port=listening.getsockname()[1])
    application = PageServer(renewed, secret).build_application()
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield secret
    finally:
        await runner.cleanup()


class PageServer:
    """Routes of the pages."""

    def __init__(self, renewed: RenewedConnection, secret: AccessSecrets) -> None:
        """Create the server for one connection. It listens when `application` is served."""
        self._renewed = renewed
        self._secret = secret
        self._templates = PageTemplates(Urls(secret.prefix))
        self._static = {name: (FOLDER / "static" / name).read_bytes() for name in STATIC_FILES}

    def build_application(self) -> web.Application:
        """Return the application with all routes behind the guard."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._guard(request, handler)

        application = web.Application(middlewares=[guard])
        prefix = self._secret.prefix
        tenant = prefix + "t/{namespace}/{name}"
        routes: tuple[tuple[str, Handler], ...] = (
            (prefix, self._show_tenants),
            (tenant, self._show_tenant),
            (tenant + "/n/{space}", self._show_namespace),
            (tenant + "/n/{space}/pods/{pod}", self._show_pod),
            (prefix + "static/{file}", self._send_file),
        )
        for path, handler in routes:
            application.router.add_get(path, handler)
        return application

    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        key = request.query.get(KEY_PARAMETER, "") if request.path == self._secret.prefix else ""
        refusal = refuse_request(
            self._secret,
            method=request.method,
            host=request.headers.get("Host", ""),
            cookie=request.cookies.get(COOKIE, ""),
            key=key,
        )
        if refusal is not None:
            return _finish(web.Response(status=refusal.status, text=refusal.text + "\n"))
        if key and is_key(self._secret, key):
            return _finish(self._log_in())
        return _finish(await self._answer(request, handler))

    def _log_in(self) -> web.Response:
        """Return the page that sets the cookie and continues without the secret in the URL.

        The page continues by itself, because a browser that came from elsewhere sends no strict
        cookie after a redirect.
        """
        response = self._respond("welcome.html")
        response.set_cookie(
            COOKIE,
            self._secret.cookie,
            path=self._secret.prefix,
            httponly=True,
            samesite="Strict",
        )
        return response

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                try:
                    return await handler(request)
                except errors.Unauthorized:
                    await self._renewed.reconnect()  # the credential of a login plugin has ended
                    return await handler(request)
        except web.HTTPNotFound:
            return self._respond_error(PageError(404, "This page does not exist."))
        except web.HTTPException as problem:
            return web.Response(status=problem.status, text=f"{problem.reason}\n")
        except (MissingObjectError, CliError, errors.KubeError, names.InvalidNameError) as problem:
            return self._respond_error(describe_page_error(problem))
        except TimeoutError:
            text = f"The page was not complete after {PAGE_SECONDS:.0f} s. Reload it."
            return self._respond_error(PageError(504, text))

    async def _show_tenants(self, request: web.Request) -> web.Response:
        token = request.query.get("continue", "")
        page = await page_facts.read_tenants(self._renewed.connection, token)
        return self._respond_live(request, "tenants", page=page, token=token)

    async def _show_tenant(self, request: web.Request) -> web.Response:
        namespace, name = _get_tenant_name(request)
        page = await page_facts.read_tenant(self._renewed.connection, namespace, name)
        return self._respond_live(request, "tenant", page=page, token="", tenant=(namespace, name))

    async def _show_namespace(self, request: web.Request) -> web.Response:
        namespace, name = _get_tenant_name(request)
        space, key = _get_label(request, "space"), request.query.get("kind", DEFAULT_KIND)
        if key not in KINDS:
            raise web.HTTPNotFound
        token, by_copies = request.query.get("continue", ""), request.query.get("by") == "copies"
        connection = self._renewed.connection
        body = await page_facts.fetch_tenant_body(connection, namespace, name)
        query = NamespaceQuery(
            namespace=space, kind=KINDS[key], by_copies=by_copies, continue_token=token
        )
        page = await page_facts.read_namespace(connection, self._renewed.tenants, body, query)
        return self._respond_live(
            request,
            "namespace",
            page=page,
            token=token,
            tenant=(namespace, name),
            space=space,
            kind=key,
            by="copies" if by_copies else "",
        )

    async def _show_pod(self, request: web.Request) -> web.Response:
        namespace, name = _get_tenant_name(request)
        space, pod = _get_label(request, "space"), request.match_info["pod"]
        if not names.is_dns_subdomain(pod):
            raise web.HTTPNotFound
        connection = self._renewed.connection
        body = await page_facts.fetch_tenant_body(connection, namespace, name)
        page = await pod_facts.read_pod(
            connection,
            self._renewed.tenants,
            body,
            space,
            pod,
            manager_namespace=self._renewed.manager_namespace,
        )
        return self._respond_live(
            request, "pod", page=page, token="", tenant=(namespace, name), space=space, pod=pod
        )

    async def _send_file(self, request: web.Request) -> web.Response:
        name = request.match_info["file"]
        if name not in STATIC_FILES:
            raise web.HTTPNotFound
        return web.Response(
            body=self._static[name], content_type=STATIC_FILES[name], charset="utf-8"
        )

    def _respond_live(
        self, request: web.Request, template: str, *, token: str, **values: object
    ) -> web.Response:
        """Return a page, or only its live part.

        A further page of a list stays as it was at the time of its first page, so it is not live.
        """
        is_part = request.query.get("part") == LIVE
        is_live = not token and request.query.get("pause") != "1"
        name = f"{template}_live.html" if is_part else f"{template}.html"
        return self._respond(name, values | {"is_live": is_live, "token": token})

    def _respond(
        self, template: str, values: Mapping[str, object] | None = None, *, status: int = 200
    ) -> web.Response:
        text = self._templates.render(template, **(values or {}))
        return web.Response(status=status, text=text, content_type="text/html")

    def _respond_error(self, problem: PageError) -> web.Response:
        return self._respond("error.html", {"problem": problem}, status=problem.status)


def describe_page_error(problem: Exception) -> PageError:
    """Return status and sentence of an error of a page. Pure."""
    if isinstance(problem, MissingObjectError):
        return PageError(404, str(problem))
    status = 502
    if isinstance(problem, errors.Forbidden):
        status = 403
    text = describe_error(problem) if isinstance(problem, errors.KubeError) else str(problem)
    return PageError(status, f"{text[:1].upper()}{text[1:]}")


def _finish(response: web.StreamResponse) -> web.StreamResponse:
    response.headers.update(SECURITY_HEADERS)
    return response


def _get_tenant_name(request: web.Request) -> tuple[str, str]:
    return _get_label(request, "namespace"), _get_label(request, "name")


def _get_label(request: web.Request, key: str) -> str:
    found = request.match_info[key]
    if not names.is_dns_label(found):
        raise web.HTTPNotFound
    return found
