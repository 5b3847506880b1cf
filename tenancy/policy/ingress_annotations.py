"""Annotations of Ingresses that an Ingress controller reads, in curated sets by controller.

Pure data. A TenantPolicy names the sets in `network.ingressAnnotations`. A set has exact keys, and
a pattern of values for each key. Sources: the annotation references of ingress-nginx, Traefik and
cert-manager.

Hazard: a set must have no key with which a tenant can write configuration of its own, name objects
of another namespace, receive requests for another host, or send requests to an address. Therefore
snippets, authentication by URL, server aliases, rewrites, middlewares, canaries, certificates for
other names and rate limits (a memory zone of the controller for each) are left out. One controller
serves all tenants.
"""

import re
from collections.abc import Collection, Mapping
from typing import Literal

IngressController = Literal["nginx", "traefik", "cert-manager"]

_SWITCH = re.compile(r"true|false")
_ON_OFF = re.compile(r"on|off")
_COUNT = re.compile(r"[1-9][0-9]{0,1}")
_SECONDS = re.compile(r"[1-9][0-9]{0,3}")
_AGE = re.compile(r"[0-9]{1,9}")
_BUFFER = re.compile(r"[1-9][0-9]?k")
_BODY = re.compile(r"[1-9][0-9]{0,2}[kKmM]?")
_NETWORKS = re.compile(r"[0-9a-fA-F:./, ]{1,1024}")
_HEADERS = re.compile(r"[A-Za-z0-9_, -]{1,1024}|\*")
_ORIGINS = re.compile(r"[A-Za-z0-9:/.*, -]{1,1024}")
_COOKIE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")

_NGINX = "nginx.ingress.kubernetes.io"
_TRAEFIK = "traefik.ingress.kubernetes.io"
_CERT_MANAGER = "cert-manager.io"

INGRESS_ANNOTATIONS: Mapping[IngressController, Mapping[str, re.Pattern[str]]] = {
    "nginx": {
        f"{_NGINX}/affinity": re.compile(r"cookie"),
        f"{_NGINX}/affinity-mode": re.compile(r"balanced|persistent"),
        f"{_NGINX}/allowlist-source-range": _NETWORKS,
        f"{_NGINX}/backend-protocol": re.compile(r"HTTPS?|GRPCS?"),
        f"{_NGINX}/client-body-buffer-size": _BUFFER,
        f"{_NGINX}/cors-allow-credentials": _SWITCH,
        f"{_NGINX}/cors-allow-headers": _HEADERS,
        f"{_NGINX}/cors-allow-methods": _HEADERS,
        f"{_NGINX}/cors-allow-origin": _ORIGINS,
        f"{_NGINX}/cors-max-age": _AGE,
        f"{_NGINX}/denylist-source-range": _NETWORKS,
        f"{_NGINX}/enable-cors": _SWITCH,
        f"{_NGINX}/force-ssl-redirect": _SWITCH,
        f"{_NGINX}/load-balance": re.compile(r"round_robin|ewma"),
        f"{_NGINX}/proxy-body-size": _BODY,
        f"{_NGINX}/proxy-buffer-size": _BUFFER,
        f"{_NGINX}/proxy-buffering": _ON_OFF,
        f"{_NGINX}/proxy-connect-timeout": _SECONDS,
        f"{_NGINX}/proxy-read-timeout": _SECONDS,
        f"{_NGINX}/proxy-request-buffering": _ON_OFF,
        f"{_NGINX}/proxy-send-timeout": _SECONDS,
        f"{_NGINX}/session-cookie-max-age": _AGE,
        f"{_NGINX}/session-cookie-name": _COOKIE,
        f"{_NGINX}/ssl-redirect": _SWITCH,
        f"{_NGINX}/whitelist-source-range": _NETWORKS,
    },
    "traefik": {
        f"{_TRAEFIK}/router.entrypoints": re.compile(r"(web|websecure)(,(web|websecure))?"),
        f"{_TRAEFIK}/router.tls": _SWITCH,
    },
    "cert-manager": {
        f"{_CERT_MANAGER}/cluster-issuer": _OBJECT_NAME,
        f"{_CERT_MANAGER}/private-key-algorithm": re.compile(r"RSA|ECDSA|Ed25519"),
        f"{_CERT_MANAGER}/private-key-encoding": re.compile(r"PKCS1|PKCS8"),
        f"{_CERT_MANAGER}/private-key-rotation-policy": re.compile(r"Always|Never"),
        f"{_CERT_MANAGER}/private-key-size": re.compile(r"256|384|521|2048|3072|4096"),
        f"{_CERT_MANAGER}/revision-history-limit": _COUNT,
        "kubernetes.io/tls-acme": _SWITCH,
    },
}
"""Allowed keys of each set, with the pattern that a whole value must match."""


def list_keys(controllers: Collection[IngressController]) -> tuple[str, ...]:
    """Return the keys of some sets, in the order of the table."""
    return tuple(
        key
        for controller, keys in INGRESS_ANNOTATIONS.items()
        if controller in controllers
        for key in keys
    )


def has_allowed_value(key: str, value: str, controllers: Collection[IngressController]) -> bool:
    """Return whether a value may be synced. A key of none of these sets may have any value."""
    patterns = (INGRESS_ANNOTATIONS[controller].get(key) for controller in controllers)
    return all(pattern.fullmatch(value) for pattern in patterns if pattern is not None)
