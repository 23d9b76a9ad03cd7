"""ALTER TABLE, carried out."""

from __future__ import annotations

from lance_flight.catalog.directory import Root, TableName
from lance_flight.engine.alterations import Alteration, CreateTag, DropTag, Rollback
from lance_flight.engine.points import naming


def alter(root: Root, name: TableName, alteration: Alteration) -> None:
    """Change the history of a table."""
    table = root.table(name)
    match alteration:
        case CreateTag(tag, at):
            with naming(name, at):
                table.create_tag(tag, at)
        case DropTag(tag):
            table.drop_tag(tag)
        case Rollback(at):
            with naming(name, at):
                table.rollback(at)
