"""Operations on the versions, tags and branches of a table."""

from __future__ import annotations

from typing import Any

from lance_flight.engine.sql.references import quote_parts
from lance_flight.errors import InvalidInput, NotFound
from lance_flight.rest.call import RestAnswer, RestCall

MAIN = "main"


def _snapshots(call: RestCall) -> list[dict[str, Any]]:
    sql = f"SELECT version, committed_at, operation FROM {call.target.metadata('snapshots')} ORDER BY version"  # noqa: S608
    found: list[dict[str, Any]] = call.rows(sql).to_pylist()
    return found


def _version_json(snapshot: dict[str, Any]) -> dict[str, Any]:
    at = snapshot["committed_at"]
    metadata = {} if snapshot["operation"] is None else {"operation": snapshot["operation"]}
    return {
        "version": snapshot["version"],
        "manifest_path": "",
        "timestamp": at.isoformat().replace("+00:00", "Z"),
        "timestamp_millis": round(at.timestamp() * 1000),
        "metadata": metadata,
    }


def list_versions(call: RestCall) -> RestAnswer:
    """List the versions of a table: its snapshots."""
    found = [_version_json(snapshot) for snapshot in _snapshots(call)]
    descending = str(call.json.get("descending", call.query.get("descending", ""))).lower() == "true"
    return RestAnswer({"versions": (found[::-1] if descending else found)[: call.limit]})


def describe_version(call: RestCall) -> RestAnswer:
    """Describe one version of a table."""
    wanted = call.json.get("version")
    found = [snapshot for snapshot in _snapshots(call) if wanted is None or snapshot["version"] == wanted]
    if not found:
        raise NotFound(f"no version {wanted!r} of table {call.newest.name!r}")
    return RestAnswer({"version": _version_json(found[-1])})


def restore(call: RestCall) -> RestAnswer:
    """Make a new version that equals an old one."""
    call.run(f"ALTER TABLE {call.target.sql} ROLLBACK TO {call.value('version', int)}")
    return RestAnswer({"version": call.version()})


def _tags(call: RestCall) -> dict[str, dict[str, Any]]:
    rows = call.rows(f"SELECT name, version, branch FROM {call.newest.metadata('tags')}").to_pylist()  # noqa: S608
    return {row["name"]: {"branch": row["branch"], "version": row["version"], "manifestSize": 0} for row in rows}


def list_tags(call: RestCall) -> RestAnswer:
    """List the tags of a table, by their names."""
    tags = _tags(call)
    # LanceDB's clients read the tags themselves, those of the catalog an object with them.
    return RestAnswer(tags if call.is_lancedb else {"tags": tags})


def tag_version(call: RestCall) -> RestAnswer:
    """Return the version of a tag."""
    name = call.value("tag", str)
    found = _tags(call).get(name)
    if found is None:
        raise NotFound(f"no tag {name!r} of table {call.newest.name!r}")
    return RestAnswer({"version": found["version"]} | ({} if found["branch"] is None else {"branch": found["branch"]}))


def create_tag(call: RestCall, verb: str = "CREATE") -> RestAnswer:
    """Give a version a name."""
    version = call.value("version", int)
    call.run(f"ALTER TABLE {call.target.sql} {verb} TAG {quote_parts(call.value('tag', str))} AS OF {version}")
    return RestAnswer({})


def delete_tag(call: RestCall) -> RestAnswer:
    """Remove the name of a version."""
    call.run(f"ALTER TABLE {call.newest.sql} DROP TAG {quote_parts(call.value('tag', str))}")
    return RestAnswer({})


def update_tag(call: RestCall) -> RestAnswer:
    """Give another version the name, in one step."""
    return create_tag(call, "REPLACE")


def _branches(call: RestCall) -> list[dict[str, Any]]:
    if not call.is_partitioned(call.newest):
        return []
    found: list[dict[str, Any]] = call.rows(f"SELECT * FROM {call.newest.metadata('branches')}").to_pylist()  # noqa: S608
    return found


def list_branches(call: RestCall) -> RestAnswer:
    """List the branches of a table."""
    return RestAnswer(
        {
            "branches": {
                branch["name"]: {"parentVersion": branch["forked_at"], "createAt": 0, "manifestSize": 0, "metadata": {}}
                for branch in _branches(call)
            }
        }
    )


def create_branch(call: RestCall) -> RestAnswer:
    """Make a branch of the newest version, or of another one, of the main branch."""
    name, version = call.value("name", str), call.json.get("from_version")
    source = call.json.get("from_branch")
    if source not in (None, "", MAIN):
        raise InvalidInput(f"from_branch {source!r}; expected {MAIN!r}: branches begin at the main branch")
    at = "" if version is None else f" AS OF {call.value('from_version', int)}"
    call.run(f"ALTER TABLE {call.newest.sql} CREATE BRANCH {quote_parts(name)}{at}")
    return RestAnswer({"name": name})


def delete_branch(call: RestCall) -> RestAnswer:
    """Drop a branch."""
    name = call.value("name", str)
    if name not in {branch["name"] for branch in _branches(call)}:
        raise NotFound(f"no branch {name!r} of table {call.newest.name!r}")
    call.run(f"ALTER TABLE {call.newest.sql} DROP BRANCH {quote_parts(name)}")
    return RestAnswer({})
