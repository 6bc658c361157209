{{/* Kubernetes name of a service: the only place where `_` becomes `-`. Takes (list root service). */}}
{{- define "sabueso.name" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s" $root.Release.Name (index . 1 | replace "_" "-") | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sabueso.selector" -}}
app.kubernetes.io/name: {{ index . 1 | replace "_" "-" }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end -}}

{{- define "sabueso.labels" -}}
{{ include "sabueso.selector" . }}
app.kubernetes.io/part-of: sabueso
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end -}}

{{/* Environment of a service: addresses of what it calls, and what it needs. Takes (list root name service). */}}
{{- define "sabueso.env" -}}
{{- $root := index . 0 -}}
{{- $service := index . 2 -}}
- name: SABUESO_PORT
  value: {{ ternary "8080" "50051" (default false $service.http) | quote }}
- name: SABUESO_METRICS_PORT
  value: {{ ternary "0" "9090" (default false $service.http) | quote }}
{{- if $service.http }}
- name: SABUESO_REPLICA_COUNT
  value: {{ $service.replicas | quote }}
{{- end }}
- name: SABUESO_IDENTITY_SECRET
  valueFrom:
    secretKeyRef:
      name: {{ required "existingSecret: name a Secret with the key identity-secret (32 bytes or more)" $root.Values.existingSecret }}
      key: identity-secret
{{- with $root.Values.otlpEndpoint }}
- name: SABUESO_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- range $called := $service.calls }}
{{- if not (hasKey $root.Values.services $called) }}
{{- fail (printf "services.%s.calls: there is no service `%s`" (index $ 1) $called) }}
{{- end }}
{{- if ne $called "gateway" }}
- name: {{ printf "SABUESO_%s_ADDRESS" (upper $called) }}
  value: {{ printf "%s:50051" (include "sabueso.name" (list $root $called)) | quote }}
{{- end }}
{{- end }}
{{- $known := dict
  "tenants" (dict "SABUESO_TENANTS_DIR" "/etc/sabueso/tenants")
  "databases" (dict "SABUESO_SECRETS_DIR" "/etc/sabueso/databases")
  "mcp" (dict "SABUESO_SECRETS_DIR" "/etc/sabueso/mcp")
  "valkey" (dict "SABUESO_VALKEY_URL" $root.Values.valkeyUrl)
  "qdrant" (dict "SABUESO_VECTOR_STORE" (printf "qdrant:%s" $root.Values.qdrantUrl))
  "searxng" (dict "SABUESO_SEARXNG_URL" $root.Values.searxngUrl)
  "evaluation" (dict "SABUESO_GATEWAY_URL" (printf "http://%s:8080" (include "sabueso.name" (list $root "gateway"))) "SABUESO_GATEWAY_KEYS_DIR" "/etc/sabueso/keys")
  "model" (dict "SABUESO_MODEL_URL" $root.Values.model.url)
  "modelRoute" (dict "SABUESO_MODEL_URL" (printf "http://%s:8080/v1" (include "sabueso.name" (list $root "gateway"))) "SABUESO_MODEL_NAME" $root.Values.model.name)
}}
{{- range $need := $service.needs }}
{{- range $key, $value := get $known $need }}
- name: {{ $key }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- range $key, $from := $service.secretEnv }}
- name: {{ $key }}
  valueFrom: {secretKeyRef: {name: {{ $from.secret | quote }}, key: {{ $from.key | quote }}}}
{{- end }}
{{- range $key, $value := $service.env }}
- name: {{ $key }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}
