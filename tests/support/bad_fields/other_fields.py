"""Fields without a row of their own: another object or program decides, or each value is legal."""

from __future__ import annotations

from collections.abc import Mapping

_COMPONENTS = ("etcd", "apiServer", "controllerManager", "dns", "metricsServer")
_CLASSES = (
    *("storageClasses", "ingressClasses", "volumeSnapshotClasses", "csiDrivers"),
    *("priorityClasses", "runtimeClasses"),
)
_SELECTORS = (
    *(f"spec.sync.{name}.matchLabels" for name in _CLASSES),
    *("spec.syncRules.matchLabels", "spec.nodes.selector"),
    *("spec.sharedObjects[].matchLabels", "spec.sharedObjects[].tenantNamespaceLabels"),
)
_JWT = "spec.auth.jwt[]"
_REFUSED_OBJECT = (
    "tests/unit/vcmanager/phases/test_apply.py::test_a_refused_object_is_named_with_its_field"
)
_COMPILED = (
    "tests/unit/vcmanager/phases/access/test_authentication.py"
    "::test_an_expression_that_does_not_compile_keeps_the_file"
)
_CRASHED = (
    "tests/integration/vcmanager/test_bad_input.py"
    "::test_flags_that_crash_an_api_server_are_named_and_reach_one_tenant_only"
)
_COPIED = (
    "tests/integration/vcmanager/test_encryption_and_audit.py"
    "::test_pull_secrets_and_the_audit_webhook_are_copied_by_type_alone"
)

DECIDED_ELSEWHERE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "ClusterVersion": {
        _REFUSED_OBJECT: (
            "spec.etcdStorage.className",
            *("spec.nodeSelector{key}", "spec.nodeSelector{}"),
            *("spec.tolerations[].key", "spec.tolerations[].value"),
            "spec.priorityClassName",
            "spec.serviceAnnotations{}",
            *(
                f"spec.resources.{part}.{field}{{key}}"
                for part in _COMPONENTS
                for field in ("requests", "limits")
            ),
        ),
        _CRASHED: (
            *(f"spec.extraArgs.{part}{{}}" for part in ("etcd", "apiServer", "controllerManager")),
            "spec.audit.policy",
        ),
        _COPIED: ("spec.imagePullSecrets[].name", "spec.audit.webhook.secretName"),
    },
    "SuperCluster": {
        (
            "tests/unit/vcmanager/targets/test_super_cluster.py"
            "::test_without_the_credentials_none_are_kept"
        ): ("spec.secretRef.name",),
        (
            "tests/unit/kubeio/config/test_secret_kubeconfig.py"
            "::test_a_context_that_the_kubeconfig_lacks_is_named"
        ): ("spec.secretRef.context",),
        (
            "tests/integration/vcmanager/test_targets.py"
            "::test_a_name_that_the_certificate_has_not_is_not_trusted"
        ): ("spec.tlsServerName",),
    },
    "VirtualCluster": {
        (
            "tests/unit/vcmanager/phases/test_validation.py"
            "::test_missing_version_names_the_existing_ones"
        ): ("spec.clusterVersionName",),
        (
            "tests/unit/syncer/tenants/test_policy_binding.py"
            "::test_a_policy_that_is_named_and_missing_or_unreadable_allows_nothing"
        ): ("spec.policyRef.name",),
        _COMPILED: (
            f"{_JWT}.claimValidationRules[].expression",
            f"{_JWT}.claimMappings.groups.expression",
            f"{_JWT}.claimMappings.uid.expression",
            f"{_JWT}.claimMappings.extra[].valueExpression",
            f"{_JWT}.userValidationRules[].expression",
        ),
        (
            "tests/unit/syncer/tenants/test_conditions.py"
            "::test_undeclared_targets_are_named_with_what_to_do"
        ): ("spec.targets[].name",),
        (
            "tests/unit/vcmanager/phases/content/test_addons.py"
            "::test_a_missing_config_map_is_named_and_its_digest_stays"
        ): ("spec.addons[].name",),
    },
    "VirtualClusterSnapshot": {
        "tests/unit/vcmanager/snapshots/test_snapshot_steps.py::test_the_next_step": (
            "spec.virtualClusterName",
        ),
        (
            "tests/integration/vcmanager/test_bad_input.py"
            "::test_a_snapshot_of_another_minor_is_named_and_the_tenant_unharmed"
        ): ("spec.imported.manifest.kubernetesVersion",),
    },
}
"""Fields that name another object or are code of another program, by the test of the sentence."""
EVERY_VALUE_IS_LEGAL: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "ClusterVersion": {
        "The rule of the whole spec names the three names that are allowed.": tuple(
            f"spec.{part}.metadata.name" for part in ("etcd", "apiServer", "controllerManager")
        ),
    },
    "TenantPolicy": {
        "A name is offered once an object of that name exists.": (
            *(f"spec.sync.{name}.names[]" for name in _CLASSES),
            "spec.syncRules.names[]",
            "spec.security.runtimeClassName",
            "spec.storage.volumeAttributesClasses[]",
            "spec.network.loadBalancerClasses[]",
        ),
        "A label that no object has selects no object.": tuple(
            f"{path}{end}" for path in _SELECTORS for end in ("{key}", "{}")
        ),
        "A toleration of a taint that no node has is without effect.": (
            "spec.nodes.tolerations[].key",
            "spec.nodes.tolerations[].value",
        ),
        "The entry is compared with what a tenant writes, and matches nothing otherwise.": (
            "spec.metadata.labelDomains[]",
            "spec.metadata.annotations{key}",
            "spec.metadata.annotations{}[]",
            "spec.metadata.opaquePrefixes[]",
            "spec.metadata.transparentPrefixes[]",
            "spec.metadata.transparentAnnotations{key}",
            "spec.metadata.transparentAnnotations{}[]",
            "spec.pods.reservedContainerNames[]",
            "spec.storage.tenantVolumes.nfsServers[]",
            "spec.storage.tenantVolumes.csiDrivers[]",
            "spec.storage.inlineCsiDrivers[]",
        ),
        "A kubelet reports an image that it cannot pull in the status of each pod.": (
            "spec.pods.hostsFile.image",
        ),
    },
    "VirtualCluster": {
        "An identity provider chooses names of users, groups, claims and audiences.": (
            "spec.kubeconfigReaders[].name",
            f"{_JWT}.issuer.audiences[]",
            f"{_JWT}.claimValidationRules[].requiredValue",
            f"{_JWT}.claimMappings.groups.claim",
            f"{_JWT}.claimMappings.uid.claim",
        ),
        "The text is for people.": (
            f"{_JWT}.claimValidationRules[].message",
            f"{_JWT}.userValidationRules[].message",
        ),
        "A label that no namespace has selects no namespace.": (
            *(f"spec.targets[].namespaceSelector.matchLabels{end}" for end in ("{key}", "{}")),
            "spec.targets[].namespaceSelector.matchExpressions[].key",
            "spec.targets[].namespaceSelector.matchExpressions[].values[]",
        ),
        "The prefix is compared with keys of labels, and matches nothing otherwise.": (
            "spec.transparentMetaPrefixes[]",
            "spec.opaqueMetaPrefixes[]",
        ),
    },
    "VirtualClusterSnapshot": {
        "The origin is information for people. The checksum proves the file.": (
            "spec.imported.manifest.virtualClusterUID",
            "spec.imported.manifest.virtualClusterSpecSHA256",
            "spec.imported.manifest.clusterVersionName",
            "spec.imported.manifest.etcdVersion",
            "spec.imported.manifest.secrets{key}",
            "spec.imported.manifest.secrets{}",
        ),
    },
}
"""Fields without a bad value, by the reason."""
