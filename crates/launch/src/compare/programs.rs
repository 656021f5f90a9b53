//! The programs that are started: an empty MPI program, one that sleeps, and one without MPI that does nothing at all.

use super::run::{self, Failed};
use std::path::{Path, PathBuf};
use std::process::Command;

const EMPTY: &str = "\
#include <mpi.h>
int main(int argc, char **argv) { MPI_Init(&argc, &argv); MPI_Finalize(); return 0; }
";
/// Rank 0 says when all are there, and all end when its standard input does.
const SLEEPER: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        puts("all are there");
        fflush(stdout);
        while (getchar() != EOF)
            ;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"#;
const NOTHING: &str = "int main(void) { return 0; }\n";

/// A folder of this run's own, removed at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// Makes the folder.
    pub fn new() -> Result<Scratch, Failed> {
        let path = std::env::temp_dir().join(format!("ferrule-startup-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Scratch(path))
    }

    /// Writes `text` to a file and compiles it.
    fn compile(&self, name: &str, text: &str, compiler: &Path, flags: &[&str]) -> Result<PathBuf, Failed> {
        let (source, target) = (self.0.join(format!("{name}.c")), self.0.join(name));
        std::fs::write(&source, text).map_err(|e| format!("{}: {e}", source.display()))?;
        let done = Command::new(compiler).args(flags).arg("-O2").arg("-o").arg(&target).arg(&source).output();
        let done = done.map_err(|e| format!("cannot run {}: {e}", compiler.display()))?;
        if done.status.success() {
            return Ok(target);
        }
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        Err(format!("{} cannot compile an MPI program: {}", compiler.display(), run::tail(&text)))
    }

    /// The empty MPI program, for the library whose mpiexec this is.
    pub fn empty(&self, name: &str, mpiexec: &Path) -> Result<PathBuf, Failed> {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.compile(&format!("empty-{name}"), EMPTY, &mpiexec.with_file_name("mpicc"), &[])
    }

    /// The MPI program that sleeps.
    pub fn sleeper(&self, mpiexec: &Path) -> Result<PathBuf, Failed> {
        self.compile("sleeper", SLEEPER, &mpiexec.with_file_name("mpicc"), &[])
    }

    /// The static program without MPI.
    pub fn nothing(&self) -> Result<PathBuf, Failed> {
        self.compile("nothing", NOTHING, Path::new("cc"), &["-static"])
    }

    /// Stands in for `ssh HOST COMMAND…` to an emulated host: it waits as long as a session takes to open.
    pub fn session(&self, wait_ms: u32) -> Result<PathBuf, Failed> {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.join(format!("session-{wait_ms}"));
        let wait = if wait_ms > 0 { format!("sleep {}\n", f64::from(wait_ms) / 1e3) } else { String::new() };
        let text = format!("#!/bin/sh\nhost=$1\nshift\n{wait}exec nsenter --net=/run/netns/\"$host\" -- \"$@\"\n");
        let words = |e: std::io::Error| format!("{}: {e}", path.display());
        std::fs::write(&path, text).map_err(words)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(words)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
