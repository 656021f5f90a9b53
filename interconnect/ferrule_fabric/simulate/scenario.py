"""The scenario file: YAML, version 1, unknown keys refused. Every list is one dimension of the comparison.

    version: 1
    name: paper
    topologies: ["two-level:leaves=4,spines=2,hosts=5"]
    patterns: ["cg:ranks=128,bytes=1e7", "file:profile.json"]
    ranks_per_host: 8
    selections: [first, even]
    placements: [block, cyclic, joint]
    routings: [d-mod-k, greedy, ferrule]
    bound: true            # also the LP bound for each cell
    stream:                # instead of single jobs: a stream of jobs, each with a random one of the patterns
      schedulers: [fcfs, easy]
      jobs: 200
      mean_interarrival_s: 30
      iterations: [50, 500]        # range of each job's iterations
      estimate_factor: [1, 5]      # users ask for so many times the time that the job needs alone
    seed: 1
"""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ferrule_fabric.errors import FabricError
from ferrule_fabric.placing.place import PLACEMENTS
from ferrule_fabric.placing.select import SELECTIONS
from ferrule_fabric.routing.allocate import ALGORITHMS

SCHEDULERS = ("fcfs", "easy")
CELLS_MAX = 100_000
BYTES_MAX = 1 << 20


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Stream(_Strict):
    """A stream of jobs: exponential times between arrivals, uniform iterations and over-estimation in the given ranges."""

    schedulers: tuple[Literal["fcfs", "easy"], ...] = ("fcfs",)
    jobs: int = Field(ge=1, le=100_000)
    mean_interarrival_s: float = Field(gt=0)
    iterations: tuple[int, int] = (1, 1)
    estimate_factor: tuple[float, float] = (1.0, 1.0)

    @model_validator(mode="after")
    def _ranges(self) -> Self:
        if not 1 <= self.iterations[0] <= self.iterations[1] or not 1 <= self.estimate_factor[0] <= self.estimate_factor[1]:
            raise ValueError("iterations and estimate_factor are ranges [least, most] that begin at 1 or more")
        return self


class Scenario(_Strict):
    """What is to be compared; see the module."""

    version: Literal[1]
    name: str = "scenario"
    topologies: tuple[str, ...] = Field(min_length=1)
    patterns: tuple[str, ...] = Field(min_length=1)
    ranks_per_host: int = Field(default=1, ge=1, le=4096)
    selections: tuple[str, ...] = ("first",)
    placements: tuple[str, ...] = ("block",)
    routings: tuple[str, ...] = ("d-mod-k", "greedy", "ferrule")
    paths_max: int = Field(default=64, ge=1, le=4096)
    slack: int = Field(default=0, ge=0, le=4)
    time_tolerance: float = Field(default=0.01, gt=0, le=0.5)
    bound: bool = False
    stream: Stream | None = None
    seed: int = Field(default=0, ge=0, lt=2**31)

    @model_validator(mode="after")
    def _known(self) -> Self:
        for field, values, known in (("selections", self.selections, SELECTIONS), ("placements", self.placements, PLACEMENTS), ("routings", self.routings, ALGORITHMS)):
            for value in values:
                if value not in known:
                    raise ValueError(f"{field}: {value!r} is unknown; known are {', '.join(known)}")
        if self.cell_count > CELLS_MAX:
            raise ValueError(f"{self.cell_count} combinations; at most {CELLS_MAX}")
        return self

    @property
    def cell_count(self) -> int:
        """Number of combinations (of streams, if it is about streams)."""
        each = len(self.topologies) * len(self.selections) * len(self.placements) * len(self.routings)
        return each * (len(self.patterns) if self.stream is None else len(self.stream.schedulers))


def scenario_from_yaml(text: str, where: str = "scenario") -> Scenario:
    """Reads a scenario. Raises `FabricError` with line or key."""
    if len(text) > BYTES_MAX:
        raise FabricError(where, f"more than {BYTES_MAX} bytes")
    try:
        document = yaml.load(text, Loader=_PlainLoader)
    except yaml.YAMLError as error:
        raise FabricError(where, f"not YAML: {' '.join(str(error).split())}") from None
    except (RecursionError, ValueError) as error:
        raise FabricError(where, f"not YAML: {error}") from None
    if not isinstance(document, dict):
        raise FabricError(where, "must be a mapping")
    try:
        return Scenario.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise FabricError(f"{where}{place}", first["msg"]) from None


def read_scenario(path: FilePath) -> Scenario:
    """`scenario_from_yaml` of a file."""
    try:
        return scenario_from_yaml(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise FabricError(str(path), str(error)) from None


class _PlainLoader(yaml.SafeLoader):
    """YAML without aliases, which could grow without limit."""

    def compose_node(self, parent, index):  # type: ignore[no-untyped-def]
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)
