#!/usr/bin/env python3
"""`make packages`: the .deb installed, used and removed; the tarball at another place; the .rpm read back; what the image would hold; recipes.

Run by the Python of build/venv, which has rpmfile, EasyBuild's framework and rattler-build (mk/packages.mk).

Usage: tests/packaged.py
"""

from __future__ import annotations

import ast
import functools
import gzip
import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile

import cases
import patience

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: Programs and libraries may need these and nothing else; the packages depend on what holds them.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libmpi_abi.so.1", "libmpi.so.12"}
#: What a package may hold outside of /opt/ferrule. Names of other MPI libraries are not there.
OUTSIDE = {"usr", "usr/bin", "usr/share", "usr/share/doc", "usr/share/doc/ferrule", "usr/share/doc/ferrule/copyright", "usr/share/licenses", "usr/share/licenses/ferrule",
           "usr/share/licenses/ferrule/LICENSE", "usr/bin/ferrule", *(f"usr/bin/{name}.ferrule" for name in ("mpiexec", "mpirun", "mpicc", "mpicxx", "mpifort"))}
EXAMPLE = ROOT / "examples/hello.c"
SAID = ["rank 0 of 2", "rank 1 of 2", "sum of the ranks: 1"]
#: Reads a module file as Environment Modules would, and prints what it sets.
MODULE_READER = """
set ModulesCurrentModulefile [lindex $argv 0]
foreach name {conflict module-whatis} { proc $name args {} }
foreach name {prepend-path setenv} { proc $name args "puts \\"$name \\$args\\"" }
source $ModulesCurrentModulefile
ModulesHelp
"""


def run(*command: str | pathlib.Path, **settings: str) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"} | settings,
                          timeout=patience.WATCHDOG_S)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}: exit code {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def make(out: pathlib.Path, dist: pathlib.Path, umask: int = 0o022) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "packaging/build.py"), "--out", str(out), "--dist", str(dist)], capture_output=True, text=True, umask=umask,
                          timeout=3 * patience.WATCHDOG_S)
    assert done.returncode == 0, done.stdout + done.stderr


def one(made: pathlib.Path, pattern: str) -> pathlib.Path:
    [found] = made.glob(pattern)
    return found


def entries(tree: pathlib.Path) -> set[str]:
    return {str(path.relative_to(tree)) for path in tree.rglob("*")}


def compiled_and_run(tree: pathlib.Path, work: pathlib.Path) -> None:
    """hello.c, compiled and run by what is in `tree`."""
    run(tree / "bin/mpicc", EXAMPLE, "-o", work / "hello")
    check_said(run(tree / "bin/mpiexec", "-n", "2", work / "hello"))
    assert str(tree / "lib/libmpi_abi.so.1") in run("ldd", work / "hello"), "the program uses another library"


def check_said(said: str) -> None:
    assert sorted(line.split(" on ")[0] for line in said.splitlines()) == SAID, said


def check_tree(tree: pathlib.Path, owner: tuple[int, int]) -> None:
    """Owners, modes, libraries that are needed, and no path of the machine that built it."""
    forbidden = [f"{folder}/".encode() for folder in (ROOT, pathlib.Path.home()) if folder != pathlib.Path("/")]
    elves = 0
    for path in [tree, *tree.rglob("*")]:
        info = path.lstat()
        assert (info.st_uid, info.st_gid) == owner, f"{path} belongs to {info.st_uid}:{info.st_gid}"
        if path.is_symlink():
            assert not os.path.isabs(os.readlink(path)) and path.exists(), f"{path} points to {os.readlink(path)}"
            continue
        mode = stat.S_IMODE(info.st_mode)
        if path.is_dir():
            assert mode == 0o755, f"{path} has mode {mode:o}"
            continue
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        program = data[:4] == b"\x7fELF" or path.parent.name == "bin"
        assert mode == (0o755 if program else 0o644), f"{path} has mode {mode:o}"
        for folder in forbidden:
            assert folder not in data, f"{path} names {folder.decode()}"
        if data[:4] == b"\x7fELF":
            elves += 1
            needed = set(re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-d", path)))
            assert needed <= SYSTEM_LIBRARIES, f"{path} needs {needed - SYSTEM_LIBRARIES}"
            assert ".debug_info" not in run("readelf", "-SW", path), f"{path} has debug information"
    assert elves == 8, f"{elves} programs and libraries"
    assert (tree / "share/doc/ferrule/examples/hello.c").read_bytes() == EXAMPLE.read_bytes()
    assert {"LICENSE", "examples", "licences.md", "licences-of-crates.txt", "options.md", "settings.md"} == {path.name for path in (tree / "share/doc/ferrule").iterdir()}


def same_bytes_again(made: pathlib.Path, tmp: pathlib.Path) -> None:
    """From a copy with other times and a plug-in of the site, under another umask."""
    shutil.copytree(ROOT / "dist", tmp / "dist", symlinks=True, copy_function=shutil.copyfile)
    (tmp / "dist/lib/ferrule").mkdir(exist_ok=True)
    (tmp / "dist/lib/ferrule/plugin.so").write_text("of the site")
    for path in (ROOT / "dist").rglob("*"):
        if path.is_file() and not path.is_symlink() and os.access(path, os.X_OK):
            (tmp / "dist" / path.relative_to(ROOT / "dist")).chmod(0o700)
    make(tmp / "again", tmp / "dist", umask=0o077)
    first, second = ((folder / "SHA256SUMS").read_text().splitlines() for folder in (made, tmp / "again"))
    assert first == second, f"{set(first) ^ set(second)}"


def deb(made: pathlib.Path, tmp: pathlib.Path) -> None:
    """Installed into an empty root, used, removed; nothing is left."""
    package = one(made, "*.deb")
    assert run("dpkg-deb", "-f", package, "Package", "Architecture").splitlines() == ["Package: ferrule", "Architecture: amd64"]
    [needed] = re.findall(r"libc6 \(>= ([0-9.]+)\)", run("dpkg-deb", "-f", package, "Depends"))
    assert tuple(map(int, needed.split("."))) >= (2, 34), needed
    assert "gfortran" not in run("dpkg-deb", "-f", package, "Depends") and "libgfortran5" in run("dpkg-deb", "-f", package, "Recommends")
    run("dpkg-deb", "-e", package, tmp / "control")
    assert {path.name for path in (tmp / "control").iterdir()} == {"control", "md5sums"}, "there are scripts of the maintainer"
    root, state = tmp / "root", tmp / "state"
    for folder in (root, state / "info", state / "updates"):
        folder.mkdir(parents=True)
    for name in ("status", "available"):
        (state / name).touch()
    dpkg = ["dpkg", f"--instdir={root}", f"--admindir={state}", f"--log={tmp}/log", "--force-depends", *(["--force-not-root"] if os.geteuid() else [])]
    run(*dpkg, "--install", package)
    assert run(*dpkg, "--audit") == ""
    assert run(*dpkg, "--verify", "ferrule") == "", "a file is not as the package has it"
    outside = {name for name in entries(root) if not name.startswith("opt")}
    assert outside <= OUTSIDE, outside - OUTSIDE
    tree = root / "opt/ferrule"
    check_tree(tree, (os.geteuid(), os.getegid()))
    for link in (root / "usr/bin").iterdir():
        assert os.access(f"{root}{os.readlink(link)}", os.X_OK), f"{link} points to {os.readlink(link)}"
    compiled_and_run(tree, tmp)
    run(*dpkg, "--purge", "ferrule")
    assert entries(root) == set(), entries(root)


def tarball(made: pathlib.Path, tmp: pathlib.Path) -> None:
    """Unpacked, moved, and run there; its module file finds the place."""
    with tarfile.open(one(made, "*-linux-x86_64.tar.gz")) as archive:
        assert all((member.uid, member.gid, member.uname) == (0, 0, "root") for member in archive)
    run("tar", "-xf", one(made, "*-linux-x86_64.tar.gz"), "-C", tmp)
    [unpacked] = [path for path in tmp.iterdir() if path.is_dir()]
    place = tmp / "some where/else"
    place.parent.mkdir()
    unpacked.rename(place)
    check_tree(place, (os.geteuid(), os.getegid()))
    compiled_and_run(place, tmp)
    [module] = (place / "share/modulefiles/ferrule").iterdir()
    (tmp / "reader.tcl").write_text(MODULE_READER)
    said = run("tclsh", tmp / "reader.tcl", module).splitlines()
    assert f"prepend-path PATH {{{place}/bin}}" in said and f"setenv MPI_HOME {{{place}}}" in said, said
    assert run(place / "bin/mpicc", "--showme:version").split()[1] == f"{module.name},", module.name


def rpm(made: pathlib.Path, tmp: pathlib.Path) -> None:
    """Read back: names, requirements, owners, modes and bytes are those of the .deb."""
    import rpmfile

    run("dpkg-deb", "-x", one(made, "*.deb"), tmp)
    with rpmfile.open(str(one(made, "*.rpm"))) as package:
        headers = package.headers
        assert (headers["name"], headers["arch"], headers["os"]) == (b"ferrule", b"x86_64", b"linux"), headers
        required = {name.decode() for name in headers["requirename"]}
        assert {"libgcc_s.so.1()(64bit)", "/bin/sh"} <= required and any(re.fullmatch(r"libc\.so\.6\(GLIBC_2\.[0-9]+\)\(64bit\)", name) for name in required), required
        assert not any("gfortran" in name for name in required), required
        assert not {"prein", "postin", "preun", "postun"} & set(headers), "there are scripts"
        assert set(headers["fileusername"]) == set(headers["filegroupname"]) == {b"root"}
        names = set()
        for member in package.getmembers():
            name = member.name.removeprefix("./").removeprefix("/")
            names.add(name)
            path = tmp / name
            if name.startswith("usr/share"):
                assert name in OUTSIDE, name
                continue
            mode = path.lstat().st_mode
            assert stat.S_ISLNK(mode) or member.mode == stat.S_IMODE(mode), f"{name} has mode {member.mode:o}, in the .deb {mode:o}"
            if stat.S_ISLNK(mode):
                assert package.extractfile(member).read().decode() == os.readlink(path), name
            elif stat.S_ISREG(mode):
                assert package.extractfile(member).read() == path.read_bytes(), f"{name} differs"
    files = {str(path.relative_to(tmp)) for path in tmp.rglob("*") if not path.is_dir() or path.is_symlink()} - {"usr/share/doc/ferrule/copyright"}
    assert files <= names, files - names
    # rpm removes only directories that the package lists.
    listed = {f"{headers['dirnames'][index].decode()}{base.decode()}".lstrip("/") for base, index in zip(headers["basenames"], headers["dirindexes"])}
    folders = {str(path.relative_to(tmp)) for path in (tmp / "opt/ferrule").rglob("*") if path.is_dir()} | {"opt/ferrule", "usr/share/licenses/ferrule"}
    assert listed == names | folders, listed ^ (names | folders)


def image(made: pathlib.Path, tmp: pathlib.Path) -> None:
    """The files that the Dockerfile copies, glibc and libgcc of this host, and a program run in a root of these and nothing else."""
    run("tar", "-xf", one(made, "*-linux-x86_64.tar.gz"), "-C", tmp)
    [tree] = [path for path in tmp.iterdir() if path.is_dir()]
    run(tree / "bin/mpicc", EXAMPLE, "-o", tmp / "hello")
    root = tmp / "root"
    settings: dict[str, str] = {}
    text = (ROOT / "packaging/image/Dockerfile").read_text()
    for words in map(str.split, text.splitlines()):
        if words[:2] == ["COPY", "--from=unpacked"]:
            target = root / words[-1].strip("/")
            target.mkdir(parents=True, exist_ok=True)
            for word in words[2:-1]:
                path = tree / pathlib.Path(word).relative_to("/ferrule")
                run("cp", "-a", *(path.iterdir() if path.is_dir() else [path]), target)
        elif words[:1] == ["ENV"]:
            settings |= dict(word.split("=", 1) for word in words[1:])
    copied = list((root / "opt/ferrule").rglob("*"))
    assert (root / "opt/ferrule/bin/mpiexec").exists() and not [path for path in copied if path.name in ("mpicc", "include")], copied
    shutil.copy(tmp / "hello", root / "hello")
    for program in (root / "opt/ferrule/bin/mpiexec", root / "opt/ferrule/lib/libmpi_abi.so.1"):
        for library in re.findall(r"(/(?:usr/)?lib\S+) \(0x", run("ldd", program)):
            target = root / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
    for name in ("proc", "dev", "tmp"):
        (root / name).mkdir()
    [entry] = re.findall(r'^ENTRYPOINT \["(.*)"\]$', text, re.M)
    here = shlex.quote(str(root))
    mounts = f"mount --rbind /proc {here}/proc && mount --rbind /dev {here}/dev"
    command = f"{mounts} && exec env -i {' '.join(f'{name}={value}' for name, value in settings.items())} /usr/sbin/chroot {here} {entry} -n 2 /hello"
    check_said(run("unshare", *(["--user", "--map-root-user"] if os.geteuid() else []), "--mount", "sh", "-c", command))


def source(made: pathlib.Path, tmp: pathlib.Path) -> None:
    with tarfile.open(one(made, "*-source.tar.gz")) as archive:
        names = set(archive.getnames())
    [folder] = {name.split("/")[0] for name in names}
    for name in ("LICENSE", "Cargo.lock", "Makefile", "mk/install.sh", "crates/abi/Cargo.toml"):
        assert f"{folder}/{name}" in names, name


def recipe_of_conda(made: pathlib.Path, tmp: pathlib.Path) -> None:
    """Rendered by rattler-build; the archive that it names is there and has its checksum."""
    import rattler_build

    recipe = rattler_build.Stage0Recipe.from_file(str(made / "recipes/conda/recipe.yaml"))
    [variant] = recipe.render(rattler_build.VariantConfig.from_yaml("c_stdlib: [sysroot]\nc_stdlib_version: ['2.34']\n"))
    rendered = variant.recipe.to_dict()
    [where] = rendered["source"]
    archive = (made / "recipes/conda" / where["path"]).resolve()
    assert where["sha256"] == run("sha256sum", archive).split()[0]


def recipe_of_easybuild(made: pathlib.Path, tmp: pathlib.Path) -> None:
    """Read by EasyBuild's parser; each name is one that it knows."""
    os.environ["HOME"] = str(tmp)
    from easybuild.framework.easyconfig.default import DEFAULT_CONFIG
    from easybuild.framework.easyconfig.parser import EasyConfigParser

    path = one(made, "recipes/easybuild/*.eb")
    recipe = EasyConfigParser(str(path)).get_config_dict()
    assert not set(recipe) - set(DEFAULT_CONFIG), set(recipe) - set(DEFAULT_CONFIG)
    chain = recipe["toolchain"]
    assert path.name == f"{recipe['name']}-{recipe['version']}-{chain['name']}-{chain['version']}.eb", path.name
    assert recipe["checksums"] == [run("sha256sum", one(made, "*-source.tar.gz")).split()[0]]


def recipe_of_spack(made: pathlib.Path, tmp: pathlib.Path) -> None:
    """Syntax, version and checksum only: Spack itself is not on PyPI."""
    tree = ast.parse((made / "recipes/spack_repo/ferrule/packages/ferrule/package.py").read_text())
    [call] = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "version"]
    archive = one(made, "*-source.tar.gz")
    assert archive.name == f"ferrule-{ast.literal_eval(call.args[0])}-source.tar.gz"
    assert {word.arg: ast.literal_eval(word.value) for word in call.keywords} == {"sha256": run("sha256sum", archive).split()[0]}


def release_check(made: pathlib.Path, tmp: pathlib.Path) -> None:
    """A work tree that may be released, and what each mistake says."""
    def git(*words: str) -> None:
        run("git", "-C", tmp / "tree", "-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false", *words)

    def check() -> tuple[int, str]:
        done = subprocess.run([sys.executable, str(ROOT / "packaging/release.py"), "--root", str(tmp / "tree"), "--notes", str(tmp / "notes")], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    (tmp / "tree").mkdir()
    git("init", "-q")
    manifest, changelog = tmp / "tree/Cargo.toml", tmp / "tree/CHANGELOG.md"
    manifest.write_text('[workspace.package]\nversion = "1.2.3"\n')
    for text, said in {"# Changelog\n\n## Unreleased\n- new\n": "entries under `## Unreleased`", "## 1.2.2 (2026-01-01)\n- old\n": "and is `## 1.2.2 (2026-01-01)`",
                       "# Changelog\n": "no `## 1.2.3", "## 1.2.3 (2026-01-01)\n\n## 1.2.2 (2025-01-01)\n- old\n": "nothing below"}.items():
        changelog.write_text(text)
        git("add", ".")
        git("commit", "-q", "-m", "text")
        code, answer = check()
        assert code == 1 and said in answer and not (tmp / "notes").exists(), answer
    changelog.write_text("# Changelog\n\n## Unreleased\n\n## 1.2.3 (2026-01-01)\n- new\n\n## 1.2.2 (2025-01-01)\n- old\n")
    assert check() == (1, "not committed: CHANGELOG.md\n"), check()
    git("commit", "-q", "-a", "-m", "text")
    assert check()[0] == 0 and (tmp / "notes").read_text() == "- new\n", check()
    git("tag", "v1.2.3")
    assert check() == (1, "the tag v1.2.3 exists: raise the version in Cargo.toml\n"), check()


def main() -> int:
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="ferrule-packages-") as place:
        made = pathlib.Path(place) / "made"
        make(made, ROOT / "dist")
        each = (same_bytes_again, deb, tarball, rpm, image, source, recipe_of_conda, recipe_of_easybuild, recipe_of_spack, release_check)
        return cases.run("packages", [(case.__name__, functools.partial(case, made)) for case in each])


if __name__ == "__main__":
    sys.exit(main())
