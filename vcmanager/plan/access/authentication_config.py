"""The authentication configuration file of a tenant's API server: its basis and the issuers.

Owns the form of the file. Pure. Hazard: the issuers are one line at the end, which
`object_metadata.digest_contents` leaves out. Otherwise each change of them would restart the API
server, which reads the file again by itself.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from tenancy.access.specs import AuthSpec, JwtAuthenticator
from vcmanager.pki import reloaded_files
from vcmanager.plan.access import authentication_rules
from vcmanager.plan.control_plane import ControlPlane

Manifest = dict[str, Any]

CONFIG_MAP, KEY = reloaded_files.AUTHENTICATION_CONFIG_MAP, reloaded_files.AUTHENTICATION_KEY


def build_file(basis: str, auth: AuthSpec | None) -> str:
    """Return the file. `basis` is the file without issuers."""
    if auth is None or not auth.jwt:
        return basis
    issuers = [msgspec.to_builtins(_add_rules(each)) for each in auth.jwt]
    return _append_issuers(basis, json.dumps(issuers, sort_keys=True))


def keep_issuers(basis: str, live: str | None) -> str:
    """Return the file with the issuers that a live file has."""
    issuers = (live or "").partition(reloaded_files.ISSUERS_LINE)[2].strip()
    return _append_issuers(basis, issuers) if issuers else basis


def _append_issuers(basis: str, issuers: str) -> str:
    return f"{basis.rstrip()}{reloaded_files.ISSUERS_LINE}{issuers}\n"


def _add_rules(authenticator: JwtAuthenticator) -> JwtAuthenticator:
    """Return the issuer with the rules about reserved names. A rule must not be there twice."""
    rules = authenticator.user_validation_rules
    known = {each.expression for each in rules}
    added = [
        each for each in authentication_rules.build_user_rules() if each.expression not in known
    ]
    return msgspec.structs.replace(authenticator, user_validation_rules=(*rules, *added))


def get_basis(plan: ControlPlane) -> str | None:
    """Return the file without issuers of a plan. None: a bundle has its own configuration."""
    return get_file(find_config_map(plan))


def find_config_map(plan: ControlPlane) -> Manifest | None:
    """Return the ConfigMap with the file of a plan. None: a bundle has its own configuration."""
    return next(filter(_is_config_map, plan.workloads), None) if not plan.is_bundled else None


def get_file(config_map: Mapping[str, Any] | None) -> str | None:
    """Return the file of a ConfigMap, or None if there is none."""
    found = ((config_map or {}).get("data") or {}).get(KEY)
    return None if found is None else str(found)


def replace_file(plan: ControlPlane, file: str) -> ControlPlane:
    """Return the plan with another file."""
    return replace(
        plan,
        workloads=tuple(
            {**each, "data": {**each["data"], KEY: file}} if _is_config_map(each) else each
            for each in plan.workloads
        ),
    )


def compute_hash(file: str) -> str:
    """Return the hash by which the API server's metric names the file that it uses."""
    return f"sha256:{hashlib.sha256(file.encode()).hexdigest()}"


def _is_config_map(manifest: Mapping[str, Any]) -> bool:
    found = (manifest["kind"], manifest["metadata"]["name"])
    return found == ("ConfigMap", CONFIG_MAP)
