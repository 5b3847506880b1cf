"""Which tokens a pod needs, what their Secrets are called, and when they are renewed.

Pure. A pod's token is one of the *tenant's* API. All pods of an account share one; a token for
another audience belongs to one pod. The Secret's annotations say everything that a renewal needs,
so nothing has to be remembered. Hazard: never log or compare the token itself.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubeio import Object
from syncer.model import builtin_policy
from syncer.model.references import token_sources
from syncer.model.rejections import Problem
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant

DATA_KEY = "token"
MIN_RENEWAL_SECONDS = 60.0
"""A tenant that gives shorter tokens than were asked for is asked no more often than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSpec:
    """One kind of token of one account."""

    namespace: str
    account: str
    account_uid: str
    audience: str = ""
    """Empty: the tenant's own API."""
    seconds: int = builtin_policy.TOKEN_SECONDS
    pod: str = ""
    pod_uid: str = ""
    """The pod it is bound to; empty for the shared one."""

    @property
    def secret_name(self) -> str:
        """Name of the super Secret that carries it."""
        return names.token_secret(self.account_uid, self.audience, self.seconds, self.pod_uid)

    def request(self) -> Object:
        """Return the TokenRequest that asks the tenant's API for it."""
        spec: Object = {"expirationSeconds": self.seconds}
        if self.audience:
            spec["audiences"] = [self.audience]
        if self.pod:
            spec["boundObjectRef"] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": self.pod,
                "uid": self.pod_uid,
            }
        return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def specs_of(pod: Mapping[str, Any], account_uid: str) -> dict[tuple[str, int], TokenSpec]:
    """Return the tokens a tenant pod's volumes ask for, by audience and lifetime as written."""
    metadata, spec = pod["metadata"], pod["spec"]
    account = spec.get("serviceAccountName") or "default"
    found: dict[tuple[str, int], TokenSpec] = {}
    for source in token_sources(spec):
        written = wanted_of(source)
        audience, seconds = written
        if not audience:
            found[written] = TokenSpec(
                namespace=metadata["namespace"], account=account, account_uid=account_uid
            )
            continue
        found[written] = TokenSpec(
            namespace=metadata["namespace"],
            account=account,
            account_uid=account_uid,
            audience=audience,
            seconds=min(
                max(seconds, builtin_policy.MIN_TOKEN_SECONDS), builtin_policy.MAX_TOKEN_SECONDS
            ),
            pod=metadata["name"],
            pod_uid=metadata["uid"],
        )
    return found


def wanted_of(source: Mapping[str, Any]) -> tuple[str, int]:
    """Return audience and lifetime that a serviceAccountToken source asks for."""
    return str(source.get("audience") or ""), int(source.get("expirationSeconds") or 3600)


def problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with the tokens that a PodSpec, walked by its table, asks for."""
    for number, volume in enumerate(spec.get("volumes") or ()):
        for index, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            audience = (source.get("serviceAccountToken") or {}).get("audience") or ""
            size = len(str(audience).encode(errors="replace"))
            if size > builtin_policy.MAX_AUDIENCE:
                path = f"spec.volumes[{number}].projected.sources[{index}].serviceAccountToken"
                text = f"has {size} bytes; use one of at most {builtin_policy.MAX_AUDIENCE}"
                yield Problem("token-audience", f"{path}.audience", text)


def secret_of(
    token: TokenSpec,
    tenant: Tenant,
    super_namespace: str,
    text: str,
    *,
    expires: datetime,
    now: datetime,
) -> Object:
    """Return the super Secret that carries a token."""
    # Half of the life that was really given, which is the tenant's to choose.
    life = min((expires - now).total_seconds(), float(token.seconds))
    renewal = now + timedelta(seconds=max(life / 2, MIN_RENEWAL_SECONDS))
    record = {
        **ownership.annotations(tenant, token.namespace, token.account_uid),
        wellknown.ACCOUNT: token.account,
        wellknown.EXPIRES: expires.isoformat(),
        wellknown.TOKEN_AUDIENCE: token.audience,
        wellknown.TOKEN_SECONDS: str(token.seconds),
        wellknown.TOKEN_RENEW: renewal.isoformat(),
    }
    if token.pod:
        record[wellknown.TOKEN_POD] = f"{token.pod}/{token.pod_uid}"
    data = {DATA_KEY: base64.b64encode(text.encode()).decode()}
    record[wellknown.DIGEST] = _digest(data)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": token.secret_name,
            "namespace": super_namespace,
            "labels": ownership.labels(tenant, token.namespace),
            "annotations": record,
        },
        "type": "Opaque",
        "data": data,
    }


def is_as_written(secret: Mapping[str, Any]) -> bool:
    """Tell whether a token Secret still carries what was put into it."""
    written = (secret["metadata"].get("annotations") or {}).get(wellknown.DIGEST)
    return bool(written == _digest(secret.get("data") or {}))


def _digest(data: Mapping[str, str]) -> str:
    """Return what tells of a change of a Secret's data and not of the data."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def spec_of_secret(annotations: Mapping[str, str], registration: str = "") -> TokenSpec | None:
    """Return what a token Secret says of itself, or None when it is none of ours."""
    seconds = annotations.get(wellknown.TOKEN_SECONDS, "")
    owner = ownership.owner_of({"annotations": annotations}, registration)
    if owner is None or not seconds.isdigit() or wellknown.ACCOUNT not in annotations:
        return None
    pod, _, pod_uid = annotations.get(wellknown.TOKEN_POD, "").partition("/")
    return TokenSpec(
        namespace=owner.namespace,
        account=annotations[wellknown.ACCOUNT],
        account_uid=owner.uid,
        audience=annotations.get(wellknown.TOKEN_AUDIENCE, ""),
        seconds=int(seconds),
        pod=pod,
        pod_uid=pod_uid,
    )


def seconds_to_renewal(annotations: Mapping[str, str], now: datetime) -> float:
    """Return how long until the next token is asked for; 0 or less: now."""
    try:
        return (datetime.fromisoformat(annotations[wellknown.TOKEN_RENEW]) - now).total_seconds()
    except (KeyError, ValueError, TypeError):
        return 0.0
