"""Job files and flags: what each setting means, and every problem of theirs at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from lance_flight.errors import InvalidInput
from lance_flight_client.spark.job import SETTINGS, Job, JobSource, JobTarget, Write, read_job, read_jobs
from lance_flight_client.spark.program import OF_TABLES, main, parser, value_of_flag

PAGE = Path(__file__).parent.parent.parent / "client" / "docs" / "pipelines.md"
SECRET = "5ecret"  # noqa: S105 - nobody's
WHOLE = """
[source]
paths = ["in/*.csv.gz", "more.csv"]
options = { header = true, sep = ";", maxColumns = 30 }
schema = "id BIGINT"
where = "id > 0"
columns = ["*", "id % 2 AS half"]

[target]
root = "lake"
table = "s.t"
partition_by = "bucket(4, id)"
stable_row_ids = true
file_version = "2.1"
storage.aws_region = "eu-north-1"

[write]
mode = "overwrite table"
commit_id = "one"
cluster = true
spread = 2

[spark]
spark.master = "local[2]"
"spark.sql.shuffle.partitions" = 8
spark.sql.adaptive.enabled = false
"""
AS_JOB = Job(
    source=JobSource(
        paths=("in/*.csv.gz", "more.csv"),
        options={"header": "true", "sep": ";", "maxColumns": "30"},
        schema="id BIGINT",
        where="id > 0",
        columns=("*", "id % 2 AS half"),
    ),
    target=JobTarget(
        root="lake",
        table="s.t",
        partition_by="bucket(4, id)",
        stable_row_ids=True,
        file_version="2.1",
        storage={"aws_region": "eu-north-1"},
    ),
    write=Write(mode="overwrite table", commit_id="one", cluster=True, spread=2),
    spark={
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.adaptive.enabled": "false",
    },
)
AS_FLAGS = [
    *("--source", "in/*.csv.gz", "--source", "more.csv", "--schema", "id BIGINT", "--where", "id > 0"),
    *("--option", "header=true", "--option", "sep=;", "--option", "maxColumns=30"),
    *("--column", "*", "--column", "id % 2 AS half"),
    *(
        "--root",
        "lake",
        "--table",
        "s.t",
        "--partition-by",
        "bucket(4, id)",
        "--stable-row-ids",
        "--file-version",
        "2.1",
    ),
    *("--storage", "aws_region=eu-north-1"),
    *("--mode", "overwrite table", "--commit-id", "one", "--cluster", "--spread", "2"),
    *("--conf", "spark.master=local[2]", "--conf", "spark.sql.shuffle.partitions=8"),
    *("--conf", "spark.sql.adaptive.enabled=false"),
]
LEAST = '[source]\npaths = "a.csv"\n[target]\nroot = "lake"\ntable = "t"\n'


def written(place: Path, text: str) -> str:
    file = place / "job.toml"
    file.write_text(text)
    return str(file)


def read(*arguments: str) -> Job:
    options = parser().parse_args(["ingest", *arguments])
    return read_job(options.job, {setting.key: value_of_flag(options, setting) for setting in SETTINGS})


def test_a_file_and_flags_say_the_same(tmp_path: Path) -> None:
    assert read(written(tmp_path, WHOLE)) == AS_JOB
    assert read(*AS_FLAGS) == AS_JOB
    assert {setting.flag for setting in SETTINGS} - {"--format", "--key"} == {
        text for text in AS_FLAGS if text.startswith("--")
    }


def test_steps_have_what_stands_outside_of_them(tmp_path: Path) -> None:
    steps = (
        '[[steps]]\nsource.paths = "b.csv"\n[[steps]]\n[steps.target]\ntable = "u"\n[steps.write]\nmode = "overwrite"\n'
    )
    file = written(tmp_path, f"{LEAST}{steps}")
    first, second = read_jobs(file, {"target.root": "other"})
    assert (first.source.paths, first.target.table, first.write.mode) == (("b.csv",), "t", "append")
    assert (second.source.paths, second.target.table, second.write.mode) == (("a.csv",), "u", "overwrite")
    assert first.target.root == second.target.root == "other"


def test_what_is_not_said_has_its_default(tmp_path: Path) -> None:
    job = read(written(tmp_path, LEAST))
    assert job == Job(source=JobSource(paths=("a.csv",)), target=JobTarget(root="lake", table="t"))
    assert (job.source.kind, job.source.columns, job.write_mode) == ("csv", ("*",), "append")
    assert job.write_options == {"root": "lake", "table": "t"}


def test_the_options_of_the_write() -> None:
    assert (AS_JOB.write_mode, AS_JOB.write_options) == (
        "overwrite",
        {
            "root": "lake",
            "table": "s.t",
            "partition_by": "bucket(4, id)",
            "stable_row_ids": "true",
            "file_version": "2.1",
            "overwrite": "table",
            "commit_id": "one",
            "commit_source": AS_JOB.source_digest,
            "storage.aws_region": "eu-north-1",
        },
    )


OVERRULED = [
    pytest.param(
        ["--mode", "append"], "write", Write(mode="append", commit_id="one", cluster=True, spread=2), id="one"
    ),
    pytest.param(["--source", "x.json"], "source.paths", ("x.json",), id="a list as a whole"),
    pytest.param(["--no-cluster", "--spread", "3"], None, "write.spread goes with write.cluster", id="a switch"),
    pytest.param(
        ["--storage", "a=b", "--storage", "aws_region=x"],
        "target.storage",
        {"aws_region": "x", "a": "b"},
        id="pairs are added",
    ),
    pytest.param(["--option", "sep=="], "source.options", AS_JOB.source.options | {"sep": "="}, id="a sign in a value"),  # type: ignore[operator]
]


@pytest.mark.parametrize(("flags", "key", "expected"), OVERRULED)
def test_a_flag_overrules_the_file(tmp_path: Path, flags: list[str], key: str | None, expected: Any) -> None:
    file = written(tmp_path, WHOLE)
    if key is None:
        with pytest.raises(InvalidInput, match=expected):
            read(file, *flags)
        return
    found: Any = read(file, *flags)
    for name in key.split("."):
        found = getattr(found, name)
    assert found == expected


WRONG = [
    pytest.param(
        "", ["expected source.paths (--source): ", "target.root (--root)", "target.table (--table)"], id="empty"
    ),
    pytest.param(
        '[sorce]\npaths = "a.csv"\n', ["no section [sorce]; did you mean 'source'?", "source.paths"], id="a section"
    ),
    pytest.param(
        LEAST + 'tabel = "x"\n[write]\nzzz = 1\n',
        ["no key target.tabel; did you mean 'table'?", "no key write.zzz; expected mode, commit_id"],
        id="unknown keys",
    ),
    pytest.param(
        'target = 3\nsource = "x"\n', ["target is 3; expected the section [target]", "source is 'x'"], id="no section"
    ),
    pytest.param(
        LEAST + '[write]\nmode = "upsert"\ncluster = "yes"\nspread = 0\ncommit_id = 7\n',
        [
            "write.mode is 'upsert'; expected one of append, overwrite, overwrite table",
            "write.cluster is 'yes'; expected true or false",
            "write.spread is 0; expected a whole number from 1 on",
            "write.commit_id is 7; expected a text",
        ],
        id="wrong values",
    ),
    pytest.param(
        LEAST.replace('"a.csv"', "[]"), ["source.paths is []; expected a path, or a list of them"], id="no paths"
    ),
    pytest.param(LEAST.replace('"a.csv"', '["a.csv", 3]'), ["source.paths is ['a.csv', 3]"], id="a path that is none"),
    pytest.param(LEAST.replace("a.csv", "a"), ["expected source.format: parquet, csv, json"], id="no ending"),
    pytest.param(LEAST.replace('"a.csv"', '["a.csv", "b.json"]'), ["expected source.format"], id="two endings"),
    pytest.param(LEAST + "[write]\nspread = 2\n", ["write.spread goes with write.cluster"], id="spread alone"),
    pytest.param(
        LEAST + "[source.options]\nheader = [1]\n",
        ["source.options is {'header': [1]}; expected names, each with a text"],
        id="a list among pairs",
    ),
    pytest.param(
        LEAST + '[write]\nmode = "merge"\ncommit_id = "x"\n',
        ["write.keys goes with write.mode = 'merge'", "goes without write.commit_id and write.cluster"],
        id="a merge without keys",
    ),
    pytest.param(LEAST + '[write]\nkeys = "id"\n', ["write.keys goes with write.mode"], id="keys without a merge"),
    pytest.param(LEAST + "[steps]\nx = 1\n", ["steps is no list of steps; expected [[steps]]"], id="no steps"),
    pytest.param(
        LEAST + '[[steps]]\n[[steps]]\n[steps.target]\ntabel = "u"\n',
        [": step 2: no key target.tabel; did you mean 'table'?"],
        id="a step",
    ),
    pytest.param(LEAST + "[[steps]]\n[steps.spark]\nx = 1\n", ["expected one [spark]"], id="a session of a step"),
    pytest.param("[source\n", ["cannot be read", "line 1"], id="no TOML"),
    pytest.param("source:\n  paths: a.csv\n", ["expected TOML, as [source] and paths ="], id="YAML"),
    pytest.param(
        LEAST + '[spark]\n"spark.master" = "lokal"\n',
        ["spark.master is 'lokal'; expected local, local[4]"],
        id="no master",
    ),
    pytest.param(
        LEAST + f'storage = "{SECRET}"\n[spark]\nx = ["{SECRET}"]\n', ["target.storage", "spark"], id="secrets"
    ),
]


@pytest.mark.parametrize(("text", "says"), WRONG)
def test_everything_that_is_wrong_is_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: list[str]
) -> None:
    file = written(tmp_path, text)
    assert main(["ingest", file]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"lance-flight: [invalid_input] job file {file!r}")
    assert told.count("\n") == 1
    for each in says:
        assert each in told
    assert SECRET not in told


REFUSED = [
    pytest.param(["--root", "nowhere"], "root 'nowhere' is no directory here", id="a root that is not there"),
    pytest.param(["--partition-by", "moon(at)"], "no partition transform 'moon'", id="no transform"),
    pytest.param(["--table", "a..b"], "'table' is 'a..b'; expected name or schema.name", id="no name of a table"),
    pytest.param(["--conf", SECRET], "--conf has no name and value; expected KEY=VALUE", id="no pair"),
    pytest.param(["--mode", "upsert"], "--mode is 'upsert'; expected one of append", id="no mode"),
]


@pytest.mark.parametrize(("arguments", "says"), REFUSED)
def test_what_can_be_seen_before_spark_starts_is_refused_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["ingest", "--source", "a.csv", "--root", str(tmp_path), "--table", "t", *arguments]) == 1
    told = capsys.readouterr().err
    assert says in told
    assert SECRET not in told


def test_secrets_are_not_shown() -> None:
    job = read(*AS_FLAGS, "--storage", f"endpoint={SECRET}", "--conf", f"spark.hadoop.place={SECRET}")
    assert SECRET not in repr(job)


def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("ingest", *OF_TABLES):
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
        told = capsys.readouterr().out
        assert f"python -m lance_flight_client.spark {command} " in told.partition("examples:")[2]


def test_the_page_about_pipelines_lists_every_setting() -> None:
    rows = re.findall(r"^\| `(--[\w-]+)` \| `([\w.]+)` \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(setting.flag, setting.key, setting.means) for setting in SETTINGS]
