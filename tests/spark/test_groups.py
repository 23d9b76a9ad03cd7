"""Groups of partition-wise joins and aggregates, done one by one: the rows are those of the service's own SQL. No JVM runs here."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from lance_flight.errors import InvalidInput, NotFound, SchemaError
from lance_flight.planning.joins import NotCopartitioned
from lance_flight_client.spark import reading
from lance_flight_client.spark.options import ReadOptions
from lance_flight_client.spark.partition_wise import (
    GroupPlan,
    JoinTerms,
    aggregate_plan,
    join_plan,
    partition_wise_aggregate,
    partition_wise_join,
)

from tests.engine.database import Database

NONE: Any = None
"""No session: what is refused is refused before one is used."""


def planned(options: Mapping[str, str], **more: str) -> reading.DirectPlan:
    return reading.plan_direct(ReadOptions.parse({**options, **more}))


def rows(plan: GroupPlan | NotCopartitioned) -> list[str]:
    """The rows of all groups, each done by a process of its own."""
    assert isinstance(plan, GroupPlan)
    works = pickle.loads(pickle.dumps(plan.work))  # noqa: S301 - our own
    assert len(works) == len(plan.rows)
    batches = [batch for work in works for batch in work.batches()]
    assert all(batch.schema.equals(plan.carried) for batch in batches)
    return texts(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def texts(found: Any) -> list[str]:
    return sorted(map(repr, map(tuple, found)))


ON = [("customer", "customer")]
SIDES = "FROM shop_orders l {} shop_customers r ON l.customer = r.customer"
OUTER = "SELECT coalesce(l.customer, r.customer), l.id, l.total, r.name"
JOINS = {
    "inner": f"SELECT l.customer, l.id, l.total, r.name {SIDES.format('JOIN')}",
    "left": f"SELECT l.customer, l.id, l.total, r.name {SIDES.format('LEFT JOIN')}",
    "right": f"SELECT r.customer, l.id, l.total, r.name {SIDES.format('RIGHT JOIN')}",
    "full": f"{OUTER} {SIDES.format('FULL JOIN')}",
    "semi": f"SELECT l.customer, l.id, l.total {SIDES.format('LEFT SEMI JOIN')}",
    "anti": f"SELECT l.customer, l.id, l.total {SIDES.format('LEFT ANTI JOIN')}",
}


@pytest.mark.parametrize("columns", [None, ["total", "customer"]], ids=["all", "chosen"])
@pytest.mark.parametrize("how", JOINS)
def test_a_join_in_groups_is_the_join(
    database: Database, shop: Mapping[str, Mapping[str, str]], how: str, columns: Sequence[str] | None
) -> None:
    terms = JoinTerms(ON, how, is_using=True, columns=columns)
    found = join_plan(planned(shop["orders"]), planned(shop["customers"]), terms)
    expected = database.query(JOINS[how])
    names = ["customer", "id", "total", "name"][: expected.num_columns]
    chosen = expected.rename_columns(names).select([name for name in names if columns is None or name in columns])
    assert rows(found) == texts(row.values() for row in chosen.to_pylist())
    assert isinstance(found, GroupPlan)
    assert found.carried.names == chosen.column_names


def test_filters_and_missing_groups(database: Database, shop: Mapping[str, Mapping[str, str]]) -> None:
    terms = JoinTerms(ON, "inner", is_using=True, columns=["id", "name"])
    some = planned(shop["customers"], filter="name > 'c3'", columns="name, customer")
    expected = database.rows(f"SELECT l.id, r.name {SIDES.format('JOIN')} WHERE r.name > 'c3'")
    assert rows(join_plan(planned(shop["orders"]), some, terms)) == texts(expected)
    nothing = planned(shop["customers"], filter="customer = 21 AND customer = 22")
    assert rows(join_plan(planned(shop["orders"]), nothing, terms)) == []


def test_a_group_by_in_groups_is_the_group_by(database: Database, shop: Mapping[str, Mapping[str, str]]) -> None:
    named = [("n", "id", "count"), ("most", "total", "max"), ("all", "total", "sum"), ("avg", "total", "mean")]
    found = aggregate_plan(planned(shop["orders"]), ["customer"], named)
    sql = "SELECT customer, count(id), max(total), sum(total), avg(total) FROM shop_orders GROUP BY customer"
    assert rows(found) == texts(database.rows(sql))
    other = aggregate_plan(planned(shop["orders"]), ["total"], named[:1])
    assert isinstance(other, NotCopartitioned)
    assert other.why == "shop_orders has no partition field of total alone"


def test_what_cannot_be_is_refused(shop: Mapping[str, Mapping[str, str]]) -> None:
    with pytest.raises(NotFound, match="outwards"):
        partition_wise_join(NONE, shop["orders"], shop["customers"], "customer", "outwards")
    with pytest.raises(NotFound, match="custommer"):
        partition_wise_join(NONE, shop["orders"], shop["customers"], "custommer")
    with pytest.raises(SchemaError, match="'id' is there twice"):
        partition_wise_join(NONE, shop["orders"], shop["orders"], "customer")
    with pytest.raises(InvalidInput, match="expected two that differ"):
        partition_wise_join(NONE, shop["orders"], shop["orders"], "customer", suffixes=("_x", "_X"))
    with pytest.raises(InvalidInput, match="expected the option 'root'"):
        partition_wise_join(NONE, {"uri": "grpc://127.0.0.1:1", "table": "t"}, shop["orders"], "customer")
    with pytest.raises(InvalidInput, match="tasks is 0"):
        partition_wise_join(NONE, shop["orders"], shop["customers"], "customer", tasks=0)
    with pytest.raises(InvalidInput, match="on is empty"):
        partition_wise_join(NONE, shop["orders"], shop["customers"], [])
    with pytest.raises(NotFound, match="median"):
        partition_wise_aggregate(NONE, shop["orders"], "customer", {"m": ("total", "median")})
