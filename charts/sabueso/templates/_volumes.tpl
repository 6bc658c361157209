{{/* Files that a service reads, and the folders that it writes. */}}

{{/* Takes (list root service). */}}
{{- define "sabueso.volumeMounts" -}}
{{- $root := index . 0 -}}
{{- $service := index . 1 -}}
- {name: tmp, mountPath: /tmp}
{{- if has "tenants" $service.needs }}
- {name: tenants, mountPath: /etc/sabueso/tenants, readOnly: true}
{{- end }}
{{- if and (has "databases" $service.needs) $root.Values.databases.existingSecret }}
- {name: databases, mountPath: /etc/sabueso/databases, readOnly: true}
{{- end }}
{{- if and (has "mcp" $service.needs) $root.Values.mcp.existingSecret }}
- {name: mcp, mountPath: /etc/sabueso/mcp, readOnly: true}
{{- end }}
{{- if and (has "model" $service.needs) (or $root.Values.model.pools $root.Values.model.existingPools) }}
- {name: pools, mountPath: /etc/sabueso/pools, readOnly: true}
{{- end }}
{{- if has "model" $service.needs }}
{{- range $pool, $_ := $root.Values.model.poolKeys }}
- {name: {{ printf "model-key-%s" $pool | quote }}, mountPath: {{ printf "/etc/sabueso/model-keys/%s" $pool | quote }}, readOnly: true}
{{- end }}
{{- end }}
{{- if and (has "evaluation" $service.needs) (include "sabueso.keysSecret" $root) }}
- {name: keys, mountPath: /etc/sabueso/keys, readOnly: true}
{{- end }}
{{- with $service.persistence }}
- {name: data, mountPath: {{ .mountPath | quote }}}
{{- end }}
{{- with concat ($service.extraVolumeMounts | default list) $root.Values.pods.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Takes (list root name service). */}}
{{- define "sabueso.volumes" -}}
{{- $root := index . 0 -}}
{{- $service := index . 2 -}}
- name: tmp
  emptyDir: {sizeLimit: {{ $service.tmpSize | default "1Gi" }}}
{{- if has "tenants" $service.needs }}
- name: tenants
  {{- if $root.Values.tenants.existingSecret }}
  secret: {secretName: {{ $root.Values.tenants.existingSecret | quote }}, defaultMode: 0440}
  {{- else if $root.Values.tenants.existingConfigMap }}
  configMap: {name: {{ $root.Values.tenants.existingConfigMap | quote }}}
  {{- else }}
  configMap: {name: {{ include "sabueso.name" (list $root "tenants") }}}
  {{- end }}
{{- end }}
{{- if and (has "databases" $service.needs) $root.Values.databases.existingSecret }}
- name: databases
  secret: {secretName: {{ $root.Values.databases.existingSecret | quote }}, defaultMode: 0440}
{{- end }}
{{- if and (has "mcp" $service.needs) $root.Values.mcp.existingSecret }}
- name: mcp
  secret: {secretName: {{ $root.Values.mcp.existingSecret | quote }}, defaultMode: 0440}
{{- end }}
{{- if and (has "model" $service.needs) (or $root.Values.model.pools $root.Values.model.existingPools) }}
- name: pools
  configMap: {name: {{ $root.Values.model.existingPools | default (include "sabueso.name" (list $root "pools")) | quote }}}
{{- end }}
{{- if has "model" $service.needs }}
{{- range $pool, $secret := $root.Values.model.poolKeys }}
- name: {{ printf "model-key-%s" $pool | quote }}
  secret: {secretName: {{ $secret | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- if has "evaluation" $service.needs }}
{{- with include "sabueso.keysSecret" $root }}
- name: keys
  {{- if $root.Values.evaluation.keysSecret }}
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
  {{- else }}
  # Of the try-out's Secret the key alone, and none of the passwords.
  secret: {secretName: {{ . | quote }}, defaultMode: 0440, items: [{key: tryout.key, path: tryout.key}]}
  {{- end }}
{{- end }}
{{- end }}
{{- with $service.persistence }}
- name: data
  persistentVolumeClaim: {claimName: {{ .existingClaim | default (include "sabueso.name" (list $root (index $ 1))) | quote }}}
{{- end }}
{{- with concat ($service.extraVolumes | default list) $root.Values.pods.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The Secret with the tenants' keys for evaluation, or nothing. */}}
{{- define "sabueso.keysSecret" -}}
{{- if .Values.evaluation.keysSecret -}}
{{- .Values.evaluation.keysSecret -}}
{{- else if .Values.tryout.enabled -}}
{{- include "sabueso.name" (list . "tryout") -}}
{{- end -}}
{{- end -}}
