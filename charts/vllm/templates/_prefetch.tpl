{{/* What the Job that fills a claim does. Takes (list root pool-name pool). */}}
{{- define "vllm.prefetch" -}}
{{- $ := index . 0 -}}
{{- $name := index . 1 -}}
{{- $pool := index . 2 -}}
{{- $prefetch := $pool.weights.prefetch -}}
{{- $full := include "vllm.name" (list $ $name) -}}
{{- $wish := include "vllm.wish" $pool -}}
{{- $sums := printf "%s-%s" $full (trunc 8 $wish) -}}
backoffLimit: 6
activeDeadlineSeconds: {{ int64 $prefetch.maxSeconds }}
template:
  metadata:
    labels:
      app.kubernetes.io/name: vllm-prefetch
      app.kubernetes.io/instance: {{ $.Release.Name | quote }}
      app.kubernetes.io/component: {{ $name | quote }}
      {{- with omit $pool.podLabels "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
  spec:
    serviceAccountName: {{ $full }}-prefetch
    automountServiceAccountToken: false
    enableServiceLinks: false
    # In place, so that a broken download goes on where it was.
    restartPolicy: OnFailure
    {{- with $.Values.image.pullSecrets }}
    imagePullSecrets: {{- toYaml . | nindent 6 }}
    {{- end }}
    nodeSelector: {kubernetes.io/arch: amd64}
    securityContext: {{- include "vllm.podSecurity" $ | nindent 6 }}
    containers:
      - name: prefetch
        # The nodes have this image anyway, and the hub's client is in it.
        image: {{ include "vllm.image" (list $ $.Values.image $.Chart.AppVersion) }}
        imagePullPolicy: {{ $.Values.image.pullPolicy }}
        securityContext: {{- include "vllm.containerSecurity" $ | nindent 10 }}
        command: [/bin/sh, /etc/prefetch/prefetch.sh]
        args:
          {{- range $prefetch.exclude }}
          - {{ . | quote }}
          {{- end }}
        env:
          - {name: FOLDER, value: {{ printf "/models/%s" $pool.model.path | quote }}}
          - {name: REPOSITORY, value: {{ $prefetch.repository | default $pool.model.name | quote }}}
          - {name: REVISION, value: {{ $prefetch.revision | quote }}}
          - {name: WISH, value: {{ $wish | quote }}}
          - {name: SUMS, value: /etc/prefetch/SHA256SUMS}
          - {name: HOME, value: /tmp}
          - {name: HF_HOME, value: /tmp/huggingface}
          - {name: HF_HUB_DISABLE_TELEMETRY, value: "1"}
          {{- with $prefetch.endpoint }}
          - {name: HF_ENDPOINT, value: {{ . | quote }}}
          {{- end }}
          {{- range $variable, $value := $prefetch.env }}
          - {name: {{ $variable }}, value: {{ $value | quote }}}
          {{- end }}
          {{- if $prefetch.existingSecret }}
          - name: HF_TOKEN
            valueFrom: {secretKeyRef: {name: {{ $prefetch.existingSecret | quote }}, key: {{ $prefetch.secretKey | quote }}}}
          {{- end }}
        resources: {{- include "vllm.resources" (list $prefetch.resources 0) | nindent 10 }}
        volumeMounts:
          - {name: models, mountPath: /models}
          - {name: prefetch, mountPath: /etc/prefetch, readOnly: true}
          - {name: tmp, mountPath: /tmp}
    volumes:
      - name: models
        persistentVolumeClaim: {claimName: {{ include "vllm.claim" (list $ $name $pool) | quote }}}
      - name: prefetch
        configMap: {name: {{ $sums }}}
      - name: tmp
        emptyDir: {sizeLimit: {{ sub (int64 $prefetch.resources.ephemeralGi) 1 }}Gi}
{{- end -}}
