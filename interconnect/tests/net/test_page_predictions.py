"""What the page predicts, in a real browser: a job before and after, its history, what-if. No switches needed: none is touched."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from standing import free_port
from test_page import TOKEN

from ferrule_fabric.model.documents import topology_to_json
from ferrule_fabric.model.topology import Topology

# D-mod-K sends each host's bytes over the spine of its number: h6 and h8, h11 and h13 … share one, so there is something to gain.
HOSTS = [f"h{number}" for number in (1, 2, 3, 4, 6, 8, 11, 13)]
TRAFFIC = {"src": [0, 1, 2, 3, 4, 5], "dst": [4, 5, 6, 7, 6, 7], "bytes": [40_000_000, 40_000_000, 30_000_000, 30_000_000, 20_000_000, 20_000_000]}
PATIENCE_S, SHOWN_MS = 120, 60_000
SCREENSHOT = os.environ.get("FERRULE_SCREENSHOT")
"""Where to write a picture of the page, for the documentation."""


def test_the_page_predicts(paper: Topology, tmp_path: Path) -> None:
    browser_path = shutil.which("chromium")
    if not browser_path:
        pytest.skip("no chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    (tmp_path / "topology.json").write_text(topology_to_json(paper))
    (tmp_path / "roles").write_text(f"administrator token {TOKEN}\n")
    (tmp_path / "roles").chmod(0o600)
    address = f"http://127.0.0.1:{free_port()}"
    main = [sys.executable, "-c", "from ferrule_fabric.commands.serve import serve; serve()", "--topology", f"file:{tmp_path}/topology.json", "--store", f"sqlite:///{tmp_path}/db"]
    with open(tmp_path / "log", "wb") as log:
        served = subprocess.Popen([*main, "--api", address[7:], "--roles", str(tmp_path / "roles"), "--plain-http", "--openflow", f"unix:{tmp_path}/openflow"], stderr=log)
    try:
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S) as client:
            until_up(client, served, tmp_path / "log")
            for job in ("earlier", "cg.C"):
                assert client.post("/v1/jobs", json={"job": job, "hosts": HOSTS, "traffic": TRAFFIC}).status_code == 201
            client.delete("/v1/jobs/earlier")
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
            try:
                look(browser.new_page(viewport={"width": 1400, "height": 1700}), playwright.expect, address)
            finally:
                browser.close()
    finally:
        served.send_signal(signal.SIGKILL)
        served.wait()


def until_up(client: httpx.Client, served: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            client.get("/healthz")
            return
        except httpx.HTTPError:
            assert served.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)


def look(page, expect, address: str) -> None:  # type: ignore[no-untyped-def]
    expect.set_options(timeout=SHOWN_MS)
    page.set_default_timeout(SHOWN_MS)
    errors: list[str] = []
    outside: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" and "401" not in message.text else None)
    page.on("request", lambda request: outside.append(request.url) if not request.url.startswith((address, "data:")) else None)
    page.goto(address)
    page.locator("#token").fill(TOKEN)
    page.get_by_role("button", name="Enter").click()
    page.locator("#jobs tbody tr").first.click(timeout=20_000)
    # Before and after.
    expect(page.locator("#gain")).to_contain_text("→")
    expect(page.locator("#gain")).to_contain_text("−")
    assert page.locator("#bars rect.before").count() == page.locator("#bars rect.after").count() >= 4
    page.get_by_label("job on default routes").check()
    expect(page.locator("line.load4").first).to_be_attached()
    hottest = page.locator("line.load4").count()
    page.get_by_label("job on its routes").check()
    expect(page.locator("#scale")).to_contain_text("iteration")
    assert page.locator("#fabric line.load4").count() <= hottest
    # History: the job that has ended has a duration, the other runs.
    expect(page.locator("#history tbody tr")).to_have_count(2)
    expect(page.locator("#history tbody tr").first).to_contain_text("running")
    expect(page.locator("#history tbody tr").nth(1)).to_contain_text("−")
    # What if.
    page.locator("#pattern").fill("file:/etc/passwd")
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#answering")).to_contain_text("what-if.ranks")
    errors[:] = [error for error in errors if "400" not in error]
    page.locator("#pattern").fill("cg:ranks=128,bytes=1e8")
    page.locator("#routings").select_option(["d-mod-k", "ferrule", "split"])
    page.locator("#placements").select_option(["block", "cyclic", "joint"])
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#answers tbody tr")).to_have_count(9)
    expect(page.locator("#answers tr.best").first).not_to_contain_text("d-mod-k")
    page.locator("#answers tbody tr").first.click()
    expect(page.locator("input[value=whatif]")).to_be_checked()
    expect(page.locator("#scale")).to_contain_text("all answers")
    if SCREENSHOT:
        page.get_by_label("job on its routes").check()
        page.screenshot(path=SCREENSHOT, full_page=True)
    assert not errors and not outside, (errors, outside)
