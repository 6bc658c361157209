{{/* The Jobs of a load test: their image, and what it is told. */}}

{{- define "sabueso.loadTestImage" -}}
{{- $usual := dict
  "registry" .Values.image.registry
  "repository" (printf "%s-loadtests" .Values.image.repository)
  "tag" (.Values.image.tag | default .Chart.AppVersion)
-}}
{{- include "sabueso.image" (list . (merge (dict) .Values.loadTest.image $usual)) -}}
{{- end -}}

{{/* `command` and `args` of a pod. Takes (list test role name); `role` is alone, master or worker. */}}
{{- define "sabueso.loadTestCommand" -}}
{{- $test := index . 0 -}}
{{- $role := index . 1 -}}
{{- if eq $role "worker" -}}
args: [{{ $test.file }}, --worker, --master-host, {{ index . 2 }}]
{{- else -}}
# Of the time at which it begins: a claim keeps all runs.
command: [sh, -c]
args:
  - |-
    out="/results/$0-$(date -u +%Y%m%dT%H%M%SZ)"; status=0
    python /app "$0" --out "$out" "$@" || status=$?
    cat "$out/report.md" 2>/dev/null
    exit $status
  - {{ $test.file }}
  {{- if $test.seconds }}
  - --seconds
  - {{ $test.seconds | int64 | quote }}
  {{- end }}
  {{- if ne (float64 $test.rate) 1.0 }}
  - --rate
  - {{ $test.rate | quote }}
  {{- end }}
  {{- if $test.existingConfigMap }}
  - --plan=/plan/slo.yaml
  - --questions=/plan/questions.yaml
  {{- end }}
  {{- if eq $role "master" }}
  - --master
  - --expect-workers
  - {{ $test.workers | int64 | quote }}
  {{- end }}
{{- end }}
{{- end -}}
