{{/* What a schema cannot say: values that do not fit together. Each message names the value. */}}

{{- define "sabueso.check" -}}
{{- $values := .Values -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,32}[a-z0-9])?$" .Release.Name) -}}
{{- fail (printf "release name %q: 34 characters at most, letters, digits and `-`, beginning with a letter" .Release.Name) -}}
{{- end -}}
{{- if and (hasPrefix "system-" .Release.Namespace) (or $values.priorityClasses.create $values.evaluation.weekly.enabled) -}}
{{- fail (printf "priorityClasses.create, evaluation.weekly.enabled: their priority classes would be called %s-…, and Kubernetes keeps names with system- for itself; take another namespace" .Release.Namespace) -}}
{{- end -}}
{{- if $values.tryout.enabled -}}
{{- if not $values.tryout.seed -}}
{{- fail "tryout.seed: say --set-string tryout.seed=$(openssl rand -hex 32), and the same at every upgrade" -}}
{{- end -}}
{{- if or $values.existingSecret $values.builtin.existingSecret -}}
{{- fail "tryout.enabled: passwords are derived from tryout.seed; existingSecret and builtin.existingSecret must be empty" -}}
{{- end -}}
{{- else -}}
{{- if $values.tryout.seed -}}
{{- fail "tryout.seed: only with tryout.enabled" -}}
{{- end -}}
{{- if not $values.existingSecret -}}
{{- fail "existingSecret: name a Secret with the key identity-secret (32 bytes or more)" -}}
{{- end -}}
{{- if not (or $values.tenants.existingConfigMap $values.tenants.existingSecret $values.tenants.files) -}}
{{- fail "tenants: say existingConfigMap, existingSecret or files, with one YAML file a tenant" -}}
{{- end -}}
{{- if and (include "sabueso.enabled" (list . "sql_tool")) (not $values.databases.existingSecret) -}}
{{- fail "databases.existingSecret: name a Secret with the DSNs of the tenants' reader roles, or say services.sql_tool.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- $sources := 0 -}}
{{- range list $values.tenants.existingConfigMap $values.tenants.existingSecret $values.tenants.files -}}
{{- if . -}}{{- $sources = add $sources 1 -}}{{- end -}}
{{- end -}}
{{- if gt $sources 1 -}}
{{- fail "tenants: only one of existingConfigMap, existingSecret and files" -}}
{{- end -}}
{{- if and $values.ingress.enabled $values.httpRoute.enabled -}}
{{- fail "httpRoute.enabled: only one of ingress and httpRoute" -}}
{{- end -}}
{{- if and $values.httpRoute.enabled (not $values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs: name a Gateway" -}}
{{- end -}}
{{- $pools := or $values.model.pools $values.model.existingPools -}}
{{- if and $values.model.pools $values.model.existingPools -}}
{{- fail "model.existingPools: only one of pools and existingPools" -}}
{{- end -}}
{{- if and $values.model.poolKeys (not $pools) -}}
{{- fail "model.poolKeys: only with pools or existingPools" -}}
{{- end -}}
{{- if and $pools (include "sabueso.enabled" (list . "understudy")) -}}
{{- fail "model.pools: not together with services.understudy.enabled" -}}
{{- end -}}
{{- if and $values.builtin.postgresql.enabled (($values.services.evaluation | default dict).secretEnv | default dict).SABUESO_RESULTS_DSN -}}
{{- fail "services.evaluation.secretEnv.SABUESO_RESULTS_DSN: not together with builtin.postgresql.enabled" -}}
{{- end -}}
{{- range $name, $service := $values.services -}}
{{- include "sabueso.checkService" (list $ $name $service) -}}
{{- end -}}
{{- end -}}

{{/* Takes (list root name service). */}}
{{- define "sabueso.checkService" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $service := index . 2 -}}
{{- $enabled := include "sabueso.enabled" (list $root $name) -}}
{{- /* A tenant's file would name what runs beside the keys of all tenants: nobody turns that on in passing. */ -}}
{{- range $env := list $service.env $service.secretEnv $root.Values.pods.env -}}
{{- if hasKey ($env | default dict) "SABUESO_MCP_STDIO" -}}
{{- if not (has (get $env "SABUESO_MCP_STDIO" | toString | lower) (list "false" "0" "no" "off")) -}}
{{- fail (printf "services.%s.env.SABUESO_MCP_STDIO: programs of MCP servers are not started in a cluster; say mcp.programs=true where they shall be" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $called := $service.calls -}}
{{- if not (hasKey $root.Values.services $called) -}}
{{- fail (printf "services.%s.calls: there is no service `%s`" $name $called) -}}
{{- end -}}
{{- end -}}
{{- if has $name (list "qdrant" "valkey" "postgresql" "tenants" "pools" "test" "tryout" "load_test" "load_test_worker" "sabueso") -}}
{{- fail (printf "services.%s: another part of the chart has this name" $name) -}}
{{- end -}}
{{- if and (not $enabled) (eq $name "gateway") -}}
{{- fail "services.gateway.enabled: it is what everybody calls" -}}
{{- end -}}
{{- if and (not $enabled) (not $service.address) (has $name (list "orchestrator" "retrieval" "embedding")) -}}
{{- fail (printf "services.%s.enabled: nothing can be answered without it; say services.%s.address" $name $name) -}}
{{- end -}}
{{- if and $enabled $service.address -}}
{{- fail (printf "services.%s.address: it is deployed here; say services.%s.enabled=false" $name $name) -}}
{{- end -}}
{{- if and (include "sabueso.scaled" (list $root $service)) (lt ($service.scaling.max | int) ($service.scaling.min | int)) -}}
{{- fail (printf "services.%s.scaling: max is less than min" $name) -}}
{{- end -}}
{{- /* Without a volume what is acknowledged would go with the pod, or could not be written at all. */ -}}
{{- range $variable, $folder := $service.env | default dict -}}
{{- if and $enabled (hasSuffix "_DIR" $variable) (not (hasPrefix "/tmp" $folder)) (not $service.persistence) (not $service.extraVolumeMounts) -}}
{{- fail (printf "services.%s.persistence: %s is %s, and nothing is mounted there; say mountPath and size, or mount a volume of yours (extraVolumes, extraVolumeMounts)" $name $variable $folder) -}}
{{- end -}}
{{- end -}}
{{- with $service.persistence -}}
{{- if and (gt (include "sabueso.most" (list $root $service) | int) 1) (ne (.accessMode | default "ReadWriteOnce") "ReadWriteMany") -}}
{{- fail (printf "services.%s.persistence.accessMode: several replicas share the volume; say ReadWriteMany" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The environment, with no variable twice. Takes (list root name service). */}}
{{- define "sabueso.checkedEnv" -}}
{{- $text := include "sabueso.env" . -}}
{{- $seen := dict -}}
{{- range fromYamlArray $text -}}
{{- if hasKey $seen .name -}}
{{- fail (printf "services.%s.env: %s is set by other values" (index $ 1) .name) -}}
{{- end -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- $text | trimSuffix "\n" -}}
{{- end -}}
