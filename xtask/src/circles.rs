//! Circles of imports between the parts of a crate.
//!
//! The modules of a folder, each with all that is below it, may not use each other in a circle. Plain files of one folder may, as they are
//! read together; a circle in which a module with a folder of its own takes part runs through several folders, and fails. A module and
//! the modules below it may use each other.

use crate::imports::Import;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The modules of one folder that use each other in a circle.
#[derive(Debug)]
pub struct Circle<'a> {
    /// The modules, in the order of the circle: each uses the next one, the last one the first one.
    pub modules: Vec<PathBuf>,
    /// An import for each of these steps.
    pub steps: Vec<&'a Import>,
}

/// Steps from module to module of one folder, each with an import that makes it.
type Graph<'a> = BTreeMap<PathBuf, BTreeMap<PathBuf, &'a Import>>;

/// Finds a shortest circle for each group of modules that are in one. `root` is the folder of `lib.rs`.
pub fn circles<'a>(root: &Path, imports: &'a [Import]) -> Vec<Circle<'a>> {
    let mut graphs: BTreeMap<PathBuf, Graph> = BTreeMap::new();
    let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
    for import in imports {
        let (from, to) = (module(root, &import.from), module(root, &import.to));
        for path in [&from, &to] {
            folders.extend(path.ancestors().skip(1).map(Path::to_path_buf));
        }
        if let Some((folder, from, to)) = siblings(&from, &to) {
            graphs.entry(folder).or_default().entry(from).or_default().entry(to).or_insert(import);
        }
    }
    let mut found = Vec::new();
    for graph in graphs.values() {
        let mut seen: BTreeSet<&PathBuf> = BTreeSet::new();
        for start in graph.keys().filter(|module| folders.contains(*module)) {
            if seen.contains(start) {
                continue;
            }
            if let Some(modules) = shortest(graph, start) {
                seen.extend(graph.keys().filter(|m| modules.contains(m)));
                found.push(circle(graph, modules));
            }
        }
    }
    found
}

/// The path of a file's module: `src/a.rs` and `src/a/mod.rs` are `src/a`, `src/lib.rs` is `src`.
fn module(root: &Path, file: &Path) -> PathBuf {
    let path = file.with_extension("");
    let is_root = path.parent() == Some(root) && ["lib", "main"].iter().any(|name| path.ends_with(name));
    if is_root || path.ends_with("mod") { path.parent().unwrap_or(root).to_path_buf() } else { path }
}

/// The folder at which two modules part, and the module of that folder that each is in; none if one is above the other.
fn siblings(from: &Path, to: &Path) -> Option<(PathBuf, PathBuf, PathBuf)> {
    let folder = from.ancestors().find(|folder| to.starts_with(folder))?;
    let part = |path: &Path| Some(folder.join(path.strip_prefix(folder).ok()?.iter().next()?));
    Some((folder.to_path_buf(), part(from)?, part(to)?))
}

/// The shortest way from a module back to it.
fn shortest(graph: &Graph, start: &PathBuf) -> Option<Vec<PathBuf>> {
    let mut ways = std::collections::VecDeque::from([vec![start.clone()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let last = way.last()?;
        for next in graph.get(last).into_iter().flat_map(BTreeMap::keys) {
            if next == start {
                return Some(way);
            }
            if seen.insert(next) {
                ways.push_back([way.clone(), vec![next.clone()]].concat());
            }
        }
    }
    None
}

fn circle<'a>(graph: &Graph<'a>, modules: Vec<PathBuf>) -> Circle<'a> {
    let next = modules.iter().skip(1).chain(modules.first());
    let steps = modules.iter().zip(next).map(|(from, to)| graph[from][to]).collect();
    Circle { modules, steps }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imports::read;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<_> = files.iter().map(|(path, text)| (PathBuf::from(path), text.to_string())).collect();
        let imports = read(Path::new("src"), &files);
        let circles = circles(Path::new("src"), &imports);
        circles.iter().map(|c| c.modules.iter().map(|m| m.display().to_string()).collect()).collect()
    }

    #[test]
    fn a_circle_between_folders_is_found_with_its_steps() {
        let tree = [
            ("src/lib.rs", "mod a; mod b; mod c;"),
            ("src/a/mod.rs", "mod deep;"),
            ("src/a/deep.rs", "use crate::b::B; pub struct Deep;"),
            ("src/b.rs", "pub struct B; use crate::c::C;"),
            ("src/c/mod.rs", "pub mod leaf; pub struct C;"),
            ("src/c/leaf.rs", "fn f() { crate::a::deep::Deep; }"),
        ];
        assert_eq!(found(&tree), [["src/a", "src/b", "src/c"]]);
        let files: Vec<_> = tree.iter().map(|(path, text)| (PathBuf::from(path), text.to_string())).collect();
        let imports = read(Path::new("src"), &files);
        let circles = circles(Path::new("src"), &imports);
        let steps: Vec<_> = circles[0].steps.iter().map(|s| (s.from.display().to_string(), s.line)).collect();
        assert_eq!(steps, [("src/a/deep.rs".into(), 1), ("src/b.rs".into(), 1), ("src/c/leaf.rs".into(), 1)]);
    }

    #[test]
    fn files_of_one_folder_and_a_module_with_its_own_parts_may_use_each_other() {
        let tree = [
            ("src/lib.rs", "mod a; mod b; mod c;"),
            ("src/a.rs", "use crate::b::B; pub struct A;"),
            ("src/b.rs", "use crate::a::A; pub struct B;"),
            ("src/c/mod.rs", "mod part; use part::Part; pub struct C;"),
            ("src/c/part.rs", "use super::C; use crate::a::A; pub struct Part;"),
        ];
        assert_eq!(found(&tree), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_circle_inside_of_a_folder_is_found_where_its_parts_are_folders() {
        let tree = [
            ("src/lib.rs", "mod a;"),
            ("src/a/mod.rs", "mod x; mod y;"),
            ("src/a/x.rs", "use super::y::Y; pub struct X;"),
            ("src/a/y/mod.rs", "mod z; pub struct Y;"),
            ("src/a/y/z.rs", "use super::super::x::X;"),
        ];
        assert_eq!(found(&tree), [["src/a/y", "src/a/x"]]);
    }
}
