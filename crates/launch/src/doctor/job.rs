//! Compiles a program with the wrappers beside this one, and runs it with two ranks.

use super::{Finding, State, in_path};
use crate::container::calls::ask;
use crate::tmpdir::PrivateDir;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a compiler or a job may take.
const LIMIT: Duration = Duration::from_secs(60);

const C: &str = r#"#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, token = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        token = 42;
        MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else
        MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank %d of %d has %d\n", rank, size, token);
    return MPI_Finalize();
}
"#;
const FORTRAN: &str = "program p\n  use mpi_f08\n  call MPI_Init()\n  call MPI_Finalize()\nend program\n";

/// The job, and the wrappers.
pub fn findings() -> Vec<Finding> {
    let Some(bin) = std::env::current_exe().ok().and_then(|own| own.parent().map(Path::to_path_buf)) else {
        return vec![Finding::new("job", "two ranks", State::Error, "cannot find this program's own directory", "")];
    };
    let place = match PrivateDir::create(PrivateDir::name(""), crate::preload::INNER) {
        Ok(place) => place,
        Err(e) => {
            let mend = "export TMPDIR=a directory that you may write to";
            let place =
                Finding::new("job", "temporary files", State::Slower, format!("{e}: nothing was compiled"), mend);
            return vec![job(&bin, None), place];
        }
    };
    let compiled = compile(&bin, place.path(), "mpicc", "hello.c", C);
    let mut found = vec![job(&bin, compiled.0.as_deref())];
    found.extend(own_in_path(&bin, "mpiexec"));
    found.push(compiled.1);
    found.push(compile(&bin, place.path(), "mpifort", "hello.f90", FORTRAN).1);
    found
}

fn job(bin: &Path, program: Option<&Path>) -> Finding {
    let mpiexec = bin.join("mpiexec");
    let words = |program: &str| [mpiexec.display().to_string(), "-n".into(), "2".into(), program.into()];
    let (name, result) = match program {
        None => (
            "two processes",
            ask(&words("true"), LIMIT)
                .map(|_| "mpiexec starts them; no program was compiled, so MPI was not tried".into()),
        ),
        Some(program) => {
            ("two ranks", ask(&words(&program.display().to_string()), LIMIT).and_then(|text: String| answer(&text)))
        }
    };
    match result {
        Ok(text) => Finding::ok("job", name, text),
        Err(why) => {
            let mend = "the cause is most likely among the errors below; mpiexec --verbose says more";
            Finding::new("job", name, State::Error, why.trim(), mend)
        }
    }
}

fn answer(text: &str) -> Result<String, String> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    if lines == ["rank 0 of 2 has 42", "rank 1 of 2 has 42"] {
        return Ok("a program was compiled and run, and rank 1 has got the message of rank 0".into());
    }
    Err(format!("expected a line of rank 0 of 2 and one of rank 1 of 2, found: {}", text.trim()))
}

/// Compiles `text`; the program, if that went well.
fn compile(bin: &Path, place: &Path, wrapper: &str, file: &str, text: &str) -> (Option<PathBuf>, Finding) {
    let path = bin.join(wrapper);
    let missing = |found: String, mend: String| (None, Finding::new("compilers", wrapper, State::Missing, found, mend));
    if !path.is_file() {
        return missing(format!("{} does not exist", path.display()), "install all of Ferrule's files".into());
    }
    let shown = path.display().to_string();
    let compiler = match ask(&[shown.clone(), "--showme:command".into()], LIMIT) {
        Ok(text) => text.trim().to_string(),
        Err(why) => {
            return (None, Finding::new("compilers", wrapper, State::Error, why, "install all of Ferrule's files"));
        }
    };
    if in_path(&compiler).is_none() {
        let variable = if wrapper == "mpifort" { "MPIFORT_FC" } else { "MPICC_CC" };
        return missing(
            format!("the compiler {compiler} is not in PATH"),
            format!(
                "apt-get install {}, or export {variable}=COMPILER",
                if wrapper == "mpifort" { "gfortran" } else { "gcc" }
            ),
        );
    }
    let (source, out) = (place.join(file), place.join(wrapper.to_string() + ".out"));
    let written = std::fs::write(&source, text).map_err(|e| format!("cannot write {}: {e}", source.display()));
    let words = [shown, source.display().to_string(), "-o".into(), out.display().to_string()];
    match written.and_then(|()| ask(&words, LIMIT)) {
        Ok(_) => (Some(out), Finding::ok("compilers", wrapper, format!("{compiler} compiles and links"))),
        Err(why) => {
            let mend = if wrapper == "mpifort" {
                "build Ferrule where gfortran is installed"
            } else {
                "install the C library's headers (libc6-dev)"
            };
            missing(why.trim().to_string(), mend.into())
        }
    }
}

/// Whether a shell finds this tree's program, and not another library's.
fn own_in_path(bin: &Path, name: &str) -> Option<Finding> {
    let own = bin.join(name).canonicalize().ok()?;
    let mend = format!("export PATH={}:$PATH", bin.display());
    Some(match in_path(name).map(|path| (path.canonicalize(), path)) {
        Some((Ok(real), path)) if real == own => Finding::ok("job", name, path.display().to_string()),
        Some((_, path)) => {
            let found = format!(
                "{} comes first in PATH, and is not this Ferrule's: each rank would be a job of its own",
                path.display()
            );
            Finding::new("job", name, State::Missing, found, mend)
        }
        None => Finding::new("job", name, State::Missing, "not in PATH", mend),
    })
}
