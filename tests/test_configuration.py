"""Every setting in each of the ways that it can be given, and which of them wins."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest
from lance_flight import config
from lance_flight.engine.runtime.admission import NO_LIMITS
from lance_flight.errors import InvalidInput
from lance_flight.serving.service import limits_of
from lance_flight_client import cli
from lance_flight_client.cli import config as command

SETTINGS = pytest.mark.parametrize("setting", config.settings(), ids=lambda setting: setting.name)
Setting = dataclasses.Field[Any]

# Three values that differ, for settings that do not take just any of their type.
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "host": ("localhost", "::1", "127.0.0.1"),
    "storage_options": ("a=1", "a=2", "a=3"),
    "log_level": ("debug", "info", "error"),
    "log_format": ("json", "text", "json"),
}
BY_TYPE: dict[type, tuple[Any, Any, Any]] = {str: ("x", "y", "z"), int: (1, 2, 3), float: (1.5, 2.5, 3.5)}


def values(setting: Setting) -> tuple[Any, Any, Any]:
    """What a file, the environment and an option say."""
    if isinstance(setting.default, bool):
        return not setting.default, setting.default, not setting.default
    return VALUES.get(setting.name) or BY_TYPE[type(setting.default)]


def written(place: Path, setting: Setting, value: Any) -> str:
    """A file with one setting."""
    file = place / "lance-flight.toml"
    file.write_text(f"{setting.name} = {config._as_toml(value)}\n")
    return str(file)


def spelled(setting: Setting, value: Any) -> list[str]:
    """An option as a shell gives it."""
    option = config.flag(setting.name)
    if isinstance(value, bool):
        return [option if value else option.replace("--", "--no-", 1)]
    return [option, str(value)]


def given(arguments: list[str]) -> dict[str, Any]:
    """What the parser makes of the options of `serve`."""
    options = cli.parser().parse_args(["serve", "root", *arguments])
    return {setting.name: getattr(options, setting.name) for setting in config.settings()}


@SETTINGS
def test_a_setting_can_be_given_in_each_way_and_the_nearest_one_wins(tmp_path: Path, setting: Setting) -> None:
    in_file, in_environment, in_option = values(setting)
    file, environment = written(tmp_path, setting, in_file), {config.variable(setting): str(in_environment)}
    nothing = given([])
    ways = [
        (nothing, None, {}, setting.default),
        (nothing, file, {}, in_file),
        (nothing, None, {"LANCE_FLIGHT_CONFIG": file}, in_file),
        (nothing, None, environment, in_environment),
        (nothing, file, environment, in_environment),
        (given(spelled(setting, in_option)), None, {}, in_option),
        (given(spelled(setting, in_option)), file, environment, in_option),
    ]
    for arguments, path, variables, expected in ways:
        loaded = config.merge_sources(config.sources(arguments, file=path, environment=variables))
        assert getattr(loaded, setting.name) == expected
        assert type(getattr(loaded, setting.name)) is type(setting.default)


@SETTINGS
def test_what_is_printed_says_where_each_value_comes_from(tmp_path: Path, setting: Setting) -> None:
    in_file, in_environment, in_option = values(setting)
    file, environment = written(tmp_path, setting, in_file), {config.variable(setting): str(in_environment)}
    arguments = given(spelled(setting, in_option))
    for found, name in [
        (config.sources({}, environment={}), "default"),
        (config.sources({}, file=file, environment={}), f"file {file}"),
        (
            config.sources({}, file=file, environment=environment),
            f"environment {config.variable(setting)}",
        ),
        (
            config.sources(arguments, file=file, environment=environment),
            f"option {config.flag(setting.name)}",
        ),
    ]:
        (line,) = [line for line in config.as_toml(found).splitlines() if setting.name in line.split()]
        assert line.endswith(f"  # {name}{config.RELOADED if config.is_reloadable(setting) else ''}")


@pytest.mark.parametrize("way", ["file", "environment", "option"])
def test_a_renamed_setting_takes_its_old_name_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    (tmp_path / "old.toml").write_text("lanes = 3")
    arguments = given(["--lanes", "3"] if way == "option" else [])
    file = str(tmp_path / "old.toml") if way == "file" else None
    environment = {"LANCE_FLIGHT_LANES": "3"} if way == "environment" else {}
    assert config.load(arguments, file=file, environment=environment).target_partitions == 3
    (warning,) = caplog.messages
    assert "lanes" in warning.lower()
    assert "target" in warning.lower()


VARIABLES = {
    "LANCE_FLIGHT_POLICY_FIEL": "did you mean LANCE_FLIGHT_POLICY_FILE?",
    "LANCE_FLIGHT_TOKEN_FILE": "did you mean LANCE_FLIGHT_TOKENS_FILE?",
    "LANCE_FLIGHT_POLICY_FILE": "",
    "LANCE_FLIGHT_CONFIG_DIRECTORY": "",
    "LANCE_FLIGHT_TOKEN": "",
    "LANCE_FLIGHT_URI": "",
    "LANCE_FLIGHT_PORT_32010_TCP": "",
    "LANCE_FLIGHT_SERVICE_PORT": "",
}


@pytest.mark.parametrize(("name", "says"), VARIABLES.items(), ids=VARIABLES)
def test_a_variable_that_is_nearly_a_setting_is_warned_of(
    caplog: pytest.LogCaptureFixture, name: str, says: str
) -> None:
    config.sources({}, environment={name: "file"})
    assert [record.getMessage().partition("; ")[2] for record in caplog.records] == ([says] if says else [])


def test_settings_stand_in_sections(capsys: pytest.CaptureFixture[str]) -> None:
    in_order = [setting.name for of_section in config.sections().values() for setting in of_section]
    assert in_order == [setting.name for setting in config.settings()]
    printed = config.as_toml(config.sources({}, environment={}))
    assert [line[2:] for line in printed.splitlines() if line.startswith("# ")] == list(config.sections())
    with pytest.raises(SystemExit):
        cli.parser().parse_args(["serve", "--help"])
    shown = capsys.readouterr().out
    assert [heading for heading in config.sections() if f"\n{heading.lower()}:\n" not in shown] == []


SECRETS = [
    "aws_secret_access_key=hush",
    "allow_http=true, AWS_Session_Token=hush",
    "azure_storage_account_key=hush",
    "azure_storage_sas_token=hush",
    "google_service_account_key=hush",
    "password = hush",
    "proxy_url=http://user:hush@proxy:3128",
]


@pytest.mark.parametrize("options", SECRETS)
def test_no_secret_stands_in_the_list_of_processes(options: str) -> None:
    variable = {"LANCE_FLIGHT_STORAGE_OPTIONS": options}
    with pytest.raises(InvalidInput, match="LANCE_FLIGHT_STORAGE_OPTIONS") as refused:
        config.sources({"storage_options": options}, environment={})
    assert "hush" not in str(refused.value)
    assert config.load({}, environment=variable).storage_options == options
    plain = "aws_endpoint=http://127.0.0.1:9000, aws_access_key_id=AKIA1, aws_sse_kms_key_id=1, google_service_account=/etc/key.json"
    assert config.load({"storage_options": plain}, environment={}).storage_options == plain


def test_what_is_printed_is_a_configuration_file(tmp_path: Path) -> None:
    found = config.sources({"port": 4000, "ready_file": 'a "quoted" \\ näme', "grace": 0.5}, environment={})
    (tmp_path / "printed.toml").write_text(config.as_toml(found))
    assert config.load({}, file=str(tmp_path / "printed.toml"), environment={}) == config.merge_sources(found)


def test_secrets_are_neither_printed_nor_shown() -> None:
    pair = "aws_secret_access_key=hush"
    found = config.sources({}, environment={"LANCE_FLIGHT_STORAGE_OPTIONS": pair})
    assert "hush" not in config.as_toml(found) + repr(config.merge_sources(found))
    assert "# storage_options is hidden  # environment LANCE_FLIGHT_STORAGE_OPTIONS" in config.as_toml(found)
    assert "storage_options" not in tomllib.loads(config.as_toml(found))


def test_the_command_prints_what_serve_would_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCE_FLIGHT_TARGET_PARTITIONS", "3")
    options = cli.parser().parse_args(["config", "--port", "4000"])
    assert command.run(options) == 0
    printed = capsys.readouterr().out
    assert "target_partitions = 3  # environment LANCE_FLIGHT_TARGET_PARTITIONS" in printed
    assert "port = 4000  # option --port" in printed


def test_the_command_fails_where_serve_would(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "--port", "70000"]) == 1
    captured = capsys.readouterr()
    assert "port = 70000  # option --port" in captured.out
    assert "'port' is 70000" in captured.err


def test_a_wrong_value_is_refused_whichever_way_it_comes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('grace = "soon"')
    for file, environment in [(str(tmp_path / "file"), {}), (None, {"LANCE_FLIGHT_GRACE": "soon"})]:
        with pytest.raises(InvalidInput, match=r"setting 'grace' is 'soon'; expected a number of seconds, such as"):
            config.load({}, file=file, environment=environment)


TOO_LARGE = [
    pytest.param("grace = 1e30", "expected 0 to 3000000000.0", id="a time that the system cannot wait for"),
    pytest.param(
        "sessions = 9999999999999999999999", "expected 0 to 9223372036854775807", id="a number for no library"
    ),
    pytest.param("sessions = inf", "expected a int", id="no whole number"),
    pytest.param('memory_limit = "9e999GB"', "expected a number of bytes", id="a size without an end"),
    pytest.param("grace = nan", "expected 0 to", id="no number"),
]


@pytest.mark.parametrize(("line", "expected"), TOO_LARGE)
def test_a_value_that_no_server_could_work_with_is_refused(tmp_path: Path, line: str, expected: str) -> None:
    (tmp_path / "file").write_text(line)
    with pytest.raises(InvalidInput, match=expected):
        config.load({}, file=str(tmp_path / "file"), environment={})


@pytest.mark.parametrize(
    "content", [b"grace = '\xff'", b"a = " + b"[" * 100_000, b"grace ="], ids=["no UTF-8", "nested", "no TOML"]
)
def test_a_file_that_cannot_be_read_is_refused_and_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"configuration file '.*/file' cannot be read"):
        config.load({}, file=str(tmp_path / "file"), environment={})


UNITS = [
    pytest.param("memory_limit", "4GiB", 4 << 30, id="binary"),
    pytest.param("memory_limit", "1.5 GB", 1_500_000_000, id="decimal"),
    pytest.param("batch_limit", "64k", 64 << 10, id="a letter"),
    pytest.param("statement_timeout", "500ms", 0.5, id="milliseconds"),
    pytest.param("session_idle_timeout", "1h30min", 5400.0, id="two parts"),
    pytest.param("token_lifetime", "2d", 172800.0, id="days"),
]


@pytest.mark.parametrize(("name", "text", "expected"), UNITS)
def test_sizes_and_times_have_units_whichever_way_they_come(
    tmp_path: Path, name: str, text: str, expected: float
) -> None:
    (tmp_path / "file").write_text(f'{name} = "{text}"')
    ways = [
        config.load({}, file=str(tmp_path / "file"), environment={}),
        config.load({}, environment={f"LANCE_FLIGHT_{name.upper()}": text}),
        config.load(given([f"--{name.replace('_', '-')}", text]), environment={}),
    ]
    assert [getattr(each, name) for each in ways] == [expected] * 3


WRONG_UNITS = [
    pytest.param("memory_limit", "4 gigs", "a number of bytes, such as", id="no such unit"),
    pytest.param("memory_limit", "GiB", "a number of bytes, such as", id="no number"),
    pytest.param("memory_limit", "1h", "a number of bytes, such as", id="a time for a size"),
    pytest.param("statement_timeout", "1 2", "a number of seconds, such as", id="two numbers"),
    pytest.param("statement_timeout", "5MB", "a number of seconds, such as", id="a size for a time"),
    pytest.param("statement_timeout", "", "a number of seconds, such as", id="nothing"),
]


@pytest.mark.parametrize(("name", "text", "expected"), WRONG_UNITS)
def test_a_quantity_that_is_none_is_refused(name: str, text: str, expected: str) -> None:
    with pytest.raises(InvalidInput, match=f"setting '{name}' is '{text}'; expected {expected}"):
        config.load({}, environment={f"LANCE_FLIGHT_{name.upper()}": text})


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        pytest.param({}, True, id="loopback, anonymous"),
        pytest.param({"host": "::1"}, True, id="loopback of IPv6"),
        pytest.param({"host": "192.0.2.1", "allow_anonymous": True}, False, id="another interface"),
        pytest.param({"tokens_file": "tokens"}, False, id="tokens"),
        pytest.param({"users_file": "users", "allow_anonymous": True}, False, id="users, and anonymous callers"),
        pytest.param({"dictionary_ingest": "off"}, False, id="off"),
        pytest.param({"dictionary_ingest": "on", "tokens_file": "tokens"}, True, id="on"),
    ],
)
def test_dictionaries_are_taken_from_callers_on_this_machine_whom_nobody_asks(
    given: dict[str, Any],
    is_taken: bool,  # noqa: FBT001 - the case says it
) -> None:
    assert config.load(given, environment={}).takes_dictionaries is is_taken


def test_a_word_for_dictionaries_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"setting 'dictionary_ingest' is 'maybe'; expected one of auto, on, off"):
        config.load({"dictionary_ingest": "maybe"}, environment={})


def test_every_limit_follows_from_settings() -> None:
    changed = {
        setting.name: f"/{setting.name}" if isinstance(setting.default, str) else 12_345_678
        for setting in config.settings()
        if setting.metadata["section"] == config.LIMITS
    }
    limits, without = dataclasses.asdict(limits_of(config.ServerConfig(**changed))), dataclasses.asdict(NO_LIMITS)
    assert [name for name in without if limits[name] == without[name]] == ["write_memory"], "12 MB are too few to share"
    assert {limits[name] for name in limits.keys() & changed.keys() - {"running_statements"}} == {
        12_345_678,
        "/spill_directory",
    }
