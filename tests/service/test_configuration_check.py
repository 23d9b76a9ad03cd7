"""`lance-flight config --check`: each file that a setting names is read as a server reads it, and the root is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from lance_flight_client.cli import main

from tests.flight.certificates import DAY, authority
from tests.flight.identities import SIGNING_KEY, key_set, users_text

CA = authority()
POLICY = '[roles.r]\nmembers = ["alice"]\ngrants = ["ALL ON *"]\n'
TOKENS = f'[tokens.etl]\nsha256 = "{"0" * 64}"\n'
# A setting: what makes its value right, what makes it wrong, and what is said of that.
FILES = {
    "users_file": (users_text(), "[users.alice]", "'password' is missing"),
    "tokens_file": (TOKENS, "[tokens.etl]", "'sha256' is missing"),
    "jwt_keys": (key_set(SIGNING_KEY), '{"keys": []}', "no key that checks a signature"),
    "policy_file": (POLICY, "[roles.more]", "role 'more'"),
    "ticket_key_file": ("k" * 32, "short", "holds 5 bytes; expected 32"),
}
DIRECTORIES = {"spill_directory": "", "audit_log": "/audit"}


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["config", "--check", "--allow-anonymous", *arguments])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("setting", FILES)
def test_a_file_is_read_as_a_server_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str) -> None:
    right, wrong, said = FILES[setting]
    file = tmp_path / "file"
    option = [f"--{setting.replace('_', '-')}={file}"]
    if setting == "jwt_keys":
        option += ["--jwt-issuer=i", "--jwt-audience=a"]
    for text, status, found in ((right, 0, "can be used"), (wrong, 1, said), (None, 1, "cannot be read")):
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
            file.chmod(0o600)
        ended, out = checked(capsys, *option)
        assert (ended, found in out, setting in out) == (status, True, True), out
        assert ("the configuration can be used" in out) is (status == 0)


@pytest.mark.parametrize("setting", DIRECTORIES)
def test_a_directory_is_to_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str) -> None:
    for place, status in ((tmp_path, 0), (tmp_path / "missing", 1)):
        ended, out = checked(capsys, f"--{setting.replace('_', '-')}={place}{DIRECTORIES[setting]}")
        assert (ended, setting in out) == (status, True), out


LASTING = {"a month": (30 * DAY, 0, "✓"), "a week": (7 * DAY, 0, "!"), "until yesterday": (-DAY, 1, "has expired at")}


@pytest.mark.parametrize(("lasts", "status", "said"), LASTING.values(), ids=LASTING)
def test_a_certificate_is_to_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lasts: object, status: int, said: str
) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    CA.signs("server", lasts=lasts).write(certificate, key)  # type: ignore[arg-type]
    ended, out = checked(capsys, f"--tls-certificate={certificate}", f"--tls-key={key}")
    assert (ended, said in out) == (status, True), out
    key.write_bytes(CA.key)
    ended, out = checked(capsys, f"--tls-certificate={certificate}", f"--tls-key={key}")
    assert (ended, "is not that of certificate" in out) == (1, True), out


def test_the_root_is_looked_at_and_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "file").touch()
    for name, status, said in (("root", 0, "can be used"), ("file", 1, "is a file"), ("missing", 1, "is not there")):
        ended, out = checked(capsys, "--root", str(tmp_path / name))
        assert (ended, said in out) == (status, True), out
    assert list((tmp_path / "root").iterdir()) == []
    assert not (tmp_path / "missing").exists()
