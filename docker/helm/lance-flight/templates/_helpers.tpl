{{- define "lance-flight.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "lance-flight.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lance-flight.labels" -}}
{{ include "lance-flight.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "lance-flight.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "lance-flight.fullname" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "lance-flight.claim" -}}
{{ .Values.root.volume.existingClaim | default (printf "%s-data" (include "lance-flight.fullname" .)) }}
{{- end }}

{{/* Refuses values with which servers would not start, or would not work beside each other. */}}
{{- define "lance-flight.validate" -}}
{{- $auth := .Values.auth }}
{{- if not (or $auth.allowAnonymous $auth.users.existingSecret $auth.tokens.existingSecret $auth.jwt.keys .Values.tls.clientCertificates) }}
{{- fail "nobody may connect: set auth.users.existingSecret, auth.tokens.existingSecret, auth.jwt.keys or tls.clientCertificates, or auth.allowAnonymous=true to serve anyone who can connect" }}
{{- end }}
{{- if and $auth.jwt.keys (not (and $auth.jwt.issuer $auth.jwt.audience)) }}
{{- fail "auth.jwt.keys goes with auth.jwt.issuer and auth.jwt.audience: set all of them" }}
{{- end }}
{{- if and .Values.tls.clientCertificates (not .Values.tls.existingSecret) }}
{{- fail "tls.clientCertificates needs tls.existingSecret, with ca.crt beside tls.crt and tls.key" }}
{{- end }}
{{- if and .Values.backup.schedule (not .Values.backup.target) }}
{{- fail "backup.schedule needs backup.target: s3://bucket/prefix, or a directory below /backups with backup.existingClaim" }}
{{- end }}
{{- if gt (int .Values.replicaCount) 1 }}
{{- if not .Values.ticketKey.existingSecret }}
{{- fail (printf "replicaCount is %d, and without ticketKey.existingSecret no server takes the tickets of another one: set it to a secret with 32 random bytes" (int .Values.replicaCount)) }}
{{- end }}
{{- if and (not .Values.root.uri) (not (has "ReadWriteMany" .Values.root.volume.accessModes)) }}
{{- fail (printf "replicaCount is %d, and the volume has accessModes %s: set root.uri to an object store, or root.volume.accessModes to [ReadWriteMany]" (int .Values.replicaCount) (toJson .Values.root.volume.accessModes)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether HAProxy stands in front of the server in its pod; empty where it does not. */}}
{{- define "lance-flight.front" -}}
{{- if and .Values.front.enabled (not .Values.tls.clientCertificates) }}true{{ end }}
{{- end }}

{{/* Files of secrets: the directory below /etc/lance-flight, and what is mounted there. */}}
{{- define "lance-flight.secrets" -}}
users: {{ .Values.auth.users.existingSecret | quote }}
tokens: {{ .Values.auth.tokens.existingSecret | quote }}
policy: {{ .Values.policy.existingSecret | quote }}
ticket-key: {{ .Values.ticketKey.existingSecret | quote }}
tls: {{ .Values.tls.existingSecret | quote }}
{{- end }}

{{/* Settings, by their names; those of the chart win over `settings`, whose schema leaves them out. */}}
{{- define "lance-flight.settings" -}}
{{- $files := "/etc/lance-flight" }}
{{- with .Values.settings }}{{ toYaml . }}
{{ end -}}
grace: {{ .Values.graceSeconds }}
{{- if include "lance-flight.front" . }}
host: 127.0.0.1
port: 32011
{{- if .Values.lancedb.enabled }}
rest_port: 10026
lancedb_sql_port: 10027
{{- end }}
{{- if not (hasKey .Values.settings "dictionary_ingest") }}{{ print "\ndictionary_ingest: \"off\"" }}{{ end }}
{{- end }}
{{- if and .Values.lancedb.enabled (not (include "lance-flight.front" .)) }}
rest_port: 10024
lancedb_sql_port: 10025
{{- end }}
{{- if gt (int .Values.replicaCount) 1 }}
peers: dns+grpc{{ if .Values.tls.existingSecret }}+tls{{ end }}://{{ include "lance-flight.fullname" . }}-peers.{{ .Release.Namespace }}.svc:32010
{{- end }}
{{- if .Values.auth.allowAnonymous }}
allow_anonymous: true
{{- end }}
{{- if .Values.auth.users.existingSecret }}
users_file: {{ $files }}/users/{{ .Values.auth.users.key }}
{{- end }}
{{- if .Values.auth.tokens.existingSecret }}
tokens_file: {{ $files }}/tokens/{{ .Values.auth.tokens.key }}
{{- end }}
{{- with .Values.auth.jwt }}
{{- if .keys }}
jwt_keys: {{ .keys | quote }}
jwt_issuer: {{ .issuer | quote }}
jwt_audience: {{ .audience | quote }}
{{- end }}
{{- end }}
{{- if .Values.policy.existingSecret }}
policy_file: {{ $files }}/policy/{{ .Values.policy.key }}
{{- end }}
{{- if .Values.ticketKey.existingSecret }}
ticket_key_file: {{ $files }}/ticket-key/{{ .Values.ticketKey.key }}
{{- end }}
{{- if and .Values.tls.existingSecret (not (include "lance-flight.front" .)) }}
tls_certificate: {{ $files }}/tls/tls.crt
tls_key: {{ $files }}/tls/tls.key
{{- if .Values.tls.clientCertificates }}
tls_client_ca: {{ $files }}/tls/ca.crt
{{- end }}
{{- end }}
{{- end }}
