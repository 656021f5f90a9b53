//! Man pages, shell completion and reference pages, made of the tables that the programs themselves read: options of mpiexec (`cli::table`), commands of
//! ferrule (`commands`), settings (`settings::tables`), and the head of the compiler wrapper.
//!
//! `ferrule info --pages DIR` writes all of them below DIR/share; `make build` does so for the tree. docs/reference has copies of the two lists, and a test
//! compares them.

mod bash;
mod ferrule;
mod fish;
mod man;
mod markdown;
mod roff;
mod settings_page;
mod words;
mod wrappers;
mod zsh;

use std::path::Path;

/// A file, by its path below `share`, and what is in it.
type File = (&'static str, String);

/// Links: path below `share`, and the name of the file beside it.
const LINKS: &[(&str, &str)] = &[
    ("man/man1/mpirun.1", "mpiexec.1"),
    ("man/man1/mpicxx.1", "mpicc.1"),
    ("man/man1/mpic++.1", "mpicc.1"),
    ("man/man1/mpifort.1", "mpicc.1"),
    ("man/man1/mpif77.1", "mpicc.1"),
    ("man/man1/mpif90.1", "mpicc.1"),
    ("bash-completion/completions/mpiexec", "ferrule"),
    ("bash-completion/completions/mpirun", "ferrule"),
    ("fish/vendor_completions.d/mpirun.fish", "mpiexec.fish"),
];

fn files() -> Vec<File> {
    vec![
        ("man/man1/mpiexec.1", man::mpiexec()),
        ("man/man1/ferrule.1", ferrule::page()),
        ("man/man1/mpicc.1", wrappers::page()),
        ("man/man7/ferrule-settings.7", settings_page::page()),
        ("bash-completion/completions/ferrule", bash::script()),
        ("zsh/site-functions/_mpiexec", zsh::mpiexec()),
        ("zsh/site-functions/_ferrule", zsh::ferrule()),
        ("fish/vendor_completions.d/mpiexec.fish", fish::mpiexec()),
        ("fish/vendor_completions.d/ferrule.fish", fish::ferrule()),
        ("doc/ferrule/options.md", markdown::options()),
        ("doc/ferrule/settings.md", markdown::settings()),
    ]
}

/// Writes all pages below `place`/share; an error is a sentence.
pub fn write(place: &Path) -> Result<(), String> {
    let told = |path: &Path, e: std::io::Error| format!("cannot write {}: {e}", path.display());
    let below = |name: &str| {
        let path = place.join("share").join(name);
        let folder = path.parent().unwrap_or(place);
        std::fs::create_dir_all(folder).map_err(|e| told(folder, e)).map(|()| path.clone())
    };
    for (name, text) in files() {
        let path = below(name)?;
        std::fs::write(&path, text).map_err(|e| told(&path, e))?;
    }
    for (name, target) in LINKS {
        let path = below(name)?;
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(told(&path, e)),
            _ => std::os::unix::fs::symlink(target, &path).map_err(|e| told(&path, e))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_pages_are_current() {
        let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference"));
        for (name, text) in [("options.md", markdown::options()), ("settings.md", markdown::settings())] {
            let there = std::fs::read_to_string(docs.join(name)).expect("docs/reference has the page");
            assert!(there == text, "docs/reference/{name} is not what the tables say: run `make pages`");
        }
    }

    #[test]
    fn links_lead_to_files() {
        let names: Vec<&str> = files().iter().map(|(name, _)| *name).collect();
        for (link, target) in LINKS {
            let file = Path::new(link).with_file_name(target);
            assert!(names.iter().any(|name| Path::new(name) == file), "{link}");
        }
    }
}
