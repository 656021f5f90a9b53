//! The ABI's numbers, layouts and symbols against an installation of MPICH: its header is compiled with what we say of it.
//!
//! `FERRULE_ORACLE` says where it is (default /opt/peers/mpich). Without it, or without a C compiler or `nm`, the tests say so and pass.

use mpi::handle::{Handle, Kind};
use mpi::status::{Place, Status};
use mpich_abi::chosen as abi;
use mpich_abi::chosen::Mpich;
use mpich_abi::convert::{Abi, known, number};
use mpich_abi::status::CStatus;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

fn oracle() -> Option<PathBuf> {
    let root = PathBuf::from(std::env::var("FERRULE_ORACLE").unwrap_or_else(|_| "/opt/peers/mpich".to_string()));
    let found = root.join("include/mpi.h").exists() && root.join("lib/libmpi.so.12").exists();
    if !found {
        eprintln!("skipped: no oracle at {}", root.display());
    }
    found.then_some(root)
}

/// The name in the header of what is called `name` in the core: `NoOp` is `NO_OP`.
fn upper(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_uppercase());
    }
    text
}

/// Numbers that aren't in a list, with their names in the header.
const NUMBERS: &[(&str, i64)] = &[
    ("ANY_SOURCE", Mpich::ANY_SOURCE as i64),
    ("ANY_TAG", Mpich::ANY_TAG as i64),
    ("PROC_NULL", Mpich::PROC_NULL as i64),
    ("ROOT", Mpich::ROOT as i64),
    ("UNDEFINED", Mpich::UNDEFINED as i64),
    ("IN_PLACE", Mpich::IN_PLACE as i64),
    ("BUFFER_AUTOMATIC", Mpich::BUFFER_AUTOMATIC as i64),
    ("KEYVAL_INVALID", Mpich::KEYVAL_INVALID as i64),
    ("ERR_LASTCODE", Mpich::ERR_LASTCODE as i64),
    ("DISTRIBUTE_DFLT_DARG", Mpich::DISTRIBUTE_DFLT_DARG as i64),
    ("WIN_UNIFIED", Mpich::WIN_UNIFIED as i64),
    ("SUCCESS", abi::SUCCESS as i64),
    ("REQUEST_NULL", abi::REQUEST_NULL as i64),
    ("COMM_WORLD", abi::COMM_WORLD as i64),
    ("COMM_SELF", abi::COMM_SELF as i64),
    ("LB", abi::LB as i64),
    ("UB", abi::UB as i64),
    ("STATUS_IGNORE", abi::STATUS_IGNORE as i64),
    ("STATUSES_IGNORE", abi::STATUS_IGNORE as i64),
    ("DISPLACEMENT_CURRENT", abi::DISPLACEMENT_CURRENT),
    ("BSEND_OVERHEAD", abi::BSEND_OVERHEAD as i64),
    ("MAX_PROCESSOR_NAME", abi::MAX_PROCESSOR_NAME as i64),
    ("MAX_INFO_KEY", abi::MAX_INFO_KEY as i64),
    ("MAX_ERROR_STRING", mpi::errors::MAX_ERROR_STRING as i64),
    ("MAX_OBJECT_NAME", mpi::comm::MAX_OBJECT_NAME as i64),
    ("MAX_DATAREP_STRING", mpi::io::MAX_DATAREP_STRING as i64),
    ("MAX_LIBRARY_VERSION_STRING", 8192),
    ("BOTTOM", 0),
    ("INFO_ENV", 0x5c00_0001),
];

/// Names in the header, and our numbers for them.
fn numbers() -> Vec<(String, i64)> {
    let mut all: Vec<(String, i64)> = NUMBERS.iter().map(|(name, value)| ((*name).to_string(), *value)).collect();
    let mut add = |prefix: &str, name: String, value: i32| all.push((format!("{prefix}{name}"), i64::from(value)));
    macro_rules! lists {
        ($($list:ident $prefix:literal;)*) => {
            $(for (value, what) in Mpich::$list { add($prefix, upper(&format!("{what:?}")), *value); })*
        };
    }
    lists! {
        COMPARISONS ""; LEVELS "THREAD_"; COMBINERS "COMBINER_"; TYPE_CLASSES "TYPECLASS_"; SPLIT_TYPES "COMM_TYPE_"; TOPOLOGIES "";
        WIN_FLAVORS "WIN_FLAVOR_"; OPS "";
    }
    let null = |kind: &Kind| format!("{}_NULL", upper(&format!("{kind:?}")));
    Mpich::NULLS.iter().for_each(|(value, kind)| add("", null(kind), *value));
    for (value, name) in Mpich::TYPES {
        add("", format!("{name:?}").trim_start_matches("MPI_").to_string(), *value);
    }
    for (class, name) in base::Class::PREDEFINED {
        let value = number(Mpich::CODES, *class).unwrap_or_else(|| panic!("{name} has no number"));
        match *name {
            // Raised as MPIX_ERR_PROC_FAILED; programs that know the standard's number are understood.
            "MPI_ERR_PROC_ABORTED" => assert!(value == 101 && known(Mpich::CODES, 76) == Some(*class)),
            "MPIX_ERR_PROC_FAILED_PENDING" => assert_eq!(value, 102),
            "MPIX_ERR_REVOKED" => assert_eq!(value, 103),
            name => add("", name.trim_start_matches("MPI_").to_string(), value),
        }
    }
    all
}

#[test]
fn the_numbers_are_those_of_the_header() {
    let Some(oracle) = oracle() else { return };
    let mut text = String::from("#include <mpi.h>\n#include <stdio.h>\n#include <stddef.h>\nint main(void) {\n");
    let numbers = numbers();
    for (name, _) in &numbers {
        let _ = writeln!(text, "  printf(\"%lld\\n\", (long long)MPI_{name});");
    }
    text += "  printf(\"%zu %zu %zu %zu\\n\", sizeof(MPI_Status), offsetof(MPI_Status, MPI_SOURCE), \
             offsetof(MPI_Status, MPI_TAG), offsetof(MPI_Status, MPI_ERROR));\n  return 0;\n}\n";
    let dir = std::env::temp_dir().join(format!("ferrule-mpich-abi-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (source, program) = (dir.join("numbers.c"), dir.join("numbers"));
    std::fs::write(&source, text).unwrap();
    let built = Command::new("cc").arg("-I").arg(oracle.join("include")).arg(&source).arg("-o").arg(&program).output();
    let printed = match built {
        Err(why) => {
            std::fs::remove_dir_all(&dir).unwrap();
            eprintln!("skipped: no C compiler: {why}");
            return;
        }
        Ok(built) if !built.status.success() => {
            std::fs::remove_dir_all(&dir).unwrap();
            panic!("{}", String::from_utf8_lossy(&built.stderr));
        }
        Ok(_) => Command::new(&program).output().unwrap(),
    };
    std::fs::remove_dir_all(&dir).unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let mut lines = printed.lines();
    let differ: Vec<_> = numbers
        .iter()
        .filter_map(|(name, ours)| {
            let theirs: i64 = lines.next().unwrap().parse().unwrap();
            (theirs != *ours).then(|| format!("MPI_{name}: {theirs:#x}, here {ours:#x}"))
        })
        .collect();
    assert_eq!(differ, Vec::<String>::new());
    assert_eq!(lines.next(), Some("20 8 12 16"));
    assert_eq!(size_of::<CStatus>(), 20);
}

/// Functions of MPICH that no list of the standard has, and that we don't have.
fn is_extension(name: &str) -> bool {
    name.starts_with("MPIX_")
        || name.starts_with("PMPIX_")
        || name.starts_with("QMPI_")
        || name.starts_with("MPIR_fortran")
}

#[test]
fn what_mpich_exports_is_there() {
    let Some(oracle) = oracle() else { return };
    let Ok(listed) = Command::new("nm").args(["-D", "--defined-only"]).arg(oracle.join("lib/libmpi.so.12")).output()
    else {
        eprintln!("skipped: no nm");
        return;
    };
    let ours: BTreeSet<String> = mpich_abi::functions()
        .flat_map(|(_, entry)| [Some(entry.name), entry.large])
        .flatten()
        .flat_map(|name| [name.to_string(), format!("P{name}")])
        .collect();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let functions = listed.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, name) = (words.next()?, words.next()?);
        ["T", "W"].contains(&kind).then_some(name)
    });
    let missing: Vec<_> = functions
        .filter(|name| (name.starts_with("MPI_") || name.starts_with("PMPI_")) && !is_extension(name))
        .filter(|name| !ours.contains(*name))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
    assert!(ours.len() > 1380, "{}", ours.len());
}

#[test]
fn handles_of_objects_are_no_predefined_ones() {
    // The first handle of each kind in the core, and the last of a few.
    let firsts = (1..=11).map(|kind| kind << 26).chain([1 << 30, (1 << 31) - 1, (3 << 26) + 4, (3 << 26) + 5]);
    for handle in firsts.map(Handle) {
        let c = Mpich::encode(handle);
        assert!(!abi::is_predefined(c) && Mpich::decode(c) == Some(handle), "{handle:?} is {c:#x}");
        assert_eq!(abi::type_index(c), abi::TYPE_INDICES);
        assert_eq!(known(Mpich::TYPES, c), None);
        assert_eq!(abi::file_handle(abi::raw_file(c)), c);
    }
    for (value, _) in Mpich::TYPES {
        assert!(abi::type_index(*value) < abi::TYPE_INDICES && Mpich::decode(*value).is_none());
        // The same number with another size is no datatype.
        assert_eq!(abi::type_index(*value ^ 0x100), abi::TYPE_INDICES);
    }
    assert_eq!(Mpich::handle(Kind::File, abi::file_handle(1 << 40)), Handle::UNKNOWN);
}

#[test]
fn a_status_keeps_63_bits_of_the_count_beside_the_flag() {
    let mut status = CStatus::empty();
    for bytes in [0, 1, u64::from(u32::MAX), 1 << 32, (1 << 62) + 5] {
        status.set(&Status { source: 3, tag: 4, bytes, cancelled: true });
        assert_eq!((status.known().bytes, status.known().cancelled), (bytes, true));
        status.set_cancelled(false);
        status.set_bytes(bytes / 3);
        assert_eq!((status.known().bytes, status.known().cancelled), (bytes / 3, false));
    }
}
