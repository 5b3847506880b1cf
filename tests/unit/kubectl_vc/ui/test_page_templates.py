"""Hostile text stays text on every page."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from kubectl_vc.ui import object_rows, page_facts, pod_diagnosis, pod_facts, server, tenant_rows
from kubectl_vc.ui.page_templates import FOLDER, PageTemplates
from kubectl_vc.ui.urls import Urls

NOW = datetime(2026, 6, 1, tzinfo=UTC)
EVIL = "\"><script>alert('x')</script>\u202e{{ 7 * 7 }}"
STATE = tenant_rows.State(EVIL, "bad")
BODY = {
    "metadata": {"namespace": EVIL, "name": EVIL},
    "spec": {"clusterVersionName": EVIL, "policyRef": {"name": EVIL}},
    "status": {
        "phase": EVIL,
        "endpoint": EVIL,
        "conditions": [{"type": EVIL, "status": EVIL, "reason": EVIL, "message": EVIL}],
        "restore": {"request": EVIL, "phase": EVIL, "message": EVIL},
    },
}
ROW = tenant_rows.build_tenant_row(BODY, None, NOW)
EVENT = object_rows.EventRow(EVIL, STATE, EVIL, EVIL, EVIL, EVIL, EVIL)
OBJECT = object_rows.ObjectRow(
    name=EVIL,
    tenant=STATE,
    copy=STATE,
    copy_name=EVIL,
    node=EVIL,
    target=EVIL,
    lag=EVIL,
    refused=EVIL,
    age=EVIL,
)
CONDITIONS = tenant_rows.build_condition_rows(BODY, NOW)
PAGES: dict[str, Mapping[str, Any]] = {
    "tenants": {"page": page_facts.TenantsPage(rows=[ROW], next_token=EVIL, notes=[EVIL])},
    "tenant": {
        "page": page_facts.TenantPage(
            row=ROW,
            root=EVIL,
            conditions=CONDITIONS,
            certificates=[tenant_rows.CertificateView(EVIL, EVIL, EVIL, STATE, EVIL)],
            operations=tenant_rows.build_operations(BODY, None, [], None, NOW),
            namespaces=[page_facts.NamespaceLink(EVIL, EVIL, EVIL, EVIL)],
            events=[EVENT],
            notes=[EVIL],
        )
    },
    "namespace": {
        "page": page_facts.NamespacePage(
            super_namespace=EVIL,
            rows=[OBJECT],
            events=[EVENT],
            next_token=EVIL,
            is_tenant_known=True,
            notes=[EVIL],
        ),
        "kind": "pods",
        "by": "copies",
    },
    "pod": {
        "page": pod_facts.PodPage(
            row=OBJECT,
            containers=[pod_facts.ContainerRow(EVIL, STATE, EVIL, EVIL)],
            conditions=CONDITIONS,
            events=[EVENT],
            diagnosis=pod_diagnosis.PodDiagnosis(STATE, EVIL, EVIL, EVIL),
            notes=[EVIL],
        ),
        "pod": EVIL,
    },
    "error": {"problem": server.PageError(502, EVIL)},
}


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("name", PAGES)
def test_hostile_text_stays_text(name: str, is_live: bool):
    """SEC-261."""
    values = {"tenant": (EVIL, EVIL), "space": EVIL, "token": EVIL, "is_live": is_live}
    templates = PageTemplates(Urls("/abc/"))
    pages = [templates.render(f"{name}.html", **values, **PAGES[name])]
    if name != "error":
        pages.append(templates.render(f"{name}_live.html", **values, **PAGES[name]))
    for text in pages:
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(&#39;x&#39;)" in text
        assert "\u202e" not in text
        assert "\\u202e{{ 7 * 7 }}" in text


def test_no_page_has_an_inline_script_or_a_foreign_address():
    for path in (FOLDER / "templates").iterdir():
        text = path.read_text()
        assert "<script>" not in text
        assert "style=" not in text
        assert " on" not in text.replace(" on ", "").replace(" only", ""), path
        assert "http:" not in text
        assert "https:" not in text
        assert "|safe" not in text.replace(" ", ""), path


def test_each_table_has_a_caption_and_scoped_heads():
    for path in (FOLDER / "templates").iterdir():
        text = path.read_text()
        assert text.count("<table") == text.count("<caption>"), path
        assert text.count("<th ") == text.count('scope="'), path
        assert "<th>" not in text, path
