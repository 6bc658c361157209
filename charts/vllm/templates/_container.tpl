{{/* Flags that `extraArgs` must not give: each has a value. */}}
{{- define "vllm.ownFlags" -}}
{{- list "--model" "--served-model-name" "--host" "--port" "--tensor-parallel-size" "--pipeline-parallel-size" "--data-parallel-size" "--quantization" "--max-model-len" "--max-num-seqs" "--max-num-batched-tokens" "--max-num-queued-reqs" "--gpu-memory-utilization" "--kv-cache-dtype" "--enable-prefix-caching" "--enable-chunked-prefill" "--enable-auto-tool-choice" "--tool-call-parser" "--chat-template" "--structured-outputs-config" "--shutdown-timeout" "--enable-lora" "--max-loras" "--max-lora-rank" "--max-cpu-loras" "--lora-modules" "--api-key" "--disable-access-log-for-endpoints" | toJson -}}
{{- end -}}

{{/* Arguments of `vllm`, as YAML. Takes a pool. */}}
{{- define "vllm.args" -}}
- serve
- {{ printf "/models/%s" .model.path | quote }}
- --served-model-name
- {{ .model.name | quote }}
{{- range .model.aliases }}
- {{ . | quote }}
{{- end }}
- {{ printf "--host=%s" .host | quote }}
- --port=8000
- --tensor-parallel-size={{ int64 .gpus }}
{{- with .quantization }}
- --quantization={{ . }}
{{- end }}
- --max-model-len={{ int64 .maxModelLen }}
- --max-num-seqs={{ int64 .maxNumSeqs }}
- --max-num-batched-tokens={{ int64 .maxNumBatchedTokens }}
- --max-num-queued-reqs={{ int64 .maxNumQueuedReqs }}
- --gpu-memory-utilization={{ .gpuMemoryUtilization }}
- --kv-cache-dtype={{ .kvCacheDtype }}
- --enable-prefix-caching
- --enable-chunked-prefill
{{- with .toolCallParser }}
- --enable-auto-tool-choice
- --tool-call-parser={{ . }}
{{- end }}
{{- with .chatTemplate }}
- {{ printf "--chat-template=%s" . | quote }}
{{- end }}
- {{ printf "--structured-outputs-config=%s" (dict "backend" .structuredOutputs.backend "disable_any_whitespace" .structuredOutputs.disableAnyWhitespace | toJson) | quote }}
- --shutdown-timeout={{ int64 .drain.shutdownSeconds }}
- --disable-access-log-for-endpoints=/health,/metrics
{{- if .lora.enabled }}
- --enable-lora
- --max-loras={{ int64 .lora.maxLoras }}
- --max-lora-rank={{ int64 .lora.maxRank }}
- --max-cpu-loras={{ int64 .lora.maxCpuLoras }}
{{- with .lora.adapters }}
- --lora-modules
{{- range $served, $path := . }}
- {{ printf "%s=/models/%s" $served $path | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Variables that are the same whoever installs it, as a YAML map. Takes a pool. */}}
{{- define "vllm.fixedEnv" -}}
# It gives up by itself after 600 s, however patient the probe is.
VLLM_ENGINE_READY_TIMEOUT_S: {{ int64 .startupSeconds | quote }}
# Nothing is fetched and nothing is reported.
HF_HUB_OFFLINE: "1"
TRANSFORMERS_OFFLINE: "1"
VLLM_NO_USAGE_STATS: "1"
DO_NOT_TRACK: "1"
# The user has no name in the image, and PyTorch asks for one.
USER: vllm
LOGNAME: vllm
# The root is read-only, and everybody has a cache of his own.
HOME: /cache
TMPDIR: /tmp
XDG_CACHE_HOME: /cache
XDG_CONFIG_HOME: /cache/config
VLLM_CACHE_ROOT: /cache/vllm
VLLM_CONFIG_ROOT: /cache/config/vllm
HF_HOME: /cache/huggingface
TRITON_CACHE_DIR: /cache/triton
TORCHINDUCTOR_CACHE_DIR: /cache/torchinductor
FLASHINFER_WORKSPACE_BASE: /cache/flashinfer
DG_JIT_CACHE_DIR: /cache/deep_gemm
CUDA_CACHE_PATH: /cache/cuda
NUMBA_CACHE_DIR: /cache/numba
OUTLINES_CACHE_DIR: /cache/outlines
{{- end -}}

{{/* Where a pod with GPUs may go. Takes a pool. */}}
{{- define "vllm.affinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - {key: {{ .gpu.productLabel | quote }}, operator: In, values: {{ toJson .gpu.products }}}
          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
          # Cut and shared GPUs, where the product's name does not tell.
          - {key: nvidia.com/gpu.sharing-strategy, operator: NotIn, values: [time-slicing, mps]}
          - {key: cloud.google.com/gke-gpu-sharing-strategy, operator: DoesNotExist}
          - {key: cloud.google.com/gke-gpu-partition-size, operator: DoesNotExist}
{{- end -}}

{{/* The volume with the models' files. Takes (list root pool-name pool). */}}
{{- define "vllm.modelsVolume" -}}
{{- $pool := index . 2 -}}
name: models
{{- if eq $pool.weights.from "image" }}
image:
  reference: {{ include "vllm.image" (list (index . 0) $pool.weights.image "") }}
  pullPolicy: {{ $pool.weights.image.pullPolicy }}
{{- else }}
# A claim that is being filled is attached for writing; where a container mounts it read-only, it stays so.
persistentVolumeClaim: {claimName: {{ include "vllm.claim" . | quote }}, readOnly: {{ not $pool.weights.prefetch.enabled }}}
{{- end }}
{{- end -}}
