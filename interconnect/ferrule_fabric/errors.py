"""The one exception for input that is refused."""

from __future__ import annotations


class FabricError(ValueError):
    """Input that can't be used.

    ``where`` names the place (a document's path such as ``topology.links[3].capacity_bps``, or a file and line), ``problem`` the cause.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem

    def __reduce__(self) -> tuple[type[FabricError], tuple[str, str]]:
        """So that it travels between processes."""
        return type(self), (self.where, self.problem)
