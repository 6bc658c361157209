{{/* A pod of a pool. Takes (list root pool-name pool). */}}
{{- define "vllm.pod" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $pool := index . 2 -}}
{{- $image := include "vllm.image" (list $root $root.Values.image $root.Chart.AppVersion) -}}
serviceAccountName: {{ include "vllm.name" (list $root $name) }}
automountServiceAccountToken: false
# A Service called `vllm` would put VLLM_PORT=tcp://… into the environment, and vLLM reads that.
enableServiceLinks: false
terminationGracePeriodSeconds: {{ add (int64 $pool.drain.preStopSeconds) (int64 $pool.drain.shutdownSeconds) (int64 $pool.drain.marginSeconds) }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pool.gpu.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with $pool.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $pool.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
affinity: {{- include "vllm.affinity" $pool | nindent 2 }}
tolerations: {{- toYaml $pool.tolerations | nindent 2 }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "vllm.selector" (list $root $name) | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
securityContext: {{- include "vllm.podSecurity" $root | nindent 2 }}
{{- if $pool.weights.prefetch.enabled }}
initContainers:
  - name: weights
    image: {{ $image }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    securityContext: {{- include "vllm.containerSecurity" $root | nindent 6 }}
    # The Job gives the folder its name only when every file is right.
    command: [/bin/sh, -c]
    args:
      - |
        waited=0
        until [ "$(cat "$FOLDER/.verified" 2>/dev/null)" = "$WISH" ]; do
          [ "$waited" -lt "$MOST_SECONDS" ] || { echo "still no verified files in $FOLDER: see the Job's log" >&2; exit 1; }
          echo "waiting for verified files in $FOLDER"
          sleep 10
          waited=$((waited + 10))
        done
    env:
      - {name: FOLDER, value: {{ printf "/models/%s" $pool.model.path | quote }}}
      - {name: WISH, value: {{ include "vllm.wish" $pool | quote }}}
      - {name: MOST_SECONDS, value: {{ int64 $pool.weights.prefetch.maxSeconds | quote }}}
    resources: {{- include "vllm.resources" (list (dict "cpu" 1 "memoryGi" 1 "ephemeralGi" 1) 0) | nindent 6 }}
    volumeMounts: [{name: models, mountPath: /models, readOnly: true}]
{{- end }}
containers:
  - name: vllm
    image: {{ $image }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    securityContext: {{- include "vllm.containerSecurity" $root | nindent 6 }}
    command: [vllm]
    args: {{- include "vllm.args" $pool | nindent 6 }}
    env:
      {{- $env := mustMerge (deepCopy $pool.extraEnv) (include "vllm.fixedEnv" $pool | fromYaml) }}
      {{- range $variable, $value := $env }}
      - {name: {{ $variable }}, value: {{ $value | quote }}}
      {{- end }}
      {{- if $pool.apiKey.existingSecret }}
      - name: VLLM_API_KEY
        valueFrom: {secretKeyRef: {name: {{ $pool.apiKey.existingSecret | quote }}, key: {{ $pool.apiKey.key | quote }}}}
      {{- end }}
    ports: [{name: http, containerPort: 8000}]
    # Endpoints forget a pod a little after it is told to stop: it answers until then.
    lifecycle: {preStop: {sleep: {seconds: {{ int64 $pool.drain.preStopSeconds }}}}}
    startupProbe: {httpGet: {path: /health, port: http}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: {{ div (int64 $pool.startupSeconds) 10 }}}
    readinessProbe: {httpGet: {path: /health, port: http}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 2}
    # /health tells a dead engine from a living one, never a busy one; two minutes outlast any pause of a busy process.
    livenessProbe: {httpGet: {path: /health, port: http}, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6}
    resources: {{- include "vllm.resources" (list $pool.resources $pool.gpus) | nindent 6 }}
    volumeMounts:
      - {name: models, mountPath: /models, readOnly: true}
      - {name: shm, mountPath: /dev/shm}
      - {name: cache, mountPath: /cache}
      - {name: tmp, mountPath: /tmp}
volumes:
  - {{- include "vllm.modelsVolume" . | nindent 4 }}
  # 64 MiB otherwise, and NCCL fails; never the host's IPC.
  - name: shm
    emptyDir: {medium: Memory, sizeLimit: {{ int64 $pool.shmGi }}Gi}
  - name: cache
    emptyDir: {sizeLimit: {{ sub (int64 $pool.resources.ephemeralGi) 5 }}Gi}
  - name: tmp
    emptyDir: {sizeLimit: 4Gi}
{{- end -}}
