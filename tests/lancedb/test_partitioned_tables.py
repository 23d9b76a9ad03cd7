"""Partitioned tables over REST: as tables, and as namespaces that other engines walk to the Lance tables inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import lance_namespace_urllib3_client.models as m
import lancedb
import pyarrow as pa
import pytest
from lance.namespace import RestNamespace
from lancedb.index import BTree
from lancedb.query import MatchQuery, PhraseQuery
from lancedb.remote.errors import HttpError

from tests.lancedb.rest_server import connect, serving_rest
from tests.service.server_process import Server

ROWS = pa.table(
    {
        "id": pa.array(range(30), pa.int64()),
        "tenant": ["abc"[n % 3] for n in range(30)],
        "vector": pa.array([[float(n), 1.0] for n in range(30)], pa.list_(pa.float32(), 2)),
    }
)
BY_TENANT = {"lance_flight.partition_by": "tenant"}


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    with serving_rest(tmp_path_factory.mktemp("rest") / "root") as found:
        yield found


def encoded(rows: pa.Table) -> bytes:
    """Rows as the body of a request."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def walked(namespace: RestNamespace, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    """The tables below a namespace, as stock Lance opens them at their versions."""
    for name in namespace.list_namespaces(m.ListNamespacesRequest(id=path)).namespaces:
        yield from walked(namespace, [*path, name])
    for name in namespace.list_tables(m.ListTablesRequest(id=path)).tables:
        found = namespace.describe_table(m.DescribeTableRequest(id=[*path, name]))
        yield [*path, name], lance.dataset(found.location, version=found.version)


def test_a_table_is_partitioned_by_the_metadata_of_its_schema(rest: tuple[Server, str]) -> None:
    server, address = rest
    table = connect(address).create_table("by_tenant", ROWS.replace_schema_metadata(BY_TENANT))
    assert server.value('SELECT count(*) FROM "by_tenant$partitions"') == 3
    assert {row["tenant"] for row in table.search([4.0, 1.0]).where("tenant = 'b'").limit(20).to_list()} == {"b"}
    numbers = table.search().with_row_id(with_row_id=True).to_arrow()["_rowid"]
    assert numbers.type == pa.uint64()
    assert len(set(numbers.to_pylist())) == 30
    branch = table.branches.create("trial")
    branch.delete("id < 10")
    assert (branch.count_rows(), table.count_rows()) == (20, 30)
    kept = branch.version
    branch.delete("id < 20")
    old = table.branches.checkout("trial", kept)
    assert (old.count_rows(), branch.count_rows(), old.version) == (20, 10, kept)
    assert [row["id"] for row in old.search([12.0, 1.0]).limit(1).to_list()] == [12]
    assert old.schema == branch.schema
    branch.restore(kept)
    assert (branch.count_rows(), table.count_rows()) == (20, 30)
    with pytest.raises(ValueError, match="not found"):
        table.branches.checkout("trial", 10_000)
    table.branches.delete("trial")
    assert table.branches.list() == {}
    version = table.version
    merged = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(ROWS.slice(20))
    assert (merged.num_updated_rows, merged.num_inserted_rows, table.version) == (10, 0, version + 1)


def test_a_branch_is_compared_and_published(rest: tuple[Server, str]) -> None:
    _, address = rest
    table = connect(address).create_table("branched", ROWS.replace_schema_metadata(BY_TENANT))
    parent, branch = table.version, table.branches.create("trial")
    branch.delete("tenant = 'b' AND id < 10")
    branch.add(ROWS.slice(0, 1))
    branch.add_columns({"twice": "id * 2"})
    branch.create_index("id", config=BTree())
    table.add(ROWS.slice(2, 1))
    diff = table.branches.diff("trial")
    assert (diff["parentVersion"], diff["mainVersion"], diff["baseMoved"]) == (parent, table.version, True)
    assert (diff["rowCountMain"], diff["rowCountBranch"], diff["branchVersion"]) == (31, 28, branch.version)
    assert diff["addedColumns"] == [{"name": "twice", "dataType": "int64", "nullable": True}]
    assert [index["indexName"] for index in diff["addedIndexes"]] == ["id_idx"]
    assert (diff["removedColumns"], diff["changedColumns"], diff["removedIndexes"], diff["errors"]) == ([], [], [], [])
    # The computed column wrote all partitions of the branch, and the main branch has changed one of them.
    failed = table.branches.cherry_pick("trial")
    assert (failed["status"], failed["diff"]["errors"][0]["code"], table.count_rows()) == ("failed", "rowsChanged", 31)
    assert "was changed on the main branch as well" in failed["diff"]["errors"][0]["message"]
    assert failed["preview"] == {"promotedColumns": ["twice"]}
    second = table.branches.create("second")
    second.delete("tenant = 'b'")
    second.add(ROWS.slice(0, 3))
    counts = table.branches.diff("second")["rowSummary"]
    assert (counts["unchanged"], counts["newOnBase"], counts["newOnBranch"]) == (21, 0, 3)
    assert table.branches.cherry_pick("second", dry_run=True)["status"] == "ready"
    assert table.count_rows() == 31
    picked = table.branches.cherry_pick("second")
    assert (picked["status"], picked["mainVersionAfter"], table.count_rows()) == ("cherryPicked", table.version, 24)
    for wrong in ("absent", "x; DROP TABLE branched", '"'):
        with pytest.raises(ValueError, match="not found"):
            table.branches.diff(wrong)


def test_a_partitioned_table_is_walked_as_a_namespace(rest: tuple[Server, str]) -> None:
    server, address = rest
    namespace = RestNamespace(uri=address)
    request = m.CreateTableRequest(id=["walked"], mode="Create", properties=BY_TENANT)
    namespace.create_table(request, encoded(ROWS))
    assert "walked" in namespace.list_namespaces(m.ListNamespacesRequest(id=[])).namespaces
    assert namespace.describe_table(m.DescribeTableRequest(id=["walked"])).location is None
    found = {tuple(path): dataset.to_table() for path, dataset in walked(namespace, ["walked"])}
    stored = server.rows('SELECT object_id, read_version FROM "walked$partitions"')
    assert {"$".join(path[1:]) for path in found} == {name for name, _ in stored}
    assert sorted(number for rows in found.values() for number in rows["id"].to_pylist()) == list(range(30))
    # The version that readers of the service see, whatever was written there behind its back.
    (path, dataset), *_ = walked(namespace, ["walked"])
    dataset.delete("true")
    again = namespace.describe_table(m.DescribeTableRequest(id=path))
    assert again.version == dataset.version - 1
    assert connect(address).open_table("walked").count_rows() == 30


def test_a_namespace_connection_reads_and_writes_plain_tables_itself(rest: tuple[Server, str]) -> None:
    server, address = rest
    for name, operations in (("itself", None), ("pushed", ["QueryTable", "CreateTable"])):
        db = lancedb.connect_namespace("rest", {"uri": address}, namespace_client_pushdown_operations=operations)
        table = db.create_table(name, ROWS)
        table.add(ROWS)
        assert len(table.search([4.0, 1.0]).limit(3).to_arrow()) == 3
        assert db.open_table(name).count_rows() == 60
        assert server.value(f"SELECT count(*) FROM {name}") == 60
    texts = ["a fox", "a dog and a fox", "column terms", "fox dog"]
    found = db.create_table("texts", pa.table({"id": range(4), "text": texts}))
    found.create_fts_index("text", with_position=True)
    # The client writes these as its own debug text.
    for query, wanted in (
        ("fox", [0, 1, 3]),
        (MatchQuery("fox dog", "text", operator="AND"), [1, 3]),
        (PhraseQuery("fox dog", "text"), [3]),
    ):
        assert sorted(found.search(query, query_type="fts").limit(9).to_arrow()["id"].to_pylist()) == wanted
    with pytest.raises(RuntimeError, match="of several parts"):
        found.search(MatchQuery("fox", "text") & MatchQuery("dog", "text")).limit(9).to_arrow()
    db.create_namespace(["inner"])
    db.create_table("inside", ROWS, namespace_path=["inner"])
    assert list(db.list_tables(namespace_path=["inner"]).tables) == ["inside"]
    assert server.value("SELECT count(*) FROM inner.inside") == 30
    db.drop_table("inside", namespace_path=["inner"])
    db.drop_namespace(["inner"])
    assert "inner" not in db.list_namespaces([]).namespaces


def test_views_are_those_of_sql(rest: tuple[Server, str]) -> None:
    server, address = rest
    db = connect(address)
    db.create_table("whole", ROWS)
    made = db.create_view("few", "SELECT id, tenant FROM whole WHERE id < 4")
    assert (made, list(db.list_views())) == (db.describe_view("few"), ["few"])
    assert made.schema == pa.schema({"id": pa.int64(), "tenant": pa.string()})
    assert server.value("SELECT count(*) FROM few") == 4
    assert db.open_table("few").search().where("id > 1").to_arrow()["id"].to_pylist() == [2, 3]
    for refused in ("SELECT absent FROM whole", "DROP TABLE whole", "SELECT 1; DROP TABLE whole"):
        with pytest.raises(HttpError, match="invalid_sql"):
            db.create_view("wrong", refused)
    with pytest.raises(HttpError, match="is a table, not a view"):
        db.drop_view("whole")
    db.drop_view("few")
    assert (list(db.list_views()), db.open_table("whole").count_rows()) == ([], 30)
    with pytest.raises(HttpError, match=r"\[unsupported\] GET .* is no operation"):
        db.list_functions()


def test_a_table_is_cloned_from_its_location(rest: tuple[Server, str]) -> None:
    _, address = rest
    db, namespace = connect(address), RestNamespace(uri=address)
    table = db.create_table("cloned", ROWS.replace_schema_metadata({"owner": "somebody"}))
    version = table.version
    table.delete("id > 9")
    location = namespace.describe_table(m.DescribeTableRequest(id=["cloned"])).location
    old, new = (db.clone_table(f"clone{at}", location, source_version=at) for at in (version, None))
    assert (old.count_rows(), new.count_rows(), table.count_rows()) == (30, 10, 10)
    assert old.schema.metadata == {b"owner": b"somebody"}
    old.delete("true")
    assert (old.count_rows(), new.count_rows()) == (0, 10)
    for refused in (lambda: db.clone_table("clone", "/etc"), lambda: db.clone_table("cloned", location)):
        with pytest.raises((ValueError, HttpError)):
            refused()
    assert namespace.register_table(m.RegisterTableRequest(id=["cloned"], location=location)).location == location
    with pytest.raises(Exception, match="is not where table 'other' lies"):
        namespace.register_table(m.RegisterTableRequest(id=["other"], location=location))


def test_pages_and_the_document(rest: tuple[Server, str], tmp_path: Path) -> None:
    _, address = rest
    db = connect(address)
    for number in range(5):
        db.create_table(f"page{number}", ROWS)
    found, token = [], None
    while True:
        page = db.list_tables(page_token=token, limit=2)
        found += page.tables
        token = page.page_token
        if not token:
            break
    assert found == sorted(found)
    assert {f"page{number}" for number in range(5)} <= set(found)
    # Versions, tags and branches by pages, each once.
    table = db.create_table("paged", ROWS.replace_schema_metadata(BY_TENANT))
    for number in range(4):
        table.tags.create(f"tag{number}", table.version)
        table.branches.create(f"branch{number}")
        table.delete(f"id = {number}")
    namespace = RestNamespace(uri=address)
    versions = [each["version"] for each in table.list_versions()]
    for descending in (False, True):
        asked = m.ListTableVersionsRequest(id=["paged"], limit=2, descending=descending)
        listed = [each.version for each in pages(namespace.list_table_versions, asked, "versions")]
        assert listed == (versions[::-1] if descending else versions)
    tags = pages(namespace.list_table_tags, m.ListTableTagsRequest(id=["paged"], limit=3), "tags")
    branches = pages(namespace.list_table_branches, m.ListTableBranchesRequest(id=["paged"], limit=3), "branches")
    assert (sorted(tags), sorted(branches)) == tuple([f"{kind}{n}" for n in range(4)] for kind in ("tag", "branch"))
    with pytest.raises(Exception, match="page_token 'elsewhere'"):
        pages(namespace.list_table_versions, asked.model_copy(update={"page_token": "elsewhere"}), "versions")


def pages(ask: Callable[[Any], Any], request: Any, what: str) -> list[Any]:
    """All that the pages of a list have, in their order."""
    page = ask(request)
    found = list(getattr(page, what))
    while page.page_token:
        page = ask(request.model_copy(update={"page_token": page.page_token}))
        found += getattr(page, what)
    return found


def test_a_declared_table_is_in_lists_until_it_is_given_up(rest: tuple[Server, str]) -> None:
    _, address = rest
    namespace = RestNamespace(uri=address)

    def listed(**more: bool) -> set[str]:
        return set(namespace.list_tables(m.ListTablesRequest(id=[], **more)).tables) & {"written", "left", "dropped"}

    places = {
        name: namespace.declare_table(m.DeclareTableRequest(id=[name])).location
        for name in ("written", "left", "dropped")
    }
    assert (listed(), listed(include_declared=False)) == ({"written", "left", "dropped"}, set())
    assert "left" in namespace.list_all_tables(m.ListTablesRequest()).tables
    lance.write_dataset(ROWS, places["written"])
    given_up = namespace.deregister_table(m.DeregisterTableRequest(id=["left"]))
    assert given_up.location == places["left"]
    namespace.drop_table(m.DropTableRequest(id=["dropped"]))
    assert listed() == listed(include_declared=False) == {"written"}
    with pytest.raises(Exception, match=r"a table is where its name says.*; expected DropTable"):
        namespace.deregister_table(m.DeregisterTableRequest(id=["written"]))
    namespace.drop_table(m.DropTableRequest(id=["written"]))
    assert listed() == set()
    for gone in (namespace.deregister_table, namespace.drop_table):
        request = m.DeregisterTableRequest if gone == namespace.deregister_table else m.DropTableRequest
        with pytest.raises(Exception, match="no table"):
            gone(request(id=["left"]))
