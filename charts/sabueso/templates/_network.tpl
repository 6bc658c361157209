{{/* Rules of network policies. Egress is given as ports and, where it is known, peers. */}}

{{/* Port in a URL or an address, or the usual one. Takes (list url usual). */}}
{{- define "sabueso.portOf" -}}
{{- $rest := regexReplaceAll "^[a-z]+:/+" (index . 0) "" -}}
{{- $given := regexFind ":[0-9]+$" (regexReplaceAll "[/?].*$" $rest "") | trimPrefix ":" -}}
{{- if $given }}{{ $given }}{{ else if hasPrefix "https:" (index . 0) }}443{{ else if hasPrefix "http:" (index . 0) }}80{{ else }}{{ index . 1 }}{{ end -}}
{{- end -}}

{{/* Takes (dict ports peers parts root): peers as given, and pods of this release by part; neither: anywhere. */}}
{{- define "sabueso.egressRule" -}}
- ports:
    {{- range .ports }}
    - {port: {{ . | int64 }}, protocol: TCP}
    {{- end }}
  {{- if or .peers .parts }}
  to:
    {{- with .peers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- range $part := .parts }}
    - podSelector:
        matchLabels: {{- include "sabueso.selector" (list $.root $part) | nindent 10 }}
    {{- end }}
  {{- end }}
{{ end -}}

{{- define "sabueso.dnsRule" -}}
- ports:
    {{- range .Values.networkPolicy.dnsPorts }}
    - {port: {{ . | int64 }}, protocol: UDP}
    - {port: {{ . | int64 }}, protocol: TCP}
    {{- end }}
{{ end -}}

{{/* All that a service may reach. Takes (list root name service). */}}
{{- define "sabueso.egress" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values -}}
{{- $service := index . 2 -}}
{{- include "sabueso.dnsRule" $root -}}
{{- range $called := $service.calls -}}
{{- $other := get $values.services $called -}}
{{- if include "sabueso.enabled" (list $root $called) -}}
{{- include "sabueso.egressRule" (dict "root" $root "ports" (list (include "sabueso.port" $other)) "parts" (list $called)) -}}
{{- else if $other.address -}}
{{- $ports := list -}}
{{- range splitList "," $other.address }}{{ $ports = append $ports (include "sabueso.portOf" (list . 50051)) }}{{ end -}}
{{- include "sabueso.egressRule" (dict "root" $root "ports" (uniq $ports) "peers" $other.peers) -}}
{{- end -}}
{{- end -}}
{{- if has "valkey" $service.needs -}}
{{- if $values.builtin.valkey.enabled -}}
{{- include "sabueso.egressRule" (dict "root" $root "ports" (list 6379) "parts" (list "valkey")) -}}
{{- else -}}
{{- $url := ternary "" $values.valkey.url (ne $values.valkey.existingSecret "") -}}
{{- include "sabueso.egressRule" (dict "ports" (list ($values.valkey.port | default (include "sabueso.portOf" (list $url 6379)))) "peers" $values.valkey.peers) -}}
{{- end -}}
{{- end -}}
{{- if has "qdrant" $service.needs -}}
{{- if $values.builtin.qdrant.enabled -}}
{{- include "sabueso.egressRule" (dict "root" $root "ports" (list 6333 6334) "parts" (list "qdrant")) -}}
{{- else -}}
{{- include "sabueso.egressRule" (dict "ports" (list (include "sabueso.portOf" (list $values.qdrant.url 6333)) $values.qdrant.grpcPort) "peers" $values.qdrant.peers) -}}
{{- end -}}
{{- end -}}
{{- if and (has "searxng" $service.needs) $values.searxng.url -}}
{{- include "sabueso.egressRule" (dict "ports" (list (include "sabueso.portOf" (list $values.searxng.url 80))) "peers" $values.searxng.peers) -}}
{{- end -}}
{{- if has "model" $service.needs -}}
{{- if include "sabueso.enabled" (list $root "understudy") -}}
{{- include "sabueso.egressRule" (dict "root" $root "ports" (list (include "sabueso.port" $values.services.understudy)) "parts" (list "understudy")) -}}
{{- else -}}
{{- $ports := list (include "sabueso.portOf" (list $values.model.url 80)) -}}
{{- if or $values.model.pools $values.model.existingPools }}{{ $ports = $values.model.ports }}{{ end -}}
{{- include "sabueso.egressRule" (dict "ports" $ports "peers" $values.model.peers) -}}
{{- end -}}
{{- end -}}
{{- if and (has "evaluation" $service.needs) $values.builtin.postgresql.enabled -}}
{{- include "sabueso.egressRule" (dict "root" $root "ports" (list 5432) "parts" (list "postgresql")) -}}
{{- end -}}
{{- if and (has "databases" $service.needs) $values.builtin.postgresql.enabled -}}
{{- include "sabueso.egressRule" (dict "root" $root "ports" (list 5432) "parts" (list "postgresql")) -}}
{{- end -}}
{{- with $values.otlp.endpoint -}}
{{- include "sabueso.egressRule" (dict "ports" (list (include "sabueso.portOf" (list . 4317))) "peers" $values.otlp.peers) -}}
{{- end -}}
{{- range $service.egress -}}
{{- include "sabueso.egressRule" (dict "ports" .ports "peers" .to) -}}
{{- end -}}
{{- end -}}

{{/* Parts of the release that call a service. Takes (list root name). */}}
{{- define "sabueso.callers" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $callers := list -}}
{{- range $other, $service := $root.Values.services -}}
{{- if include "sabueso.enabled" (list $root $other) -}}
{{- if or (has $name $service.calls) (and (eq $name "understudy") (has "model" $service.needs)) -}}
{{- $callers = append $callers $other -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq $name "gateway" -}}
{{- if $root.Values.tests.enabled }}{{ $callers = append $callers "test" }}{{ end -}}
{{- if $root.Values.evaluation.weekly.enabled }}{{ $callers = append $callers "evaluation-weekly" }}{{ end -}}
{{- if $root.Values.loadTest.enabled }}{{ $callers = concat $callers (list "load-test" "load-test-worker") }}{{ end -}}
{{- end -}}
{{- toJson $callers -}}
{{- end -}}
