"""Tables of the store and their migrations.

``ferrule_schema`` holds one row, the version. Opening a store of an older version brings it up to date in one transaction; a newer one is refused.
To change tables: add a step to `MIGRATIONS` and change the tables here; steps that have been released don't change.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import BigInteger, Column, Connection, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table, Text, UniqueConstraint, insert, inspect, select, text, update

from ferrule_fabric.errors import FabricError

metadata = MetaData()
_KEY = BigInteger().with_variant(Integer, "sqlite")

schema = Table("ferrule_schema", metadata, Column("version", Integer, nullable=False))
applications = Table(
    "applications",
    metadata,
    Column("id", _KEY, primary_key=True),
    Column("command", Text, nullable=False),
    Column("input_hash", String(64), nullable=False),
    Column("ranks", Integer, nullable=False),
    UniqueConstraint("command", "input_hash", "ranks", name="application_key"),
)
runs = Table(
    "runs",
    metadata,
    Column("id", _KEY, primary_key=True),
    Column("uid", String(64), nullable=False, unique=True),
    Column("application", _KEY, ForeignKey("applications.id", ondelete="CASCADE"), nullable=False),
    Column("job", String(128), nullable=False),
    Column("recorded_s", Float, nullable=False),
    Column("duration_s", Float, nullable=False),
    Column("hosts", Text, nullable=False),
    Column("topology_digest", String(64), nullable=False),
    Column("placement", String(64), nullable=False),
    Column("routing", String(64), nullable=False),
    Column("outcome", Text, nullable=False),
    Index("runs_by_time", "application", "recorded_s"),
)
matrices = Table(
    "matrices",
    metadata,
    Column("run", _KEY, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("phase", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)


def _first(connection: Connection) -> None:
    """Version 1: applications, runs and matrices; runs didn't say what placed and routed them."""
    key = "BIGSERIAL PRIMARY KEY" if connection.dialect.name == "postgresql" else "INTEGER PRIMARY KEY"
    blob, real = ("BYTEA", "DOUBLE PRECISION") if connection.dialect.name == "postgresql" else ("BLOB", "FLOAT")
    for statement in (
        f"CREATE TABLE applications (id {key}, command TEXT NOT NULL, input_hash VARCHAR(64) NOT NULL, ranks INTEGER NOT NULL,"
        " CONSTRAINT application_key UNIQUE (command, input_hash, ranks))",
        f"CREATE TABLE runs (id {key}, uid VARCHAR(64) NOT NULL UNIQUE, application BIGINT NOT NULL REFERENCES applications(id) ON DELETE CASCADE,"
        f" job VARCHAR(128) NOT NULL, recorded_s {real} NOT NULL, duration_s {real} NOT NULL, hosts TEXT NOT NULL, outcome TEXT NOT NULL)",
        "CREATE INDEX runs_by_time ON runs (application, recorded_s)",
        f"CREATE TABLE matrices (run BIGINT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, phase INTEGER NOT NULL, data {blob} NOT NULL, PRIMARY KEY (run, phase))",
    ):
        connection.execute(text(statement))


def _says_how(connection: Connection) -> None:
    """Version 2: each run says on which topology and by which placement and routing it ran."""
    for column, size in (("topology_digest", 64), ("placement", 64), ("routing", 64)):
        connection.execute(text(f"ALTER TABLE runs ADD COLUMN {column} VARCHAR({size}) NOT NULL DEFAULT ''"))


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_first, _says_how)


def migrate(connection: Connection, where: str) -> None:
    """Brings the tables to the newest version, inside the caller's transaction. Raises `FabricError` for a newer or damaged store."""
    version = 0
    if inspect(connection).has_table("ferrule_schema"):
        rows = connection.execute(select(schema.c.version)).all()
        if len(rows) != 1:
            raise FabricError(where, f"the table ferrule_schema has {len(rows)} rows instead of one")
        version = int(rows[0][0])
    else:
        schema.create(connection)
        connection.execute(insert(schema).values(version=0))
    if version > len(MIGRATIONS):
        raise FabricError(where, f"the store has version {version}, this program knows up to {len(MIGRATIONS)}")
    for number in range(version, len(MIGRATIONS)):
        MIGRATIONS[number](connection)
    if version != len(MIGRATIONS):
        connection.execute(update(schema).values(version=len(MIGRATIONS)))
