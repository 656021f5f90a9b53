"""`ferrule-fabric doctor` on set-ups of Slurm that are right and wrong, with commands of the test's own in the path; and job_submit.lua in Debian's Lua."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ferrule_fabric.cli import cli
from ferrule_fabric.commands.doctor import Finding, settings_of, slurm_findings, topology_findings
from ferrule_fabric.manager.listening import Interfaces, servers_of
from ferrule_fabric.manager.service import Manager
from ferrule_fabric.manager.state import State
from ferrule_fabric.manager.worker import Worker
from ferrule_fabric.patterns.spec import pattern_of
from ferrule_fabric.store.database import Application, PatternStore, Run
from ferrule_fabric.topologies.spec import topology_of

# Slurm of Debian 12 has 5.1, others have 5.3 or 5.4.
LUAS = [path for path in map(shutil.which, ("lua5.1", "lua5.3", "lua5.4")) if path]
SCRIPT = Path(__file__).parents[1] / "slurm/job_submit.lua"
STATUS = {"admins": [0], "slurm": True}
HOSTS = {"h1", "h2"}
FAKES = {
    "scontrol": 'test "$1 $2" = "show config" && printf "Configuration data\\nEpilogSlurmctld[0]     = %s\\nEpilogSlurmctld         = %s\\nJobSubmitPlugins        = lua\\n" X "$EPILOG"',
    "sinfo": "printf 'h1\\nh2\\n'",
    "srun": "echo '      --comm-pattern=NAME   routes for this pattern'",
}


class Site:
    """A folder with slurm.conf and what it names, and fake commands."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.conf = folder, folder / "slurm.conf"
        (folder / "bin").mkdir()
        for name, body in FAKES.items():
            self.command(name, body)
        monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
        monkeypatch.setenv("EPILOG", f"{folder}/epilog")
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(folder / "api.sock"))
        self.write("spank_ferrule.so", "")
        self.write("plugstack.conf", f"# ours\noptional {folder}/spank_ferrule.so api={folder}/api.sock timeout_ms=2000\n")
        self.write("epilog", "#!/bin/sh\nexec /opt/ferrule/epilog.sh\n").chmod(0o755)
        self.write("job_submit.lua", SCRIPT.read_text())
        self.write("more.conf", f"EpilogSlurmctld={folder}/epilog\n")
        self.write("slurm.conf", "ClusterName=x\nSlurmUser=root # not the usual\n#EpilogSlurmctld=/nowhere\nInclude more.conf\njobsubmitplugins=lua\n")

    def write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text)
        return self.folder / name

    def command(self, name: str, body: str) -> None:
        self.write(f"bin/{name}", f"#!/bin/sh\n{body}\n").chmod(0o755)

    def wrong(self, status: dict[str, Any] | None = STATUS, hosts: set[str] | None = HOSTS) -> list[Finding]:
        return [finding for finding in slurm_findings(self.conf, status, hosts) if finding.good is False]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    one = Site(tmp_path, monkeypatch)
    yield one
    one.listening.close()


def test_a_right_set_up_has_nothing_wrong(site: Site) -> None:
    assert site.wrong() == []
    assert settings_of(site.conf)["slurmuser"] == "root" and settings_of(site.conf)["epilogslurmctld"].endswith("/epilog")
    assert ["ferrule-fabric serve --slurm" in finding.mend for finding in site.wrong(STATUS | {"slurm": False})] == [True]
    # Without the manager what only it knows is skipped.
    assert site.wrong(None, None) == [] and any(finding.good is None for finding in slurm_findings(site.conf, None, None))
    assert [finding.good for finding in slurm_findings(site.folder / "none.conf", STATUS, HOSTS)] == [None]


WRONG: dict[str, tuple[Callable[[Site], object], str, str]] = {
    "no plugin": (lambda site: site.write("plugstack.conf", "#optional spank_ferrule.so\n"), "plugstack.conf", "add: optional"),
    "no file": (lambda site: (site.folder / "spank_ferrule.so").unlink(), "spank_ferrule.so is there", "make spank"),
    "required": (lambda site: site.write("plugstack.conf", f"required {site.folder}/spank_ferrule.so\n"), "optional", "jobs fail"),
    "no socket": (lambda site: (site.folder / "api.sock").unlink(), "is a socket", "--api"),
    "epilog can't be run": (lambda site: (site.folder / "epilog").chmod(0o644), "EpilogSlurmctld ends", "docs/user"),
    "epilog of others": (lambda site: site.write("epilog", "#!/bin/sh\n# no ferrule here\n"), "EpilogSlurmctld ends", "docs/user"),
    "no such user": (lambda site: site.write("more.conf", f"EpilogSlurmctld={site.folder}/epilog\nSlurmUser=nobody-of-this-name\n"), "is a user", "none"),
    "not an administrator": (lambda site: site.write("more.conf", f"EpilogSlurmctld={site.folder}/epilog\nSlurmUser=nobody\n"), "may end all jobs", "--admin nobody"),
    "another script": (lambda site: site.write("job_submit.lua", "return slurm.SUCCESS\n"), "job_submit.lua", "interconnect/slurm"),
    "slurmctld is away": (lambda site: site.command("scontrol", "exit 1"), "slurmctld answers", "scontrol ping"),
    "old settings": (lambda site: site.command("scontrol", "echo 'EpilogSlurmctld = (null)'; echo 'JobSubmitPlugins = lua'"), "runs with these settings", "epilogslurmctld differ"),
    "other nodes": (lambda site: site.command("sinfo", "printf 'h1\\nn17\\n'"), "are hosts of the fabric", "n17"),
    "plugin not loaded": (lambda site: site.command("srun", "echo usage"), "--comm-pattern", "srun with -v"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_with_how_to_mend_it(site: Site, name: str) -> None:
    spoil, what, mend = WRONG[name]
    spoil(site)
    assert [(what in finding.what, mend in finding.mend) for finding in site.wrong()] == [(True, True)], site.wrong()


def test_an_epilog_may_call_ours(site: Site) -> None:
    site.write("ours.sh", "curl --unix-socket $FERRULE_FABRIC_SOCKET\n")
    site.write("epilog", f"#!/bin/sh\nexec {site.folder}/ours.sh\n")
    assert site.wrong() == []


def test_commands_that_hang_or_are_missing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferrule_fabric.commands.doctor.COMMAND_TIMEOUT_S", 4)
    site.command("scontrol", "exec sleep 100")
    assert [finding.what for finding in site.wrong()] == ["slurmctld answers"]
    monkeypatch.setenv("PATH", f"{site.folder}/none")
    assert ["no scontrol, sinfo, srun" in finding.mend for finding in site.wrong()] == [True]


def test_the_command(site: Site) -> None:
    done = CliRunner().invoke(cli, ["doctor", "--api", f"unix:{site.folder}/none.sock", "--slurm-conf", str(site.conf), "--topology", "torus:size=2x2"])
    assert done.exit_code == 1 and "BAD   unix:" in done.output and "start it: ferrule-fabric serve" in done.output and "ok    the plugin is in" in done.output
    assert [finding.good for finding in topology_findings("two-level:leaves=2,spines=1,hosts=1")] == [True, True, True]
    assert [finding.good for finding in topology_findings("file:/nowhere")] == [False]


# Lua

HARNESS = """
slurm = {SUCCESS = 0, log_info = function(format, ...) io.write("log: ", string.format(format, ...), "\\n") end}
assert(dofile(arg[1]) == 0)
local job = (loadstring or load)("return " .. arg[2])()
assert(slurm_job_submit(job, {}, 1000) == slurm.SUCCESS)
assert(slurm_job_modify(job, {}, {}, 1000) == slurm.SUCCESS)
io.write(string.format("req_switch=%s wait4switch=%s\\n", tostring(job.req_switch), tostring(job.wait4switch)))
"""
BATCH = "{environment = {FERRULE_COMM_PATTERN = '%s'}, num_tasks = %d, min_nodes = %d}"


@pytest.fixture(scope="module")
def advisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of a manager that knows a pattern which is best packed closely, and one for which it makes no difference."""
    folder = tmp_path_factory.mktemp("advisor")

    async def in_a_thread(_: Worker, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.to_thread(function, *arguments)

    url, path = f"sqlite:///{folder}/store", folder / "api.sock"
    state = State(url)
    with pytest.MonkeyPatch.context() as patch, PatternStore(url) as patterns:
        patch.setattr(Worker, "run", in_a_thread)
        for name, spec in (("near", "alltoall:ranks=8,bytes=1000000"), ("a+b", "alltoall:ranks=8,bytes=1000000")):
            patterns.add(Run(Application(name, "", 8), "", 0.0, 1.0, ()), pattern_of(spec).total)
        # Ranks of one host talk to each other only.
        patterns.add(Run(Application("own", "", 8), "", 0.0, 1.0, ()), pattern_of("shift:ranks=8,bytes=0").total)
        manager = Manager(topology_of("two-level:leaves=4,spines=2,hosts=5"), state, patterns, frozenset({0}), 100_000)
        ((server, sockets),) = servers_of(manager, Interfaces(f"unix:{path}"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=sockets)), daemon=True)
        thread.start()
        deadline = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive() and time.monotonic() < deadline
            time.sleep(0.01)
        yield str(path)
        server.should_exit = server.force_exit = True
        thread.join(60)
        manager.close()
    state.close()


def submitted(job: str, path: str, folder: Path, wanted: str = "") -> str:
    """What the script says and does, the same in every Lua. Where an answer is ``wanted`` it may come too late for the script: then once more."""
    (folder / "harness.lua").write_text(HARNESS)
    environment = os.environ | {"FERRULE_FABRIC_SOCKET": path}

    def once(lua: str) -> str:
        done = subprocess.run([lua, str(folder / "harness.lua"), str(SCRIPT), job], capture_output=True, text=True, timeout=60, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = []
    for lua in LUAS:
        found.append(once(lua))
        deadline = time.monotonic() + 60
        while wanted not in found[-1] and time.monotonic() < deadline:
            time.sleep(0.3)
            found[-1] = once(lua)
    assert len({told.splitlines()[-1] for told in found}) == 1, found
    return found[0]


@pytest.mark.skipif(not LUAS or shutil.which("curl") is None, reason="no lua or no curl")
def test_batch_jobs_are_packed_as_their_pattern_wants(advisor: str, tmp_path: Path) -> None:
    for pattern in ("near", "a+b"):
        told = submitted(BATCH % (pattern, 8, 4), advisor, tmp_path, "req_switch=1 ")
        assert "req_switch=1 wait4switch=300" in told and "at most 1 leaf switches" in told, told
    # Of five hosts to a leaf, six need two; with as many nodes as ranks per node the same by ntasks_per_node.
    for job, wanted in ((BATCH % ("near", 8, 6), "req_switch=2 "), ("{environment = {FERRULE_COMM_PATTERN = 'near'}, num_tasks = 4294967294, min_nodes = 4, ntasks_per_node = 2}", "req_switch=1 ")):
        assert wanted in submitted(job, advisor, tmp_path, wanted)


@pytest.mark.skipif(not LUAS or shutil.which("curl") is None, reason="no lua or no curl")
@pytest.mark.parametrize(
    ("job", "log"),
    [
        ("{}", None),
        ("{environment = {}}", None),
        ("{environment = {FERRULE_COMM_PATTERN = 'near'}, num_tasks = 8, min_nodes = 1}", None),
        ("{environment = {FERRULE_COMM_PATTERN = 'near'}, num_tasks = 4294967294, min_nodes = 4294967294}", None),
        ("{environment = {FERRULE_COMM_PATTERN = \"x'; touch /tmp/hacked; '\"}, num_tasks = 8, min_nodes = 4}", None),
        ("{environment = {FERRULE_COMM_PATTERN = '$(id)'}, num_tasks = 8, min_nodes = 4}", None),
        (BATCH % ("unknown", 8, 4), "no pattern"),
        (BATCH % ("near", 16, 4), "no pattern"),
    ],
)
def test_other_jobs_stay_as_they_are(advisor: str, tmp_path: Path, job: str, log: str | None) -> None:
    told = submitted(job, advisor, tmp_path, log or "")
    assert "req_switch=nil wait4switch=nil" in told and (log in told if log else "log:" not in told), told


@pytest.mark.skipif(not LUAS or shutil.which("curl") is None, reason="no lua or no curl")
def test_jobs_are_submitted_without_the_manager_and_users_have_the_last_word(advisor: str, tmp_path: Path) -> None:
    told = submitted(BATCH % ("near", 8, 4), "/nowhere/api.sock", tmp_path)
    assert "no choice of nodes" in told and "req_switch=nil" in told
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen()
        told = submitted(BATCH % ("near", 8, 4), str(tmp_path / "silent.sock"), tmp_path)
        assert "no choice of nodes" in told and "req_switch=nil" in told
    told = submitted("{environment = {FERRULE_COMM_PATTERN = 'near'}, num_tasks = 8, min_nodes = 4, req_switch = 3}", advisor, tmp_path)
    assert "req_switch=3 wait4switch=nil" in told
