{{/* Names, labels and images. */}}

{{/* Kubernetes name of a part: the only place where `_` becomes `-`. Takes (list root part). */}}
{{- define "sabueso.name" -}}
{{- printf "%s-%s" (index . 0).Release.Name (index . 1 | replace "_" "-") -}}
{{- end -}}

{{/* What pods are found by. It can never change: a Deployment's selector is immutable. */}}
{{- define "sabueso.selector" -}}
app.kubernetes.io/name: {{ index . 1 | replace "_" "-" | quote }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
{{- end -}}

{{- define "sabueso.labels" -}}
{{ include "sabueso.selector" . }}
app.kubernetes.io/part-of: sabueso
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end -}}

{{/* Labels of a pod: of its part, and the user's; no version of the chart, with which each upgrade would make new pods of all.
     Takes (list root part own). */}}
{{- define "sabueso.podLabels" -}}
{{- $fixed := merge (dict "app.kubernetes.io/part-of" "sabueso") (include "sabueso.selector" . | fromYaml) -}}
{{- merge $fixed (index . 2 | default dict) (index . 0).Values.pods.labels | toYaml -}}
{{- end -}}

{{/* Reference of an image. Takes (list root image), with registry, repository, and tag or digest. */}}
{{- define "sabueso.image" -}}
{{- $image := index . 1 -}}
{{- $registry := ((index . 0).Values.global).imageRegistry | default $image.registry -}}
{{- if $image.digest -}}
{{ $registry }}/{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $registry }}/{{ $image.repository }}:{{ $image.tag }}
{{- end -}}
{{- end -}}

{{/* Reference of a service's image. Takes (list root name). */}}
{{- define "sabueso.serviceImage" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $own := (get $root.Values.services $name).image | default dict -}}
{{- $usual := dict
  "registry" $root.Values.image.registry
  "repository" (printf "%s-%s" $root.Values.image.repository ($name | replace "_" "-"))
  "tag" ($root.Values.image.tag | default $root.Chart.AppVersion)
-}}
{{- include "sabueso.image" (list $root (merge (dict) $own $usual)) -}}
{{- end -}}

{{/* Tag of a service's image, as a label: pods change with it anyway. Nothing where a digest names the image. Takes (list root name). */}}
{{- define "sabueso.version" -}}
{{- $root := index . 0 -}}
{{- $own := (get $root.Values.services (index . 1)).image | default dict -}}
{{- if not $own.digest -}}
{{- $own.tag | default $root.Values.image.tag | default $root.Chart.AppVersion | trunc 63 | trimAll "._-" -}}
{{- end -}}
{{- end -}}

{{/* "true" when a service runs in this release. Takes (list root name). */}}
{{- define "sabueso.enabled" -}}
{{- $service := get (index . 0).Values.services (index . 1) -}}
{{- if or (not (hasKey $service "enabled")) $service.enabled -}}true{{- end -}}
{{- end -}}

{{/* Port on which a service listens. Takes the service. */}}
{{- define "sabueso.port" -}}
{{- .port | default (ternary 8080 50051 (default false .http)) | int64 -}}
{{- end -}}

{{/* Kind of autoscaling of a service: `hpa`, `keda`, or nothing. Takes (list root service). */}}
{{- define "sabueso.scaled" -}}
{{- if and (index . 1).scaling (ne (index . 0).Values.autoscaling.kind "none") -}}
{{- (index . 0).Values.autoscaling.kind -}}
{{- end -}}
{{- end -}}

{{/* Least number of a service's pods. Takes (list root service). */}}
{{- define "sabueso.fewest" -}}
{{- if include "sabueso.scaled" . }}{{ (index . 1).scaling.min | int64 }}{{ else }}{{ (index . 1).replicas | int64 }}{{ end -}}
{{- end -}}

{{/* Most of them. */}}
{{- define "sabueso.most" -}}
{{- if include "sabueso.scaled" . }}{{ (index . 1).scaling.max | int64 }}{{ else }}{{ (index . 1).replicas | int64 }}{{ end -}}
{{- end -}}

{{/* Name of the priority class `serving` or `batch`. Takes (list root which). */}}
{{- define "sabueso.priorityClass" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.priorityClasses.create -}}
{{- printf "%s-%s-%s" $root.Release.Namespace $root.Release.Name (index . 1) -}}
{{- else -}}
{{- get $root.Values.priorityClasses (index . 1) -}}
{{- end -}}
{{- end -}}

{{/* A password that is the same at every rendering. Takes (list root purpose). */}}
{{- define "sabueso.derived" -}}
{{- printf "%s/%s" (index . 0).Values.tryout.seed (index . 1) | sha256sum -}}
{{- end -}}

{{/* The Secret with the identity secret. */}}
{{- define "sabueso.identitySecret" -}}
{{- if .Values.tryout.enabled -}}
{{- include "sabueso.name" (list . "tryout") -}}
{{- else -}}
{{- required "existingSecret: name a Secret with the key identity-secret (32 bytes or more)" .Values.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the passwords of what is built in. */}}
{{- define "sabueso.builtinSecret" -}}
{{- if .Values.tryout.enabled -}}
{{- include "sabueso.name" (list . "tryout") -}}
{{- else -}}
{{- required "builtin.existingSecret: name a Secret with the keys valkey-password, qdrant-api-key and postgresql-password" .Values.builtin.existingSecret -}}
{{- end -}}
{{- end -}}
