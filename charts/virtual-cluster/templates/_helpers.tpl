{{/* Labels of every object. Call with a dict of root and component. */}}
{{- define "virtual-cluster.labels" -}}
{{ include "virtual-cluster.selector" . }}
app.kubernetes.io/part-of: virtual-cluster
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- end }}

{{/* Selector of the pods of one component, which can never change. */}}
{{- define "virtual-cluster.selector" -}}
app.kubernetes.io/name: {{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{- define "virtual-cluster.image" -}}
{{- $image := .root.Values.image -}}
{{- with $image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .component }}:{{ $image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "virtual-cluster.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "virtual-cluster.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* A token of our own, bound to the pod and an hour long, where clients look for it. */}}
{{- define "virtual-cluster.tokenVolume" -}}
- name: token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: 3600
      - configMap:
          name: kube-root-ca.crt
          items:
            - key: ca.crt
              path: ca.crt
      - downwardAPI:
          items:
            - path: namespace
              fieldRef:
                fieldPath: metadata.namespace
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- end }}

{{- define "virtual-cluster.tokenMounts" -}}
- name: token
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- end }}

{{- define "virtual-cluster.podEnv" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_UID
  valueFrom:
    fieldRef:
      fieldPath: metadata.uid
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: LOG_LEVEL
  value: {{ .Values.logging.level | quote }}
{{- end }}

{{/* Placement and priority of a pod. Call with a dict of root, component and values. */}}
{{- define "virtual-cluster.placement" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
nodeSelector:
  kubernetes.io/os: linux
  {{- with .values.nodeSelector }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
A Deployment whose pods compete for one Lease. Call with a dict of root, component, values and env.
The old pod may go before the new one is ready: the Lease lets only one work anyway.
*/}}
{{- define "virtual-cluster.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "virtual-cluster.labels" . | nindent 4 }}
spec:
  replicas: {{ .values.replicas }}
  revisionHistoryLimit: 3
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "virtual-cluster.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "virtual-cluster.labels" . | nindent 8 }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .component }}
        {{- with .values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ .component }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 30
      {{- include "virtual-cluster.placement" . | nindent 6 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "virtual-cluster.selector" . | nindent 14 }}
      securityContext:
        {{- include "virtual-cluster.podSecurity" .root | nindent 8 }}
      containers:
        - name: {{ .component }}
          image: {{ include "virtual-cluster.image" . | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          env:
            {{- include "virtual-cluster.podEnv" .root | nindent 12 }}
            {{- with .env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: http
              containerPort: 8080
          startupProbe:
            httpGet:
              path: /healthz
              port: http
            initialDelaySeconds: 2
            periodSeconds: 1
            failureThreshold: 60
          livenessProbe:
            httpGet:
              path: /healthz
              port: http
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 3
          readinessProbe:
            httpGet:
              path: /readyz
              port: http
            periodSeconds: 3
            timeoutSeconds: 3
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          securityContext:
            {{- include "virtual-cluster.containerSecurity" .root | nindent 12 }}
          volumeMounts:
            {{- include "virtual-cluster.tokenMounts" .root | nindent 12 }}
      volumes:
        {{- include "virtual-cluster.tokenVolume" .root | nindent 8 }}
{{- end }}

{{/* One pod of a component at a time may be moved. Call with a dict of root and component. */}}
{{- define "virtual-cluster.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "virtual-cluster.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  # A pod that does not run serves no client and must not hold up a drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "virtual-cluster.selector" . | nindent 6 }}
{{- end }}
