{{- define "scheduled-events.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "scheduled-events.labels" -}}
app.kubernetes.io/name: scheduled-events
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "scheduled-events.selector" -}}
app.kubernetes.io/name: scheduled-events
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "scheduled-events.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "scheduled-events.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* The kubelet makes the folder of a hostPath for root. Root without capabilities writes it, and nothing else. */ -}}
{{- define "scheduled-events.user" -}}
{{- if (.Values.state).hostPath -}}
{{- dig "runAsUser" 0 .Values.state -}}
{{- else -}}
65532
{{- end -}}
{{- end -}}

{{- define "scheduled-events.environment" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- end -}}

{{- define "scheduled-events.mounts" -}}
- name: configuration
  mountPath: /etc/scheduled-events
  readOnly: true
- name: state
  mountPath: /var/lib/scheduled-events
- name: run
  mountPath: /run/scheduled-events
{{- if include "scheduled-events.metricsPort" . }}
- name: metrics
  mountPath: /run/scheduled-events-metrics
{{- end }}
{{- end -}}

{{- define "scheduled-events.ourRequests" -}}
- name: by-the-agent
  expression: request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ include "scheduled-events.name" . }}'
{{- end -}}

{{- define "scheduled-events.tokenNode" -}}
- name: node
  expression: request.userInfo.extra[?'authentication.kubernetes.io/node-name'].orValue([''])[0]
{{- end -}}

{{- /* The port of the metrics; empty without them. The values of an earlier version have none. */ -}}
{{- define "scheduled-events.metricsPort" -}}
{{- $metrics := .Values.metrics | default dict -}}
{{- if eq (toString $metrics.enabled) "true" -}}
{{- $port := int (dig "port" 9780 $metrics) -}}
{{- if or (lt $port 1) (gt $port 65535) -}}
{{- fail "metrics.port: expected a number from 1 to 65535" -}}
{{- end -}}
{{- $port -}}
{{- end -}}
{{- end -}}

{{- define "scheduled-events.metricsImage" -}}
{{- $image := dig "image" dict (.Values.metrics | default dict) -}}
{{ dig "repository" "prom/node-exporter" $image }}:{{ dig "tag" "v1.9.1" $image }}
{{- end -}}
