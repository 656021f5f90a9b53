//! Which libraries a program needs: the dynamic loader's search, without running anything.
//!
//! The loader's own libraries (glibc's) are not sent: they must fit the loader, which is each host's own.

use goblin::elf::Elf;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where the loader looks at last.
const DEFAULT_DIRECTORIES: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];
/// What belongs to the loader; names up to `.so`.
const LOADERS_OWN: [&str; 17] = [
    "libc",
    "libm",
    "libpthread",
    "libdl",
    "librt",
    "libutil",
    "libresolv",
    "libnsl",
    "libanl",
    "libmvec",
    "libthread_db",
    "libBrokenLocale",
    "libnss_files",
    "libnss_dns",
    "libnss_compat",
    "linux-vdso",
    "libc_malloc_debug",
];

fn is_loaders_own(name: &str) -> bool {
    let stem = name.split(".so").next().unwrap_or(name);
    name.starts_with("ld-") || name.starts_with("libc.musl") || LOADERS_OWN.contains(&stem)
}

/// What one object says of itself.
struct Object {
    machine: (u16, bool),
    needed: Vec<String>,
    /// Searched before `LD_LIBRARY_PATH`.
    rpath: Vec<PathBuf>,
    /// Searched after it.
    runpath: Vec<PathBuf>,
}

impl Object {
    /// `None` if the file is no ELF file.
    fn read(path: &Path) -> std::io::Result<Option<Object>> {
        let bytes = std::fs::read(path)?;
        let Ok(elf) = Elf::parse(&bytes) else { return Ok(None) };
        let origin = path.canonicalize()?.parent().map_or_else(|| PathBuf::from("/"), Path::to_path_buf);
        let expand = |lists: &[&str]| {
            let parts = lists.iter().flat_map(|list| list.split(':')).filter(|part| !part.is_empty());
            let origin = origin.to_string_lossy();
            parts.map(|part| PathBuf::from(part.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))).collect()
        };
        let runpath: Vec<PathBuf> = expand(&elf.runpaths);
        Ok(Some(Object {
            machine: (elf.header.e_machine, elf.is_64),
            needed: elf.libraries.iter().map(|name| (*name).to_string()).collect(),
            rpath: if runpath.is_empty() { expand(&elf.rpaths) } else { Vec::new() },
            runpath,
        }))
    }

    fn fits(path: &Path, machine: (u16, bool)) -> bool {
        path.is_file() && Object::read(path).is_ok_and(|object| object.is_some_and(|o| o.machine == machine))
    }
}

/// Where the loader looks for what a program needs.
struct Search {
    machine: (u16, bool),
    /// Of the program.
    rpath: Vec<PathBuf>,
    /// `LD_LIBRARY_PATH`.
    chosen: Vec<PathBuf>,
    cache: Vec<(String, PathBuf)>,
}

impl Search {
    fn of(program: &Object, library_path: &OsStr) -> Search {
        let chosen = std::env::split_paths(library_path).filter(|p| !p.as_os_str().is_empty()).collect();
        Search { machine: program.machine, rpath: program.rpath.clone(), chosen, cache: cache() }
    }

    fn find(&self, object: &Object, name: &str) -> Option<PathBuf> {
        let places = object.rpath.iter().chain(&self.rpath).chain(&self.chosen).chain(&object.runpath);
        let cached = self.cache.iter().filter(|(key, _)| key == name).map(|(_, path)| path.clone());
        let defaults = DEFAULT_DIRECTORIES.iter().map(|directory| Path::new(directory).join(name));
        let candidates = places.map(|directory| directory.join(name)).chain(cached).chain(defaults);
        let direct = name.contains('/').then(|| PathBuf::from(name));
        direct.into_iter().chain(candidates).find(|candidate| Object::fits(candidate, self.machine))
    }
}

fn read(path: &Path) -> Result<Option<Object>, String> {
    Object::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

/// The libraries that `program` needs, by the names under which the loader will look for them; nothing for a script. An error is a sentence.
pub fn libraries(program: &Path, library_path: &OsStr) -> Result<BTreeMap<String, PathBuf>, String> {
    let Some(main) = read(program)? else { return Ok(BTreeMap::new()) };
    let search = Search::of(&main, library_path);
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut queue = VecDeque::from([(program.to_path_buf(), main)]);
    while let Some((path, object)) = queue.pop_front() {
        for name in object.needed.iter().filter(|name| !is_loaders_own(name)) {
            if found.contains_key(name) {
                continue;
            }
            let Some(library) = search.find(&object, name) else {
                return Err(format!("{name}, which {} needs, is not found (--preload)", path.display()));
            };
            if let Some(next) = read(&library)? {
                queue.push_back((library.clone(), next));
            }
            found.insert(name.clone(), library);
        }
    }
    Ok(found)
}

/// The libraries for which `is_wanted` says so among those that `program` and its libraries need, each with the first file that needs it.
/// Such a library is not looked for, one that is missing is passed over. `None` if the program is no ELF file. An error is a sentence.
pub fn needed(
    program: &Path,
    library_path: &OsStr,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Option<BTreeMap<String, PathBuf>>, String> {
    let Some(main) = read(program)? else { return Ok(None) };
    let search = Search::of(&main, library_path);
    let (mut wanted, mut seen) = (BTreeMap::new(), BTreeSet::new());
    let mut queue = VecDeque::from([(program.to_path_buf(), main)]);
    while let Some((path, object)) = queue.pop_front() {
        for name in object.needed.iter().filter(|name| !is_loaders_own(name)) {
            if !seen.insert(name.clone()) {
                continue;
            }
            if is_wanted(name) {
                wanted.insert(name.clone(), path.clone());
            } else if let Some(library) = search.find(&object, name)
                && let Some(next) = read(&library)?
            {
                queue.push_back((library, next));
            }
        }
    }
    Ok(Some(wanted))
}

/// What ldconfig has found: names and paths. Nothing if there is no such file.
fn cache() -> Vec<(String, PathBuf)> {
    std::fs::read("/etc/ld.so.cache").map_or_else(|_| Vec::new(), |bytes| parse_cache(&bytes))
}

/// Entries of the loader's cache in its present format: a header of 48 bytes, entries of 24, then strings.
pub fn parse_cache(bytes: &[u8]) -> Vec<(String, PathBuf)> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    let Some(start) = bytes.windows(MAGIC.len()).position(|window| window == MAGIC) else { return Vec::new() };
    let bytes = &bytes[start..];
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    let text = |at: usize| {
        let rest = bytes.get(at..)?;
        Some(&rest[..rest.iter().position(|b| *b == 0)?])
    };
    let count = word(MAGIC.len()).unwrap_or(0).min(bytes.len() / 24);
    let entry = |index: usize| {
        let at = 48 + 24 * index;
        let (name, path) = (text(word(at + 4)?)?, text(word(at + 8)?)?);
        Some((String::from_utf8(name.to_vec()).ok()?, PathBuf::from(OsStr::from_bytes(path))))
    };
    (0..count).filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_needs_only_what_the_loader_has_or_what_is_found() {
        let own = std::env::current_exe().unwrap();
        let found = libraries(&own, OsStr::new("")).unwrap();
        assert!(found.keys().all(|name| !is_loaders_own(name)), "{found:?}");
        assert!(found.values().all(|path| path.is_file()));
    }

    #[test]
    fn a_script_needs_nothing_and_a_missing_file_is_an_error() {
        let path = std::env::temp_dir().join(format!("ferrule-script-{}", std::process::id()));
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        assert!(libraries(&path, OsStr::new("")).unwrap().is_empty());
        std::fs::remove_file(&path).unwrap();
        assert!(libraries(&path, OsStr::new("")).is_err());
    }

    #[test]
    fn a_broken_cache_is_no_more_than_empty() {
        let mut bytes = vec![0; 48 + 24];
        bytes[..20].copy_from_slice(b"glibc-ld.so.cache1.1");
        bytes[20..24].copy_from_slice(&1u32.to_le_bytes());
        bytes[52..56].copy_from_slice(&72u32.to_le_bytes());
        bytes[56..60].copy_from_slice(&76u32.to_le_bytes());
        bytes.extend_from_slice(b"a.1\0/x/a\0");
        assert_eq!(parse_cache(&bytes), [("a.1".to_string(), PathBuf::from("/x/a"))]);
        for cut in 0..bytes.len() {
            assert!(parse_cache(&bytes[..cut]).is_empty());
        }
        bytes[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(parse_cache(&bytes).len() <= bytes.len());
        assert!(parse_cache(b"").is_empty());
    }
}
