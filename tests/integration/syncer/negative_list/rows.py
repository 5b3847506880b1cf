"""Every row of the default policy on tenants' objects, and who proves those of no single object.

Pure data. The rows that refuse are proved by cases, and what is rewritten or left out by
`rewrites`.
"""

from __future__ import annotations

from collections.abc import Mapping

POD_ROWS = (
    "metadata.name, namespace",
    "generateName, uid, resourceVersion, generation, timestamps, managedFields, selfLink",
    "ownerReferences, finalizers",
    "labels, unprefixed and app.kubernetes.io, batch, apps, controller-revision keys",
    "labels, other prefixed keys",
    "annotations, unprefixed",
    "annotations, prefixed",
    "reserved domain keys",
    "our labels",
    "containers, initContainers, ephemeralContainers",
    "image",
    "imagePullPolicy",
    "command, args, workingDir, stdin*, tty, terminationMessage*",
    "env value",
    "env valueFrom fieldRef",
    "env valueFrom secretKeyRef, configMapKeyRef, envFrom",
    "env fileKeyRef, resourceFieldRef",
    "ports.containerPort",
    "ports.hostPort, hostIP",
    "probes and lifecycle handlers",
    "resources requests, limits",
    "resources.claims, spec.resourceClaims",
    "resizePolicy, restartPolicy, restartPolicyRules",
    "securityContext.privileged true, procMount not Default, hostProcess",
    "capabilities.add outside the baseline list",
    "allowPrivilegeEscalation, runAs*, readOnlyRootFilesystem, fsGroup*, supplementalGroups*",
    "seccompProfile, appArmorProfile",
    "seLinuxOptions",
    "sysctls",
    "hostNetwork, hostPID, hostIPC",
    "hostUsers",
    "shareProcessNamespace",
    "serviceAccountName, serviceAccount",
    "automountServiceAccountToken",
    "imagePullSecrets",
    "nodeName",
    "nodeSelector",
    "affinity.nodeAffinity",
    "podAffinity, podAntiAffinity",
    "topologySpreadConstraints",
    "tolerations",
    "priorityClassName, priority, preemptionPolicy",
    "schedulerName",
    "schedulingGates",
    "runtimeClassName",
    "overhead",
    "workload and gang references, other new leaves",
    "restartPolicy, activeDeadlineSeconds",
    "terminationGracePeriodSeconds",
    "hostname, setHostnameAsFQDN",
    "subdomain",
    "hostAliases",
    "dnsPolicy, dnsConfig",
    "enableServiceLinks",
    "readinessGates",
    "os",
    "volumes: configMap, secret, downwardAPI, emptyDir, persistentVolumeClaim, ephemeral",
    "volumes: projected",
    "volumes: image",
    "volumes: csi inline",
    "volumes: hostPath",
    "volumes: nfs, iscsi, fc, rbd, ceph, gluster, cloud disks, flex, gitRepo, others",
    "volumeMounts.mountPropagation",
    "volumeMounts.subPath, subPathExpr",
    "volumeDevices",
    "status",
)
NETWORK_ROWS = (
    "Service type ClusterIP, headless",
    "Service type NodePort, LoadBalancer",
    "Service type ExternalName",
    "ports",
    "selector",
    "externalIPs",
    "loadBalancerIP, loadBalancerClass, loadBalancerSourceRanges",
    "externalTrafficPolicy, internalTrafficPolicy, sessionAffinity*, publishNotReadyAddresses",
    "healthCheckNodePort, allocateLoadBalancerNodePorts",
    "annotations",
    "status.loadBalancer",
    "Endpoints, EndpointSlice without selector",
    "EndpointSlice with selector",
    "Ingress",
    "NetworkPolicy",
    "Gateway API routes",
)
OTHER_ROWS = (
    "PVC accessModes, resources, volumeMode",
    "PVC storageClassName",
    "PVC volumeName, selector, binder annotations",
    "PVC dataSource, dataSourceRef",
    "PVC deletion",
    "PV",
    "StorageClass, PriorityClass, RuntimeClass, IngressClass",
    "ServiceAccount",
    "token requests",
    "Secret",
    "ConfigMap",
    "size caps",
    "Namespace",
    "Node (up)",
    "PodDisruptionBudget",
    "Lease, CSINode and friends",
    "Event (up)",
    "Event (down)",
    "CustomResource",
    "RBAC, webhooks, CRDs, APIServices, CSRs, quotas of the tenant",
)
ROWS: tuple[str, ...] = (
    *(f"2a {row}" for row in POD_ROWS),
    *(f"2b {row}" for row in NETWORK_ROWS),
    *(f"2c {row}" for row in OTHER_ROWS),
)

HERE = "tests/integration/syncer"
NEVER = f"{HERE}/test_negative.py::test_what_never_goes_down_is_not_even_watched"
ELSEWHERE: Mapping[str, str] = {
    "2a schedulingGates": f"{HERE}/test_synced_back.py::test_a_scheduling_gate_holds_a_pod",
    "2a status": f"{HERE}/test_pods.py::test_a_forged_end_is_put_right_as_far_as_the_api_takes_it",
    "2b status.loadBalancer": f"{HERE}/test_services.py::test_a_load_balancers_address_goes_up",
    "2b EndpointSlice with selector": (
        f"{HERE}/test_network.py::test_slices_that_a_controller_computes_never_go_down"
    ),
    "2b Gateway API routes": NEVER,
    "2c PVC deletion": (
        f"{HERE}/test_claims.py::test_a_deleted_claim_leaves_its_volume_in_sight_as_released"
    ),
    "2c StorageClass, PriorityClass, RuntimeClass, IngressClass": (
        f"{HERE}/test_kinds_synced_back.py::test_life"
    ),
    "2c ServiceAccount": NEVER,
    "2c size caps": f"{HERE}/test_object_sizes.py::test_configuration_arrives_byte_for_byte",
    "2c Namespace": f"{HERE}/test_namespaces.py::test_labels_of_a_tenant_namespace_never_arrive",
    "2c Node (up)": f"{HERE}/test_tenant_node_changes.py::test_super_cluster_fields_are_restored",
    "2c Lease, CSINode and friends": NEVER,
    "2c Event (up)": f"{HERE}/test_events.py::test_names_that_are_not_the_tenants_do_not_reach_it",
    "2c Event (down)": NEVER,
    "2c CustomResource": NEVER,
    "2c RBAC, webhooks, CRDs, APIServices, CSRs, quotas of the tenant": NEVER,
}
"""Rows that are no single object's matter, and the test that proves each."""
