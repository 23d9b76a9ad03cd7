"""The architecture as a table: who may import whom, and which library belongs to which layer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
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
    "lance_flight.arrow_streams": set(),
    "lance_flight.audit": {"lance_flight.errors", "lance_flight.lru_cache"},
    "lance_flight.allocators": set(),
    "lance_flight.backend_values": set(),
    "lance_flight.connections": set(),
    "lance_flight.errors": set(),
    "lance_flight.faults": set(),
    "lance_flight.lru_cache": set(),
    "lance_flight.machine": set(),
    "lance_flight.signal_event": set(),
    "lance_flight.thread_states": set(),
    "lance_flight.file_reloading": {"lance_flight.errors"},
    "lance_flight.quantities": {"lance_flight.errors"},
    "lance_flight.config": {"lance_flight.errors"},
    "lance_flight.config_sources": {"lance_flight.config", "lance_flight.quantities", "lance_flight.errors"},
    "lance_flight.model": {"lance_flight.errors"},
    "lance_flight.planning": {"lance_flight.model", "lance_flight.errors"},
    "lance_flight.catalog": {
        "lance_flight.arrow_streams",
        "lance_flight.model",
        "lance_flight.errors",
        "lance_flight.faults",
        "lance_flight.lru_cache",
        "lance_flight.machine",
    },
    "lance_flight.engine": {
        "lance_flight.allocators",
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
        "lance_flight.thread_states",
        "lance_flight.file_reloading",
    },
    "lance_flight.flight": {
        "lance_flight.arrow_streams",
        "lance_flight.audit",
        "lance_flight.backend_values",
        "lance_flight.errors",
        "lance_flight.lru_cache",
        "lance_flight.signal_event",
        "lance_flight.thread_states",
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
    "lance_flight.admin": {"lance_flight.engine", "lance_flight.catalog", "lance_flight.errors"},
    "lance_flight.cli": {
        "lance_flight.audit",
        "lance_flight.config",
        "lance_flight.config_sources",
        "lance_flight.backend_values",
        "lance_flight.machine",
        "lance_flight.signal_event",
        "lance_flight.admin",
        "lance_flight.flight",
        "lance_flight.flight.engine_backend",
        "lance_flight.engine",
        "lance_flight.catalog",
        "lance_flight.errors",
        "lance_flight.file_reloading",
        "lance_flight_client",
        "lance_flight_client.console",
        "lance_flight_client.files",
    },
    "lance_flight_client": set(),
    # An unprivileged client: what it knows of a server it is told in SQL.
    "lance_flight_client.console": {"lance_flight_client", "lance_flight_client.files", "lance_flight.errors"},
    "lance_flight_client.flight": {"lance_flight_client", "lance_flight.errors"},
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
        "lance_flight.engine",
        "lance_flight.catalog",
        "lance_flight.planning",
        "lance_flight.model",
        "lance_flight.errors",
        "lance_flight.lru_cache",
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
    "lance_flight.catalog.namespace",
    "lance_flight.catalog.plain_table",
    "lance_flight.catalog.bulk",
    "lance_flight.catalog.evolving",
    "lance_flight.catalog.roots",
    "lance_flight.catalog.history",
    "lance_flight.catalog.maintenance",
    "lance_flight.catalog.backup",
)

# The packages of the engine, in the same way: a statement runs within them from its text to its changes.
ENGINE = (
    "lance_flight.engine.runtime",
    "lance_flight.engine.maintenance",
    "lance_flight.engine.sql",
    "lance_flight.engine.query",
    "lance_flight.engine.writes",
    "lance_flight.engine.statements",
    "lance_flight.engine.engine",
)

# Layer, and a layer below it → the only modules of that one which it may import.
DOORS = {
    # What is counted and logged, and nothing that does it.
    ("lance_flight.admin", "lance_flight.engine"): {
        "lance_flight.engine.runtime.running_statement",
        "lance_flight.engine.runtime.maintenance_records",
    },
    ("lance_flight.admin", "lance_flight.catalog"): {"lance_flight.catalog.commits.commit_counts"},
    ("lance_flight_client.dataset", "lance_flight.engine"): {
        "lance_flight.engine.sql.functions",
        "lance_flight.engine.query.scan_planning",
    },
    ("lance_flight_client.spark", "lance_flight.engine"): {
        "lance_flight.engine.sql.functions",
        "lance_flight.engine.query.scan_planning",
        # How a table that is made is partitioned is said in the words of SQL.
        "lance_flight.engine.writes.definitions",
        "lance_flight.engine.writes.partition_fields",
        # So is what a new column holds, and which tables are maintained.
        "lance_flight.engine.writes.column_changes",
        "lance_flight.engine.writes.computed_columns",
        # A catalog over a root runs the statements that a server would run.
        "lance_flight.engine.engine",
        # A table that a statement of Spark's makes is filled by its tasks before it is published.
        "lance_flight.engine.statements.unpublished_table",
    },
}

# Library → the only layers that may import it.
LIBRARIES = {
    "lance": {"lance_flight.catalog"},
    "datafusion": {"lance_flight.engine"},
    "mmh3": {"lance_flight.model"},
    "pyarrow.flight": {"lance_flight.flight", "lance_flight_client.flight", "lance_flight_client.spark"},
    "grpc": {"lance_flight.admin"},
    "grpc_health": {"lance_flight.admin"},
    "prometheus_client": {"lance_flight.admin"},
    "jwt": {"lance_flight.flight.identity"},
    # An extra: both are loaded only where traces are wanted.
    "opentelemetry": {"lance_flight.admin.tracing", "lance_flight.flight.tracing"},
    "cryptography": {"lance_flight.flight.tls"},
    "prompt_toolkit": {"lance_flight.cli.shell"},
    "pygments": {"lance_flight.cli.shell"},
    "pyspark": {"lance_flight_client.spark"},
    "starlette": {"lance_flight_client.console"},
    "uvicorn": {"lance_flight_client.console"},
    "jinja2": {"lance_flight_client.console"},
    "sqlalchemy": {"lance_flight_client.sqlalchemy"},
    "langchain_core": {"lance_flight_client.langchain"},
    # Not installed with the package: it is loaded where tensors are wanted.
    "torch": {"lance_flight_client.dataset.torch_loader"},
    # Extras: each is loaded where a table of its format is.
    "deltalake": {"lance_flight_client.files.lakehouse"},
    "pyiceberg": {"lance_flight_client.files.lakehouse"},
    # Lance describes the fields of a table in messages of its own.
    "google.protobuf": {"lance_flight.flight", "lance_flight.catalog.storage.lance_fields"},
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


MODULES = modules()


def imports(name: str) -> Iterator[str]:
    """Every module that `name` imports, those inside functions too."""
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(module: str) -> str:
    """The most specific layer that a module lies in."""
    inside = [layer for layer in LAYERS if module == layer or module.startswith(layer + ".")]
    return max(inside, key=len, default="")


def is_under(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


@pytest.mark.parametrize("name", [name for name in MODULES if name != "lance_flight"])
def test_a_module_imports_only_the_layers_below_its_own(name: str) -> None:
    layer = layer_of(name)
    assert layer, f"{name} lies in no layer"
    for target in imports(name):
        if target.split(".")[0] in SOURCES:
            other = layer_of(target)
            assert other in LAYERS[layer] | {layer}, f"{name} imports {target}"
            doors = DOORS.get((layer, other), {target})
            assert any(is_under(target, door) for door in doors), f"{name} imports {target}"


@pytest.mark.parametrize(
    ("packages", "name"),
    [
        pytest.param(packages, name, id=name)
        for layer, packages in (("lance_flight.catalog.", STORAGE), ("lance_flight.engine.", ENGINE))
        for name in MODULES
        if name.startswith(layer)
    ],
)
def test_the_packages_of_a_layer_build_on_one_another(packages: tuple[str, ...], name: str) -> None:
    (place,) = (number for number, package in enumerate(packages) if is_under(name, package))
    for target in imports(name):
        for package in packages[place + 1 :]:
            assert not is_under(target, package), f"{name} imports {target}"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_library_is_imported_by_its_own_layer_only(name: str) -> None:
    for target in imports(name):
        for library, owners in LIBRARIES.items():
            if is_under(target, library):
                assert any(is_under(name, owner) for owner in owners), f"{name} imports {target}"


TRANSFORMS = "lance_flight.model.transforms"
ANY_TRANSFORM = {f"{TRANSFORMS}.{name}" for name in ("TRANSFORMS", "Transform", "transform")}


@pytest.mark.parametrize("name", [name for name in MODULES if not is_under(name, TRANSFORMS)])
def test_no_module_asks_for_one_transform_among_others(name: str) -> None:
    for target in imports(name):
        is_any = target == TRANSFORMS or any(is_under(target, each) for each in ANY_TRANSFORM)
        assert is_any or not is_under(target, TRANSFORMS), (
            f"{name} imports {target}: what sets a transform apart is a member of `Rule`"
        )


def test_the_modules_import_each_other_without_cycles() -> None:
    graph = {name: {t for t in map(module_of, imports(name)) if t is not None and t != name} for name in MODULES}
    resolved: set[str] = set()
    while len(resolved) < len(graph):
        free = {name for name, targets in graph.items() if name not in resolved and targets <= resolved}
        assert free, f"a cycle among {sorted(set(graph) - resolved)}"
        resolved |= free


def module_of(target: str) -> str | None:
    """The module of ours that an imported name comes from."""
    return target if target in MODULES else MODULES.get(target.rpartition(".")[0]) and target.rpartition(".")[0]


@pytest.mark.parametrize(
    ("first", "reached"),
    [
        ("lance_flight.cli", "lance_flight_client.errors"),
        ("lance_flight.cli.serve", "lance_flight.config"),
        ("pyspark_lance_flight", "lance_flight_client.spark.options"),
    ],
)
def test_what_must_stay_light_loads_nothing_heavy(first: str, reached: str) -> None:
    loaded, waiting = set(), [first]
    while waiting:
        name = waiting.pop()
        for target in imports(name):
            assert not any(is_under(target, heavy) for heavy in HEAVY), f"{name} imports {target}"
            module = module_of(target)
            if module is not None and module not in loaded:
                loaded.add(module)
                waiting.append(module)
    assert reached in loaded


def test_no_test_module_imports_another() -> None:
    found = []
    for file in sorted((TOP / "tests").rglob("*.py")):
        # Programs that a test starts are strings in its text: their lines count as well.
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if re.match(r"\s*(from|import) (tests\.)?([a-z_.]+\.)?test_|\s*from tests[a-z_.]* import .*\btest_", line):
                found.append(f"{file.relative_to(TOP)}:{number}: {line.strip()}")
    assert not found, "move what they share into a module named after what it holds: " + "; ".join(found)
