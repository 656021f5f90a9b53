"""The HTTP API, OpenAPI at ``/openapi.json``. The caller is, over the unix socket, the user of the calling process (SO_PEERCRED); over TCP, what its token or
certificate stands for. `callers` says what each may do.

Errors are JSON: ``{"error": {"where": …, "problem": …}}``, with status 400 for input that is refused, 401 and 403 for who may not, 404 for what isn't
there, 408, 411 and 413 for bodies that come too slowly, or without or of too great a length (`guard`), 429 when too many ask.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from ferrule_fabric import __version__
from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager import looking
from ferrule_fabric.manager.callers import Caller, Roles
from ferrule_fabric.manager.guard import BODY_TIMEOUT_S, NOBODY, Guard, caller_of
from ferrule_fabric.manager.metrics import exposition
from ferrule_fabric.manager.predict import WHAT_IF_RANKS_MAX, Question
from ferrule_fabric.manager.refusals import Busy, Denied, Unauthenticated, Unknown
from ferrule_fabric.manager.service import Manager
from ferrule_fabric.model.documents import topology_to_json
from ferrule_fabric.model.lanes import plan_of
from ferrule_fabric.model.traffic import RANKS_MAX, TrafficMatrix
from ferrule_fabric.openflow.rules import Selector
from ferrule_fabric.patterns.merge import merged
from ferrule_fabric.patterns.names import checked
from ferrule_fabric.patterns.spec import GENERATORS, pattern_of
from ferrule_fabric.profiles import profile_from_json
from ferrule_fabric.store.database import Application, Run
from ferrule_fabric.topologies.spec import SpecOptions

JOB_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.+:@-]{0,127}$"
STATIC = Path(__file__).parent / "static"


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Traffic(_Body):
    """A sparse matrix: entry i says that rank ``src[i]`` sends ``bytes[i]`` to rank ``dst[i]``."""

    src: list[int]
    dst: list[int]
    bytes: list[int]


class JobStart(_Body):
    """A job that starts: the host of each rank, and a pattern's name or the traffic itself. ``tcp_port`` or ``dscp`` limit the routes to such packets.

    ``algorithm`` overrides the manager's; with ``lease_s`` the job ends unless ``POST /v1/jobs/{job}/lease`` comes that often. ``lanes`` are those of its pairs of
    ranks, ``K[:POLICY]`` as in ``mpiexec --lanes``: their classes get queues.
    """

    job: str = Field(pattern=JOB_NAME)
    hosts: list[str] = Field(min_length=1, max_length=RANKS_MAX)
    pattern: str = Field(default="", max_length=1024)
    traffic: Traffic | None = None
    tcp_port: int | None = None
    dscp: int | None = None
    by: str = "mac"
    algorithm: str = Field(default="", pattern="^(|d-mod-k|s-mod-k|ecmp|greedy|greedy-min-sum|ferrule|ferrule-time|split)$")
    lease_s: float | None = Field(default=None, ge=1, le=86400)
    lanes: str = Field(default="single", max_length=64)


class WhatIf(_Body):
    """How would it run? ``pattern`` is a stored one's name (with ``ranks``) or a generator's text such as ``cg:ranks=128,bytes=1e8``; or the ``traffic`` itself."""

    pattern: str = Field(default="", max_length=1024)
    ranks: int | None = Field(default=None, ge=1, le=RANKS_MAX)
    traffic: Traffic | None = None
    ranks_per_host: int = 8
    selection: str = "first"
    placements: list[str] = Field(default=["block", "cyclic", "joint"], max_length=10)
    routings: list[str] = Field(default=["d-mod-k", "greedy", "ferrule"], max_length=10)
    hosts: list[str] = Field(default=[], max_length=100_000)
    beside: bool = True


def _phases(body: WhatIf, manager: Manager) -> tuple[TrafficMatrix, ...]:
    if (body.traffic is None) == (not body.pattern):
        raise FabricError("what-if", "needs a pattern or traffic, one of them")
    if body.traffic is not None or body.pattern.partition(":")[0] not in GENERATORS:
        if body.ranks is None:
            raise FabricError("what-if.ranks", "is needed")
        if body.traffic is None:
            total, phases = manager.pattern(body.pattern, body.ranks)
            return phases or (total,)
        return (TrafficMatrix.of_pairs(body.ranks, body.traffic.src, body.traffic.dst, body.traffic.bytes),)
    # Checked before a generator makes a matrix of that size.
    if SpecOptions(f"pattern {body.pattern!r}", body.pattern.partition(":")[2]).whole("ranks") > WHAT_IF_RANKS_MAX:
        raise FabricError("what-if.pattern", f"more than {WHAT_IF_RANKS_MAX} ranks")
    return tuple(phase.traffic for phase in pattern_of(body.pattern).phases)


def _caller(request: Request) -> Caller:
    caller = caller_of(request.scope, request.app.state.admins, request.app.state.roles)
    if caller is None:
        raise Unauthenticated(NOBODY)
    return caller


User = Annotated[Caller, Depends(_caller)]


def create_app(manager: Manager, roles: Roles, body_timeout_s: float = BODY_TIMEOUT_S) -> FastAPI:
    """The application for one manager; ``roles`` are those of callers over TCP."""
    app = FastAPI(title="Ferrule interconnect manager", version=__version__, docs_url=None, redoc_url=None)
    app.state.admins, app.state.roles = manager.admins, roles
    app.add_middleware(Guard, admins=manager.admins, roles=roles, body_timeout_s=body_timeout_s)
    _handle_errors(app)

    @app.get("/v1/status")
    async def status(_: User) -> dict[str, Any]:
        return looking.status(manager)

    @app.get("/v1/topology")
    async def topology(_: User) -> Response:
        return Response(topology_to_json(manager.controller.topology), media_type="application/json")

    @app.get("/v1/links")
    async def links(_: User) -> list[dict[str, Any]]:
        return looking.links(manager)

    @app.get("/v1/jobs")
    async def jobs(_: User) -> list[dict[str, Any]]:
        return [looking.describe(manager, job) for job in manager.jobs.values()]

    @app.get("/v1/jobs/{name}")
    async def job(name: str, _: User) -> dict[str, Any]:
        if name not in manager.jobs:
            raise Unknown(f"no job {name!r}")
        return looking.describe(manager, manager.jobs[name], flows=True)

    @app.post("/v1/jobs", status_code=201)
    async def start(request: Request, body: JobStart, caller: User) -> dict[str, Any]:
        if (body.traffic is None) == (not body.pattern):
            raise FabricError("job", "needs a pattern or its traffic, one of them")
        ranks, lanes, unknown = len(body.hosts), plan_of(body.lanes), ""
        phases: tuple[TrafficMatrix, ...] = ()
        if body.traffic is None:
            try:
                traffic, phases = manager.pattern(body.pattern, ranks)
            except Unknown as error:
                # Its lanes get queues nevertheless.
                if manager.queues is None or not lanes.classes:
                    raise
                traffic, unknown = TrafficMatrix.of_pairs(ranks, [], [], []), str(error)
        else:
            traffic = TrafficMatrix.of_pairs(ranks, body.traffic.src, body.traffic.dst, body.traffic.bytes)
        selector = Selector("ipv4" if body.tcp_port is not None or body.dscp is not None else body.by, body.tcp_port, body.dscp)
        started = await manager.start(body.job, caller, body.hosts, traffic, selector, body.pattern, phases, body.algorithm, body.lease_s, lanes)
        if await request.is_disconnected():
            # Nobody waits any longer: the job was told that it runs on default routes. Its end may have been asked for before its start, or just now.
            with suppress(Unknown):
                await manager.end(body.job, caller)
        left_out = [{"src": pair[0], "dst": pair[1], "why": why} for pair, why in started.left_out]
        told = {"job": started.job, "number": started.number, "pairs": started.pairs, "left_out": left_out, "route_s": started.route_s, "install_s": started.install_s}
        # Why the job has no routes of its own, the DSCP values of its lanes' classes, what is wrong with their queues: only where there is something to tell.
        return told | {name: text for name, text in (("routes", unknown), ("lane_dscp", started.lane_dscp), ("queues", started.queues)) if text}

    @app.post("/v1/jobs/{name}/lease")
    async def renew(name: str, caller: User) -> dict[str, float | None]:
        return {"lease_s": manager.renew(name, caller)}

    @app.delete("/v1/jobs/{name}")
    async def end(name: str, caller: User) -> dict[str, int]:
        return {"ended": await manager.end(name, caller)}

    @app.get("/v1/jobs/{name}/loads")
    async def loads(name: str, _: User) -> dict[str, Any]:
        return await manager.loads(name)

    @app.get("/v1/history")
    async def history(_: User, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[dict[str, Any]]:
        return manager.history(limit)

    @app.post("/v1/what-if")
    async def what_if(body: WhatIf, _: User) -> list[dict[str, Any]]:
        question = Question(_phases(body, manager), body.ranks_per_host, body.selection, tuple(body.placements), tuple(body.routings), tuple(body.hosts))
        return await manager.what_if(question, body.beside)

    @app.get("/v1/advice")
    async def advice(_: User, pattern: str, ranks: Annotated[int, Query(ge=1, le=RANKS_MAX)], nodes: Annotated[int, Query(ge=1)]) -> dict[str, Any]:
        return await manager.advice(pattern, ranks, nodes)

    @app.get("/v1/patterns")
    async def patterns(_: User) -> list[dict[str, Any]]:
        return manager.known_patterns()

    @app.put("/v1/patterns/{name:path}", status_code=201)
    async def learn(name: str, request: Request, caller: User) -> dict[str, Any]:
        if not caller.is_administrator:
            raise Denied("patterns are stored by administrators")
        checked(name)
        profile = profile_from_json(await request.body(), "body")
        application = Application(name, "", profile.traffic.ranks)
        number = manager.patterns.put(Run(application, "", time.time(), profile.duration_s, profile.hosts.hosts), profile.traffic, merged(profile.phases))
        return {"pattern": name, "ranks": profile.traffic.ranks, "run": number}

    @app.get("/metrics")
    async def metrics() -> Response:
        return PlainTextResponse(exposition(manager), media_type="text/plain; version=0.0.4")

    @app.get("/healthz")
    async def health() -> dict[str, bool]:
        return {"ready": manager.warm and len(manager.controller.sessions) == len(manager.controller.node_of)}

    if STATIC.is_dir():
        app.mount("/", StaticFiles(directory=STATIC, html=True))
    return app


def _problem(status: int, where: str, problem: str) -> JSONResponse:
    return JSONResponse({"error": {"where": where, "problem": problem}}, status)


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(FabricError)
    async def refused(_: Request, error: FabricError) -> JSONResponse:
        return _problem(400, error.where, error.problem)

    @app.exception_handler(Denied)
    async def denied(_: Request, error: Denied) -> JSONResponse:
        return _problem(401 if isinstance(error, Unauthenticated) else 403, "user", str(error))

    @app.exception_handler(Busy)
    async def busy(_: Request, error: Busy) -> JSONResponse:
        return _problem(429, "path", str(error))

    @app.exception_handler(Unknown)
    async def unknown(_: Request, error: Unknown) -> JSONResponse:
        return _problem(404, "path", str(error))

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> JSONResponse:
        # The traceback goes to the log.
        return _problem(500, "manager", f"an error of its own: {type(error).__name__}")

    @app.exception_handler(HTTPException)
    async def framework(_: Request, error: HTTPException) -> JSONResponse:
        # 400 is a body that is too deep, or nothing that a parser takes.
        return _problem(error.status_code, "body" if error.status_code == 400 else "path", str(error.detail))

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        return _problem(400, place.lstrip("."), str(first["msg"]))
