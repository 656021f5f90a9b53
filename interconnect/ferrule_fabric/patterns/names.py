"""Names of patterns: the same characters for the API, mpiexec, the SPANK plugin and job_submit.lua, none of which means anything to a shell, JSON or a URL's path."""

from __future__ import annotations

import re

from ferrule_fabric.errors import FabricError

NAME_MAX = 255
_NAME = re.compile(rf"[A-Za-z0-9_.+:@/-]{{1,{NAME_MAX}}}")


def checked(name: str) -> str:
    """The name. Raises `FabricError` if no user could ask for it."""
    if not _NAME.fullmatch(name):
        raise FabricError("pattern", f"a name has 1 to {NAME_MAX} letters, digits and _.+:@-/, not {name[:64]!r}")
    return name
