"""The chart, linted and rendered by Helm itself: what it deploys for some values, what it refuses, and what Kubernetes takes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from lance_flight import config
from lance_flight.serving.replicas import Front, FurtherPort, Replica, configuration, find_program, further_ports
from lance_flight_client.cli import parser

from tests.deployment.operator_tools import DOCKER, TOP
from tests.flight.certificates import authority

DOCKERFILE = (DOCKER / "Dockerfile").read_text()
CHART = DOCKER / "helm" / "lance-flight"
HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
KUBERNETES = ("1.29.0", "1.37.0")
"""The oldest and the newest version whose schemas are at hand."""
FOREIGN_KINDS = {"ServiceMonitor"}
"""Kinds that Prometheus's operator adds."""
ANYONE = {"auth": {"allowAnonymous": True}}
TWO = {**ANYONE, "replicaCount": 2}
IN_A_STORE = {"root": {"uri": "s3://bucket/prefix"}, "storage": {"existingSecret": "credentials"}}
KEY = {"ticketKey": {"existingSecret": "ticket"}}
MONITORED = {
    **ANYONE,
    "networkPolicy": {"enabled": True, "monitoring": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
    "serviceMonitor": {"enabled": True, "interval": "30s"},
}
EVERYTHING = {
    **KEY,
    **IN_A_STORE,
    "replicaCount": 3,
    "auth": {
        "users": {"existingSecret": "users", "key": "people.toml"},
        "tokens": {"existingSecret": "tokens"},
        "jwt": {"keys": "https://issuer/keys", "issuer": "https://issuer", "audience": "lance"},
    },
    "policy": {"existingSecret": "policy"},
    "tls": {"existingSecret": "certificate", "clientCertificates": True},
    "settings": {"memory_limit": "1GiB", "batch_limit": 10_000_000, "jwt_leeway": 1.5, "log_statements": False},
    "graceSeconds": 60,
    "extraEnv": [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4318"}],
    "networkPolicy": {
        "monitoring": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "collector"}}}]}],
    },
    "backup": {"schedule": "17 2 * * *", "target": "s3://backups/lake"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "serviceAccount": {"annotations": {"a/role": "lance"}},
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "data"},
    "imagePullSecrets": [{"name": "pull"}],
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "priorityClassName": "high",
}
BACKED_UP = {
    **ANYONE,
    "backup": {"schedule": "0 3 * * *", "target": "/backups/lake", "existingClaim": "kept", "keep": "30d"},
}
RENDERED = {
    "one server with backups on a volume": BACKED_UP,
    "one server over a volume": ANYONE,
    "one server over a claim": {**ANYONE, "root": {"volume": {"existingClaim": "mine"}}},
    "two servers over a shared volume": {**TWO, **KEY, "root": {"volume": {"accessModes": ["ReadWriteMany"]}}},
    "two servers over an object store": {**TWO, **KEY, **IN_A_STORE},
    "everything": EVERYTHING,
}

OWN = {"app.kubernetes.io/name": "lance-flight", "app.kubernetes.io/instance": "r"}
Manifests = Mapping[str, dict[str, Any]]


@pytest.fixture(scope="session")
def helm() -> str:
    """Helm: the one on the path, or one that Go builds once."""
    built = TOP / ".pytest_cache" / "go" / "bin"
    found = shutil.which("helm") or shutil.which("helm", path=f"{built}:{Path.home()}/go/bin")
    if found is None:
        go = shutil.which("go")
        if go is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(
                f"neither helm nor go is installed: go install {HELM}"
            )
        subprocess.run([go, "install", HELM], check=True, env={**os.environ, "GOBIN": str(built)})
        found = str(built / "helm")
    return found


@pytest.fixture(scope="module")
def run_helm(helm: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs Helm once for a command with some values."""
    place = tmp_path_factory.mktemp("helm")
    # Of the machine's own settings of Helm nothing counts.
    environment = {**os.environ, "HOME": str(place), "KUBECONFIG": str(place / "none")}

    @cache
    def ended(values: str, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [helm, *command, str(CHART), "--values", "-", f"--kube-version={KUBERNETES[-1]}"],
            check=False, capture_output=True, text=True, timeout=60, env=environment, input=values,
        )  # fmt: skip

    return lambda command, values: ended(json.dumps(values), *command)


@pytest.fixture(scope="module")
def render(run_helm: Any) -> Any:
    def rendered(values: Mapping[str, Any]) -> Manifests:
        ended = run_helm(["template", "r"], values)
        assert ended.returncode == 0, ended.stderr
        documents = [document for document in yaml.load_all(ended.stdout, yaml.CSafeLoader) if document]
        found = {f"{each['kind']} {each['metadata']['name']}": each for each in documents}
        assert len(found) == len(documents)
        return found

    return rendered


def at(manifests: Manifests, path: str) -> Any:
    """What a manifest has at a path: `Deployment: spec.template.spec.volumes[name=tmp].emptyDir`; None for what is not there."""
    kind, _, steps = path.partition(": ")
    value: Any = manifests.get(kind if " " in kind else f"{kind} r-lance-flight")
    for step, key, wanted in re.findall(r"([\w-]+)(?:\[([\w]+)=([\w-]+)\])?", steps):
        if value is None:
            return None
        value = value.get(step)
        if key:
            value = next((each for each in value or () if each[key] == wanted), None)
    return value


POD = "Deployment: spec.template.spec"
CONTAINER = f"{POD}.containers[name=lance-flight]"
FRONT = f"{POD}.containers[name=front]"
JOB = "CronJob r-lance-flight-backup: spec"
JOB_POD = f"{JOB}.jobTemplate.spec.template.spec"
CLAIM = "PersistentVolumeClaim r-lance-flight-data: spec"

# Values → path of what is rendered → what is there.
EXPECTED: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
    ("the pod has no rights", ANYONE, {
        f"{POD}.automountServiceAccountToken": False,
        f"{POD}.securityContext.runAsNonRoot": True,
        f"{POD}.securityContext.runAsUser": 10001,
        f"{POD}.securityContext.seccompProfile.type": "RuntimeDefault",
        f"{CONTAINER}.securityContext": {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        },
        f"{POD}.enableServiceLinks": False,
        f"{POD}.volumes[name=tmp].emptyDir.sizeLimit": "10Gi",
    }),
    ("pods are spread over nodes", ANYONE, {
        f"{POD}.topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {
                "app.kubernetes.io/name": "lance-flight", "app.kubernetes.io/instance": "r",
            }},
        }],
    }),
    ("the probes ask the ports of administration", ANYONE, {
        f"{CONTAINER}.startupProbe.grpc": {"port": 9091, "service": "arrow.flight.protocol.FlightService"},
        f"{CONTAINER}.readinessProbe.httpGet": {"path": "/readyz", "port": "admin"},
        f"{CONTAINER}.livenessProbe.httpGet": {"path": "/healthz", "port": "admin"},
        f"{CONTAINER}.ports[name=admin].containerPort": 9090,
        f"{CONTAINER}.ports[name=grpc-health].containerPort": 9091,
        f"{CONTAINER}.ports[name=flight-sql]": None,
        f"{FRONT}.ports[name=flight-sql].containerPort": 32010,
    }),
    ("clients come through HAProxy, which decrypts", {**ANYONE, "tls": {"existingSecret": "certificate"}}, {
        f"{CONTAINER}.env[name=LANCE_FLIGHT_TLS_KEY]": None,
        f"{CONTAINER}.env[name=LANCE_FLIGHT_DICTIONARY_INGEST].value": "off",
        f"{FRONT}.volumeMounts[name=front-tls].mountPath": "/etc/haproxy-tls",
        f"{POD}.volumes[name=front-tls].secret.secretName": "certificate",
        f"{POD}.volumes[name=tls]": None,
    }),
    ("LanceDB's clients have ports of their own", {**ANYONE, "lancedb": {"enabled": True}}, {
        f"{CONTAINER}.env[name=LANCE_FLIGHT_REST_PORT].value": "10026",
        f"{CONTAINER}.env[name=LANCE_FLIGHT_LANCEDB_SQL_PORT].value": "10027",
        f"{FRONT}.ports[name=lancedb-rest].containerPort": 10024,
        f"{FRONT}.ports[name=lancedb-sql].containerPort": 10025,
        "Service: spec.ports[name=lancedb-rest].port": 10024,
        "Service: spec.ports[name=lancedb-sql].port": 10025,
        "NetworkPolicy: spec.ingress": [{
            "from": [{"podSelector": {}}],
            "ports": [{"port": "flight-sql"}, {"port": "lancedb-rest"}, {"port": "lancedb-sql"}],
        }],
    }),
    ("and the server itself opens them without HAProxy", {**EVERYTHING, "lancedb": {"enabled": True}}, {
        f"{CONTAINER}.env[name=LANCE_FLIGHT_REST_PORT].value": "10024",
        f"{CONTAINER}.ports[name=lancedb-sql].containerPort": 10025,
    }),
    ("clients with certificates come without it", {**EVERYTHING}, {
        FRONT: None, "ConfigMap r-lance-flight-front: data": None,
        f"{CONTAINER}.ports[name=flight-sql].containerPort": 32010,
    }),
    ("a volume is claimed and kept", ANYONE, {
        f"{CLAIM}.accessModes": ["ReadWriteOnce"],
        f"{CLAIM}.resources.requests.storage": "20Gi",
        "PersistentVolumeClaim r-lance-flight-data: metadata.annotations": {"helm.sh/resource-policy": "keep"},
        f"{POD}.volumes[name=data].persistentVolumeClaim.claimName": "r-lance-flight-data",
        f"{CONTAINER}.args": ["serve", "/data"],
        "Deployment: spec.strategy.type": "Recreate",
    }),
    ("a claim that is there is used", {**ANYONE, "root": {"volume": {"existingClaim": "mine"}}}, {
        CLAIM: None, f"{POD}.volumes[name=data].persistentVolumeClaim.claimName": "mine",
    }),
    ("an object store needs no volume", {**ANYONE, **IN_A_STORE}, {
        CLAIM: None,
        f"{POD}.volumes[name=data]": None,
        f"{CONTAINER}.volumeMounts[name=data]": None,
        f"{CONTAINER}.args": ["serve", "s3://bucket/prefix"],
        f"{CONTAINER}.envFrom": [{"secretRef": {"name": "credentials"}}],
    }),
    ("servers are replaced one by one", {**TWO, **KEY, **IN_A_STORE}, {
        "Deployment: spec.replicas": 2,
        "Deployment: spec.strategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
        },
        "PodDisruptionBudget: spec.maxUnavailable": 1,
        "Service: spec.sessionAffinity": "ClientIP",
        "Service r-lance-flight-peers: spec.clusterIP": "None",
        f"{CONTAINER}.env[name=LANCE_FLIGHT_PEERS].value": "dns+grpc://r-lance-flight-peers.default.svc:32010",
        "NetworkPolicy: spec.ingress": [
            {"from": [{"podSelector": {}}], "ports": [{"port": "flight-sql"}]},
            {"from": [{"podSelector": {"matchLabels": OWN}}], "ports": [{"port": "flight-sql"}]},
        ],
        "NetworkPolicy: spec.egress": [
            {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
            {"to": [{"podSelector": {"matchLabels": OWN}}], "ports": [{"port": 32010, "protocol": "TCP"}]},
            {"ports": [{"port": 443, "protocol": "TCP"}]},
        ],
    }),
    ("time to stop is draining, grace and the end", {**ANYONE, "graceSeconds": 60, "drainSeconds": 7}, {
        f"{POD}.terminationGracePeriodSeconds": 77,
        f"{CONTAINER}.lifecycle.preStop.exec.command": ["sleep", "7"],
        f"{CONTAINER}.env[name=LANCE_FLIGHT_GRACE].value": "60",
    }),
    ("secrets are mounted as directories", EVERYTHING, {
        f"{CONTAINER}.volumeMounts[name=users]": {
            "name": "users", "mountPath": "/etc/lance-flight/users", "readOnly": True,
        },
        f"{POD}.volumes[name=users].secret": {"secretName": "users", "defaultMode": 0o440},
        f"{POD}.volumes[name=tls].secret.secretName": "certificate",
        f"{POD}.volumes[name=ticket-key].secret.secretName": "ticket",
        f"{CONTAINER}.env[name=LANCE_FLIGHT_USERS_FILE].value": "/etc/lance-flight/users/people.toml",
        f"{CONTAINER}.env[name=LANCE_FLIGHT_TICKET_KEY_FILE].value": "/etc/lance-flight/ticket-key/ticket.key",
        f"{CONTAINER}.env[name=LANCE_FLIGHT_TLS_CLIENT_CA].value": "/etc/lance-flight/tls/ca.crt",
    }),
    ("one server has no peers", ANYONE, {
        "Service r-lance-flight-peers: spec": None, f"{CONTAINER}.env[name=LANCE_FLIGHT_PEERS]": None,
    }),
    ("peers are called by TLS where clients are", EVERYTHING, {
        f"{CONTAINER}.env[name=LANCE_FLIGHT_PEERS].value": "dns+grpc+tls://r-lance-flight-peers.default.svc:32010",
    }),
    ("what is not given is not mounted", ANYONE, {
        f"{CONTAINER}.volumeMounts[name=users]": None, f"{POD}.volumes[name=tls]": None,
        f"{CONTAINER}.envFrom": None, "ServiceMonitor": None, "ServiceMonitor: spec": None,
    }),
    ("a number is written as one", EVERYTHING, {
        f"{CONTAINER}.env[name=LANCE_FLIGHT_BATCH_LIMIT].value": "10000000",
        f"{CONTAINER}.env[name=LANCE_FLIGHT_JWT_LEEWAY].value": "1.5",
    }),
    ("clients come from the namespace, and nothing else comes", ANYONE, {
        "NetworkPolicy: spec.policyTypes": ["Ingress", "Egress"],
        "NetworkPolicy: spec.ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": "flight-sql"}]}],
    }),
    ("Prometheus comes from where it is", EVERYTHING, {
        "NetworkPolicy: spec.ingress": [
            {"from": [{"podSelector": {}}], "ports": [{"port": "flight-sql"}]},
            {"from": [{"podSelector": {"matchLabels": OWN}}], "ports": [{"port": "flight-sql"}]},
            {"from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}], "ports": [{"port": "admin"}]},
        ],
        "ServiceMonitor: spec.endpoints": [{"port": "admin", "path": "/metrics", "interval": "15s"}],
        "Service r-lance-flight-admin: spec.clusterIP": "None",
    }),
    ("so it does to HAProxy", MONITORED, {
        "NetworkPolicy: spec.ingress": [
            {"from": [{"podSelector": {}}], "ports": [{"port": "flight-sql"}]},
            {"from": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}], "ports": [{"port": "admin"}, {"port": "front-metrics"}]},
        ],
        "ServiceMonitor: spec.endpoints": [
            {"port": port, "path": "/metrics", "interval": "30s"} for port in ("admin", "front-metrics")
        ],
        f"{POD}.containers[name=front].ports[name=front-metrics].containerPort": 8404,
        "Service r-lance-flight-admin: spec.ports[name=front-metrics].targetPort": "front-metrics",
    }),
    ("nothing is backed up unasked", ANYONE, {JOB: None}),
    ("backups are made of a volume on its server's node", BACKED_UP, {
        f"{JOB}.schedule": "0 3 * * *",
        f"{JOB}.concurrencyPolicy": "Forbid",
        f"{JOB_POD}.containers[name=backup].args": ["backup", "/data", "/backups/lake", "--incremental", "--keep=30d"],
        f"{JOB_POD}.volumes[name=data].persistentVolumeClaim.claimName": "r-lance-flight-data",
        f"{JOB_POD}.volumes[name=backups].persistentVolumeClaim.claimName": "kept",
        f"{JOB_POD}.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": OWN}},
        ],
        # No pod of the service, which would send it calls.
        f"{JOB}.jobTemplate.spec.template.metadata.labels": {**OWN, "app.kubernetes.io/name": "lance-flight-backup"},
    }),
    ("backups are made of a store wherever there is room", EVERYTHING, {
        f"{JOB_POD}.containers[name=backup].args": [
            "backup", "s3://bucket/prefix", "s3://backups/lake", "--incremental", "--keep=14d",
        ],
        f"{JOB_POD}.containers[name=backup].envFrom": [{"secretRef": {"name": "credentials"}}],
        f"{JOB_POD}.volumes[name=data]": None,
        f"{JOB_POD}.affinity": None,
    }),
    ("what is switched off is not there",
     {**ANYONE, "networkPolicy": {"enabled": False}, "podDisruptionBudget": {"enabled": False}}, {
        "NetworkPolicy: spec": None, "PodDisruptionBudget: spec": None,
    }),
]  # fmt: skip

REFUSED: list[tuple[str, Mapping[str, Any], str]] = [
    ("nobody may connect", {}, "nobody may connect: set auth.users.existingSecret"),
    ("two without a key", {**TWO, **IN_A_STORE}, "replicaCount is 2, and without ticketKey.existingSecret"),
    ("two over a volume of one", {**TWO, **KEY}, 'the volume has accessModes ["ReadWriteOnce"]: set root.uri'),
    ("JWT without its issuer", {"auth": {"jwt": {"keys": "https://a/b"}}}, "auth.jwt.issuer and auth.jwt.audience"),
    ("clients' certificates without ours", {"tls": {"clientCertificates": True}}, "needs tls.existingSecret"),
    ("backups without a place", {**ANYONE, "backup": {"schedule": "0 3 * * *"}}, "backup.schedule needs backup.target"),
    ("a setting of the chart", {**ANYONE, "settings": {"port": 1}}, "port"),
    ("a misspelt setting", {**ANYONE, "settings": {"memroy_limit": "1GiB"}}, "memroy_limit"),
    ("keys over http", {"auth": {"jwt": {"keys": "http://a/b"}}}, "does not match pattern"),
    ("a misspelt value", {**ANYONE, "replicas": 2}, "additional properties 'replicas' not allowed"),
    ("a root that is no store", {**ANYONE, "root": {"uri": "/data"}}, "does not match pattern"),
]


def test_helm_finds_nothing_to_mend(run_helm: Any) -> None:
    ended = run_helm(["lint", "--strict"], ANYONE)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize(("values", "expected"), [pytest.param(*row[1:], id=row[0]) for row in EXPECTED])
def test_what_is_rendered(render: Any, values: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    manifests = render(values)
    assert {path: at(manifests, path) for path in expected} == expected


@pytest.mark.parametrize(("values", "message"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_what_is_refused(run_helm: Any, values: Mapping[str, Any], message: str) -> None:
    ended = run_helm(["template", "r"], values)
    assert ended.returncode == 1
    assert message in ended.stderr


@pytest.mark.parametrize("values", RENDERED.values(), ids=RENDERED)
def test_kubernetes_takes_what_is_rendered(render: Any, values: Mapping[str, Any]) -> None:
    for manifest in render(values).values():
        if manifest["kind"] not in FOREIGN_KINDS:
            for version in KUBERNETES:
                kubernetes_validate.validate(manifest, version, strict=True)


def variables(manifests: Manifests) -> Iterator[tuple[str, str]]:
    for variable in at(manifests, f"{CONTAINER}.env"):
        yield variable["name"], variable.get("value", "")


@pytest.mark.parametrize("values", RENDERED.values(), ids=RENDERED)
def test_the_server_takes_the_settings(render: Any, values: Mapping[str, Any]) -> None:
    image = dict(re.findall(r"^[^#\n]*\b(LANCE_FLIGHT_[A-Z_]+)=([\w.]+)", DOCKERFILE, re.MULTILINE))
    given = dict(variables(render(values)))
    loaded = config.load({}, environment={**image, **given})
    open_to = ("0.0.0.0", 32010) if at(render(values), FRONT) is None else ("127.0.0.1", 32011)  # noqa: S104
    assert (loaded.host, loaded.port, loaded.admin_port, loaded.health_port) == (*open_to, 9090, 9091)
    known = {config.variable(setting) for setting in config.settings()}
    assert {name for name in given if name.startswith("LANCE_FLIGHT_")} <= known


@pytest.mark.parametrize("values", [BACKED_UP, EVERYTHING])
def test_the_command_takes_the_arguments_of_a_backup(render: Any, values: Mapping[str, Any]) -> None:
    options = parser().parse_args(at(render(values), f"{JOB_POD}.containers[name=backup]")["args"])
    assert options.incremental
    assert options.keep in {14 * 86400, 30 * 86400}


FURTHER = [
    FurtherPort(name="rest_port", address="*:10024", ports=[10026], is_grpc=False),
    FurtherPort(name="lancedb_sql_port", address="*:10025", ports=[10027], is_grpc=True),
]


@pytest.mark.parametrize("tls", ["", "certificate"])
@pytest.mark.parametrize("lancedb", [False, True])
def test_haproxy_takes_its_configuration(render: Any, tmp_path: Path, tls: str, *, lancedb: bool) -> None:
    replicas = [Replica(1, 32011, 9091)]
    front = Front(address="*:32010", secret="${LANCE_FLIGHT_PROXY_SECRET}", metrics="*:8404")  # noqa: S106 - a variable
    assert (CHART / "files" / "haproxy.cfg").read_text() == configuration(front, replicas)
    assert (CHART / "files" / "lancedb.cfg").read_text() == further_ports(replace(front, further=FURTHER), replicas)
    values = {**ANYONE, "tls": {"existingSecret": tls}, "lancedb": {"enabled": lancedb}}
    data = at(render(values), "ConfigMap r-lance-flight-front: data")
    authority().signs_a_server().write(tmp_path / "server.pem", tmp_path / "server.pem.key")
    text = data["haproxy.cfg"].replace("/etc/haproxy-tls", str(tmp_path))
    assert text.count("ssl crt") == (1 + 2 * lancedb if tls else 0)
    (tmp_path / "haproxy.cfg").write_text(text)
    subprocess.run([find_program(), "-c", "-f", str(tmp_path / "haproxy.cfg")], check=True)


def test_the_schema_knows_every_setting() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    names = schema["properties"]["settings"]["propertyNames"]
    left_out = set(names["not"]["enum"])
    assert names["enum"] == [setting.name for setting in config.settings() if setting.name not in left_out]
    assert left_out <= {setting.name for setting in config.settings()}
    set_by_the_chart = re.findall(r"^(\w+): ", (CHART / "templates" / "_helpers.tpl").read_text(), re.MULTILINE)
    assert {name for name in set_by_the_chart if name in {setting.name for setting in config.settings()}} <= left_out


def test_every_value_has_a_default_and_a_schema() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    def paths(value: Any) -> Iterator[str]:
        if isinstance(value, dict) and value:
            for name, below in value.items():
                yield name
                yield from (f"{name}.{path}" for path in paths(below))

    def described(below: Mapping[str, Any]) -> Iterator[str]:
        for name, each in below.get("properties", {}).items():
            yield name
            yield from (f"{name}.{path}" for path in described(each))

    free = tuple(f"{name}." for name in ("resources", "settings", "front.resources", "backup.resources"))
    assert {path for path in paths(values) if not path.startswith(free)} == set(described(schema)) - {"global"}
