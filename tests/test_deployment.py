"""What a container is made of, and the example of a configuration: both have settings that there are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from lance_flight import config
from lance_flight.admin.http import AdminServer, health_pages
from lance_flight.admin.readiness import Phase, Readiness
from lance_flight.errors import Refused

TOP = Path(__file__).parent.parent
DOCKERFILE = (TOP / "docker" / "Dockerfile").read_text()
COMPOSE = (TOP / "docker" / "compose.yaml").read_text()


def assigned(text: str) -> dict[str, str]:
    """The variables of ours that a file sets."""
    return dict(re.findall(r'(LANCE_FLIGHT_[A-Z_]+)(?:=|: )"?([\w.:/,+-]+)"?', text))


def test_the_image_starts_with_what_compose_adds_and_refuses_strangers_otherwise() -> None:
    loaded = config.load({}, environment=assigned(DOCKERFILE) | assigned(COMPOSE))
    assert (loaded.host, loaded.port, loaded.log_format) == ("0.0.0.0", 32010, "json")  # noqa: S104
    assert {str(port) for port in (loaded.port, loaded.admin_port, loaded.health_port)} == set(
        re.findall(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)[0].split()
    )
    with pytest.raises(Refused):
        config.load({}, environment={**assigned(DOCKERFILE), "LANCE_FLIGHT_ALLOW_ANONYMOUS": "false"})


@pytest.mark.parametrize("text", [DOCKERFILE, COMPOSE], ids=["Dockerfile", "compose"])
def test_every_variable_is_a_setting(text: str) -> None:
    known = {config.variable(setting) for setting in config.settings()}
    assert assigned(text).keys() - known == set()
    assert assigned(text)


def test_the_container_runs_without_rights_and_is_given_time_to_stop() -> None:
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE) == ["lance"]
    (seconds,) = re.findall(r"stop_grace_period: (\d+)s", COMPOSE)
    assert int(seconds) > float(assigned(COMPOSE)["LANCE_FLIGHT_GRACE"])


def test_the_health_check_follows_readiness() -> None:
    command = json.loads(re.findall(r"^HEALTHCHECK .*\n +CMD (.*)$", DOCKERFILE, re.MULTILINE)[0])
    readiness = Readiness(lambda: None)
    server = AdminServer("127.0.0.1", 0, health_pages(readiness))
    here = [sys.executable, *(part.replace("http://127.0.0.1:9090", server.url) for part in command[1:])]
    statuses = []
    for phase in Phase:
        readiness.enter(phase)
        statuses.append(subprocess.run(here, check=False, capture_output=True).returncode)
    server.close()
    assert statuses == [1, 0, 1]


def test_the_example_of_a_configuration_is_one(tmp_path: Path) -> None:
    (example,) = re.findall(
        r"^```toml\n(host = .*?)^```$",
        (TOP / "server" / "docs" / "configuration.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    (tmp_path / "file").write_text(example)
    assert config.load({}, file=str(tmp_path / "file"), environment={}).log_statements
