{{/* What all pods have in common: identity, security, scheduling. */}}

{{/* The beginning of a pod's spec. Takes (dict root part service uid priority). `service`: own scheduling, or empty. */}}
{{- define "sabueso.podSpec" -}}
{{- $pods := .root.Values.pods -}}
serviceAccountName: {{ include "sabueso.name" (list .root .part) }}
automountServiceAccountToken: false
# A Service called `retrieval` would otherwise inject RETRIEVAL_PORT=tcp://… into every pod.
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priority }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with merge (dict) (.service.nodeSelector | default dict) $pods.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat (.service.tolerations | default list) $pods.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .service.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .uid }}
  runAsGroup: {{ .uid }}
  fsGroup: {{ .uid }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "sabueso.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Spreads a part's pods over zones and nodes where that can be; each ReplicaSet by itself. Takes (list root part). */}}
{{- define "sabueso.spread" -}}
{{- $selector := include "sabueso.selector" . -}}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels: {{- $selector | nindent 6 }}
{{- end }}
{{- end -}}

{{/* Probes of a service: starting, ready and alive are three questions. Takes (list name service). */}}
{{- define "sabueso.probes" -}}
{{- $name := index . 0 -}}
{{- $service := index . 1 -}}
{{- $times := div (add ($service.startupSeconds | default 120) 4) 5 -}}
{{- if $service.http }}
{{- $paths := $service.paths | default (dict "live" "/healthz" "ready" "/readyz") }}
startupProbe: {httpGet: {path: {{ $paths.live | quote }}, port: main}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: {{ $times }}}
readinessProbe: {httpGet: {path: {{ $paths.ready | quote }}, port: main}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 2}
# It asks the event loop and nothing else, and waits for two minutes: saturation must never end in a restart.
livenessProbe: {httpGet: {path: {{ $paths.live | quote }}, port: main}, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6}
{{- else }}
{{- $port := include "sabueso.port" $service }}
{{- $grpc := printf "sabueso.%s.v1.%sService" $name (camelcase $name) }}
startupProbe: {grpc: {port: {{ $port }}, service: {{ $grpc }}}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: {{ $times }}}
readinessProbe: {grpc: {port: {{ $port }}, service: {{ $grpc }}}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 2}
# It asks for the process as a whole, and waits for two minutes: saturation must never end in a restart.
livenessProbe: {grpc: {port: {{ $port }}}, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6}
{{- end }}
{{- end -}}
