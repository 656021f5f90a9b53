//! Which files are sent, where they go, and what they hash to.

use super::{DATA, FILES_MAX, LIBRARIES, elf};
use protocol::control::tree::PreloadFile;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What is sent.
#[derive(Default)]
pub struct Plan {
    /// As agents are told.
    pub files: Vec<PreloadFile>,
    /// Where they are here.
    pub sources: Vec<PathBuf>,
}

impl Plan {
    /// Adds a program with its libraries; its index.
    pub fn add_program(&mut self, app: usize, program: &Path, library_path: &OsStr) -> Result<u32, String> {
        let name = program.file_name().ok_or_else(|| format!("{} is no program", program.display()))?;
        let index = self.files.len() as u32;
        self.add(program, &[format!("bin{app}").as_bytes(), name.as_bytes()])?;
        for (name, path) in elf::libraries(program, library_path)? {
            let name = Path::new(&name).file_name().map_or(name.as_bytes(), OsStr::as_bytes);
            self.add(&path, &[LIBRARIES.as_bytes(), name])?;
        }
        Ok(index)
    }

    /// Adds a file of the user's.
    pub fn add_data(&mut self, path: &Path) -> Result<(), String> {
        let name = path.file_name().ok_or_else(|| format!("--preload-files: {} is no file", path.display()))?;
        self.add(path, &[DATA.as_bytes(), name.as_bytes()])
    }

    fn add(&mut self, source: &Path, to: &[&[u8]]) -> Result<(), String> {
        let wrong = |e: std::io::Error| format!("cannot read {}: {e}", source.display());
        let path = to.join(&b'/');
        if let Some(at) = self.files.iter().position(|file| file.path == path) {
            let same = self.sources[at] == source;
            let shown = String::from_utf8_lossy(&path).into_owned();
            return if same {
                Ok(())
            } else {
                Err(format!(
                    "two different files would be sent as {shown}: {} and {}",
                    self.sources[at].display(),
                    source.display()
                ))
            };
        }
        if self.files.len() == FILES_MAX {
            return Err(format!("more than {FILES_MAX} files to be sent"));
        }
        let mut file = File::open(source).map_err(wrong)?;
        let meta = file.metadata().map_err(wrong)?;
        if !meta.is_file() {
            return Err(format!("{} is not a regular file", source.display()));
        }
        let (mut hasher, mut buffer, mut bytes) = (blake3::Hasher::new(), vec![0; 1 << 20], 0);
        loop {
            let n = file.read(&mut buffer).map_err(wrong)?;
            if n == 0 {
                break;
            }
            hasher.update(&buffer[..n]);
            bytes += n as u64;
        }
        let executable = meta.permissions().mode() & 0o111 != 0;
        self.files.push(PreloadFile { path, bytes, hash: *hasher.finalize().as_bytes(), executable });
        self.sources.push(source.to_path_buf());
        Ok(())
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// The value of `LD_LIBRARY_PATH` that a program's ranks will have here.
pub fn library_path(set: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut env: Vec<(Vec<u8>, Vec<u8>)> = crate::environment::inherited();
    for (name, value) in set {
        crate::environment::set(&mut env, name, value);
    }
    if let Ok(mpiexec) = std::env::current_exe() {
        crate::environment::prefer_own_library(&mut env, &mpiexec);
    }
    let all: BTreeMap<Vec<u8>, Vec<u8>> = env.into_iter().collect();
    all.get(b"LD_LIBRARY_PATH".as_slice()).cloned().unwrap_or_default()
}
