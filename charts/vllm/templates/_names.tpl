{{/* Name of a pool's objects. Takes (list root pool-name). */}}
{{- define "vllm.name" -}}
{{- printf "%s-%s" (index . 0).Release.Name (index . 1) -}}
{{- end -}}

{{/* What a Deployment can never change again: nothing else belongs here. */}}
{{- define "vllm.selector" -}}
app.kubernetes.io/name: vllm
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 | quote }}
{{- end -}}

{{- define "vllm.labels" -}}
{{ include "vllm.selector" . }}
{{ include "vllm.origin" (index . 0) }}
{{- end -}}

{{- define "vllm.origin" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* An image's address. Takes (list root image default-tag). */}}
{{- define "vllm.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $registry := $root.Values.global.imageRegistry | default $image.registry -}}
{{- $path := ternary $image.repository (printf "%s/%s" $registry $image.repository) (empty $registry) -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $path $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $path ($image.tag | default (index . 2)) -}}
{{- end -}}
{{- end -}}

{{/* Settings of a pool as JSON: defaults, and over them its own. Takes (list root pool-name). */}}
{{- define "vllm.pool" -}}
{{- $root := index . 0 -}}
{{- $pool := deepCopy $root.Values.defaults -}}
{{- include "vllm.overlay" (list $pool (get $root.Values.pools (index . 1))) -}}
{{- toJson $pool -}}
{{- end -}}

{{/* Writes one map over another, in place. mergeOverwrite would pass over `false`, 0 and "". */}}
{{- define "vllm.overlay" -}}
{{- $under := index . 0 -}}
{{- range $key, $value := index . 1 -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $under $key)) -}}
{{- include "vllm.overlay" (list (get $under $key) $value) -}}
{{- else -}}
{{- $_ := set $under $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Equal requests and limits. Takes (list resources gpus). */}}
{{- define "vllm.resources" -}}
{{- $resources := index . 0 -}}
{{- $amounts := dict "cpu" (toString (int64 $resources.cpu)) "memory" (printf "%dGi" (int64 $resources.memoryGi)) "ephemeral-storage" (printf "%dGi" (int64 $resources.ephemeralGi)) -}}
{{- with index . 1 -}}{{- $_ := set $amounts "nvidia.com/gpu" (toString (int64 .)) -}}{{- end -}}
{{- dict "requests" $amounts "limits" $amounts | toYaml -}}
{{- end -}}

{{- define "vllm.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
# A volume of terabytes is not walked at every start.
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "vllm.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The claim that holds a pool's files. Takes (list root pool-name pool). */}}
{{- define "vllm.claim" -}}
{{- $pool := index . 2 -}}
{{- if eq $pool.weights.from "claim" -}}
{{- printf "%s-weights" (include "vllm.name" (list (index . 0) (index . 1))) -}}
{{- else -}}
{{- $pool.weights.existingClaim -}}
{{- end -}}
{{- end -}}

{{/* What was asked of the pre-fetching Job, as 16 hex digits: another wish is another Job. */}}
{{- define "vllm.wish" -}}
{{- $prefetch := .weights.prefetch -}}
{{- list .model.path ($prefetch.repository | default .model.name) $prefetch.revision (toJson $prefetch.checksums) | join "\n" | sha256sum | trunc 16 -}}
{{- end -}}

{{/* The rule that lets a pod find names: TCP too, for what is longer than a datagram. */}}
{{- define "vllm.dns" -}}
- ports:
    {{- range .Values.networkPolicy.dnsPorts }}
    - {port: {{ int64 . }}, protocol: UDP}
    - {port: {{ int64 . }}, protocol: TCP}
    {{- end }}
{{- end -}}
