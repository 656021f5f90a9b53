"""The pattern store on SQLite or PostgreSQL.

An application is known by (command, hash of its input, number of ranks); of each run its matrices are kept, compressed, total first (phase -1), and what
came of it. Every call is one transaction: a crash loses nothing that a call has returned from. Times come from the caller.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from sqlalchemy import Connection, create_engine, delete, event, func, insert, select, update
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from ferrule_fabric.errors import FabricError
from ferrule_fabric.model.documents import traffic_from_json, traffic_to_json
from ferrule_fabric.model.traffic import TrafficMatrix
from ferrule_fabric.store.schema import applications, matrices, migrate, runs

TOTAL = -1
COMMAND_CHARS_MAX = 4096
MATRIX_BYTES_MAX = 1 << 30
FORMAT = "ferrule-fabric/store-run"


@dataclass(frozen=True, slots=True)
class Application:
    """What makes two runs alike: the command line, a hash of its input ("" if unknown), and the number of ranks."""

    command: str
    input_hash: str
    ranks: int

    def __post_init__(self) -> None:
        if not 0 < len(self.command) <= COMMAND_CHARS_MAX or "\0" in self.command:
            raise FabricError("application.command", f"must be 1 to {COMMAND_CHARS_MAX} characters")
        if len(self.input_hash) > 64 or not self.input_hash.isascii():
            raise FabricError("application.input_hash", "must be at most 64 ASCII characters")
        if not 1 <= self.ranks <= 1_000_000:
            raise FabricError("application.ranks", f"must be 1..1000000, not {self.ranks}")


@dataclass(frozen=True, slots=True)
class Run:
    """One run. ``hosts`` by rank; ``outcome`` is free: a JSON object of measures, such as communication time by algorithm. ``id`` is given by the store."""

    application: Application
    job: str
    recorded_s: float
    duration_s: float
    hosts: tuple[str, ...]
    topology_digest: str = ""
    placement: str = ""
    routing: str = ""
    outcome: str = "{}"
    id: int = 0


class PatternStore:
    """Open store; a context manager. ``url`` as SQLAlchemy's: ``sqlite:///file`` or ``postgresql+psycopg://user@host/base``. Raises `FabricError`."""

    def __init__(self, url: str) -> None:
        try:
            self._engine = create_engine(url)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise FabricError("store", f"{str(error).splitlines()[0]}") from None
        self._where = f"store {self._engine.url.render_as_string(hide_password=True)}"
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _sqlite_settings)
        with self._transaction() as connection:
            migrate(connection, self._where)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._engine.dispose()

    def add(self, run: Run, total: TrafficMatrix, phases: tuple[TrafficMatrix, ...] = ()) -> int:
        """Stores a run and its matrices; returns its id. The same run (all but ``outcome``) is stored once, and its id returned again."""
        if total.ranks != run.application.ranks:
            raise FabricError("run", f"the matrix is of {total.ranks} ranks, the application of {run.application.ranks}")
        uid = _uid(run, total)
        with self._transaction() as connection:
            known = connection.execute(select(runs.c.id).where(runs.c.uid == uid)).scalar()
            if known is not None:
                return int(known)
            application = _application_id(connection, run.application)
            values = {**asdict(run), "application": application, "hosts": json.dumps(run.hosts), "uid": uid}
            del values["id"]
            number = int(connection.execute(insert(runs).values(**values).returning(runs.c.id)).scalar_one())
            listed = [(TOTAL, total), *enumerate(phases)]
            connection.execute(insert(matrices), [{"run": number, "phase": phase, "data": packed(matrix)} for phase, matrix in listed])
            return number

    def put(self, run: Run, total: TrafficMatrix, phases: tuple[TrafficMatrix, ...] = ()) -> int:
        """Stores a run that is the latest of its application from now on, whatever was stored before and whichever way the clock went; returns its id. If the
        latest is the same already, nothing is stored."""
        known = self.runs(run.application, limit=1)
        if not known:
            return self.add(run, total, phases)
        last = known[0]
        if replace(run, recorded_s=last.recorded_s, id=last.id) == last and [_content(one) for one in (total, *phases)] == [_content(one) for one in (self.matrix(last.id), *self.phases(last.id))]:
            return last.id
        return self.add(replace(run, recorded_s=max(run.recorded_s, math.nextafter(last.recorded_s, math.inf))), total, phases)

    def set_outcome(self, run_id: int, outcome: dict[str, Any]) -> None:
        """Replaces what came of a run. Raises `FabricError` if there is no such run."""
        with self._transaction() as connection:
            if connection.execute(update(runs).where(runs.c.id == run_id).values(outcome=json.dumps(outcome))).rowcount != 1:
                raise FabricError(self._where, f"there is no run {run_id}")

    def applications(self) -> tuple[Application, ...]:
        """All applications, by command."""
        with self._transaction() as connection:
            rows = connection.execute(select(applications.c.command, applications.c.input_hash, applications.c.ranks).order_by(applications.c.command, applications.c.ranks))
            return tuple(Application(*row) for row in rows)

    def runs(self, application: Application | None = None, limit: int = 1000) -> tuple[Run, ...]:
        """Runs, latest first."""
        query = select(runs, applications.c.command, applications.c.input_hash, applications.c.ranks).join(applications, runs.c.application == applications.c.id)
        if application is not None:
            query = query.where(*_is(application))
        with self._transaction() as connection:
            return tuple(_run_of(row._mapping) for row in connection.execute(query.order_by(runs.c.recorded_s.desc(), runs.c.id.desc()).limit(limit)))

    def matrix(self, run_id: int, phase: int = TOTAL) -> TrafficMatrix:
        """The total or a phase of a run. Raises `FabricError` if there is none or it is damaged."""
        with self._transaction() as connection:
            data = connection.execute(select(matrices.c.data).where(matrices.c.run == run_id, matrices.c.phase == phase)).scalar()
        if data is None:
            raise FabricError(self._where, f"run {run_id} has no matrix {'of its total' if phase == TOTAL else f'of phase {phase}'}")
        return unpacked(bytes(data), f"{self._where}: run {run_id}")

    def phases(self, run_id: int) -> tuple[TrafficMatrix, ...]:
        """The phases of a run, in order."""
        with self._transaction() as connection:
            rows = connection.execute(select(matrices.c.data).where(matrices.c.run == run_id, matrices.c.phase >= 0).order_by(matrices.c.phase)).all()
        return tuple(unpacked(bytes(row[0]), f"{self._where}: run {run_id}") for row in rows)

    def latest(self, application: Application) -> TrafficMatrix | None:
        """Traffic of the latest run of an application, see `latest_run`."""
        found = self.latest_run(application)
        return None if found is None else self.matrix(found)

    def latest_run(self, application: Application) -> int | None:
        """The latest run of an application; without one, the latest with the same command and ranks but another input."""
        for exact in (True, False):
            conditions = _is(application) if exact else (applications.c.command == application.command, applications.c.ranks == application.ranks)
            query = select(runs.c.id).join(applications, runs.c.application == applications.c.id).where(*conditions).order_by(runs.c.recorded_s.desc(), runs.c.id.desc()).limit(1)
            with self._transaction() as connection:
                found = connection.execute(query).scalar()
            if found is not None:
                return int(found)
        return None

    def retain(self, runs_per_application: int, not_before_s: float = 0.0) -> int:
        """Deletes all but the latest runs of each application, and those recorded before a time; returns how many. Applications without runs go too."""
        rank = func.row_number().over(partition_by=runs.c.application, order_by=(runs.c.recorded_s.desc(), runs.c.id.desc())).label("place")
        with self._transaction() as connection:
            placed = select(runs.c.id, runs.c.recorded_s, rank).subquery()
            doomed = select(placed.c.id).where((placed.c.place > runs_per_application) | (placed.c.recorded_s < not_before_s))
            numbers = [int(row[0]) for row in connection.execute(doomed)]
            for begin in range(0, len(numbers), 500):
                part = numbers[begin : begin + 500]
                connection.execute(delete(matrices).where(matrices.c.run.in_(part)))
                connection.execute(delete(runs).where(runs.c.id.in_(part)))
            connection.execute(delete(applications).where(applications.c.id.not_in(select(runs.c.application))))
        return len(numbers)

    def exported(self) -> Iterator[str]:
        """One line of JSON per run, oldest first."""
        for run in reversed(self.runs(limit=2**31 - 1)):
            fields = {key: value for key, value in asdict(run).items() if key != "id"}
            documents = [json.loads(traffic_to_json(matrix)) for matrix in (self.matrix(run.id), *self.phases(run.id))]
            yield json.dumps({"format": FORMAT, "version": 1, "run": fields, "total": documents[0], "phases": documents[1:]})

    def imported(self, lines: Iterator[str]) -> int:
        """Reads what `exported` wrote; returns the number of lines. Runs that are here already stay once. Raises `FabricError` with the line."""
        count = 0
        for number, line in enumerate(lines, 1):
            if line.strip():
                self.add(*_run_from_json(line, f"line {number}"))
                count += 1
        return count

    def _transaction(self) -> _Transaction:
        return _Transaction(self._engine.begin(), self._where)


class _Transaction:
    """A connection in a transaction whose database errors are `FabricError`s."""

    def __init__(self, begin: Any, where: str) -> None:
        self._begin, self._where = begin, where

    def __enter__(self) -> Connection:
        try:
            connection: Connection = self._begin.__enter__()
            return connection
        except SQLAlchemyError as error:
            raise FabricError(self._where, str(error).splitlines()[0]) from None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._begin.__exit__(kind, error, trace)
        except SQLAlchemyError as failed:
            raise FabricError(self._where, str(failed).splitlines()[0]) from None
        if isinstance(error, SQLAlchemyError):
            raise FabricError(self._where, str(error).splitlines()[0]) from None


def packed(matrix: TrafficMatrix) -> bytes:
    """The matrix compressed (NumPy's zip)."""
    file = io.BytesIO()
    np.savez_compressed(file, ranks=np.int64(matrix.ranks), src=matrix.src.astype(np.int32), dst=matrix.dst.astype(np.int32), bytes=matrix.bytes, messages=matrix.messages)
    return file.getvalue()


def unpacked(data: bytes, where: str) -> TrafficMatrix:
    """The inverse. Raises `FabricError` for data that is damaged, or larger than `MATRIX_BYTES_MAX` when unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MATRIX_BYTES_MAX:
                raise FabricError(where, "the matrix is too large")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return TrafficMatrix.of_pairs(int(arrays["ranks"]), *(arrays[name].astype(np.int64) for name in ("src", "dst", "bytes", "messages")))
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise FabricError(where, f"damaged matrix: {error}") from None


def _sqlite_settings(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA busy_timeout = 10000")
    cursor.close()


def _is(application: Application) -> tuple[Any, ...]:
    return applications.c.command == application.command, applications.c.input_hash == application.input_hash, applications.c.ranks == application.ranks


def _application_id(connection: Connection, application: Application) -> int:
    known = connection.execute(select(applications.c.id).where(*_is(application))).scalar()
    if known is not None:
        return int(known)
    return int(connection.execute(insert(applications).values(**asdict(application)).returning(applications.c.id)).scalar_one())


def _uid(run: Run, total: TrafficMatrix) -> str:
    fields = {key: value for key, value in asdict(run).items() if key not in ("id", "outcome")}
    content = hashlib.sha256(json.dumps(fields, sort_keys=True).encode())
    content.update(_content(total))
    return content.hexdigest()


def _content(matrix: TrafficMatrix) -> bytes:
    return b"".join(array.tobytes() for array in (matrix.src, matrix.dst, matrix.bytes, matrix.messages))


def _run_of(row: Any) -> Run:
    application = Application(row["command"], row["input_hash"], row["ranks"])
    how = row["topology_digest"], row["placement"], row["routing"], row["outcome"]
    return Run(application, row["job"], row["recorded_s"], row["duration_s"], tuple(json.loads(row["hosts"])), *how, int(row["id"]))


def _run_from_json(line: str, where: str) -> tuple[Run, TrafficMatrix, tuple[TrafficMatrix, ...]]:
    try:
        document = json.loads(line)
        if document["format"] != FORMAT or document["version"] != 1:
            raise FabricError(where, f"is {document['format']!r} version {document['version']!r}, not {FORMAT!r} version 1")
        fields = dict(document["run"])
        key = Application(**fields.pop("application"))
        texts = all(isinstance(fields.get(name, ""), str) for name in ("job", "topology_digest", "placement", "routing", "outcome"))
        numbers = all(isinstance(fields[name], int | float) for name in ("recorded_s", "duration_s"))
        if not texts or not numbers or not all(isinstance(host, str) for host in fields["hosts"]):
            raise FabricError(where, "a field of the run has the wrong type")
        run = Run(application=key, **{**fields, "hosts": tuple(fields["hosts"])})
        total, *phases = (traffic_from_json(json.dumps(entry)) for entry in (document["total"], *document["phases"]))
    except FabricError as error:
        raise FabricError(where, str(error)) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FabricError(where, f"not a run: {type(error).__name__} {error}") from None
    return run, total, tuple(phases)
