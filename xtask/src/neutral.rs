//! `crates/mpi` knows no ABI (docs/design/0017): no function of C, no C type, no layout of C, no handle's value. Those are in `crates/abi`. Nor does it
//! reach the transports through the engine: it hands the engine's endpoints to functions of `crates/channel`.

use std::path::Path;

const CORE: &str = "crates/mpi/src";

/// What must not be there, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("extern \"C\"", "functions of C belong to crates/abi: callbacks are traits here, trampolines there"),
    ("repr(C)", "layouts of C belong to crates/abi"),
    ("c_int", "C types belong to crates/abi"),
    ("c_long", "C types belong to crates/abi"),
    ("c_char", "C types belong to crates/abi"),
    ("Handle(0x", "values of handles belong to crates/abi"),
    ("usize = 0x", "values of handles belong to crates/abi"),
    (".transport()", "reaches through the engine: hand `engine.endpoints()` to a function of crates/channel"),
];

/// What is not an ABI's: functions of the compiler's library, the end of the process, operands of reductions as they lie in memory.
const ALLOWED: &[(&str, &str)] = &[
    ("op/quad.rs", "extern \"C\""),
    ("init.rs", "extern \"C\""),
    ("op/scalar.rs", "repr(C)"),
    ("op/pair.rs", "repr(C)"),
];

/// The lines of a file that name what belongs to an ABI.
pub fn complaints(path: &Path, text: &str) -> Vec<(usize, String)> {
    let Ok(part) = path.strip_prefix(CORE) else { return Vec::new() };
    let is_allowed = |what: &str| ALLOWED.iter().any(|(file, thing)| part == Path::new(file) && *thing == what);
    let mut found = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for (what, why) in FORBIDDEN.iter().filter(|(what, _)| code.contains(what) && !is_allowed(what)) {
            found.push((i + 1, format!("`{what}`: {why}")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        complaints(Path::new(path), text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn what_belongs_elsewhere_is_found() {
        let text = "//! extern \"C\"\nconst NULL: Handle = Handle(0x100);\nextern \"C\" fn f(n: c_int) {}\nfn g() {}";
        assert_eq!(lines("crates/mpi/src/comm/mod.rs", text), [2, 3, 3]);
        assert_eq!(lines("crates/abi/src/standard.rs", text), []);
        assert_eq!(lines("crates/mpi/src/op/pair.rs", "#[repr(C)]"), []);
        assert_eq!(lines("crates/mpi/src/op/mod.rs", "#[repr(C)]"), [1]);
        assert_eq!(
            lines("crates/mpi/src/progress.rs", "engine.endpoints().transport().poll();\nclose(engine.endpoints());"),
            [1]
        );
    }
}
