//! Which binary interface of MPI a program was built for, by the names of the libraries that it needs: `ferrule info --abi`, and mpiexec's
//! refusal of programs that need two.
//!
//! A library that a program opens itself while it runs (a module of Python) isn't seen.

use crate::preload::elf;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A binary interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Abi {
    /// That of MPI 5.0.
    Standard,
    /// That of MPICH since 3.1, Intel MPI and MVAPICH.
    Mpich,
    /// One of Open MPI's, which Ferrule hasn't.
    OpenMpi,
}

impl Abi {
    fn described(self) -> &'static str {
        match self {
            Abi::Standard => "the standard ABI of MPI 5.0",
            Abi::Mpich => "the ABI of MPICH, Intel MPI and MVAPICH",
            Abi::OpenMpi => "Open MPI's own ABI, which Ferrule does not have: build it with mpicc",
        }
    }
}

/// The interface that a library with this soname has.
fn of_library(name: &str) -> Option<Abi> {
    let (stem, version) = name.split_once(".so").unwrap_or((name, ""));
    let major = version.trim_start_matches('.').split('.').next().unwrap_or("");
    match (stem, major) {
        ("libmpi_abi" | "libmpifort_abi", _) => Some(Abi::Standard),
        ("libmpi" | "libmpich" | "libmpifort" | "libmpichfort" | "libmpicxx" | "libmpichcxx", "12") => Some(Abi::Mpich),
        (
            "libmpi" | "libmpi_mpifh" | "libmpi_usempif08" | "libmpi_usempi_ignore_tkr" | "libmpi_cxx",
            "20" | "40" | "80",
        ) => Some(Abi::OpenMpi),
        _ => None,
    }
}

/// The interfaces that an ELF file needs, with a library of each and the file that needs it; `None` if it is no ELF file.
type Needs = Option<BTreeMap<Abi, (String, PathBuf)>>;

fn needs(file: &Path, library_path: &OsStr) -> Result<Needs, String> {
    let own = file.file_name().and_then(|name| name.to_str()).map(str::to_string);
    let libraries = elf::needed(file, library_path, |name| of_library(name).is_some())?;
    Ok(libraries.map(|libraries| {
        let mut all = BTreeMap::new();
        for (name, by) in libraries {
            if let Some(abi) = of_library(&name).filter(|_| Some(&name) != own.as_ref()) {
                all.entry(abi).or_insert((name, by));
            }
        }
        all
    }))
}

/// `ferrule info --abi FILE`: a line for each interface, and whether Ferrule runs the file. An error is a sentence.
pub fn describe(file: &Path, library_path: &OsStr) -> Result<(String, bool), String> {
    let shown = file.display();
    let Some(found) = needs(file, library_path)? else {
        return Ok((format!("{shown}: no ELF file, so which libraries it needs can't be seen\n"), true));
    };
    if found.is_empty() {
        return Ok((format!("{shown}: needs no MPI library\n"), true));
    }
    let line = |(abi, (library, by)): (&Abi, &(String, PathBuf))| {
        let whose = if by == file { String::new() } else { format!(" by way of {}", by.display()) };
        format!("{shown}: {} ({library}{whose})\n", abi.described())
    };
    let mut text: String = found.iter().map(line).collect();
    if found.len() > 1 {
        text += &format!("{shown}: a mixture, which cannot run: one process has one MPI library\n");
    }
    Ok((text, found.len() == 1 && !found.contains_key(&Abi::OpenMpi)))
}

/// Refuses a program that needs libraries of several interfaces. One that can't be read is left to the agents.
pub fn check(program: &Path, library_path: &OsStr) -> Result<(), String> {
    let Ok(Some(found)) = needs(program, library_path) else { return Ok(()) };
    let mut all = found.values();
    let (Some((one, by_one)), Some((other, by_other))) = (all.next(), all.next()) else { return Ok(()) };
    Err(format!(
        "{} mixes MPI libraries: {} needs {one}, {} needs {other}; build both for the same one (ferrule info --abi FILE)",
        program.display(),
        by_one.display(),
        by_other.display(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sonames_tell_the_interface() {
        let known = [
            ("libmpi_abi.so.1", Some(Abi::Standard)),
            ("libmpi_abi.so", Some(Abi::Standard)),
            ("libmpi.so.12", Some(Abi::Mpich)),
            ("libmpich.so.12", Some(Abi::Mpich)),
            ("libmpichfort.so.12", Some(Abi::Mpich)),
            ("libmpi.so.12.0", Some(Abi::Mpich)),
            ("libmpi.so.40", Some(Abi::OpenMpi)),
            ("libmpi_usempif08.so.40", Some(Abi::OpenMpi)),
            ("libmpi.so", None),
            ("libmpi.so.1", None),
            ("libmpijava.so.12", None),
            ("libm.so.6", None),
        ];
        for (name, abi) in known {
            assert_eq!(of_library(name), abi, "{name}");
        }
    }

    #[test]
    fn this_test_needs_none_and_a_missing_file_is_an_error() {
        let own = std::env::current_exe().unwrap();
        let (text, runs) = describe(&own, OsStr::new("")).unwrap();
        assert!(runs && text.contains("needs no MPI library"), "{text}");
        assert_eq!(check(&own, OsStr::new("")), Ok(()));
        assert!(describe(Path::new("/nonexistent"), OsStr::new("")).is_err());
    }
}
