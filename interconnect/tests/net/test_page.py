"""The page in a real browser: live links, a job's flows, a failed link, a token."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from conftest import spec_of
from slurm_world import transfer

import fabric as ovs
from ferrule_fabric.model.documents import topology_to_json
from ferrule_fabric.model.topology import Topology

TOKEN = "a token for this test only"
JOB = {"job": "page", "hosts": ["h1", "h6", "h11", "h16"], "traffic": {"src": [0, 1, 2], "dst": [1, 0, 3], "bytes": [5000, 3000, 9000]}}
PATIENCE_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_page(paper: Topology, tmp_path: Path) -> None:
    browser_path = shutil.which("chromium")
    for why in (ovs.missing(), None if browser_path else "no chromium"):
        if why:
            pytest.skip(why)
    playwright = pytest.importorskip("playwright.sync_api")
    (tmp_path / "topology.json").write_text(topology_to_json(paper))
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    address = f"http://127.0.0.1:{free_port()}"
    with ovs.Fabric.up(spec_of(paper)) as fabric:
        main = [sys.executable, "-c", "from ferrule_fabric.commands.network import serve; serve()", "--topology", f"file:{tmp_path}/topology.json", "--store", f"sqlite:///{tmp_path}/db"]
        with open(tmp_path / "log", "wb") as log:
            served = subprocess.Popen([*main, "--api", address[7:], "--token-file", str(tmp_path / "token"), "--openflow", f"unix:{fabric.controller_socket}"], stderr=log)
        try:
            client = httpx.Client(base_url=address, headers={"Authorization": f"Bearer {TOKEN}"})
            until_ready(client, fabric, served, tmp_path / "log")
            assert httpx.get(f"{address}/v1/jobs").status_code == 401
            assert client.post("/v1/jobs", json=JOB).status_code == 201
            with playwright.sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
                try:
                    look(browser.new_page(), playwright.expect, address, fabric)
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


def look(page, expect, address: str, fabric: ovs.Fabric) -> None:  # type: ignore[no-untyped-def]
    errors: list[str] = []
    outside: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: outside.append(request.url) if not request.url.startswith((address, "data:")) else None)
    page.goto(address)
    page.locator("#token").fill(TOKEN)
    page.get_by_role("button", name="Enter").click()
    status = page.locator("#status")
    expect(status).to_contain_text("6 of 6 switches", timeout=20_000)
    expect(page.locator("circle.host")).to_have_count(20)
    expect(page.locator("rect.switch")).to_have_count(6)
    page.locator("#jobs tbody tr").first.click()
    expect(page.locator("#flows tbody tr")).to_have_count(3)
    expect(page.locator("#flows tbody tr").first).to_contain_text("9,000")
    assert page.locator("line.path[visibility=visible]").count() >= 6
    transfer(fabric, "h1", "h6", 30_000_000)
    expect(page.locator("#hot tbody")).to_contain_text("h6", timeout=10_000)
    fabric.cut("s1-3", "s2-2")
    expect(status).to_contain_text("down: s1-3 - s2-2", timeout=10_000)
    expect(page.locator("line.down")).to_have_count(1)
    assert not errors and not outside, (errors, outside)
    assert re.search(r"\d+ rules", status.inner_text())
