"""The roles' file, and which combinations of options of `serve` are refused."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from authority import Authority
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ferrule_fabric.cli import cli
from ferrule_fabric.errors import FabricError
from ferrule_fabric.manager.address import client_of
from ferrule_fabric.manager.callers import FILE_BYTES_MAX, VIEWER, Caller, Role, Roles, read_roles, roles_of
from ferrule_fabric.manager.listening import Interfaces
from ferrule_fabric.manager.serve import Switches

TOKEN = "a-token-of-24-characters"
ROLES = Roles(tokens={TOKEN: VIEWER})
CERTIFIED = Roles(certificates={"laptop": VIEWER})


def test_the_file() -> None:
    text = f"# who\n\nviewer token {TOKEN}\nuser:nobody token {TOKEN}2\n user:nobody   certificate laptop\r\nadministrator token {TOKEN}3\n"
    roles = roles_of(text.encode(), "roles")
    nobody = Caller(pwd.getpwnam("nobody").pw_uid, Role.USER)
    assert roles.by_token(TOKEN) == VIEWER and roles.by_token(TOKEN + "2") == nobody == roles.certificates["laptop"]
    found = roles.by_token(TOKEN + "3")
    assert found is not None and found.is_administrator
    assert roles.by_token("") is None and roles.by_token(TOKEN[:-1]) is None and roles.by_token("laptop") is None and roles.by_token("ä") is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (TOKEN, "line 2: must be ROLE token TOKEN"),
        (f"viewer token {TOKEN} more", "must be ROLE"),
        (f"viewer password {TOKEN}", "must be ROLE"),
        ("viewer token short", "at least 16"),
        ("viewer token ääääääääääääääääääää", "of ASCII"),
        (f"viewer token {TOKEN}1", "twice"),
        (f"root token {TOKEN}", "is not viewer"),
        (f"user token {TOKEN}", "is not viewer"),
        (f"user: token {TOKEN}", "is not viewer"),
        (f"user:no-such-user token {TOKEN}", "no user 'no-such-user'"),
        (f"user:a\0b token {TOKEN}", "no user"),
    ],
)
def test_wrong_lines(line: str, why: str) -> None:
    with pytest.raises(FabricError, match=why):
        roles_of(f"viewer token {TOKEN}1\n{line}\n".encode(), "roles")


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: f"viewer {text}".encode()))
def test_any_bytes(content: bytes) -> None:
    try:
        roles = roles_of(content, "roles")
    except FabricError as error:
        assert error.where.startswith("roles line ")
    else:
        assert {caller.role for caller in (*roles.tokens.values(), *roles.certificates.values())} <= set(Role)


def test_files_that_arent_taken(tmp_path: Path) -> None:
    path = tmp_path / "roles"
    with pytest.raises(FabricError, match="No such file"):
        read_roles(path)
    path.write_text(f"viewer token {TOKEN}\n")
    path.chmod(0o640)
    with pytest.raises(FabricError, match="chmod 600"):
        read_roles(path)
    path.chmod(0o600)
    assert read_roles(path) == ROLES
    path.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(FabricError, match="more than"):
        read_roles(path)


def test_nothing_is_served_to_strangers_or_in_clear(tmp_path: Path) -> None:
    path = "unix:/run/x"
    for good in (
        Interfaces(path),
        Interfaces(path, "10.0.0.1:443", roles=ROLES, certificate="c"),
        Interfaces("10.0.0.1:443", roles=ROLES, certificate="c"),
        Interfaces("10.0.0.1:443", roles=CERTIFIED, certificate="c", clients="a"),
        Interfaces("127.0.0.1:80", roles=ROLES, plain_http=True),
        Interfaces(path, "[::1]:80", roles=ROLES, plain_http=True),
    ):
        good.check()
    for bad, where in (
        (Interfaces("127.0.0.1:80", plain_http=True), "--roles"),
        (Interfaces("10.0.0.1:443", certificate="c"), "--roles"),
        (Interfaces("10.0.0.1:443", roles=CERTIFIED, certificate="c"), "--roles"),
        (Interfaces("10.0.0.1:80", roles=ROLES), "--tls-certificate"),
        (Interfaces("10.0.0.1:80", roles=ROLES, plain_http=True), "--tls-certificate"),
        (Interfaces("localhost:80", roles=ROLES, plain_http=True), "--tls-certificate"),
        (Interfaces(path, "10.0.0.1:80", roles=ROLES), "--tls-certificate"),
        (Interfaces(path, "unix:/run/y", roles=ROLES), "--web"),
        (Interfaces("127.0.0.1:80", "127.0.0.1:81", roles=ROLES, plain_http=True), "--web"),
        (Interfaces(path, clients="a"), "--tls-clients"),
        (Interfaces("80"), "HOST:PORT"),
    ):
        with pytest.raises(FabricError, match=where):
            bad.check()


def test_a_token_goes_over_no_network_in_clear() -> None:
    for api in ("http://10.0.0.1:80", "http://localhost:80", "http://manager.example:80", "http://127.0.0.1@10.0.0.1:80"):
        with pytest.raises(FabricError, match="https:// only"):
            client_of(api, TOKEN)
        client_of(api).close()
    for api in ("http://127.0.0.1:80", "http://[::1]:80", "https://10.0.0.1:443"):
        client_of(api, TOKEN).close()


def test_switches_prove_themselves_or_are_listed(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours").make()
    certificate, authority = str(ours.issue("manager")), str(ours.certificate)
    assert Switches("0.0.0.0:6653", certificate, None, authority).access().tls is not None
    assert Switches("0.0.0.0:6653", plain=("10.0.0.0/8",)).access().plain and not Switches("unix:/run/x").access().plain
    for bad, where in (
        (Switches("0.0.0.0:6653"), "--openflow-plain"),
        (Switches("0.0.0.0:6653", certificate), "--openflow-switches"),
        (Switches("0.0.0.0:6653", authority=authority), "--openflow-certificate"),
        (Switches("0.0.0.0:6653", certificate, None, authority, ("10.0.0.0/8",)), "TLS or not"),
        (Switches("0.0.0.0:6653", plain=("everybody",)), "--openflow-plain"),
        (Switches("0.0.0.0:6653", authority, None, authority), "certificates of the OpenFlow port"),
    ):
        with pytest.raises(FabricError, match=where):
            bad.access()


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    common = ["serve", "--topology", "two-level:leaves=2,spines=1,hosts=1", "--store", f"sqlite:///{tmp_path}/store", "--api", f"unix:{tmp_path}/api"]
    for more, why in (([], "--openflow: over TCP needs"), (["--openflow", f"unix:{tmp_path}/of", "--web", "127.0.0.1:9"], "--web: over TCP needs --roles")):
        with pytest.raises(FabricError, match=why):
            CliRunner().invoke(cli, [*common, *more], catch_exceptions=False, standalone_mode=False)
    assert not os.path.exists(tmp_path / "api")
