"""The SQLAlchemy dialect against a server: reflection, types, DDL options, transactions and inserts in bulk."""

from __future__ import annotations

import datetime as dt
import uuid
import warnings
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from lance_flight_client.sqlalchemy import LanceFlightWarning
from sqlalchemy.exc import ArgumentError, CompileError, NoSuchTableError, OperationalError, ProgrammingError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tests.service.server_process import Server, serving

MOMENT = dt.datetime(2025, 3, 4, 5, 6, 7, 890123)
SNAPSHOT = "SNAPSHOT"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("sqlalchemy") / "root"
    (root / "sales").mkdir(parents=True)
    with serving(root) as running:
        yield running


@pytest.fixture(scope="module")
def engine(server: Server) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url(server))
    yield engine
    engine.dispose()


def url(server: Server, rest: str = "") -> str:
    return server.uri.replace("grpc://", "lance_flight://") + rest


def created(engine: sa.Engine, name: str, *columns: Any, **options: Any) -> sa.Table:
    table = sa.Table(name, sa.MetaData(), *columns, **options)
    table.create(engine)
    return table


def numbered(engine: sa.Engine, name: str, partitioned_by: str | None = None) -> sa.Table:
    """A table of ids and words, and the rows 1 and 2."""
    table = created(
        engine,
        name,
        sa.Column("id", sa.BigInteger),
        sa.Column("s", sa.String),
        lance_flight_partitioned_by=partitioned_by,
    )
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"id": 1, "s": "a"}, {"id": 2, "s": "b"}])
    return table


@pytest.mark.parametrize(
    ("kind", "stored", "value"),
    [
        pytest.param(sa.Boolean(), "BOOLEAN", True, id="boolean"),
        pytest.param(sa.SmallInteger(), "SMALLINT", -3, id="small integer"),
        pytest.param(sa.Integer(), "INTEGER", 3, id="integer"),
        pytest.param(sa.BigInteger(), "BIGINT", 2**60, id="big integer"),
        pytest.param(sa.Float(), "DOUBLE", 1.25, id="float"),
        pytest.param(sa.Float(24), "REAL", 0.5, id="float of single precision"),
        pytest.param(sa.REAL(), "REAL", 0.5, id="real"),
        pytest.param(sa.Double(), "DOUBLE", 1e300, id="double"),
        pytest.param(sa.Numeric(9, 2), "DECIMAL(9, 2)", Decimal("1.50"), id="decimal"),
        pytest.param(sa.String(20), "VARCHAR", "é'\\%", id="string"),
        pytest.param(sa.Text(), "VARCHAR", "x" * 10_000, id="text"),
        pytest.param(sa.LargeBinary(), "VARBINARY", b"\0\xff", id="bytes"),
        pytest.param(sa.Date(), "DATE", MOMENT.date(), id="date"),
        pytest.param(sa.Time(), "TIME", MOMENT.time(), id="time"),
        pytest.param(sa.DateTime(), "TIMESTAMP(6)", MOMENT, id="timestamp"),
        pytest.param(
            sa.DateTime(timezone=True),
            "TIMESTAMPTZ(6)",
            MOMENT.replace(tzinfo=dt.UTC),
            id="timestamp with a zone",
        ),
        pytest.param(sa.Uuid(), "VARCHAR", uuid.UUID(int=7), id="uuid"),
        pytest.param(sa.JSON(), "VARCHAR", {"a": [1, None]}, id="JSON"),
        pytest.param(sa.Enum("up", "down"), "VARCHAR", "down", id="enum"),
        pytest.param(sa.Interval(), "TIMESTAMP(6)", dt.timedelta(days=2, seconds=3), id="interval"),
        pytest.param(sa.ARRAY(sa.Integer), "INTEGER[]", [1, 2], id="array"),
    ],
)
@pytest.mark.parametrize("rows", [1, 100])
def test_types_are_stored_and_returned(engine: sa.Engine, kind: Any, stored: str, value: Any, rows: int) -> None:
    """One row is bound to an INSERT, a hundred are ingested."""
    table = created(engine, f"t{uuid.uuid4().hex}", sa.Column("id", sa.Integer), sa.Column("x", kind))
    (column,) = [each for each in sa.inspect(engine).get_columns(table.name) if each["name"] == "x"]
    assert column["type"].compile(engine.dialect) == stored
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"id": n, "x": value if n else None} for n in range(rows + 1)])
        selected = sa.select(table.c.x).order_by(table.c.id)
        assert connection.execute(selected).scalars().all() == [None, *[value] * rows]
        if not isinstance(kind, (sa.JSON, sa.ARRAY)):
            found = sa.select(sa.func.count()).select_from(table).where(table.c.x == value)
            assert connection.execute(found).scalar() == rows


@pytest.mark.parametrize(
    "name",
    [
        "TINYINT",
        "TINYINT UNSIGNED",
        "BIGINT UNSIGNED",
        "TIMESTAMP(9)",
        "BIGINT[][]",
        "INTEGER[3]",
        'STRUCT<"a" INTEGER>',
        "TIMESTAMPTZ(3)",
        "JSON",
    ],
)
def test_reflected_types_make_the_same_table_again(server: Server, engine: sa.Engine, name: str) -> None:
    table = f"t{uuid.uuid4().hex}"
    server.run(f"CREATE TABLE {table} (x {name})")
    again = sa.Table(table, sa.MetaData(), autoload_with=engine).to_metadata(sa.MetaData(), name=f"{table}_2")
    again.create(engine)
    asked = f"SELECT data_type FROM information_schema.columns WHERE table_name = '{again.name}'"
    assert server.value(asked) == name


def test_reflection(server: Server, engine: sa.Engine) -> None:
    server.run("CREATE TABLE sales.orders (id BIGINT NOT NULL, at DATE)")
    server.run("CREATE INDEX by_id ON sales.orders (id)")
    seen = sa.inspect(engine)
    assert (seen.default_schema_name, seen.get_schema_names()) == ("public", ["public", "sales"])
    assert (seen.get_table_names("sales"), seen.get_view_names("sales")) == (["orders"], [])
    assert [(each["name"], each["nullable"]) for each in seen.get_columns("orders", "sales")] == [
        ("id", False),
        ("at", True),
    ]
    assert seen.get_pk_constraint("orders", "sales")["constrained_columns"] == []
    (index,) = seen.get_indexes("orders", "sales")
    assert (index["name"], index["column_names"], index["dialect_options"]) == (
        "by_id",
        ["id"],
        {"lance_flight_using": "btree"},
    )
    assert seen.has_table("orders", "sales")
    assert not seen.has_table("orders")
    with pytest.raises(NoSuchTableError):
        seen.get_columns("orders")


def test_views(server: Server, engine: sa.Engine) -> None:
    numbered(engine, "under_view")
    server.run("CREATE VIEW over_table AS SELECT id + 1 AS next, s FROM under_view")
    seen = sa.inspect(engine)
    assert "over_table" in seen.get_view_names()
    assert "over_table" not in seen.get_table_names()
    assert seen.has_table("over_table")
    assert "under_view" in (seen.get_view_definition("over_table") or "")
    assert [(each["name"], str(each["type"])) for each in seen.get_columns("over_table")] == [
        ("next", "BIGINT"),
        ("s", "VARCHAR"),
    ]
    assert seen.get_indexes("over_table") == []
    view = sa.Table("over_table", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        assert connection.execute(sa.select(view).order_by(view.c.next)).all() == [(2, "a"), (3, "b")]
    server.run("DROP VIEW over_table")
    with pytest.raises(NoSuchTableError):
        sa.inspect(engine).get_view_definition("over_table")


def test_keys_and_comments(engine: sa.Engine) -> None:
    table = created(
        engine,
        "keyed",
        sa.Column("b", sa.Integer, primary_key=True, autoincrement=False, comment="it's the second"),
        sa.Column("a", sa.String, primary_key=True),
        comment="of two",
    )
    seen = sa.inspect(engine)
    assert seen.get_pk_constraint("keyed")["constrained_columns"] == ["b", "a"]
    assert seen.get_table_comment("keyed") == {"text": "of two"}
    assert [column["comment"] for column in seen.get_columns("keyed")] == ["it's the second", None]
    again = sa.Table("keyed", sa.MetaData(), autoload_with=engine)
    assert [column.name for column in again.primary_key] == [column.name for column in table.primary_key]
    with engine.begin() as connection:
        table.comment = "changed"
        connection.execute(sa.schema.SetTableComment(table))
        connection.execute(sa.schema.DropColumnComment(table.c.b))
    assert sa.inspect(engine).get_table_comment("keyed") == {"text": "changed"}
    assert [column["comment"] for column in sa.inspect(engine).get_columns("keyed")] == [None, None]


def test_schema_of_the_url(server: Server) -> None:
    server.run("CREATE TABLE sales.of_url (id BIGINT)")
    engine = sa.create_engine(url(server, "/sales?statement_timeout=30"))
    seen = sa.inspect(engine)
    assert seen.default_schema_name == "sales"
    assert seen.has_table("of_url")
    engine.dispose()


@pytest.mark.parametrize(
    ("rest", "error", "says"),
    [
        pytest.param("/?nope=1", sa.exc.DBAPIError, "nope", id="an unknown option"),
        pytest.param("/?tls=maybe", ArgumentError, "tls is 'maybe'; expected one of", id="no truth value"),
        pytest.param("/?tls_ca=/nowhere", ArgumentError, "'/nowhere' cannot be read", id="no such file"),
        pytest.param("/?token=a&token_file=b", ArgumentError, "expected one of them", id="two tokens"),
        pytest.param("/?branch=a&branch=b", ArgumentError, "branch occurs 2 times", id="twice"),
    ],
)
def test_urls_that_are_refused(server: Server, rest: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        sa.create_engine(url(server, rest)).connect()


def test_partitioned_table_and_index_by_options(server: Server, engine: sa.Engine) -> None:
    table = created(
        engine,
        "optioned",
        sa.Column("id", sa.BigInteger),
        sa.Column("ts", sa.DateTime),
        sa.Index("ix", "id", lance_flight_using="bitmap"),
        lance_flight_partitioned_by="month(ts), bucket(16, id)",
        lance_flight_file_version="2.1",
        lance_flight_stable_row_ids=True,
    )
    assert server.rows('SELECT field_id FROM "optioned$specs"') == [("ts_month",), ("id_bucket",)]
    assert [index["column_names"] for index in sa.inspect(engine).get_indexes("optioned")] == [["id"]]
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"id": n, "ts": MOMENT} for n in range(70)])
    assert server.rows('SELECT DISTINCT file_version FROM "optioned$files"') == [("2.1",)]
    for index in table.indexes:
        index.drop(engine)
    assert sa.inspect(engine).get_indexes("optioned") == []


@pytest.mark.parametrize(
    ("column", "says"),
    [
        pytest.param(sa.Column("x", sa.Integer, server_default="1"), "use default=", id="server default"),
        pytest.param(sa.Column("x", sa.Integer, sa.Identity()), "use default=", id="identity"),
        pytest.param(sa.Column("x", sa.Integer, sa.Computed("1 + 1")), "the application fills", id="computed"),
    ],
)
def test_columns_that_the_server_cannot_fill_are_refused(engine: sa.Engine, column: sa.Column[Any], says: str) -> None:
    with pytest.raises(CompileError, match=says):
        created(engine, "refused", column)
    assert not sa.inspect(engine).has_table("refused")


def test_constraints_are_left_out_with_a_warning(engine: sa.Engine) -> None:
    with pytest.warns(LanceFlightWarning, match="UNIQUE constraint of table 'loose' is left out"):
        created(engine, "loose", sa.Column("x", sa.Integer, unique=True))


@pytest.mark.parametrize("partitioned_by", [None, "bucket(4, id)"], ids=["plain", "partitioned"])
def test_many_rows_are_one_commit(server: Server, engine: sa.Engine, partitioned_by: str | None) -> None:
    name = f"bulk_{partitioned_by is None}".lower()
    table = numbered(engine, name, partitioned_by)
    before = server.value(f'SELECT count(*) AS n FROM "{name}$snapshots"')
    with engine.begin() as connection:
        done = connection.execute(table.insert(), [{"id": n, "s": None if n % 2 else str(n)} for n in range(10_000)])
        assert done.rowcount == 10_000
    assert server.value(f'SELECT count(*) AS n FROM "{name}$snapshots"') == before + 1
    assert server.rows(f"SELECT count(*), count(s), sum(id) FROM {name}") == [(10_002, 5_002, 49_995_003)]


def test_rows_beyond_the_largest_message_of_the_driver(server: Server, engine: sa.Engine) -> None:
    table = created(engine, "wide", sa.Column("id", sa.Integer), sa.Column("s", sa.String))
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"id": n, "s": str(n % 10) * 300_000} for n in range(100)])
        connection.execute(table.insert(), {"id": 100, "s": "x" * (20 << 20)})
    assert server.rows("SELECT count(*), sum(length(s)) FROM wide") == [(101, 30_000_000 + (20 << 20))]


def test_ingested_rows_take_defaults_and_casts_like_inserted_ones(server: Server, engine: sa.Engine) -> None:
    table = numbered(engine, "filled")
    server.run("ALTER TABLE filled ADD COLUMN c BIGINT DEFAULT 5")
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"id": n} for n in range(100)])
        connection.execute(sa.insert(sa.table("filled", sa.column("id"))), [{"id": str(n)} for n in range(100)])
    assert server.rows("SELECT c, count(*) FROM filled GROUP BY c") == [(5, 202)]


@pytest.mark.parametrize("rows", [1, 200])
def test_transaction(server: Server, engine: sa.Engine, rows: int) -> None:
    table = numbered(engine, f"in_transaction_{rows}", "bucket(4, id)")
    counted = sa.select(sa.func.count()).select_from(table)
    with engine.connect().execution_options(isolation_level=SNAPSHOT) as connection:
        connection.execute(table.insert(), [{"id": n, "s": "x"} for n in range(rows)])
        assert connection.scalar(counted) == rows + 2
        assert server.value(f"SELECT count(*) AS n FROM {table.name}") == 2
        connection.rollback()
        assert connection.scalar(counted) == 2
        connection.execute(table.delete().where(table.c.id == 1))
        connection.commit()
    assert server.rows(f"SELECT id FROM {table.name}") == [(2,)]
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "AUTOCOMMIT"


def test_connection_is_used_again_after_a_failed_commit(server: Server) -> None:
    engine = sa.create_engine(url(server, "/?target_partitions=2"), isolation_level=SNAPSHOT)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("CREATE TABLE fought (id BIGINT) PARTITIONED BY (bucket(2, id))"))
        connection.execute(sa.text("INSERT INTO fought VALUES (1), (2)"))
    with engine.connect() as connection:
        connection.execute(sa.text("UPDATE fought SET id = id + 10"))
        server.run("UPDATE fought SET id = id + 100")
        with pytest.raises(OperationalError, match="serialization_failure"):
            connection.commit()
        connection.rollback()
        assert connection.get_isolation_level() == SNAPSHOT
        connection.execute(sa.text("DELETE FROM fought WHERE id = 101"))
        connection.commit()
    assert server.rows("SELECT id FROM fought") == [(102,)]
    engine.dispose()


def test_rollback_in_autocommit_warns_of_what_stays(engine: sa.Engine) -> None:
    table = numbered(engine, "kept")
    with engine.connect() as connection:
        connection.execute(table.delete().where(table.c.id == 1))
        with pytest.warns(LanceFlightWarning, match="isolation_level='SNAPSHOT'"):
            connection.rollback()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert connection.execute(sa.select(table)).all() == [(2, "b")]
            connection.rollback()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection, warnings.catch_warnings():
        warnings.simplefilter("error")
        connection.execute(table.delete())


def test_changes_return_their_rows(engine: sa.Engine) -> None:
    table = numbered(engine, "returned")
    with engine.begin() as connection:
        new = table.insert().values(id=3, s="c").returning(table.c.id, sa.func.upper(table.c.s).label("u"))
        assert connection.execute(new).mappings().one() == {"id": 3, "u": "C"}
        changed = table.update().where(table.c.id == 3).values(s="d").returning(table.c.s)
        assert connection.execute(changed).scalars().all() == ["d"]
        assert connection.execute(table.delete().where(table.c.id < 3).returning(table)).rowcount in {-1, 2}
    with engine.connect() as connection:
        assert connection.execute(table.select()).all() == [(3, "d")]


def test_limits_parameters_and_patterns(engine: sa.Engine) -> None:
    table = numbered(engine, "asked")
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"id": 3, "s": "50% /x"}, {"id": 4, "s": "50_ \\x"}])
        ids = sa.select(table.c.id).order_by(table.c.id)
        assert connection.scalars(ids.limit(2).offset(1)).all() == [2, 3]
        assert connection.scalars(ids.offset(3)).all() == [4]
        assert connection.scalars(ids.where(table.c.id.in_([1, 4, 9]))).all() == [1, 4]
        assert connection.scalars(ids.where(table.c.id.in_([]))).all() == []
        assert connection.scalars(ids.where(table.c.s.contains("0% /", autoescape=True))).all() == [3]
        assert connection.scalars(ids.where(table.c.s.endswith("\\x", autoescape=True))).all() == [4]
        assert connection.scalars(ids.where(table.c.s.icontains("/X"))).all() == [3]
        assert connection.scalars(ids.where(table.c.s.regexp_match("^[ab]$"))).all() == [1, 2]
        changed = connection.execute(table.update().where(table.c.id > 2).values(s=table.c.s + "!"))
        assert changed.rowcount == 2


def test_orm(engine: sa.Engine) -> None:
    class Base(DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = "orm_orders"
        __table_args__ = {"lance_flight_partitioned_by": "bucket(4, id)"}  # noqa: RUF012
        id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
        name: Mapped[str]

    class Line(Base):
        __tablename__ = "orm_lines"
        id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
        order_id: Mapped[uuid.UUID] = mapped_column(sa.ForeignKey("orm_orders.id"))

    Base.metadata.create_all(engine)
    with Session(engine) as session:
        order = Order(name="first")
        session.add(order)
        session.flush()
        session.add(Line(id=1, order_id=order.id))
        session.commit()
        order.name = "second"
        session.commit()
        joined = sa.select(Order.name, Line.id).join(Line, Line.order_id == Order.id)
        assert session.execute(joined).all() == [("second", 1)]
        session.delete(order)
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Order)) == 0


def test_changes_of_several_rows_of_a_plain_table_run_in_turn_in_autocommit(engine: sa.Engine) -> None:
    table = numbered(engine, "in_turn")
    by_id = table.update().where(table.c.id == sa.bindparam("key")).values(s=sa.bindparam("new"))
    with engine.begin() as connection:
        done = connection.execute(by_id, [{"key": 1, "new": "x"}, {"key": 2, "new": "y"}, {"key": 9, "new": "z"}])
        assert done.rowcount == 2
        assert connection.execute(sa.select(table).order_by(table.c.id)).all() == [(1, "x"), (2, "y")]


@pytest.mark.parametrize("kind", [sa.Numeric(9, 2), sa.Float()], ids=["decimal", "float"])
def test_numbers_of_different_kinds_in_one_column(engine: sa.Engine, kind: Any) -> None:
    table = created(engine, f"mixed_{type(kind).__name__}".lower(), sa.Column("x", kind))
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"x": 1.25}, {"x": Decimal("2.5")}, {"x": 3}])
        assert sorted(connection.execute(sa.select(table.c.x)).scalars()) == [1.25, 2.5, 3]


def test_error_in_the_middle_of_a_stream_is_one_of_the_driver(engine: sa.Engine) -> None:
    with engine.connect() as connection, pytest.raises(OperationalError, match=r"\[query_failed\]"):
        connection.execute(sa.text("SELECT 1 / (x - 1) AS y FROM (VALUES (1)) AS v(x)")).all()


def test_errors_name_what_is_wrong(engine: sa.Engine) -> None:
    with engine.connect() as connection, pytest.raises(ProgrammingError, match=r"\[not_found\] no table 'nowhere'"):
        connection.execute(sa.text("SELECT * FROM nowhere"))
