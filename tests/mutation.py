"""Measure which small errors in the product code the tests find.

`uv run python -m tests.mutation` makes mutants of the modules of `AREAS`, one at a time, and runs the tests of the area until
one fails. A mutant that no test kills is equivalent, or shows a missing test.

`--only` and `--area` choose mutants. `--count` takes more or fewer of each area, `--seed` others. `--record` writes the results, and goes on with a record that is there.
`--full` also runs the survivors against whole directories, without sampling. `--checkout` patches and tests another checkout, with its own
environment. `--killers` repeats the mutants of a record, and runs the test that killed each of them first.

Each line of tests runs in a process that is forked from one which has imported everything but the product: that saves seconds each time.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import re
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from zlib import crc32

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

PACKAGE = "server/lance_flight"
PRELOADED = "numpy pandas pyarrow.compute pyarrow.dataset pyarrow.flight lance datafusion grpc hypothesis xdist.plugin"
"""Foreign modules that the process has imported before it forks others: what starts no threads of its own."""
HANGING = 150
"""Seconds after which a test hangs."""
COLLECTING = 600.0
BASELINE = 1200.0
"""Seconds for the tests of an area that nothing was done to."""
TIME_LIMIT = "time limit"
"""What is recorded as killer of a mutant that was not decided in time."""
USAGE, NO_CASES = 4, 5
"""Exit codes of pytest where it is called wrongly, and where no case is left."""


@dataclass(frozen=True, kw_only=True)
class Area:
    """Modules to mutate, and the tests that guard them."""

    count: int
    modules: str
    """Modules below the package, each with its functions behind a colon where not all are meant."""
    tests: str
    """Test modules or directories below `tests/`: a line for each process, the quickest and likeliest killers first."""
    further: str
    """What is run against survivors too, all cases of it."""


AREAS: dict[str, Area] = {
    "commits": Area(
        count=22,
        modules="""
            catalog/commits/commit.py catalog/commits/transaction.py
            catalog/manifests/manifest.py catalog/manifests/manifest_rows.py
            catalog/manifests/version_log.py:commit,evolve,transactions_of,find_commit
        """,
        tests="""
            catalog/test_staging catalog/test_commit_ids catalog/test_dropped_meanwhile catalog/test_attachments
            catalog/test_conflicts catalog/test_compaction catalog/test_kept_tables catalog/test_dropped_partitions catalog/test_rollback
            catalog/test_small_appends catalog/test_commit catalog/test_stateful catalog/test_rows
            faults/test_lost_answers service/test_transactions
        """,
        further="""
            catalog
            faults service/test_transactions engine/test_transactions service/test_many_writers
        """,
    ),
    "conflict checks": Area(
        count=24,
        modules="""
            catalog/commits/commit.py catalog/publication.py:difference,is_same,_tables_at,refuse,merged_specs
            catalog/manifests/version_log.py:between,_differing_rows,_ours,commit,evolve,reservation_of,wait_for_release,reserve_turn
        """,
        tests="""
            catalog/test_reservations catalog/test_dropped_meanwhile catalog/test_commit_ids catalog/test_rollback
            catalog/test_conflicts catalog/test_compaction catalog/test_staging engine/test_branch_evolution catalog/test_branches
            catalog/test_commit engine/test_branches catalog/test_stateful service/test_transactions
        """,
        further="""
            catalog
            service/test_transactions engine/test_transactions engine/test_branches faults
        """,
    ),
    "expiry": Area(
        count=10,
        modules="""
            catalog/maintenance/vacuum.py catalog/storage/leases.py
        """,
        tests="""
            catalog/test_leases
            catalog/test_vacuum
            catalog/test_private_places roots/test_formats faults/test_wrong_clocks
        """,
        further="""
            catalog/test_leases catalog/test_vacuum catalog/test_private_places
            catalog faults/test_wrong_clocks
        """,
    ),
    "vacuum": Area(
        count=15,
        modules="""
            catalog/maintenance/vacuum.py
        """,
        tests="""
            catalog/test_vacuum
            catalog/test_leases catalog/test_stateful catalog/test_shared_writes engine/test_maintenance hostile/test_links
        """,
        further="""
            catalog/test_vacuum
            catalog engine/test_maintenance engine/test_branches faults/test_killed_at_random
        """,
    ),
    "pruning": Area(
        count=25,
        modules="""
            planning/pruning.py planning/constraints.py
            planning/partitions.py planning/preimages.py
            planning/predicates.py model/domains.py
        """,
        tests="""
            planning/test_pruning_tables planning/test_pruning_namespaces planning/test_predicates planning/test_pruning_computed
            planning/test_transform_rules planning/test_pruning_certain planning/test_pruning_certain planning/test_pruning_together
            planning/test_predicates planning/test_pruning_property planning/test_pruning_minimal planning/test_pruning_zones planning/test_index_filters
            engine/test_join_order engine/test_computed_conditions
        """,
        further="""
            planning
            engine/test_evolved_specs engine/test_computed_conditions
        """,
    ),
    "transforms": Area(
        count=20,
        modules="""
            model/transforms.py model/hashing.py
            model/zones.py
        """,
        tests="""
            model/test_transforms model/test_hashing model/test_zones
            planning/test_transform_rules planning/test_pruning_tables planning/test_joins planning/test_pruning_property
            planning/test_joins_property planning/test_pruning_minimal planning/test_pruning_zones model/test_partition_spec
        """,
        further="""
            model planning
            engine/test_hash_functions engine/test_widened_partition_columns engine/test_expressions
        """,
    ),
    "tickets": Area(
        count=10,
        modules="""
            flight/tickets.py flight/actions.py
        """,
        tests="""
            flight/test_flight_tickets flight/test_flight_sessions flight/test_flight_endpoints flight/test_flight_handshakes
            service/test_moved_sessions service/test_endpoints
            flight/test_flight_server service/test_two_servers
        """,
        further="""
            flight
            service/test_endpoints service/test_sessions service/test_moved_sessions
        """,
    ),
    "policies": Area(
        count=15,
        modules="""
            engine/query/access.py
        """,
        tests="""
            engine/test_reading_sessions engine/test_introspection
            engine/test_policies engine/test_column_policies
            engine/test_rights_to_rows engine/test_maintenance
            service/test_policies service/test_audit
        """,
        further="""
            engine/test_policies engine/test_column_policies engine/test_rights_to_rows
            service/test_policies engine
        """,
    ),
    "row path": Area(
        count=15,
        modules="""
            engine/writes/row_changes.py
            engine/writes/ingest.py engine/statements/row_changes.py
            engine/statements/insert.py catalog/commits/writer.py
        """,
        tests="""
            engine/test_merge_keys engine/test_parameters engine/test_partition_changes
            engine/test_row_changes
            engine/test_insert differential/test_changes
        """,
        further="""
            engine/test_row_changes engine/test_insert
            engine engine/test_partition_evolution
        """,
    ),
}

LEFT_OUT = {
    "catalog/commits/commit.py:Commits.commit:1:drop-call": "nothing commits",
    "catalog/commits/transaction.py:Staging._stage:12:negate-comparison": "nothing commits",
    "catalog/commits/transaction.py:Staging.rows:2:negate-if": "nothing commits",
    "catalog/commits/transaction.py:_targets:1:drop-call": "nothing commits",
    "catalog/manifests/manifest.py:manifest_schema:1:drop-element": "nothing commits",
    "engine/statements/insert.py:Insert._check_width:1:negate-comparison": "nothing is inserted",
    "engine/writes/row_changes.py:merge_query:1:drop-element": "nothing is merged",
    "flight/tickets.py:TicketSealer._seal:4:drop-right": "nothing is read",
    "model/hashing.py:murmur3:1:move-bound": "speed alone",
    "model/zones.py:in_zone:1:add-one": "the value is NULL afterwards",
    "planning/constraints.py:_few:1:move-bound": "speed alone",
}
"""Mutants that every test kills, or none can."""

SPEED = re.compile(r"cache|kept_|__repr__|__str__|__enter__|__exit__|Report")
"""Functions that are not mutated."""
UNTOUCHED = re.compile(r"^(log\.|logging\.|failpoint|commit_counts|warnings\.)")
"""Calls that are not mutated."""
ARGUMENTS_OF_CHECKS = {"strict", "copy", "zero_copy_only", "frozen", "slots", "kw_only", "assume_unique"}
"""Keyword arguments whose flag changes no result."""

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
NEGATIONS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
COARSE = ("negate-if", "negate-comparison", "negate-return", "return-none", "drop-not")
"""Operators whose mutants most tests notice; they are chosen less often."""
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One edit of one module."""

    id: str
    area: str
    file: str
    line: int
    begin: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.begin] + self.text.encode() + source[self.end :]

    def difference(self, source: bytes) -> tuple[str, str]:
        """Return the changed line, before and after."""
        start = source.rfind(b"\n", 0, self.begin) + 1
        stop = source.find(b"\n", self.end)
        tail = source[self.end : stop].decode()
        first = source[start : self.begin].decode()
        return source[start:stop].decode().strip(), (first + self.text + tail).strip()


Edit = tuple[str, ast.AST, str]
"""The name of an operator, the node that it replaces, and the new text."""


def edits_of(node: ast.AST, function: ast.FunctionDef) -> Iterator[Edit]:  # noqa: C901, PLR0912 - a case for each operator
    """Yield the mutations of one node."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not _is_negated_elsewhere(test):
            yield "negate-if", test, f"(not ({ast.unparse(test)}))"
        case ast.comprehension(ifs=ifs):
            yield from (("drop-filter", test, "True") for test in ifs)
        case ast.match_case(guard=ast.expr() as guard):
            yield "negate-guard", guard, f"(not ({ast.unparse(guard)}))"
        case ast.Compare(left=left, ops=ops, comparators=others):
            for place, op in enumerate(ops):
                changed = [*ops[:place], COMPARISONS[type(op)](), *ops[place + 1 :]]
                name = "negate-comparison" if isinstance(op, NEGATIONS) else "move-bound"
                yield name, node, f"({ast.unparse(ast.Compare(left, changed, others))})"
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and-or", node, f"({ast.unparse(ast.BoolOp(other, values))})"
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            yield "drop-not", node, f"({ast.unparse(operand)})"
        case ast.BinOp(left=left, op=ast.Sub() | ast.Add()):
            yield "drop-right", node, f"({ast.unparse(left)})"
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() as op, right=right):
            swapped = ast.BitOr() if isinstance(op, ast.BitAnd) else ast.BitAnd()
            yield "swap-bits", node, f"({ast.unparse(ast.BinOp(left, swapped, right))})"
        case ast.Call(func=ast.Name(id=name) as called) if name in NAMES:
            yield "swap-name", called, NAMES[name]
        case ast.Constant(value=bool() as value):
            yield "flip", node, str(not value)
        case ast.Constant(value=int() as value):
            yield "add-one", node, str(value + 1)
        case ast.Expr(value=ast.Call(func=called)) if not UNTOUCHED.match(ast.unparse(called)):
            yield "drop-call", node, "pass"
        case ast.AugAssign():
            yield "drop-update", node, "pass"
        case ast.Raise(exc=ast.expr() as error) if "AssertionError" not in ast.unparse(error):
            yield "drop-raise", node, "pass"
        case ast.Return(value=ast.expr() as value) if function.returns:
            kind = ast.unparse(function.returns)
            if kind == "bool" and not isinstance(value, ast.Constant) and not _is_negated_elsewhere(value):
                yield "negate-return", value, f"(not ({ast.unparse(value)}))"
            elif "None" in kind and not isinstance(value, ast.Constant):
                yield "return-none", value, "None"


def _is_negated_elsewhere(test: ast.expr) -> bool:
    """Return whether another operator negates a condition already."""
    is_comparison = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], NEGATIONS)
    return is_comparison or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def shortened(node: ast.AST) -> Iterator[Edit]:
    """Yield the mutations that leave one element out of a collection which `node` looks through."""
    match node:
        case ast.For(iter=found) | ast.comprehension(iter=found) | ast.Compare(comparators=[found]):
            pass
        case ast.ExceptHandler(type=ast.expr() as found) | ast.Assign(targets=[ast.Name()], value=found):
            pass
        case ast.Call(func=ast.Name(id="all_of" | "any_of" | "And" | "Or"), args=[found]):
            pass
        case ast.List(elts=elements) if any(isinstance(each, ast.Starred) for each in elements):
            found = node
        case ast.Set():
            found = node
        case _:
            return
    if isinstance(found, ast.Tuple | ast.List | ast.Set) and len(found.elts) > 1:
        kind = "[{}]" if isinstance(found, ast.List) else "({},)" if isinstance(found, ast.Tuple) else "{{{}}}"
        texts = [ast.unparse(each) for each in found.elts]
        for place in range(len(texts)):
            yield "drop-element", found, kind.format(", ".join(texts[:place] + texts[place + 1 :]))


def _parts(node: ast.AST) -> Iterable[ast.AST]:
    """Return the children of a node whose mutants matter: no annotations, texts, or messages of errors."""
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return node.body
        case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assert():
            return ()
        case ast.Call() if UNTOUCHED.match(ast.unparse(node.func)):
            return ()
        case ast.keyword() if node.arg in ARGUMENTS_OF_CHECKS:
            return ()
        case ast.Subscript(slice=ast.Constant()):
            return (node.value,)
        case ast.Assign() | ast.AnnAssign():
            return (node.value,) if node.value else ()
    return ast.iter_child_nodes(node)


def walk(node: ast.AST, path: str, function: ast.FunctionDef | None) -> Iterator[tuple[str, Edit]]:
    """Yield the mutations below a node, each with the name of the function that it lies in."""
    if function is not None:
        yield from ((path, edit) for edit in (*edits_of(node, function), *shortened(node)))
    for child in _parts(node):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield from walk(child, path, function)
        elif not SPEED.search(child.name):
            yield from walk(
                child, f"{path}.{child.name}".lstrip("."), child if isinstance(child, ast.FunctionDef) else None
            )


def mutants_of(checkout: Path, name: str, area: Area) -> list[Mutant]:
    """Return every mutant of an area."""
    found = []
    for wanted in area.modules.split():
        module, _, functions = wanted.partition(":")
        if not (checkout / PACKAGE / module).exists():
            continue
        source = (checkout / PACKAGE / module).read_bytes()
        starts = [0, *(match.end() for match in re.finditer(b"\n", source))]
        numbers: dict[str, int] = {}
        for function, (operator, node, text) in walk(ast.parse(source), "", None):
            if functions and function.rpartition(".")[2] not in functions.split(","):
                continue
            key = f"{module}:{function}:{operator}"
            numbers[key] = numbers.get(key, 0) + 1
            place: Any = node
            found.append(
                Mutant(
                    id=f"{module}:{function}:{numbers[key]}:{operator}",
                    area=name,
                    file=f"{PACKAGE}/{module}",
                    line=place.lineno,
                    begin=starts[place.lineno - 1] + place.col_offset,
                    end=starts[place.end_lineno - 1] + place.end_col_offset,
                    text=text,
                )
            )
    return [mutant for mutant in found if mutant.id not in LEFT_OUT]


def spread(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Choose mutants evenly from all functions, the same ones for the same seed."""
    by_function: dict[str, list[Mutant]] = {}
    for mutant in sorted(mutants, key=lambda mutant: _rank(mutant, seed)):
        by_function.setdefault(":".join(mutant.id.split(":")[:2]), []).append(mutant)
    ranked = [
        (place, _rank(mutant, seed), mutant) for some in by_function.values() for place, mutant in enumerate(some)
    ]
    return [mutant for _, _, mutant in sorted(ranked, key=lambda each: each[:2])][:count]


def _rank(mutant: Mutant, seed: int) -> int:
    return crc32(f"{seed}:{mutant.id}".encode()) * (6 if mutant.id.endswith(COARSE) else 1)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a mutant in some groups of tests; `killer` is the first case that failed."""

    killed: bool
    killer: str
    seconds: float


class Runner:
    """Runs the tests of one checkout against its mutants, each group in a process that is forked from this one."""

    def __init__(self, checkout: Path, known: Path | None) -> None:
        self.checkout = checkout
        self._output = Path(tempfile.mkstemp(prefix="mutation-", suffix=".log")[1])
        self._failed = self._output.with_suffix(".failed")
        if known is None or not known.exists():
            known = self._collect(known or self._output.with_suffix(".cases"))
        self.cases: dict[str, list[str]] = {}
        for case in known.read_text().splitlines():
            self.cases.setdefault(case.partition("::")[0], []).append(case)

    def _pytest(self, arguments: Sequence[str], limit: float, cases: Iterable[str] = ()) -> tuple[int | None, str]:
        """Run pytest; return its exit code (None at the time limit) and the first case that failed."""
        self._failed.write_text("")
        child = os.fork()
        if not child:
            self._run_in_child(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", *arguments], frozenset(cases))
        code, until = None, time.monotonic() + limit
        try:
            while code is None and time.monotonic() < until:
                time.sleep(0.02)
                done, status = os.waitpid(child, os.WNOHANG)
                code = os.waitstatus_to_exitcode(status) if done else None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            if code is None:
                os.waitpid(child, 0)
        return code, TIME_LIMIT if code is None else self._failed.read_text()

    def _run_in_child(self, arguments: list[str], cases: frozenset[str]) -> NoReturn:
        code = 1
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            output = os.open(self._output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.modules["__main__"] = ModuleType("__main__")  # which processes of tests would import again
            code = int(pytest.main(arguments, [Plugin(cases, self._failed)]))
            sys.stdout.flush()
        finally:
            os._exit(code)

    def _collect(self, file: Path) -> Path:
        """Write down the cases of a run without arguments."""
        code, _ = self._pytest(["--collect-only"], COLLECTING)
        cases = [line for line in self._output.read_text().splitlines() if "::" in line]
        if code or not cases:
            raise SystemExit(f"{self.checkout}: pytest --collect-only failed, see {self._output}")
        file.write_text("\n".join(cases))
        return file

    def modules(self, names: str) -> list[str]:
        """Return the collected modules of some names, which may be those of directories."""
        paths = [f"tests/{name}" for name in names.split()]
        found = [module for path in paths for module in self.cases if module == f"{path}.py" or f"{path}/" in module]
        return list(dict.fromkeys(found))

    def run(self, names: str, limit: float, *, is_full: bool = False, first: str = "") -> Outcome:
        """Run test modules until one fails, the case `first` before all; only sampled cases unless `is_full`."""
        began = time.monotonic()
        runs = [self.modules(group) for group in names.strip().splitlines()]
        chosen = [() if is_full else [case for module in modules for case in self.cases[module]] for modules in runs]
        module = first.partition("::")[0]
        if first in self.cases.get(module, ()):
            runs, chosen = [[module], *runs], [[first], *chosen]
        for modules, cases in zip(runs, chosen, strict=True):
            if not modules:
                continue
            left = limit - (time.monotonic() - began)
            code, killer = self._pytest([*modules, f"--timeout={HANGING}"], max(left, 1), cases)
            if code == USAGE:
                raise SystemExit(self._output.read_text())
            if code not in (0, NO_CASES):
                seconds = time.monotonic() - began
                return Outcome(killed=code is not None, killer=killer or f"exit code {code}", seconds=seconds)
        return Outcome(killed=False, killer="", seconds=time.monotonic() - began)


class Plugin:
    """Keeps the chosen cases (none: all), and writes down the first one that fails."""

    def __init__(self, cases: frozenset[str], failed: Path) -> None:
        self._cases = cases
        self._failed = failed

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._cases:
            items[:] = [item for item in items if item.nodeid in self._cases]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and not self._failed.read_text():
            self._failed.write_text(report.nodeid)


@contextmanager
def patched(path: Path, mutant: Mutant) -> Iterator[tuple[str, str]]:
    """Write a mutant, and restore the module with its time, by which Python knows compiled code."""
    source, status = path.read_bytes(), path.stat()
    try:
        path.write_bytes(mutant.applied(source))
        yield mutant.difference(source)
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def absolute(text: str) -> Path:
    """Return the path of an option, which holds in other directories too."""
    return Path(text).absolute()


def parsed() -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--area", action="append", choices=AREAS, help="only mutants of this area; may be repeated")
    parser.add_argument("--count", type=int, help="how many mutants of each area")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument(
        "--cases", type=absolute, metavar="FILE", help="the default cases, collected where it is not there"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    parser.add_argument("--baseline", action="store_true", help="first check that the tests pass without a mutant")
    parser.add_argument("--full", action="store_true", help="run survivors against whole directories too")
    parser.add_argument("--limit", type=float, default=300, help="seconds for each mutant")
    parser.add_argument("--checkout", type=absolute, default=Path(__file__).parent.parent)
    parser.add_argument(
        "--killers",
        type=absolute,
        metavar="FILE",
        help="an earlier record, whose mutants are repeated",
    )
    parser.add_argument("--record", type=absolute, metavar="FILE")
    return parser.parse_args()


def enter(checkout: Path) -> None:
    """Continue in the environment and directory of a checkout."""
    python = checkout / ".venv/bin/python"
    if Path(sys.prefix) != python.parent.parent:
        os.chdir(checkout)
        os.execv(python, [str(python), "-P", str(Path(__file__).absolute()), *sys.argv[1:]])  # noqa: S606 - this command again
    os.chdir(checkout)
    sys.path.insert(0, str(checkout))
    warnings.filterwarnings(
        "ignore", "lance is not fork-safe"
    )  # where it has begun something: here it is only imported
    for name in PRELOADED.split():
        importlib.import_module(name)


def choose(options: argparse.Namespace, earlier: Iterable[str]) -> list[Mutant]:
    """Return the mutants that the options name, those of an earlier record, or some of each area."""
    found = {name: mutants_of(options.checkout, name, AREAS[name]) for name in options.area or AREAS}
    wanted = {*earlier, *options.only}
    if not wanted:
        some = [spread(each, options.count or AREAS[name].count, options.seed) for name, each in found.items()]
        # In turn, so that a run that is cut short has something of each area.
        return [mutant for row in zip_longest(*some) for mutant in row if mutant is not None]
    chosen = [mutant for some in found.values() for mutant in some if mutant.id in wanted]
    for name in sorted(wanted - {mutant.id for mutant in chosen}):
        print(f"{name} is no mutant of this checkout")
    return chosen


def check_baseline(runner: Runner, areas: Iterable[str]) -> None:
    """Exit unless the tests of the areas pass without a mutant."""
    for name in areas:
        found = runner.run(AREAS[name].tests, BASELINE)
        print(f"{name}: {found.seconds:.0f} s without a mutant {found.killer}", flush=True)
        if found.killed:
            raise SystemExit(1)


def measure(runner: Runner, mutant: Mutant, options: argparse.Namespace, killer: str) -> dict[str, Any]:
    """Run the tests against one mutant, and return its record."""
    area = AREAS[mutant.area]
    with patched(options.checkout / mutant.file, mutant) as (before, after):
        found = runner.run(area.tests, options.limit, first=killer)
        record = {"id": mutant.id, "area": mutant.area, "file": mutant.file, "line": mutant.line}
        record |= {"before": before, "after": after, **asdict(found)}
        if options.full and not found.killed:
            full = runner.run(area.further, options.limit, is_full=True)
            record |= {"killed_full": full.killed, "killer_full": full.killer, "seconds_full": full.seconds}
    return record


def main() -> None:
    """Run the chosen mutants, and print and record what killed them."""
    options = parsed()
    enter(options.checkout)
    earlier = {each["id"]: each for each in json.loads(options.killers.read_text())} if options.killers else {}
    chosen = choose(options, earlier)
    if options.list:
        for mutant in chosen:
            before, after = mutant.difference((options.checkout / mutant.file).read_bytes())
            print(f"{mutant.area}: {mutant.id} (line {mutant.line})\n  - {before}\n  + {after}")
        return
    records: list[dict[str, Any]] = []
    if options.record and options.record.exists():
        records = [each for each in json.loads(options.record.read_text()) if each["killer"] != TIME_LIMIT]
    done = {each["id"] for each in records}
    chosen = [mutant for mutant in chosen if mutant.id not in done]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    runner = Runner(options.checkout, options.cases)
    if options.baseline:
        check_baseline(runner, dict.fromkeys(mutant.area for mutant in chosen))
    for number, mutant in enumerate(chosen, 1):
        record = measure(runner, mutant, options, earlier.get(mutant.id, {}).get("killer", ""))
        records.append(record)
        killer = record["killer"] or record.get("killer_full") or "survived"
        print(f"{number}/{len(chosen)} {record['seconds']:.0f} s {mutant.id}: {killer}", flush=True)
        if options.record:
            options.record.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
