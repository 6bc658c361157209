{{/* What a schema cannot say of a pool. Takes (list root pool-name pool). */}}
{{- define "vllm.check" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $pool := index . 2 -}}
{{- $at := printf "pools.%s" $name -}}
{{- include "vllm.checkName" (list $root $name) -}}
{{- if gt (mul 2 (int64 $pool.shmGi)) (int64 $pool.resources.memoryGi) -}}
{{- fail (printf "%s.shmGi: /dev/shm counts towards memory; it must not be above half of resources.memoryGi" $at) -}}
{{- end -}}
{{- if lt (int64 $pool.maxNumQueuedReqs) (int64 $pool.maxNumSeqs) -}}
{{- fail (printf "%s.maxNumQueuedReqs counts the running ones too: it must not be below maxNumSeqs" $at) -}}
{{- end -}}
{{- if lt (int64 $pool.maxNumBatchedTokens) (int64 $pool.maxNumSeqs) -}}
{{- fail (printf "%s.maxNumBatchedTokens must not be below maxNumSeqs" $at) -}}
{{- end -}}
{{- if and $pool.lora.enabled (lt (int64 $pool.lora.maxCpuLoras) (int64 $pool.lora.maxLoras)) -}}
{{- fail (printf "%s.lora.maxCpuLoras must not be below maxLoras" $at) -}}
{{- end -}}
{{- if and $pool.structuredOutputs.disableAnyWhitespace (not (has $pool.structuredOutputs.backend (list "xgrammar" "guidance"))) -}}
{{- fail (printf "%s.structuredOutputs.disableAnyWhitespace: only xgrammar and guidance can do that" $at) -}}
{{- end -}}
{{- range $argument := $pool.extraArgs -}}
{{- /* vLLM takes `_` for `-`. */ -}}
{{- $flag := regexFind "^--[a-z_-]+" $argument | replace "_" "-" -}}
{{- if has ($flag | replace "--no-" "--") (include "vllm.ownFlags" $root | fromJsonArray) -}}
{{- fail (printf "%s.extraArgs: %s has a value of its own in this chart" $at $flag) -}}
{{- end -}}
{{- end -}}
{{- range $variable, $_ := $pool.extraEnv -}}
{{- if or (hasKey (include "vllm.fixedEnv" $pool | fromYaml) $variable) (eq $variable "VLLM_API_KEY") -}}
{{- fail (printf "%s.extraEnv: %s is written by this chart" $at $variable) -}}
{{- end -}}
{{- end -}}
{{- include "vllm.checkWeights" (list $root $at $pool) -}}
{{- include "vllm.checkScaling" (list $at $pool) -}}
{{- end -}}

{{/* A pool that only fetches has names too. Takes (list root pool-name). */}}
{{- define "vllm.checkName" -}}
{{- $name := index . 1 -}}
{{- if gt (len (include "vllm.name" .)) 52 -}}
{{- fail (printf "pools.%s: release and pool name together must not be longer than 51 characters" $name) -}}
{{- end -}}
{{- if or (hasSuffix "-headless" $name) (hasSuffix "-prefetch" $name) (hasSuffix "-weights" $name) (eq $name "pools-test") -}}
{{- fail (printf "pools.%s: objects of this chart end so; choose another name" $name) -}}
{{- end -}}
{{- end -}}

{{- define "vllm.checkWeights" -}}
{{- $root := index . 0 -}}
{{- $at := printf "%s.weights" (index . 1) -}}
{{- $pool := index . 2 -}}
{{- $weights := $pool.weights -}}
{{- if and (eq $weights.from "existingClaim") (not $weights.existingClaim) -}}
{{- fail (printf "%s.existingClaim: name a PersistentVolumeClaim with the model's files" $at) -}}
{{- end -}}
{{- if and (eq $weights.from "claim") (not $weights.prefetch.enabled) -}}
{{- fail (printf "%s.from is claim: without prefetch.enabled nobody fills it" $at) -}}
{{- end -}}
{{/* Whoever comes first would hold it: the pod waits for the Job's files, and the Job for the pod's volume. */}}
{{- if and (eq $weights.from "claim") (ne $weights.claim.accessMode "ReadWriteMany") $pool.enabled -}}
{{- fail (printf "%s.claim.accessMode: pods and the Job that fills it are on several nodes, which needs ReadWriteMany; or fill it while the pool is not enabled, and then name it as existingClaim" $at) -}}
{{- end -}}
{{- if eq $weights.from "image" -}}
{{- if not (and $weights.image.repository $weights.image.digest) -}}
{{- fail (printf "%s.image: name repository and digest (sha256:…)" $at) -}}
{{- end -}}
{{- if $weights.prefetch.enabled -}}
{{- fail (printf "%s.prefetch: an image needs none" $at) -}}
{{- end -}}
{{- if semverCompare "<1.33-0" $root.Capabilities.KubeVersion.Version -}}
{{- fail (printf "%s.from is image: image volumes need Kubernetes 1.33 or newer, this is %s" $at $root.Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- end -}}
{{- if $weights.prefetch.enabled -}}
{{- if not $weights.prefetch.revision -}}
{{- fail (printf "%s.prefetch.revision: name a commit, so that everybody loads the same files" $at) -}}
{{- end -}}
{{- if not $weights.prefetch.checksums -}}
{{- fail (printf "%s.prefetch.checksums: name each file with its sha256" $at) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "vllm.checkScaling" -}}
{{- $at := printf "%s.autoscaling" (index . 0) -}}
{{- $pool := index . 1 -}}
{{- $scaling := $pool.autoscaling -}}
{{- if $scaling.enabled -}}
{{- if gt (int64 $scaling.minReplicas) (int64 $scaling.maxReplicas) -}}
{{- fail (printf "%s.minReplicas must not be above maxReplicas" $at) -}}
{{- end -}}
{{/* A gauge never passes its ceiling: a threshold there would never be met. */}}
{{- if ge (float64 $scaling.waiting) (float64 (sub (int64 $pool.maxNumQueuedReqs) (int64 $pool.maxNumSeqs))) -}}
{{- fail (printf "%s.waiting must be below maxNumQueuedReqs - maxNumSeqs: more are refused" $at) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What is wrong with all pools together. */}}
{{- define "vllm.checkAll" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" .Release.Name) -}}
{{- fail (printf "release name %q: letters, digits and `-`, beginning with a letter: Services are named after it" .Release.Name) -}}
{{- end -}}
{{- $served := dict -}}
{{- range $name, $_ := .Values.pools -}}
{{- $pool := include "vllm.pool" (list $ $name) | fromJson -}}
{{- if $pool.enabled -}}
{{- include "vllm.check" (list $ $name $pool) -}}
{{- range $model := concat (list $pool.model.name) $pool.model.aliases (keys $pool.lora.adapters | sortAlpha) -}}
{{- with get $served $model -}}
{{- fail (printf "pools.%s and pools.%s both serve %s: the gateway could not tell them apart; give one an alias of its own" . $name $model) -}}
{{- end -}}
{{- $_ := set $served $model $name -}}
{{- end -}}
{{- else if $pool.weights.prefetch.enabled -}}
{{- include "vllm.checkName" (list $ $name) -}}
{{- include "vllm.checkWeights" (list $ (printf "pools.%s" $name) $pool) -}}
{{- end -}}
{{- end -}}
{{- if not $served -}}
{{- fail "pools: enable one or more" -}}
{{- end -}}
{{- end -}}
