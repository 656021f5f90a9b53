"""Who asks the manager, and what one may do.

| role | may |
|---|---|
| viewer | look: topology, loads, jobs, history, patterns, predictions |
| user | also start jobs (`allocation.py` says on which hosts), renew and end its own |
| administrator | everything: end all jobs, store patterns |

Over the unix socket the kernel says whose process calls: administrators are those that the manager was told, all others are users. Over TCP a token, or the
common name of a certificate, has the role that the roles' file gives it. A line of that file:

    viewer token TOKEN
    user:NAME token TOKEN
    user:NAME certificate COMMON-NAME
    administrator token TOKEN
"""

from __future__ import annotations

import enum
import hmac
import os
import pwd
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ferrule_fabric.errors import FabricError

FILE_BYTES_MAX = 1 << 20
TOKEN_MIN = 16


class Role(enum.IntEnum):
    """Each may do all that those before it may."""

    VIEWER = 0
    USER = 1
    ADMINISTRATOR = 2


@dataclass(frozen=True)
class Caller:
    """Who asks. Jobs belong to user ids; a viewer has none that has jobs."""

    uid: int
    role: Role

    @property
    def is_administrator(self) -> bool:
        """Whether it may do everything."""
        return self.role is Role.ADMINISTRATOR

    def may_touch(self, uid: int) -> bool:
        """Whether it may end or change a job of this user."""
        return self.is_administrator or (self.role is Role.USER and uid == self.uid)


VIEWER = Caller(-1, Role.VIEWER)
ITSELF = Caller(0, Role.ADMINISTRATOR)
"""The manager, when it ends jobs of its own accord."""


@dataclass(frozen=True)
class Roles:
    """Callers over TCP by what they show."""

    tokens: Mapping[str, Caller] = field(default_factory=dict)
    certificates: Mapping[str, Caller] = field(default_factory=dict)

    def by_token(self, offered: str) -> Caller | None:
        """The caller with a token; as fast for a wrong one as for a right one."""
        found = None
        for token, caller in self.tokens.items():
            if hmac.compare_digest(offered.encode(), token.encode()):
                found = caller
        return found


def read_roles(path: Path) -> Roles:
    """The roles' file. Raises `FabricError`."""
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise FabricError(str(path), "must not be readable by others: chmod 600")
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise FabricError(str(path), str(error)) from None
    return roles_of(content, str(path))


def roles_of(content: bytes, where: str) -> Roles:
    """The roles' file from its content. Raises `FabricError` with the line."""
    if len(content) > FILE_BYTES_MAX:
        raise FabricError(where, f"has more than {FILE_BYTES_MAX} bytes")
    known: dict[str, dict[str, Caller]] = {"token": {}, "certificate": {}}
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        place = f"{where} line {number}"
        if len(words) != 3 or words[1] not in known:
            raise FabricError(place, "must be ROLE token TOKEN or ROLE certificate COMMON-NAME; ROLE is viewer, user:NAME or administrator")
        role, kind, shown = words
        if kind == "token" and (len(shown) < TOKEN_MIN or not shown.isascii() or not shown.isprintable()):
            raise FabricError(place, f"a token has at least {TOKEN_MIN} characters of ASCII")
        if shown in known[kind]:
            raise FabricError(place, f"this {kind} is there twice")
        known[kind][shown] = _caller(role, place)
    return Roles(known["token"], known["certificate"])


def _caller(role: str, place: str) -> Caller:
    if role == "viewer":
        return VIEWER
    if role == "administrator":
        return Caller(os.geteuid(), Role.ADMINISTRATOR)
    kind, _, user = role.partition(":")
    if kind != "user" or not user:
        raise FabricError(place, f"{role!r} is not viewer, user:NAME or administrator")
    try:
        return Caller(pwd.getpwnam(user).pw_uid, Role.USER)
    except (KeyError, ValueError):
        raise FabricError(place, f"there is no user {user!r}") from None
