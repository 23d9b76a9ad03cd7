"""The compose file and the Dockerfile: what they refer to is there, and the program takes what they say."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from lance_flight import config
from lance_flight.serving.replicas import Front, FurtherPort, Replica, configuration, find_program
from lance_flight_client.cli import parser
from lance_flight_client.spark.program import parser as spark_parser

from tests.deployment.operator_tools import DOCKER, TOP, run

COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
PROXY_SECRET = "LANCE_FLIGHT_PROXY_SECRET"  # noqa: S105 - a name
METRICS = "*:8404"
SERVICES: Mapping[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
INSTRUCTIONS = re.findall(r"^([A-Z]+) (.*)$", re.sub(r"\\\n\s*", "", DOCKERFILE), re.MULTILINE)
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]


def of(instruction: str) -> list[str]:
    """What the Dockerfile says after each of these instructions."""
    return [said for name, said in INSTRUCTIONS if name == instruction]


def test_the_image_is_based_on_a_python_that_the_project_takes() -> None:
    bases = {base.partition(" ")[0] for base in of("FROM")}
    (version,) = {re.fullmatch(r"python:(3\.\d+)-slim-bookworm", base)[1] for base in bases}  # type: ignore[index]
    assert PROJECT["requires-python"].split(",")[0] == f">={version}"


def test_what_the_image_copies_is_there_and_not_left_out() -> None:
    ignored = (TOP / ".dockerignore").read_text().split()
    sources = [word for line in of("COPY") if not line.startswith("--from") for word in line.split()[:-1]]
    assert sources
    for source in sources:
        assert (TOP / source).exists()
        assert not any(fnmatch(source, pattern) for pattern in ignored)


def extras(said: str) -> list[str]:
    return re.findall(r"--extra (\S+)", said)


def test_the_extras_of_the_images_are_those_of_the_project() -> None:
    (default,) = of("ARG")
    asked = [default.partition("=")[2].strip('"')]
    asked += [service["build"]["args"]["EXTRAS"] for service in SERVICES.values() if "args" in service.get("build", {})]
    assert len(asked) == 2
    for said in asked:
        assert extras(said)
        assert set(extras(said)) <= PROJECT["optional-dependencies"].keys()


def test_the_image_runs_a_command_of_the_program() -> None:
    ((entry,), (command,)) = (map(json.loads, of(name)) for name in ("ENTRYPOINT", "CMD"))
    assert entry == ["lance-flight"]
    assert parser().parse_args(command).root == of("VOLUME")[0]


@pytest.mark.parametrize("name", OURS)
def test_the_programs_take_the_commands_of_the_services(name: str) -> None:
    service = SERVICES[name]
    if "entrypoint" in service:
        assert service["entrypoint"] == ["python", "-m", "lance_flight_client.spark"]
        assert spark_parser().parse_args(service["command"])
    else:
        assert parser().parse_args(service.get("command", ["serve", "/data"])).command == "serve"


@pytest.mark.parametrize("name", OURS)
def test_what_is_ours_runs_without_rights(name: str) -> None:
    service = SERVICES[name]
    assert (service["read_only"], service["cap_drop"], service["tmpfs"]) == (True, ["ALL"], ["/tmp"])
    assert service["security_opt"] == ["no-new-privileges:true"]


def mounts() -> Iterator[tuple[str, str]]:
    for name, service in SERVICES.items():
        yield from ((name, volume.partition(":")[0]) for volume in service.get("volumes", ()))


@pytest.mark.parametrize(("name", "source"), list(mounts()))
def test_what_is_mounted_is_there(name: str, source: str) -> None:
    if source.startswith("."):
        assert (DOCKER / source).exists()
    else:
        assert source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_refers_to_is_there_with_it(name: str) -> None:
    service = SERVICES[name]
    for other in service.get("depends_on", ()):
        assert set(SERVICES[other].get("profiles", ())) >= set(service.get("profiles", ()))
    if "build" in service:
        context = (DOCKER / service["build"]["context"]).resolve()
        assert (context / service["build"]["dockerfile"]) == DOCKER / "Dockerfile"


def test_ports_are_open_to_this_machine_alone_and_taken_once() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.rsplit(":", 1)[0] for port in ports}) == len(ports)


def test_prometheus_scrapes_the_servers() -> None:
    job, front = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    (names,) = job["dns_sd_configs"]
    assert set(names["names"]) == {name for name in OURS if name.startswith("lance-flight")}
    assert f"LANCE_FLIGHT_ADMIN_PORT={names['port']}" in of("ENV")[-1].split()
    (proxies,) = front["dns_sd_configs"]
    assert [SERVICES[name]["image"].partition(":")[0] for name in proxies["names"]] == ["haproxy"]
    assert f"*:{proxies['port']}" == METRICS
    assert "8404" not in str(SERVICES["replicas"]["ports"]), "metrics are for the network of the servers alone"


def test_replicas_know_each_other_and_haproxy_knows_them() -> None:
    names = [f"lance-flight-{number}" for number in range(1, 4)]
    for name in names:
        peers = SERVICES[name]["environment"]["LANCE_FLIGHT_PEERS"].split(",")
        assert peers == [f"grpc://{other}:32010" for other in names if other != name]
        assert SERVICES[name]["volumes"] == ["shared:/data"]
    replicas = [Replica(number, 32010, 9091, name) for number, name in enumerate(names, start=1)]
    file = DOCKER / "haproxy" / "haproxy.cfg"
    further = [
        FurtherPort(name=name, address=f"*:{port}", ports=[port] * len(names), is_grpc=name != "rest_port")
        for name, port in (("rest_port", 10024), ("lancedb_sql_port", 10025))
    ]
    for port in further:
        assert SERVICES[names[0]]["environment"][f"LANCE_FLIGHT_{port.name.upper()}"] == str(port.ports[0])
    front = Front(
        address="*:32010",
        secret=f"${{{PROXY_SECRET}}}",
        name_server="127.0.0.11:53",
        metrics=METRICS,
        further=further,
    )
    assert file.read_text() == configuration(front, replicas)
    secrets = {SERVICES[name]["environment"][PROXY_SECRET] for name in (*names, "replicas")}
    assert len(secrets) == 1, "HAProxy and the servers know the same secret"
    assert SERVICES["replicas"]["depends_on"] == names
    run(find_program(), "-c", "-f", file)


def test_the_store_and_its_server_have_the_same_credentials_and_address() -> None:
    store, server = SERVICES["object-store"], SERVICES["lance-flight-s3"]
    assert server["environment"]["AWS_ACCESS_KEY_ID"] == store["environment"]["ROOT_ACCESS_KEY"]
    assert server["environment"]["AWS_SECRET_ACCESS_KEY"] == store["environment"]["ROOT_SECRET_KEY"]
    (bucket,) = re.findall(r"s3://([\w-]+)/", server["command"][1])
    script = store["entrypoint"][-1]
    assert re.findall(r"mkdir -p /buckets/(\S+)", script) == [bucket]
    assert re.findall(r"--port :(\d+)", script) == re.findall(r":(\d+)$", server["environment"]["AWS_ENDPOINT"])
    ours = {key: value for key, value in server["environment"].items() if key.startswith("LANCE_FLIGHT_")}
    assert config.load({"host": "0.0.0.0"}, environment=ours).allow_anonymous  # noqa: S104


@pytest.mark.full  # it starts a Spark of its own; the job itself is in spark/test_ingesting
def test_the_job_of_the_compose_file_loads_its_rows(tmp_path: Path) -> None:
    # Its paths are those of the container.
    job = tmp_path / "readings.toml"
    text = (DOCKER / "spark" / "readings.toml").read_text()
    job.write_text(
        text.replace("/jobs", str(DOCKER / "spark")).replace('root = "/data"', f'root = "{tmp_path / "root"}"')
    )
    (tmp_path / "root").mkdir()
    # Both in one process, which starts Spark once.
    twice = "import sys; from lance_flight_client.spark.program import main; [main(sys.argv[1:]) for _ in range(2)]"
    said = run(sys.executable, "-c", twice, "ingest", job)
    assert said.count("readings: 4 rows in 3 partitions") == 1
    assert "with 4 rows; nothing was written" in said
