{{- define "scheduled-events.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "scheduled-events.labels" -}}
{{ include "scheduled-events.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "scheduled-events.selector" -}}
app.kubernetes.io/name: scheduled-events
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "scheduled-events.hubLabels" -}}
{{ include "scheduled-events.hubSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "scheduled-events.hubSelector" -}}
app.kubernetes.io/name: scheduled-events-hub
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Whether each node has its pod; empty if not. The values of an earlier version do not say so. */ -}}
{{- define "scheduled-events.agents" -}}
{{- if ne (toString (.Values.agents).enabled) "false" -}}true{{- end -}}
{{- end -}}

{{- /* Whether there is a hub; empty without one. */ -}}
{{- define "scheduled-events.hub" -}}
{{- if eq (toString (.Values.hub).enabled) "true" -}}true{{- end -}}
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

{{- /* Not empty if a drain acts on advice: then a rule and `announce` are for it, too. */ -}}
{{- define "scheduled-events.onAdvice" -}}
{{- $onAdvice := (.Values.node | default dict).on_advice | default "ignore" -}}
{{- if ne $onAdvice "ignore" -}}{{ $onAdvice }}{{- end -}}
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

{{- define "scheduled-events.metricsContainer" -}}
- name: metrics
  image: {{ include "scheduled-events.metricsImage" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - --collector.disable-defaults
    - --collector.textfile
    - --collector.textfile.directory=/run/scheduled-events-metrics
    - --web.disable-exporter-metrics
    - --web.listen-address=:{{ include "scheduled-events.metricsPort" . }}
  ports:
    - name: metrics
      containerPort: {{ include "scheduled-events.metricsPort" . }}
  securityContext: {{- include "scheduled-events.security" . | nindent 4 }}
  resources: {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
    - name: metrics
      mountPath: /run/scheduled-events-metrics
      readOnly: true
{{- end -}}

{{- define "scheduled-events.metricsVolume" -}}
- name: metrics
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
{{- end -}}

{{- define "scheduled-events.metricsIngress" -}}
{{- if include "scheduled-events.metricsPort" . -}}
ingress:
  - ports:
      - port: {{ include "scheduled-events.metricsPort" . }}
        protocol: TCP
{{- else -}}
ingress: []
{{- end -}}
{{- end -}}
