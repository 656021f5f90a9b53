"""What the manager must not forget: jobs with their plans, and how often it has been started (the generation that switches obey).

Tables of its own beside those of the pattern store, in the same database. A row is written before switches are touched and deleted after their rules
are gone, so that after a crash the rules of every row may stand and those of no row mustn't.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sqlalchemy import BigInteger, Column, Connection, Float, Integer, MetaData, String, Table, Text, create_engine, delete, func, insert, inspect, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from ferrule_fabric.errors import FabricError

metadata = MetaData()
jobs_table = Table(
    "manager_jobs",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("job", String(128), nullable=False, unique=True),
    Column("uid", BigInteger, nullable=False),
    Column("pattern", String(1024), nullable=False),
    Column("started_s", Float, nullable=False),
    Column("selector", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("traffic", Text, nullable=False),
    Column("lease_s", Float),
    Column("lanes", String(64)),
)
history_table = Table(
    "manager_history",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("job", String(128), nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("pattern", String(1024), nullable=False),
    Column("hosts", Integer, nullable=False),
    Column("pairs", Integer, nullable=False),
    Column("started_s", Float, nullable=False),
    Column("ended_s", Float),
    Column("predicted", Text, nullable=False),
)
counters_table = Table("manager_counters", metadata, Column("name", String(32), primary_key=True), Column("value", BigInteger, nullable=False))
notes_table = Table("manager_notes", metadata, Column("name", String(32), primary_key=True), Column("content", Text, nullable=False))
ADVISORY_LOCK = 0xFE44
HISTORY_MAX = 10_000
LOCKED_S = 1.0


@dataclass(frozen=True)
class JobRow:
    """A job as stored. ``plan`` is its route plan's document; ``selector`` and ``traffic`` (bytes by pair of hosts) are JSON; ``lease_s`` is how long it lives
    without a word of the process that started it, None for ever; ``lanes`` is the plan of its lanes, None for one lane without a class."""

    number: int
    job: str
    uid: int
    pattern: str
    started_s: float
    selector: str
    plan: str
    traffic: str
    lease_s: float | None = None
    lanes: str | None = None


@dataclass(frozen=True)
class PastRow:
    """A job that had routes, running (``ended_s`` None) or not. ``predicted`` is JSON: loads and times on default routes and on its own."""

    number: int
    job: str
    uid: int
    pattern: str
    hosts: int
    pairs: int
    started_s: float
    ended_s: float | None = None
    predicted: str = "{}"


class State:
    """The open state. Only one manager at a time has it: a second one gets `FabricError`."""

    def __init__(self, url: str) -> None:
        self._where = "manager's state"
        try:
            self._lock_file: int | None = None
            self._lock_connection: Connection | None = None
            # Sessions with switches wait meanwhile: who holds the database for longer makes a job take default routes, and nothing worse.
            self._engine = create_engine(url, connect_args={"timeout": LOCKED_S} if url.startswith("sqlite") else {})
            self._take_lock()
            metadata.create_all(self._engine)
            self._migrate()
        except (SQLAlchemyError, ImportError, OSError) as error:
            if hasattr(self, "_engine"):
                self.close()
            raise FabricError(self._where, str(error).splitlines()[0]) from None

    def _migrate(self) -> None:
        """Brings tables of earlier versions up to date."""
        there = {column["name"] for column in inspect(self._engine).get_columns(jobs_table.name)}
        for name, kind in (("lease_s", "double precision"), ("lanes", "varchar(64)")):
            if name not in there:
                with self._engine.begin() as connection:
                    connection.execute(text(f"alter table {jobs_table.name} add column {name} {kind}"))

    def _take_lock(self) -> None:
        path = self._engine.url.database
        if self._engine.dialect.name == "sqlite":
            if not path or path == ":memory:":
                return
            self._lock_file = os.open(f"{Path(path).absolute()}.manager-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._lock_file)
                raise FabricError(self._where, f"another manager runs on {path}") from None
        elif self._engine.dialect.name == "postgresql":
            self._lock_connection = self._engine.connect()
            if not self._lock_connection.execute(text(f"select pg_try_advisory_lock({ADVISORY_LOCK})")).scalar():
                self._lock_connection.close()
                raise FabricError(self._where, "another manager runs on this database")

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise FabricError(self._where, str(error).splitlines()[0]) from None

    def close(self) -> None:
        """Lets another manager have it."""
        if self._lock_connection is not None:
            self._lock_connection.close()
        self._engine.dispose()
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _next(self, connection: Connection, name: str) -> int:
        value = connection.execute(select(counters_table.c.value).where(counters_table.c.name == name)).scalar()
        if value is None:
            connection.execute(insert(counters_table).values(name=name, value=1))
            return 1
        connection.execute(update(counters_table).where(counters_table.c.name == name).values(value=value + 1))
        return int(value) + 1

    def next_generation(self) -> int:
        """A number larger than any before."""
        with self._transaction() as connection:
            return self._next(connection, "generation")

    def begin(self, row: JobRow, past: PastRow) -> JobRow:
        """Stores a job that starts, with its row in the history, at once: a job waits for this. One with the number 0 gets a number never used before."""
        with self._transaction() as connection:
            number = row.number or self._next(connection, "job")
            row, past = replace(row, number=number), replace(past, number=number)
            self._put(connection, row)
            self._remember(connection, past)
        return row

    def note(self, name: str, content: str) -> None:
        """Stores a text under a name, in place of the one before."""
        with self._transaction() as connection:
            connection.execute(delete(notes_table).where(notes_table.c.name == name))
            connection.execute(insert(notes_table).values(name=name, content=content))

    def noted(self, name: str) -> str | None:
        """The text stored under a name."""
        with self._transaction() as connection:
            return connection.execute(select(notes_table.c.content).where(notes_table.c.name == name)).scalar()

    def put(self, row: JobRow) -> None:
        """Stores a job."""
        with self._transaction() as connection:
            self._put(connection, row)

    @staticmethod
    def _put(connection: Connection, row: JobRow) -> None:
        connection.execute(delete(jobs_table).where(jobs_table.c.number == row.number))
        connection.execute(insert(jobs_table).values(asdict(row)))

    def drop(self, number: int, past: bool = False) -> None:
        """Forgets a job; with ``past`` also that it ever was."""
        with self._transaction() as connection:
            connection.execute(delete(jobs_table).where(jobs_table.c.number == number))
            if past:
                connection.execute(delete(history_table).where(history_table.c.number == number))

    def end(self, number: int, ended_s: float) -> None:
        """Forgets a job, and notes when it ended."""
        with self._transaction() as connection:
            connection.execute(delete(jobs_table).where(jobs_table.c.number == number))
            connection.execute(update(history_table).where(history_table.c.number == number).values(ended_s=ended_s))

    def jobs(self) -> tuple[JobRow, ...]:
        """All jobs."""
        with self._transaction() as connection:
            return tuple(JobRow(**row._mapping) for row in connection.execute(select(jobs_table).order_by(jobs_table.c.number)))

    def remember(self, row: PastRow) -> None:
        """Stores a row of the history, in place of the one of that number; the oldest go when there are more than `HISTORY_MAX`."""
        with self._transaction() as connection:
            self._remember(connection, row)

    @staticmethod
    def _remember(connection: Connection, row: PastRow) -> None:
        connection.execute(delete(history_table).where(history_table.c.number == row.number))
        connection.execute(insert(history_table).values(asdict(row)))
        connection.execute(delete(history_table).where(history_table.c.number <= row.number - HISTORY_MAX))

    def predicted(self, number: int, predicted: str) -> None:
        """Adds to a row of the history what is predicted."""
        with self._transaction() as connection:
            connection.execute(update(history_table).where(history_table.c.number == number).values(predicted=predicted))

    def history(self, limit: int) -> tuple[PastRow, ...]:
        """The latest jobs, latest first."""
        with self._transaction() as connection:
            return tuple(PastRow(**row._mapping) for row in connection.execute(select(history_table).order_by(history_table.c.number.desc()).limit(limit)))

    def count(self) -> int:
        """How many jobs there are."""
        with self._transaction() as connection:
            return int(connection.execute(select(func.count()).select_from(jobs_table)).scalar() or 0)
