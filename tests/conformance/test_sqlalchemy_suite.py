"""SQLAlchemy's own test suite for dialects, run against a server: a sample, and with LANCE_FLIGHT_TESTS=full the whole.

It runs in a process of its own, since its plugin changes how pytest collects. What the dialect does not offer is listed, with why, in
`sqlalchemy_requirements.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.selection import IS_FULL
from tests.service.server_process import Server, serving

TOP = Path(__file__).parents[2]
SUITE = Path(__file__).with_name("sqlalchemy_suite.py")
PATIENCE = 280.0
SAMPLE = "CTETest or FetchLimitOffsetTest or LikeFunctionsTest or RowCountTest or IntegerTest or IsolationLevelTest"
CONFIGURATION = """
[sqla_testing]
requirement_cls = tests.conformance.sqlalchemy_requirements:Requirements
profile_file = {directory}/profiles.txt
[db]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("sqlalchemy_suite") / "root"
    (root / "test_schema").mkdir(parents=True)
    with serving(root) as running:
        yield running


def test_suite(server: Server, tmp_path: Path) -> None:
    (tmp_path / "setup.cfg").write_text(CONFIGURATION.format(directory=tmp_path))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    without = [f"-pno:{plugin}" for plugin in ("cacheprovider", "xdist", "timeout", "randomly")]
    command = [sys.executable, "-m", "pytest", str(SUITE), "-q", "--tb=short", "--noconftest", *without]
    command += ["-p", "sqlalchemy.testing.plugin.pytestplugin", "-o", f"python_files={SUITE.name}"]
    command += ["-c", str(tmp_path / "pytest.ini"), "--rootdir", str(tmp_path)]
    command += ["--dburi", server.uri.replace("grpc://", "lance_flight://")]
    if not IS_FULL:
        command += ["-k", SAMPLE]
    environment = {**os.environ, "PYTHONPATH": str(TOP)}
    ran = subprocess.run(
        command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert ran.returncode == 0, ran.stdout[-20_000:]
    (passed,) = re.findall(r"(\d+) passed", ran.stdout)
    assert int(passed) > 20
