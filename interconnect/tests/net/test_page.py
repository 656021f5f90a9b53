"""The page in a real browser: live links, a job's flows, a failed link, a token."""

from __future__ import annotations

import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from authority import Authority
from conftest import spec_of
from slurm_world import transfer
from standing import free_port

import fabric as ovs
from ferrule_fabric.model.documents import topology_to_json
from ferrule_fabric.model.topology import Topology

TOKEN = "a-token-for-this-test-only"
JOB = {"job": "page", "hosts": ["h1", "h6", "h11", "h16"], "traffic": {"src": [0, 1, 2], "dst": [1, 0, 3], "bytes": [5000, 3000, 9000]}}
PATIENCE_S, SHOWN_MS = 300, 60_000


def test_the_page(paper: Topology, tmp_path: Path) -> None:
    browser_path = shutil.which("chromium")
    for why in (ovs.missing(), None if browser_path else "no chromium"):
        if why:
            pytest.skip(why)
    playwright = pytest.importorskip("playwright.sync_api")
    (tmp_path / "topology.json").write_text(topology_to_json(paper))
    (tmp_path / "roles").write_text(f"administrator token {TOKEN}\n")
    (tmp_path / "roles").chmod(0o600)
    authority = Authority(tmp_path, "ours").make()
    address = f"https://127.0.0.1:{free_port()}"
    with ovs.Fabric.up(spec_of(paper)) as fabric:
        main = [sys.executable, "-c", "from ferrule_fabric.commands.serve import serve; serve()", "--topology", f"file:{tmp_path}/topology.json", "--store", f"sqlite:///{tmp_path}/db"]
        certificate = str(authority.issue("manager"))
        api = ["--api", f"unix:{tmp_path}/api", "--web", address[8:], "--roles", str(tmp_path / "roles"), "--tls-certificate", certificate, "--tls-key", certificate]
        with open(tmp_path / "log", "wb") as log:
            served = subprocess.Popen([*main, *api, "--openflow", f"unix:{fabric.controller_socket}"], stderr=log)
        try:
            client = httpx.Client(base_url=address, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S, verify=ssl.create_default_context(cafile=authority.certificate))
            until_ready(client, fabric, served, tmp_path / "log")
            assert client.get("/v1/jobs", headers={"Authorization": "Bearer wrong"}).status_code == 401
            assert client.post("/v1/jobs", json=JOB).status_code == 201
            with playwright.sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
                try:
                    look(browser.new_page(ignore_https_errors=True), playwright.expect, address, fabric)
                finally:
                    browser.close()
        finally:
            served.send_signal(signal.SIGKILL)
            served.wait()


def until_ready(client: httpx.Client, fabric: ovs.Fabric, served: subprocess.Popen[bytes], log: Path) -> None:
    deadline, nudged = time.monotonic() + PATIENCE_S, False
    while True:
        try:
            if client.get("/healthz").json()["ready"]:
                return
            if not nudged:
                fabric.reconnect()
                nudged = True
        except httpx.HTTPError:
            pass
        assert served.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.1)


@contextmanager
def carrying(fabric: ovs.Fabric, src: str, dst: str) -> Iterator[None]:
    """Bytes go from host to host all the time: what a single transfer puts on the links is shown for a second only."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            transfer(fabric, src, dst, 10_000_000)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def look(page, expect, address: str, fabric: ovs.Fabric) -> None:  # type: ignore[no-untyped-def]
    expect.set_options(timeout=SHOWN_MS)
    page.set_default_timeout(SHOWN_MS)
    errors: list[str] = []
    outside: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: outside.append(request.url) if not request.url.startswith((address, "data:")) else None)
    page.goto(address)
    page.locator("#token").fill(TOKEN)
    page.get_by_role("button", name="Enter").click()
    status = page.locator("#status")
    expect(status).to_contain_text("6 of 6 switches")
    expect(page.locator("circle.host")).to_have_count(20)
    expect(page.locator("rect.switch")).to_have_count(6)
    page.locator("#jobs tbody tr").first.click()
    expect(page.locator("#flows tbody tr")).to_have_count(3)
    expect(page.locator("#flows tbody tr").first).to_contain_text("9,000")
    expect(page.locator("line.path[visibility=visible]").nth(5)).to_be_attached()
    with carrying(fabric, "h1", "h6"):
        expect(page.locator("#hot tbody")).to_contain_text("h6")
    fabric.cut("s1-3", "s2-2")
    expect(status).to_contain_text("down: s1-3 - s2-2")
    expect(page.locator("line.down")).to_have_count(1)
    assert not errors and not outside, (errors, outside)
    assert re.search(r"\d+ rules", status.inner_text())
