{{/*
Variables of an admission policy about spec.policyRef: the TenantPolicy of the object and of the one
before, and whether the object is new in a namespace that requires no policy.
*/}}
{{- define "virtual-cluster.policyVariables" -}}
- name: policy
  expression: object.spec.?policyRef.name.orValue('baseline')
- name: policyBefore
  expression: "oldObject == null ? '' : oldObject.spec.?policyRef.name.orValue('baseline')"
- name: open
  expression: >-
    oldObject == null &&
    namespaceObject.metadata.?labels[?'tenancy.x-k8s.io/policy-required'].orValue('') != 'enabled'
{{- end }}

{{/* The verb `use` on the TenantPolicy of an object. Call with the words for the object. */}}
{{- define "virtual-cluster.policyValidation" -}}
- expression: >-
    variables.policy == variables.policyBefore || (variables.open && variables.policy == 'baseline') ||
    authorizer.group('tenancy.x-k8s.io').resource('tenantpolicies').name(variables.policy).check('use').allowed()
  reason: Forbidden
  messageExpression: >-
    "you may not bind a {{ . }} to the TenantPolicy '" + variables.policy + "'. Ask your platform"
    + " administrator for the verb use on it, or " + (oldObject != null ? "keep spec.policyRef as it is" :
    variables.open ? "leave spec.policyRef out" : "name another one in spec.policyRef")
{{- end }}

{{/* The verb `use` on the ClusterVersion of an object, from the variables version and versionBefore. */}}
{{- define "virtual-cluster.versionValidation" -}}
- expression: >-
    (oldObject != null && variables.version == variables.versionBefore) ||
    authorizer.group('tenancy.x-k8s.io').resource('clusterversions').namespace(object.metadata.namespace)
    .name(variables.version).check('use').allowed()
  reason: Forbidden
  messageExpression: >-
    "you may not use the ClusterVersion '" + variables.version + "'. Ask your platform administrator for the verb"
    + " use on it, or name another one in spec.clusterVersionName"
{{- end }}
