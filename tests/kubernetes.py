#!/usr/bin/env python3
"""The Kubernetes examples without a cluster.

1. The manifests: what the API's schemas demand (written down here), and names that refer to each other.
2. Their own mpiexec commands, run with a `kubectl` that enters network namespaces in the place of pods, once with a network between
   pods and launcher and once without, and with a script that is called as ssh is.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples/kubernetes"
NETNS = ROOT / "testbeds/netns"

try:
    import yaml
except ImportError:
    venv = ROOT / "build/venv-yaml"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([str(venv / "bin/pip"), "install", "-q", "--disable-pip-version-check", "pyyaml==6.0.3"], check=True)
    os.execv(venv / "bin/python", [str(venv / "bin/python"), *sys.argv])

Tree = typing.Any
#: A field's path → type; `?` in front: it may be missing; `[]`: every element; `*`: every value.
POD = {"spec.containers": list, "spec.containers.[].name": str, "spec.containers.[].image": str, "?spec.containers.[].imagePullPolicy": str, "?spec.containers.[].command.[]": str,
       "?spec.containers.[].args.[]": str, "?spec.containers.[].env.[].name": str, "?spec.containers.[].volumeMounts.[].mountPath": str}
SCHEMAS: dict[tuple[str, str], dict[str, type]] = {
    ("kubeflow.org/v2beta1", "MPIJob"): {
        "?spec.slotsPerWorker": int, "?spec.mpiImplementation": str, "?spec.runPolicy.cleanPodPolicy": str, "?spec.runPolicy.backoffLimit": int,
        "?spec.runPolicy.ttlSecondsAfterFinished": int, "spec.mpiReplicaSpecs.Launcher": dict, "spec.mpiReplicaSpecs.Worker": dict,
        "spec.mpiReplicaSpecs.*.replicas": int, "?spec.mpiReplicaSpecs.*.restartPolicy": str,
        **{f"spec.mpiReplicaSpecs.*.template.{key.lstrip('?')}" if key[0] != "?" else f"?spec.mpiReplicaSpecs.*.template.{key[1:]}": kind for key, kind in POD.items()},
    },
    ("apps/v1", "StatefulSet"): {"spec.serviceName": str, "spec.replicas": int, "spec.selector.matchLabels": dict, "spec.template.metadata.labels": dict},
    ("batch/v1", "Job"): {"spec.template.spec.restartPolicy": str, "spec.template.spec.containers": list},
    ("v1", "Service"): {"spec.clusterIP": str, "spec.selector": dict},
    ("v1", "ConfigMap"): {"data.*": str},
    ("v1", "ServiceAccount"): {},
    ("rbac.authorization.k8s.io/v1", "Role"): {"rules.[].apiGroups.[]": str, "rules.[].resources.[]": str, "rules.[].verbs.[]": str},
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): {"roleRef.name": str, "roleRef.kind": str, "roleRef.apiGroup": str, "subjects.[].name": str},
}
ENUMS = {"cleanPodPolicy": {"None", "Running", "All"}, "mpiImplementation": {"OpenMPI", "Intel", "MPICH"}, "restartPolicy": {"Never", "OnFailure", "Always", "ExitCode"},
         "imagePullPolicy": {"Always", "IfNotPresent", "Never"}}
KNOWN_SPEC = {"slotsPerWorker", "mpiImplementation", "runPolicy", "mpiReplicaSpecs", "sshAuthMountPath", "launcherCreationPolicy", "runLauncherAsWorker"}
KUBECTL = """#!/bin/sh
# kubectl exec -i POD -- COMMAND, where a pod is a network namespace with a host name of its own.
[ "$1 $2" = "exec -i" ] && [ "$4" = -- ] || { echo "error: unknown command: $*" >&2; exit 1; }
pod=$3
shift 4
case $pod in
  fft-worker-[01]) exec ip netns exec "$PODS-$((${pod##*-} + 1))" unshare --uts sh -c 'hostname "$0" 2>/dev/null || echo "$0" > /proc/sys/kernel/hostname; exec "$@"' "$pod" "$@" ;;
  *) echo "Error from server (NotFound): pods \\"$pod\\" not found" >&2; exit 1 ;;
esac
"""
AGENT = """#!/bin/sh
# As an rsh agent: SCRIPT HOST COMMAND.
pod=${1%%.*}
shift
exec kubectl exec -i "$pod" -- sh -c "$*"
"""


def values(tree: Tree, path: str) -> typing.Iterator[Tree]:
    """All values at a path; KeyError if one is missing."""
    head, _, rest = path.partition(".")
    found: list[Tree] = list(tree) if head == "[]" else list(tree.values()) if head == "*" else [tree[head]]
    for value in found:
        if rest:
            yield from values(value, rest)
        else:
            yield value


def check(name: str, document: Tree) -> None:
    """Raises AssertionError if a manifest would be refused."""
    kind = (document["apiVersion"], document["kind"])
    assert kind in SCHEMAS, f"{name}: unknown {kind}"
    label = document["metadata"]["name"]
    assert label == label.lower() and label.replace("-", "").isalnum() and len(label) < 50, label
    for path, wanted in SCHEMAS[kind].items():
        try:
            for value in values(document, path.lstrip("?")):
                assert isinstance(value, wanted), f"{name}: {path} is {value!r}, not of type {wanted.__name__}"
                allowed = ENUMS.get(path.rsplit(".", 1)[-1])
                assert allowed is None or value in allowed, f"{name}: {path} is {value!r}"
        except KeyError as missing:
            assert path[0] == "?", f"{name}: {kind[1]} lacks {path} ({missing})"


def check_all() -> dict[str, list[Tree]]:
    """Reads and checks the manifests."""
    manifests = {path.name: list(yaml.safe_load_all(path.read_text())) for path in sorted(EXAMPLES.glob("*.yaml"))}
    for name, documents in manifests.items():
        for document in documents:
            check(name, document)
    account = manifests["rights.yaml"][0]["metadata"]["name"]
    job = manifests["mpijob.yaml"][0]["spec"]
    assert set(job) <= KNOWN_SPEC, set(job) - KNOWN_SPEC
    assert job["mpiReplicaSpecs"]["Launcher"]["replicas"] == 1
    assert job["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["serviceAccountName"] == account
    service, hosts, workers, launcher = manifests["statefulset.yaml"]
    assert workers["spec"]["serviceName"] == service["metadata"]["name"]
    assert workers["spec"]["selector"]["matchLabels"] == workers["spec"]["template"]["metadata"]["labels"] == service["spec"]["selector"]
    pod = launcher["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account and pod["restartPolicy"] in ("Never", "OnFailure")
    assert pod["volumes"][0]["configMap"]["name"] == hosts["metadata"]["name"]
    named = [line.split()[0] for line in hosts["data"]["hostfile"].splitlines()]
    assert named == [f"{workers['metadata']['name']}-{i}" for i in range(workers["spec"]["replicas"])], named
    for template in (workers["spec"]["template"], launcher["spec"]["template"]):
        mounts = {mount["name"] for mount in template["spec"]["containers"][0].get("volumeMounts", [])}
        assert mounts == {volume["name"] for volume in template["spec"].get("volumes", [])}
    return manifests


class Cluster:
    """Two pods, a launcher, and a directory with kubectl, host files and the program."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.prefix = folder, f"fk{os.getpid()}"
        (folder / "bin").mkdir()
        for name, text in (("bin/kubectl", KUBECTL), ("kubexec.sh", AGENT)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        (folder / "bin/mpiexec").symlink_to(ROOT / "dist/bin/mpiexec")
        self.program = folder / "fft3d"
        subprocess.run([str(ROOT / "dist/bin/mpicc"), "-O2", "-o", str(self.program), str(ROOT / "examples/fft3d/fft3d.c"), "-lm"], check=True)

    def run(self, command: list[str], hostfile: str, reachable: bool, env: dict[str, str] | None = None) -> tuple[int, str]:
        """Runs a launcher container's command; `reachable` puts the launcher into the pods' network."""
        (self.folder / "hostfile").write_text(hostfile)
        words = [str(self.folder / "hostfile") if w == "/etc/mpi/hostfile" else str(self.program) if w == "/app/fft3d" else "16" if w == "64" else w for w in command]
        before = ["ip", "netns", "exec", f"{self.prefix}-1"] if reachable else []
        environment = dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}", PODS=self.prefix, **(env or {}))
        done = subprocess.run([*before, *words], check=False, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        return done.returncode, done.stdout


def run_all(cluster: Cluster, manifests: dict[str, list[Tree]]) -> None:
    containers = {
        "mpijob": manifests["mpijob.yaml"][0]["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0],
        "statefulset": manifests["statefulset.yaml"][3]["spec"]["template"]["spec"]["containers"][0],
    }
    hostfiles = {
        # What the operator writes for MPICH and Intel MPI, and for Open MPI.
        "mpijob": ["".join(f"fft-worker-{i}.fft.default.svc{slots}\n" for i in (0, 1)) for slots in (":2", " slots=2")],
        "statefulset": [manifests["statefulset.yaml"][1]["data"]["hostfile"]],
    }
    for name, container in containers.items():
        for hostfile in hostfiles[name]:
            for reachable in (True, False):
                code, out = cluster.run([*container["command"], *container["args"]], hostfile, reachable)
                assert code == 0 and "error" in out.lower(), f"{name}, reachable={reachable}: exit code {code}\n{out}"
                print(f"ok   {name} {hostfile.split()[0]} launcher {'in' if reachable else 'outside of'} the pods' network")
    plain = ["mpiexec", "--hostfile", "/etc/mpi/hostfile", "sh", "-c", "cat /proc/sys/kernel/hostname"]
    wanted = ["fft-worker-0", "fft-worker-0", "fft-worker-1", "fft-worker-1"]
    script = str(cluster.folder / "kubexec.sh")
    for how, env in (("--launcher-exec", {}), ("FERRULE_LAUNCHER_EXEC", {"FERRULE_LAUNCHER_EXEC": script})):
        command = [*plain[:1], *([] if env else [how, script]), *plain[1:]]
        code, out = cluster.run(command, hostfiles["mpijob"][0], False, env)
        assert (code, sorted(out.split())) == (0, wanted), f"{how}: {code}\n{out}"
        print(f"ok   a script that is called as ssh is, by {how}")
    template = "kubectl exec -i {pod} -- {command}"
    code, out = cluster.run([*plain[:1], "--launcher-exec", template, *plain[1:]], "nosuch.fft.default.svc:1\n", False)
    assert code == 1 and "NotFound" in out and "on nosuch.fft.default.svc" in out, f"{code}\n{out}"
    print("ok   a pod that isn't there is named")


def main() -> int:
    manifests = check_all()
    print(f"ok   {sum(map(len, manifests.values()))} objects in {len(manifests)} manifests")
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "--uts", "true"], check=False, capture_output=True).returncode:
        print("SKIP the exec path: this machine doesn't let us make namespaces")
        return 0
    with tempfile.TemporaryDirectory(prefix="fk-") as folder:
        cluster = Cluster(pathlib.Path(folder))
        try:
            subprocess.run([str(NETNS / "create.sh"), cluster.prefix], check=True, stdout=subprocess.DEVNULL)
            run_all(cluster, manifests)
        finally:
            subprocess.run([str(NETNS / "remove.sh"), cluster.prefix], check=False)
    print("1 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
