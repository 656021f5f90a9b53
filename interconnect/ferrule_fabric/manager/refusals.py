"""Why a request is refused though its input is good."""

from __future__ import annotations


class Denied(Exception):
    """The caller may not do this."""


class Unauthenticated(Denied):
    """Nobody knows who the caller is."""


class Busy(Exception):
    """Too many ask at once."""


class Unknown(Exception):
    """There is no such job or pattern."""
