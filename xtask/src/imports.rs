//! Which file of a crate uses which other file of it: `use` declarations and paths such as `crate::comm::Comm`.
//!
//! A path leads to the file that defines the item: re-exports are followed. Code under `#[cfg(test)]` doesn't count, nor do `tests/`,
//! `examples/` and `src/bin/`. The reader knows tokens, modules and `use` trees. It doesn't expand macros.

use crate::tokens::{Token, tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// One file uses an item of another file of its crate.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The file that uses the item.
    pub from: PathBuf,
    /// The file that defines it.
    pub to: PathBuf,
    /// The first line of `from` that does so.
    pub line: usize,
    /// The path as it is written there.
    pub path: String,
}

/// A module path below the root of the crate: `["comm", "split"]`.
type ModulePath = Vec<String>;

/// What one file says.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// Paths in code, as written, with their lines.
    paths: Vec<(Vec<String>, usize)>,
    /// Names that a `use` brings in, and what they stand for.
    names: BTreeMap<String, Vec<String>>,
    /// Modules whose whole content a `use` brings in.
    globs: Vec<Vec<String>>,
    /// Items and inline modules that the file defines.
    items: BTreeSet<String>,
    /// Child modules that exist in tests only.
    test_only: Vec<String>,
}

/// Reads the imports of one crate. `files` are its sources with their texts; `root` is the folder of `lib.rs` or `main.rs`.
pub fn read(root: &Path, files: &[(PathBuf, String)]) -> Vec<Import> {
    let mut modules: BTreeMap<ModulePath, Module> = BTreeMap::new();
    for (path, text) in files {
        if let Some(at) = module_path(root, path) {
            modules.insert(at, Module { file: path.clone(), ..parse(&tokens(text)) });
        }
    }
    for hidden in test_only(&modules) {
        modules.retain(|at, _| !at.starts_with(&hidden));
    }
    let mut imports: BTreeMap<(PathBuf, PathBuf), Import> = BTreeMap::new();
    for (at, module) in &modules {
        for (path, line) in &module.paths {
            let Some(to) = absolute(&modules, at, path).and_then(|path| definition(&modules, &path, 0)) else {
                continue;
            };
            let to = modules[&to].file.clone();
            if to != module.file {
                let key = (module.file.clone(), to.clone());
                let import = Import { from: module.file.clone(), to, line: *line, path: path.join("::") };
                imports.entry(key).or_insert(import);
            }
        }
    }
    imports.into_values().collect()
}

fn test_only(modules: &BTreeMap<ModulePath, Module>) -> Vec<ModulePath> {
    let children = |(at, module): (&ModulePath, &Module)| -> Vec<ModulePath> {
        module.test_only.iter().map(|name| [at.clone(), vec![name.clone()]].concat()).collect()
    };
    modules.iter().flat_map(children).collect()
}

/// `src/a/b.rs` and `src/a/b/mod.rs` are `a::b`; binaries are crates of their own.
fn module_path(root: &Path, file: &Path) -> Option<ModulePath> {
    let below = file.strip_prefix(root).ok()?.with_extension("");
    let mut parts: ModulePath = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.first().is_some_and(|first| first == "bin") {
        return None;
    }
    let root_file = parts.len() == 1 && ["lib", "main"].contains(&parts[0].as_str());
    if root_file || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    Some(parts)
}

/// The path from the root of the crate, if the path leads into the crate.
fn absolute(modules: &BTreeMap<ModulePath, Module>, at: &ModulePath, path: &[String]) -> Option<Vec<String>> {
    let mut base = at.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            base.pop()?;
        }
        first => {
            base.push(first.to_string());
            return modules.contains_key(&base).then(|| [at.as_slice(), path].concat());
        }
    }
    rest = &rest[1..];
    while rest.first().is_some_and(|part| part == "super") {
        base.pop()?;
        rest = &rest[1..];
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// The module whose file defines what an absolute path names; the nearest one that exists if the reader doesn't find the item.
fn definition(modules: &BTreeMap<ModulePath, Module>, path: &[String], depth: usize) -> Option<ModulePath> {
    let known = (0..=path.len()).rev().find(|len| modules.contains_key(&path[..*len]))?;
    let (at, rest) = (path[..known].to_vec(), &path[known..]);
    let module = &modules[&at];
    let Some(name) = rest.first().filter(|name| !module.items.contains(*name) && depth < 8) else { return Some(at) };
    if let Some(target) = module.names.get(name).and_then(|path| absolute(modules, &at, path)) {
        return definition(modules, &[&target, &rest[1..]].concat(), depth + 1);
    }
    for glob in &module.globs {
        let Some(found) = absolute(modules, &at, glob).and_then(|g| definition(modules, &g, depth + 1)) else {
            continue;
        };
        let inside = &modules[&found];
        if found != at && (inside.items.contains(name) || inside.names.contains_key(name)) {
            return definition(modules, &[&found, rest].concat(), depth + 1);
        }
    }
    Some(at)
}

/// Reads the tokens of one file.
fn parse(tokens: &[Token]) -> Module {
    let mut module = Module::default();
    // Names of the inline modules around the token, and the depth of braces at which each ends.
    let mut inline: Vec<usize> = Vec::new();
    let (mut depth, mut i) = (0, 0);
    while i < tokens.len() {
        let text = tokens[i].text.as_str();
        if text == "#" && is_test_attribute(tokens, i) {
            i = skip_item(tokens, i, inline.is_empty().then_some(&mut module.test_only));
            continue;
        }
        match text {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                inline.pop_if(|end| *end == depth);
            }
            "mod" if tokens.get(i + 2).is_some_and(|t| t.text == "{") => inline.push(depth),
            // Not what a type captures: `+ use<>`.
            "use" if tokens.get(i + 1).is_some_and(|t| t.text != "<") => {
                i = read_use(tokens, i + 1, inline.len(), &mut module);
                continue;
            }
            _ => {}
        }
        if depth == inline.len() && is_definition(text) && i + 1 < tokens.len() {
            let name = if text == "macro_rules" { i + 2 } else { i + 1 };
            module.items.extend(tokens.get(name).filter(|t| t.is_word()).map(|t| t.text.clone()));
        }
        i = read_path(tokens, i, inline.len(), &mut module);
    }
    module.items.retain(|name| !module.names.contains_key(name));
    module
}

fn is_definition(word: &str) -> bool {
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"].contains(&word)
}

/// `#[cfg(test)]`, `#[cfg(all(test, …))]`, `#[test]`.
fn is_test_attribute(tokens: &[Token], at: usize) -> bool {
    let inside = tokens[at..].iter().take_while(|t| t.text != "]");
    let words: Vec<&str> = inside.map(|t| t.text.as_str()).filter(|w| !["#", "[", "(", ")", ","].contains(w)).collect();
    words.first() == Some(&"cfg") && words.contains(&"test") && !words.contains(&"not") || words == ["test"]
}

/// Behind the item that follows an attribute: its braces, or its semicolon. Notes the name of a module that is a file.
fn skip_item(tokens: &[Token], at: usize, files: Option<&mut Vec<String>>) -> usize {
    let mut i = at + tokens[at..].iter().position(|t| t.text == "]").unwrap_or(0);
    if let Some(module) = tokens[i..].iter().take(4).position(|t| t.text == "mod")
        && tokens.get(i + module + 2).is_some_and(|t| t.text == ";")
        && let Some(files) = files
    {
        files.push(tokens[i + module + 1].text.clone());
    }
    let is_use = tokens.get(i + 1).is_some_and(|t| t.text == "use");
    let mut depth = 0;
    while i < tokens.len() {
        match tokens[i].text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" if depth > 0 => depth -= 1,
            _ => {}
        }
        let ends = match tokens[i].text.as_str() {
            ";" => depth == 0,
            "}" => depth == 0 && !is_use,
            _ => false,
        };
        i += 1;
        if ends {
            break;
        }
    }
    i
}

/// Reads the tree of a `use` up to its semicolon.
fn read_use(tokens: &[Token], start: usize, inline: usize, module: &mut Module) -> usize {
    let end = start + tokens[start..].iter().position(|t| t.text == ";").unwrap_or(tokens.len() - start);
    let mut leaves = Vec::new();
    let mut i = start;
    use_tree(&tokens[..end], &mut i, &[], &mut leaves);
    for (path, name, line) in leaves {
        let Some(path) = out_of_inline(path, inline) else { continue };
        module.paths.push((path.clone(), line));
        match name {
            Some(name) if inline == 0 => drop(module.names.insert(name, path)),
            None if inline == 0 => module.globs.push(path),
            _ => {}
        }
    }
    end + 1
}

/// A leaf of a `use` tree: its path, the name that it gets here (none: everything inside), its line.
type Leaf = (Vec<String>, Option<String>, usize);

fn use_tree(tokens: &[Token], i: &mut usize, prefix: &[String], leaves: &mut Vec<Leaf>) {
    let mut path = prefix.to_vec();
    let mut line = 0;
    while let Some(token) = tokens.get(*i) {
        *i += 1;
        line = token.line;
        match token.text.as_str() {
            "::" => {}
            "{" => {
                while tokens.get(*i).is_some_and(|t| t.text != "}") {
                    use_tree(tokens, i, &path, leaves);
                    *i += usize::from(tokens.get(*i).is_some_and(|t| t.text == ","));
                }
                *i += 1;
                return;
            }
            "*" => return leaves.push((path, None, line)),
            "as" => {
                let name = tokens.get(*i).map(|t| t.text.clone());
                *i += 1;
                return leaves.push((path, name, line));
            }
            "," | "}" => {
                *i -= 1;
                break;
            }
            "self" if path.len() > prefix.len() || !prefix.is_empty() => {}
            word => path.push(word.to_string()),
        }
    }
    let name = path.last().cloned();
    leaves.push((path, name, line));
}

/// Reads a path in code, such as `crate::progress::wait` or `child::start`; otherwise passes one token.
fn read_path(tokens: &[Token], at: usize, inline: usize, module: &mut Module) -> usize {
    let follows = at > 0 && ["::", "$", "."].contains(&tokens[at - 1].text.as_str());
    let joined = |i: usize| tokens.get(i).is_some_and(|t| t.text == "::");
    if follows || !tokens[at].is_word() || !joined(at + 1) {
        return at + 1;
    }
    let mut path = vec![tokens[at].text.clone()];
    let mut i = at + 1;
    while joined(i) && tokens.get(i + 1).is_some_and(Token::is_word) {
        path.push(tokens[i + 1].text.clone());
        i += 2;
    }
    if let Some(path) = out_of_inline(path, inline) {
        module.paths.push((path, tokens[at].line));
    }
    i.max(at + 1)
}

/// A path as the file's own module would write it; none if it stays inside of the inline module.
fn out_of_inline(path: Vec<String>, inline: usize) -> Option<Vec<String>> {
    let up = path.iter().take_while(|part| *part == "super").count();
    match path.first().map(String::as_str) {
        Some("crate") => Some(path),
        _ if inline == 0 => Some(path),
        Some("super") if up > inline => Some(path[inline..].to_vec()),
        Some("super") if up == inline => Some([vec!["self".to_string()], path[inline..].to_vec()].concat()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let files: Vec<_> = files.iter().map(|(path, text)| (PathBuf::from(path), text.to_string())).collect();
        let name = |path: &Path| path.display().to_string();
        read(Path::new("src"), &files).iter().map(|i| (name(&i.from), name(&i.to))).collect()
    }

    fn pair(from: &str, to: &str) -> (String, String) {
        (from.into(), to.into())
    }

    #[test]
    fn groups_children_and_paths_in_code_are_found() {
        let found = imports(&[
            ("src/lib.rs", "mod a; mod b; mod c;"),
            ("src/a/mod.rs", "mod part;\nuse part::Part;\nuse crate::{b::{self, B}, c::*};"),
            (
                "src/a/part.rs",
                "pub struct Part; fn f() { super::super::c::g(); let x = \"crate::b::B\"; } // crate::b::B",
            ),
            ("src/b.rs", "pub struct B;"),
            ("src/c.rs", "pub fn g() {}"),
        ]);
        let want = [
            pair("src/a/mod.rs", "src/a/part.rs"),
            pair("src/a/mod.rs", "src/b.rs"),
            pair("src/a/mod.rs", "src/c.rs"),
            pair("src/a/part.rs", "src/c.rs"),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn what_a_type_captures_is_no_import() {
        let found = imports(&[
            ("src/lib.rs", "mod a; mod b;"),
            ("src/a.rs", "fn f() -> impl Iterator + use<> { g() } fn h() { crate::b::g(); }"),
            ("src/b.rs", "pub fn g() {}"),
        ]);
        assert_eq!(found, [pair("src/a.rs", "src/b.rs")]);
    }

    #[test]
    fn a_path_leads_to_the_file_that_defines_the_item() {
        let found = imports(&[
            ("src/lib.rs", "mod a; mod b; pub use a::deep::Thing; pub use b::*;"),
            ("src/a.rs", "pub mod deep;"),
            ("src/a/deep.rs", "pub struct Thing;"),
            ("src/b.rs", "use crate::Thing; pub fn other() {}"),
            ("src/c.rs", "use crate::{Thing as T, other};"),
        ]);
        assert!(found.contains(&pair("src/b.rs", "src/a/deep.rs")));
        assert!(found.contains(&pair("src/c.rs", "src/a/deep.rs")));
        assert!(found.contains(&pair("src/c.rs", "src/b.rs")));
        assert!(!found.contains(&pair("src/c.rs", "src/lib.rs")));
    }

    #[test]
    fn code_of_tests_does_not_count() {
        let found = imports(&[
            ("src/lib.rs", "mod a; mod b; #[cfg(test)] mod model;"),
            (
                "src/a.rs",
                "#[cfg(test)] use crate::b::B; #[cfg(test)] mod tests { use super::*; use crate::b::B; } fn f() {}",
            ),
            ("src/b.rs", "pub struct B;"),
            ("src/model.rs", "use crate::a::f;"),
        ]);
        assert_eq!(found, []);
    }

    #[test]
    fn super_in_an_inline_module_is_the_file_itself() {
        let found = imports(&[
            ("src/lib.rs", "mod a; mod b;"),
            ("src/a.rs", "mod inner { use super::X; use super::super::b::B; } struct X;"),
            ("src/b.rs", "pub struct B;"),
        ]);
        assert_eq!(found, [pair("src/a.rs", "src/b.rs")]);
    }
}
