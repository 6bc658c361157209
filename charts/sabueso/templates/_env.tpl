{{/* The environment of a service: who it is, where others are, what it needs, what the user says. */}}

{{/* Where a service is called. Takes (list root name). Empty: nowhere. */}}
{{- define "sabueso.address" -}}
{{- $root := index . 0 -}}
{{- $service := get $root.Values.services (index . 1) -}}
{{- if include "sabueso.enabled" . -}}
{{- printf "dns:///%s-headless:%s" (include "sabueso.name" .) (include "sabueso.port" $service) -}}
{{- else -}}
{{- $service.address | default "" -}}
{{- end -}}
{{- end -}}

{{- define "sabueso.gatewayUrl" -}}
{{- printf "http://%s:%s" (include "sabueso.name" (list . "gateway")) (include "sabueso.port" .Values.services.gateway) -}}
{{- end -}}

{{- define "sabueso.modelUrl" -}}
{{- if include "sabueso.enabled" (list . "understudy") -}}
{{- printf "http://%s:%s/v1" (include "sabueso.name" (list . "understudy")) (include "sabueso.port" .Values.services.understudy) -}}
{{- else -}}
{{- .Values.model.url -}}
{{- end -}}
{{- end -}}

{{- define "sabueso.qdrantUrl" -}}
{{- if .Values.builtin.qdrant.enabled -}}
{{- printf "http://%s:6333" (include "sabueso.name" (list . "qdrant")) -}}
{{- else -}}
{{- .Values.qdrant.url -}}
{{- end -}}
{{- end -}}

{{- define "sabueso.var" -}}
- name: {{ index . 0 }}
  value: {{ index . 1 | quote }}
{{ end -}}

{{- define "sabueso.secretVar" -}}
- name: {{ index . 0 }}
  valueFrom: {secretKeyRef: {name: {{ index . 1 | quote }}, key: {{ index . 2 | quote }}}}
{{ end -}}

{{/* The whole list. Takes (list root name service). */}}
{{- define "sabueso.env" -}}
{{- $root := index . 0 -}}
{{- $service := index . 2 -}}
{{- include "sabueso.var" (list "SABUESO_HOST" "[::]") -}}
{{- include "sabueso.var" (list "SABUESO_PORT" (include "sabueso.port" $service)) -}}
{{- include "sabueso.var" (list "SABUESO_METRICS_PORT" "9090") -}}
{{- include "sabueso.var" (list "SABUESO_SHUTDOWN_GRACE_SECONDS" ($root.Values.drain.graceSeconds | int64)) -}}
{{- include "sabueso.secretVar" (list "SABUESO_IDENTITY_SECRET" (include "sabueso.identitySecret" $root) "identity-secret") -}}
- name: SABUESO_IDENTITY_SECRET_FALLBACKS
  valueFrom: {secretKeyRef: {name: {{ include "sabueso.identitySecret" $root | quote }}, key: identity-secret-fallbacks, optional: true}}
{{ if eq (index . 1) "gateway" -}}
{{- include "sabueso.var" (list "SABUESO_REPLICA_COUNT" (include "sabueso.most" (list $root $service) | int | max 1)) -}}
{{- end -}}
{{- with $root.Values.otlp.endpoint -}}
{{- include "sabueso.var" (list "SABUESO_OTLP_ENDPOINT" .) -}}
{{- end -}}
{{- with $root.Values.otlp.existingSecret -}}
{{- include "sabueso.secretVar" (list "SABUESO_OTLP_HEADERS" . "headers") -}}
{{- end -}}
{{- range $called := $service.calls -}}
{{- if ne $called "gateway" -}}
{{- $address := include "sabueso.address" (list $root $called) -}}
{{- if $address -}}
{{- include "sabueso.var" (list (printf "SABUESO_%s_ADDRESS" (upper $called)) $address) -}}
{{- else if ne $called "evaluation" -}}
{{- /* No such name can ever be resolved: the caller learns at once that nobody is there. */ -}}
{{- include "sabueso.var" (list (printf "SABUESO_%s_ADDRESS" (upper $called)) "dns:///disabled.invalid:50051") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $need := $service.needs -}}
{{- include (printf "sabueso.need.%s" $need) $root -}}
{{- end -}}
{{- /* HOME: the image's user has no home, and the root is read-only. */ -}}
{{- range $key, $value := merge (dict) ($service.env | default dict) $root.Values.pods.env (dict "HOME" "/tmp" "HF_HOME" "/tmp/huggingface" "MPLCONFIGDIR" "/tmp/matplotlib") -}}
{{- if not (hasKey ($service.secretEnv | default dict) $key) -}}
{{- include "sabueso.var" (list $key $value) -}}
{{- end -}}
{{- end -}}
{{- range $key, $from := $service.secretEnv -}}
{{- include "sabueso.secretVar" (list $key $from.secret $from.key) -}}
{{- end -}}
{{- end -}}

{{- define "sabueso.need.tenants" -}}
{{- include "sabueso.var" (list "SABUESO_TENANTS_DIR" "/etc/sabueso/tenants") -}}
{{- end -}}

{{- define "sabueso.need.databases" -}}
{{- include "sabueso.var" (list "SABUESO_SECRETS_DIR" "/etc/sabueso/databases") -}}
{{- end -}}

{{- define "sabueso.need.mcp" -}}
{{- include "sabueso.var" (list "SABUESO_SECRETS_DIR" "/etc/sabueso/mcp") -}}
{{- if .Values.mcp.programs -}}
{{- include "sabueso.var" (list "SABUESO_MCP_STDIO" "true") -}}
{{- end -}}
{{- end -}}

{{- define "sabueso.need.valkey" -}}
{{- if .Values.builtin.valkey.enabled -}}
{{- include "sabueso.secretVar" (list "VALKEY_PASSWORD" (include "sabueso.builtinSecret" .) "valkey-password") -}}
{{- include "sabueso.var" (list "SABUESO_VALKEY_URL" (printf "redis://:$(VALKEY_PASSWORD)@%s:6379" (include "sabueso.name" (list . "valkey")))) -}}
{{- else if .Values.valkey.existingSecret -}}
{{- include "sabueso.secretVar" (list "SABUESO_VALKEY_URL" .Values.valkey.existingSecret "url") -}}
{{- else -}}
{{- include "sabueso.var" (list "SABUESO_VALKEY_URL" .Values.valkey.url) -}}
{{- end -}}
{{- end -}}

{{- define "sabueso.need.qdrant" -}}
{{- include "sabueso.var" (list "SABUESO_VECTOR_STORE" (printf "qdrant:%s" (include "sabueso.qdrantUrl" .))) -}}
{{- if .Values.builtin.qdrant.enabled -}}
{{- include "sabueso.secretVar" (list "SABUESO_QDRANT_API_KEY" (include "sabueso.builtinSecret" .) "qdrant-api-key") -}}
{{- else if .Values.qdrant.existingSecret -}}
{{- include "sabueso.secretVar" (list "SABUESO_QDRANT_API_KEY" .Values.qdrant.existingSecret "api-key") -}}
{{- end -}}
{{- end -}}

{{- define "sabueso.need.searxng" -}}
{{- include "sabueso.var" (list "SABUESO_SEARXNG_URL" .Values.searxng.url) -}}
{{- end -}}

{{- define "sabueso.need.model" -}}
{{- if or .Values.model.pools .Values.model.existingPools -}}
{{- include "sabueso.var" (list "SABUESO_POOLS_FILE" "/etc/sabueso/pools/pools.yaml") -}}
{{- else -}}
{{- include "sabueso.var" (list "SABUESO_MODEL_URL" (include "sabueso.modelUrl" .)) -}}
{{- with .Values.model.existingSecret -}}
{{- include "sabueso.secretVar" (list "SABUESO_MODEL_API_KEY" . "api-key") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sabueso.need.modelRoute" -}}
{{- include "sabueso.var" (list "SABUESO_MODEL_URL" (printf "%s/v1" (include "sabueso.gatewayUrl" .))) -}}
{{- include "sabueso.var" (list "SABUESO_MODEL_NAME" .Values.model.name) -}}
{{- if include "sabueso.enabled" (list . "understudy") -}}
{{- /* The understudy goes by a Llama's name, and calls several tools at once as no Llama does. */ -}}
{{- include "sabueso.var" (list "SABUESO_MODEL_PROFILE" "openai") -}}
{{- end -}}
{{- end -}}

{{- define "sabueso.need.evaluation" -}}
{{- include "sabueso.var" (list "SABUESO_GATEWAY_URL" (include "sabueso.gatewayUrl" .)) -}}
{{- include "sabueso.var" (list "SABUESO_GATEWAY_KEYS_DIR" "/etc/sabueso/keys") -}}
{{- if .Values.builtin.postgresql.enabled -}}
{{- include "sabueso.secretVar" (list "POSTGRESQL_PASSWORD" (include "sabueso.builtinSecret" .) "postgresql-password") -}}
{{- include "sabueso.var" (list "SABUESO_RESULTS_DSN" (printf "postgresql://sabueso:$(POSTGRESQL_PASSWORD)@%s:5432/sabueso" (include "sabueso.name" (list . "postgresql")))) -}}
{{- end -}}
{{- end -}}
