{{- define "hami-cache.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "hami-cache.fullname" -}}
{{- $name := include "hami-cache.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hami-cache.selectorLabels" -}}
app.kubernetes.io/name: {{ include "hami-cache.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hami-cache.labels" -}}
{{ include "hami-cache.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: monitor
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "hami-cache.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "hami-cache.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: which service account, if none is created?" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "hami-cache.image" -}}
{{- $repository := required "image.repository: build deploy/Dockerfile, push it, and say where it is" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "hami-cache.port" -}}
{{- .Values.port | default (ternary 9394 9396 (eq .Values.mode "instead")) -}}
{{- end -}}

{{/* "true" if anything below containersPath is removed: such directories belong to root. */}}
{{- define "hami-cache.removes" -}}
{{- if and (eq .Values.mode "instead") .Values.gc.enabled (not .Values.gc.dryRun) -}}true{{- end -}}
{{- end -}}

{{/* "true" if anything below containersPath is written or removed. */}}
{{- define "hami-cache.writes" -}}
{{- if or (include "hami-cache.removes" .) (and (eq .Values.mode "instead") .Values.feedback.enabled) -}}true{{- end -}}
{{- end -}}

{{- define "hami-cache.args" -}}
- monitor
- --metrics-bind-address=:{{ include "hami-cache.port" . }}
- --pods=api
{{- if eq .Values.mode "beside" }}
- --read-only
{{- else }}
{{- if not .Values.feedback.enabled }}
- --no-feedback
{{- end }}
{{- if not .Values.gc.enabled }}
- --no-gc
{{- else if .Values.gc.dryRun }}
- --gc-dry-run
{{- end }}
{{- end }}
{{- if .Values.legacyMetrics }}
- --legacy-metrics=true
{{- end }}
{{- if .Values.hostProc }}
- --host-proc=/host/proc
{{- end }}
{{- if not .Values.nvml.enabled }}
- --no-nvml
{{- else }}
{{- if .Values.nvml.boardReadings }}
- --board-readings
{{- end }}
{{- if .Values.nvml.release }}
- --release-nvml
{{- end }}
{{- end }}
{{- if .Values.webConfig.secretName }}
- --web-config=/etc/hami-cache/web/{{ .Values.webConfig.key }}
{{- end }}
- --log-format={{ .Values.log.format }}
- --log-level={{ .Values.log.level }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* How a probe asks for a path: (list $ "/healthz"). */}}
{{- define "hami-cache.probe" -}}
{{- $web := (index . 0).Values.webConfig -}}
{{- if and $web.secretName (eq $web.probe "tcpSocket") -}}
tcpSocket:
  port: metrics
{{- else -}}
httpGet:
  path: {{ index . 1 }}
  port: metrics
{{- if and $web.secretName (eq $web.scheme "https") }}
  scheme: HTTPS
{{- end }}
{{- end -}}
{{- end -}}

{{- define "hami-cache.podSecurityContext" -}}
{{- $user := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 -}}
{{- if include "hami-cache.removes" . -}}
{{- $user = dict "runAsUser" 0 "runAsGroup" 0 -}}
{{- end -}}
{{- $_ := set $user "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- toYaml (mergeOverwrite $user .Values.podSecurityContext) -}}
{{- end -}}

{{- define "hami-cache.securityContext" -}}
{{- $add := list -}}
{{- if include "hami-cache.removes" . -}}
{{- $add = append $add "LEASE" -}}
{{- end -}}
{{- if and .Values.nvml.enabled .Values.nvml.migMonitor -}}
{{- $add = append $add "SYS_ADMIN" -}}
{{- end -}}
{{- $capabilities := dict "drop" (list "ALL") -}}
{{- if $add -}}
{{- $_ := set $capabilities "add" $add -}}
{{- end -}}
{{- $base := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" $capabilities -}}
{{- toYaml (mergeOverwrite $base .Values.securityContext) -}}
{{- end -}}

{{/* A PodMonitor's or ServiceMonitor's endpoint: (list $ .Values.podMonitor). */}}
{{- define "hami-cache.endpoint" -}}
{{- $root := index . 0 -}}
{{- $monitor := index . 1 -}}
{{- $node := dict "sourceLabels" (list "__meta_kubernetes_pod_node_name") "targetLabel" "node" -}}
{{- $endpoint := dict "port" "metrics" "path" "/metrics" "honorLabels" true "interval" $monitor.interval "relabelings" (list $node) -}}
{{- if and $root.Values.webConfig.secretName (eq $root.Values.webConfig.scheme "https") -}}
{{- $_ := set $endpoint "scheme" "https" -}}
{{- end -}}
{{- toYaml (mergeOverwrite $endpoint $monitor.endpoint) -}}
{{- end -}}
