"""The architecture as a table: who may import whom, and which library belongs to which layer."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
SOURCES = {
    "lance_flight": TOP / "server",
    "lance_flight_client": TOP / "client",
    "pyspark_lance_flight": TOP / "client",
}

# Layer → what it may import of ours, beside itself. Imports only go down.
LAYERS = {
    "lance_flight.__main__": set(),
    "lance_flight.audit": {"lance_flight.errors", "lance_flight.lru_cache"},
    "lance_flight.backend_values": set(),
    "lance_flight.connections": set(),
    "lance_flight.arrow_streams": set(),
    "lance_flight.errors": set(),
    "lance_flight.faults": set(),
    "lance_flight.lru_cache": set(),
    "lance_flight.machine": set(),
    "lance_flight.protobuf_wire": set(),
    "lance_flight.threads": set(),
    "lance_flight.file_reloading": {"lance_flight.errors"},
    "lance_flight.quantities": {"lance_flight.errors"},
    "lance_flight.config": {"lance_flight.quantities", "lance_flight.errors"},
    "lance_flight.model": {"lance_flight.errors", "lance_flight.threads"},
    "lance_flight.planning": {"lance_flight.model", "lance_flight.errors"},
    "lance_flight.catalog": {
        "lance_flight.protobuf_wire",
        "lance_flight.arrow_streams",
        "lance_flight.model",
        "lance_flight.errors",
        "lance_flight.faults",
        "lance_flight.lru_cache",
        "lance_flight.machine",
    },
    "lance_flight.engine": {
        "lance_flight.protobuf_wire",
        "lance_flight.arrow_streams",
        "lance_flight.audit",
        "lance_flight.backend_values",
        "lance_flight.catalog",
        "lance_flight.connections",
        "lance_flight.planning",
        "lance_flight.model",
        "lance_flight.errors",
        "lance_flight.faults",
        "lance_flight.lru_cache",
        "lance_flight.machine",
        "lance_flight.quantities",
        "lance_flight.threads",
        "lance_flight.file_reloading",
    },
    "lance_flight.flight": {
        "lance_flight.protobuf_wire",
        "lance_flight.connections",
        "lance_flight.arrow_streams",
        "lance_flight.audit",
        "lance_flight.backend_values",
        "lance_flight.errors",
        "lance_flight.lru_cache",
        "lance_flight.model",
        "lance_flight.threads",
        "lance_flight.file_reloading",
    },
    "lance_flight.flight.engine_backend": {
        "lance_flight.arrow_streams",
        "lance_flight.audit",
        "lance_flight.backend_values",
        "lance_flight.flight",
        "lance_flight.engine",
        "lance_flight.catalog",
        "lance_flight.errors",
    },
    "lance_flight.rest": {
        "lance_flight.audit",
        "lance_flight.backend_values",
        "lance_flight.connections",
        "lance_flight.engine",
        "lance_flight.errors",
        "lance_flight.flight",
        "lance_flight.lru_cache",
        "lance_flight.model",
    },
    "lance_flight.admin": {
        "lance_flight.connections",
        "lance_flight.engine",
        "lance_flight.catalog",
        "lance_flight.errors",
        "lance_flight.file_reloading",
    },
    "lance_flight.serving": {
        "lance_flight.connections",
        "lance_flight.audit",
        "lance_flight.config",
        "lance_flight.backend_values",
        "lance_flight.machine",
        "lance_flight.threads",
        "lance_flight.admin",
        "lance_flight.flight",
        "lance_flight.flight.engine_backend",
        "lance_flight.rest",
        "lance_flight.engine",
        "lance_flight.catalog",
        "lance_flight.errors",
        "lance_flight.file_reloading",
    },
    "lance_flight_client": set(),
    # An unprivileged client: what it knows of a server it is told in SQL.
    "lance_flight_client.console": {
        "lance_flight_client",
        "lance_flight_client.files",
        "lance_flight.errors",
        "lance_flight.model",
    },
    # So are the tools of an assistant.
    "lance_flight_client.mcp": {"lance_flight_client", "lance_flight_client.console", "lance_flight.model"},
    "lance_flight_client.flight": {"lance_flight_client", "lance_flight.errors", "lance_flight.protobuf_wire"},
    "lance_flight_client.files": {"lance_flight_client", "lance_flight.model", "lance_flight.errors"},
    # A program reads a root by itself, with the storage library.
    "lance_flight_client.dataset": {
        "lance_flight_client",
        "lance_flight_client.flight",
        "lance_flight.engine",
        "lance_flight.catalog",
        "lance_flight.planning",
        "lance_flight.model",
        "lance_flight.errors",
    },
    # So do Spark's executors, which also write.
    "lance_flight_client.spark": {
        "lance_flight_client",
        "lance_flight_client.flight",
        "lance_flight_client.dataset",
        # What may not stand among the arguments of a process.
        "lance_flight.config",
        "lance_flight.engine",
        "lance_flight.catalog",
        "lance_flight.planning",
        "lance_flight.model",
        "lance_flight.errors",
        "lance_flight.lru_cache",
    },
    # One command for all: it speaks to servers, starts one, and works on a root with the storage library.
    "lance_flight_client.cli": {
        "lance_flight_client",
        "lance_flight_client.console",
        "lance_flight_client.files",
        "lance_flight.serving",
        "lance_flight.admin",
        "lance_flight.backend_values",
        "lance_flight.catalog",
        "lance_flight.config",
        "lance_flight.connections",
        "lance_flight.engine",
        "lance_flight.errors",
        "lance_flight.flight",
        "lance_flight.machine",
        "lance_flight.model",
        "lance_flight.quantities",
        "lance_flight.threads",
    },
    "pyspark_lance_flight": {"lance_flight_client.spark"},
}

# The packages of the storage library, each of which imports those above it alone.
STORAGE = (
    "lance_flight.catalog.storage",
    "lance_flight.catalog.manifests",
    "lance_flight.catalog.tables",
    "lance_flight.catalog.search",
    "lance_flight.catalog.commits",
    "lance_flight.catalog.table",
    "lance_flight.catalog.plain_table",
    "lance_flight.catalog.bulk",
    "lance_flight.catalog.schema_evolution",
    "lance_flight.catalog.publication",
    "lance_flight.catalog.roots",
    "lance_flight.catalog.history",
    "lance_flight.catalog.maintenance",
    "lance_flight.catalog.backup",
)

# The packages of the engine, in the same way: a statement runs within them from its text to its changes.
ENGINE = (
    "lance_flight.engine.runtime",
    "lance_flight.engine.sql",
    "lance_flight.engine.functions",
    "lance_flight.engine.dialects",
    "lance_flight.engine.compat",
    "lance_flight.engine.translation",
    "lance_flight.engine.plans",
    "lance_flight.engine.query.tables",
    "lance_flight.engine.query.access",
    "lance_flight.engine.query.policy_file",
    "lance_flight.engine.query.statement_context",
    "lance_flight.engine.query.named_tables",
    "lance_flight.engine.query.information_schema",
    "lance_flight.engine.query.plan_rebuilding",
    "lance_flight.engine.query.optimiser",
    "lance_flight.engine.query.runner",
    "lance_flight.engine.query.search",
    "lance_flight.engine.query.frame_planner",
    "lance_flight.engine.query.session",
    "lance_flight.engine.query.partition_wise",
    "lance_flight.engine.query",
    "lance_flight.engine.writes",
    "lance_flight.engine.operations",
    "lance_flight.engine.statements",
    "lance_flight.engine.engine",
)

# The storage library for those who read and write a root without a server.
STORAGE_DOOR = {
    f"lance_flight.catalog.{name}"
    for name in (
        "bulk.pieces",
        "bulk.shared_writes",
        "commits.once",
        "commits.writer",
        "history",
        "manifests.snapshot",
        "plain_table",
        "roots.directory",
        "storage.lance_columns",
        "storage.leases",
        "storage.store",
        "table",
        "tables.partitions",
        "tables.rows",
        "tables.scan",
        "tables.schema_adapter",
        "tables.sources",
    )
}

# Layer, and a layer below it → the only modules of that one which it may import.
DOORS = {
    ("lance_flight.flight", "lance_flight.model"): {"lance_flight.model.type_names"},
    ("lance_flight_client.dataset", "lance_flight.catalog"): STORAGE_DOOR,
    ("lance_flight_client.spark", "lance_flight.catalog"): STORAGE_DOOR,
    # Commands also copy, restore and diagnose whole roots.
    ("lance_flight_client.cli", "lance_flight.catalog"): STORAGE_DOOR
    | {
        "lance_flight.catalog.backup",
        "lance_flight.catalog.maintenance.diagnosis",
        "lance_flight.catalog.storage.formats",
    },
    ("lance_flight_client.cli", "lance_flight.model"): {
        "lance_flight.model.operations",
        "lance_flight.model.type_names",
    },
    # Requests become statements of SQL: how names and texts are quoted, and nothing that runs one.
    ("lance_flight.rest", "lance_flight.engine"): {
        "lance_flight.engine.sql.references",
        "lance_flight.engine.sql.tokens",
    },
    # The names of types, as SQL has them.
    ("lance_flight_client.console", "lance_flight.model"): {"lance_flight.model.type_names"},
    ("lance_flight_client.mcp", "lance_flight.model"): {"lance_flight.model.type_names"},
    ("lance_flight_client.mcp", "lance_flight_client.console"): {
        "lance_flight_client.console.queries",
        "lance_flight_client.console.tables",
    },
    # What is counted and logged, and nothing that does it.
    ("lance_flight.admin", "lance_flight.engine"): {
        "lance_flight.engine.runtime.running_statement",
    },
    ("lance_flight.admin", "lance_flight.catalog"): {
        "lance_flight.catalog.storage.filesystems",
    },
    ("lance_flight_client.dataset", "lance_flight.engine"): {
        "lance_flight.engine.translation.evaluation",
        "lance_flight.engine.query.scan_planning",
    },
    ("lance_flight_client.spark", "lance_flight.engine"): {
        "lance_flight.engine.translation.evaluation",
        "lance_flight.engine.query.scan_planning",
        # How a table that is made is partitioned is said in the words of SQL.
        "lance_flight.engine.writes.definitions",
        # So is what a new column holds, and which tables are maintained.
        "lance_flight.engine.operations",
        "lance_flight.engine.writes.column_changes",
        "lance_flight.engine.writes.computed_columns",
        # A catalog over a root runs the statements that a server would run.
        "lance_flight.engine.engine",
        # A table that a statement of Spark's makes is filled by its tasks before it is published.
        "lance_flight.engine.statements.parsing",
        # What a server shows of a table is its definition, and its properties are options of its maintenance.
        "lance_flight.engine.statements.create_table",
        # A write through a server has the columns after an ALTER TABLE that it is going to make.
        "lance_flight.engine.statements.alter_columns",
    },
}

# Library → the only layers that may import it.
LIBRARIES = {
    "lance": {"lance_flight.catalog"},
    "obstore": {"lance_flight.catalog.storage.filesystems"},
    "datafusion": {"lance_flight.engine"},
    "mmh3": {"lance_flight.model"},
    "pyarrow.flight": {"lance_flight.flight", "lance_flight_client.flight", "lance_flight_client.spark"},
    "grpc": {"lance_flight.admin", "lance_flight.flight.grpc_server"},
    "grpc_health": {"lance_flight.admin"},
    "prometheus_client": {"lance_flight.admin"},
    "jwt": {"lance_flight.flight.json_web_tokens"},
    # An extra: both are loaded only where traces are wanted.
    "opentelemetry": {"lance_flight.admin.tracing", "lance_flight.flight.tracing"},
    "cryptography": {"lance_flight.flight.tls"},
    "prompt_toolkit": {"lance_flight_client.cli.shell"},
    "pygments": {"lance_flight_client.cli.shell"},
    "pyspark": {"lance_flight_client.spark"},
    "starlette": {"lance_flight_client.console", "lance_flight.rest", "lance_flight_client.mcp"},
    "uvicorn": {"lance_flight_client.console", "lance_flight.rest", "lance_flight_client.mcp"},
    "anyio": {"lance_flight.rest"},
    "h11": {"lance_flight.rest"},
    "pydantic": {"lance_flight.rest", "lance_flight_client.mcp"},
    "lance_namespace_urllib3_client": {"lance_flight.rest"},
    "jinja2": {"lance_flight_client.console"},
    "mcp": {"lance_flight_client.mcp"},
    "sqlalchemy": {"lance_flight_client.sqlalchemy"},
    "langchain_core": {"lance_flight_client.langchain"},
    # Not installed with the package: it is loaded where tensors are wanted.
    "torch": {"lance_flight_client.dataset.torch_loader"},
    # Extras: each is loaded where a table of its format is.
    "deltalake": {"lance_flight_client.files.lakehouse"},
    "pyiceberg": {"lance_flight_client.files.lakehouse"},
    "python_calamine": {"lance_flight_client.files.sniffing"},
    # Lance describes the fields of a table in messages of its own; a plan of Substrait is one.
    "google.protobuf": {
        "lance_flight.flight",
        "lance_flight.catalog.storage.whole_files",
        "lance_flight.catalog.storage.table_versions",
        "lance_flight.engine.translation.substrait",
    },
    "adbc_driver_flightsql": {"lance_flight_client"},
    "adbc_driver_manager": {"lance_flight_client"},
}

# What `--help` loads must stay light, and what processes of Spark load that fork others.
HEAVY = {"lance", "datafusion", "pyarrow", "numpy", "adbc_driver_flightsql", "google.protobuf"}


def modules() -> dict[str, Path]:
    found = {}
    for package, base in SOURCES.items():
        for file in sorted((base / package).rglob("*.py")):
            if not file.name.endswith("_pb2.py"):
                name = ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
                found[name] = file
    return found


def imported_by(file: Path) -> Iterator[str]:
    """Every module that a file imports, those inside functions too."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


MODULES = modules()
FACADE = "lance_flight"
"""The package itself: it has the product's name, and hands out what lies in other layers."""


@pytest.fixture(scope="module")
def imports() -> Mapping[str, Sequence[str]]:
    """Module → what it imports."""
    return {name: tuple(imported_by(file)) for name, file in MODULES.items()}


Imports = Mapping[str, Sequence[str]]


def layer_of(module: str) -> str:
    """The most specific layer that a module lies in."""
    inside = [layer for layer in LAYERS if is_under(module, layer)]
    return max(inside, key=len, default="")


def is_under(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def module_of(target: str) -> str | None:
    """The module of ours that an imported name comes from."""
    parent = target.rpartition(".")[0]
    return next((name for name in (target, parent) if name in MODULES), None)


def test_every_module_lies_in_a_layer() -> None:
    assert [name for name in MODULES if name != FACADE and not layer_of(name)] == []


def test_modules_import_only_the_layers_below_their_own(imports: Imports) -> None:
    offences = []
    for name, targets in imports.items():
        layer = layer_of(name)
        for target in targets:
            if name != FACADE and target.split(".")[0] in SOURCES:
                other = layer_of(target)
                doors = DOORS.get((layer, other), {target})
                may_import = other == layer or other in LAYERS.get(layer, ())
                if not may_import or not any(is_under(target, door) for door in doors):
                    offences.append(f"{name} imports {target}")
    assert offences == []


def place_in(packages: Sequence[str], module: str) -> int:
    """The place of the most specific package that a module lies in; -1 for one of another layer."""
    inside = [package for package in packages if is_under(module, package)]
    return packages.index(max(inside, key=len)) if inside else -1


def test_packages_of_a_layer_build_on_one_another(imports: Imports) -> None:
    offences = []
    for layer, packages in (("lance_flight.catalog.", STORAGE), ("lance_flight.engine.", ENGINE)):
        for name in (name for name in MODULES if name.startswith(layer)):
            place = place_in(packages, name)
            offences += [f"{name} imports {target}" for target in imports[name] if place_in(packages, target) > place]
    assert offences == []


def test_libraries_are_imported_by_their_own_layers_only(imports: Imports) -> None:
    offences = [
        f"{name} imports {target}"
        for name, targets in imports.items()
        for target in targets
        for library, owners in LIBRARIES.items()
        if is_under(target, library) and not any(is_under(name, owner) for owner in owners)
    ]
    assert offences == []


TRANSFORMS = "lance_flight.model.transforms"
ANY_TRANSFORM = {f"{TRANSFORMS}.{name}" for name in ("TRANSFORMS", "Transform", "Rule", "Nulls")}


def test_no_module_asks_for_one_transform_among_others(imports: Imports) -> None:
    """What sets a transform apart is a member of `Rule`."""
    offences = [
        f"{name} imports {target}"
        for name, targets in imports.items()
        for target in targets
        if is_under(target, TRANSFORMS)
        and not is_under(name, TRANSFORMS)
        and target != TRANSFORMS
        and target not in ANY_TRANSFORM
    ]
    assert offences == []


def test_modules_import_each_other_without_cycles(imports: Imports) -> None:
    graph = {name: {module_of(target) for target in targets} - {None, name} for name, targets in imports.items()}
    resolved: set[str | None] = set()
    while len(resolved) < len(graph):
        free = {name for name, targets in graph.items() if name not in resolved and targets <= resolved}
        assert free, f"a cycle among {sorted(set(graph) - resolved)}"
        resolved |= free


@pytest.mark.parametrize(
    ("first", "reached"),
    [
        ("lance_flight_client.cli", "lance_flight_client.errors"),
        ("lance_flight_client.cli.serve", "lance_flight.config"),
        ("pyspark_lance_flight", "lance_flight_client.spark.options"),
    ],
)
def test_light_modules_load_nothing_heavy(imports: Imports, first: str, reached: str) -> None:
    loaded, waiting = set(), [first]
    while waiting:
        name = waiting.pop()
        for target in imports[name]:
            assert not any(is_under(target, heavy) for heavy in HEAVY), f"{name} imports {target}"
            module = module_of(target)
            if module is not None and module not in loaded:
                loaded.add(module)
                waiting.append(module)
    assert reached in loaded
