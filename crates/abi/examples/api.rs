//! Prints `docs/reference/api.md`: every function of the standard, its signature and its state. Run by `cargo xtask api`.

use mpi_abi::api::{Entry, State};

fn signature(entry: &Entry, width: usize) -> String {
    let name = if width == 0 { entry.name } else { entry.large.unwrap_or(entry.name) };
    let params: Vec<String> = entry.params.iter().map(|p| p.c[width].replace('@', p.name)).collect();
    let params = if params.is_empty() { "void".to_string() } else { params.join(", ") };
    format!("{} {name}({params})", entry.returns)
}

fn main() {
    let all: Vec<_> = mpi_abi::functions().collect();
    let names = |wanted: &dyn Fn(&Entry) -> bool| -> usize {
        all.iter().filter(|(_, e)| wanted(e)).map(|(_, e)| 1 + usize::from(e.large.is_some())).sum()
    };
    let (done, total) = (names(&|e| e.state == State::Done), names(&|_| true));
    println!("# The C functions of MPI 5.0 in Ferrule\n");
    println!("Made by `cargo xtask api` from the tables in `crates/abi/src/ch*.rs`; do not edit.\n");
    println!("{total} functions, {done} implemented.");
    println!("Each also has its `PMPI_` name. *c*: there is a large-count twin `…_c`, with");
    println!("`MPI_Count` for `int` counts and `MPI_Aint` or `MPI_Count` for displacements.");
    let mut chapter = "";
    for (file, entry) in &all {
        if *file != chapter {
            chapter = file;
            println!("\n## {file}\n\n| function | | state | what |\n|---|---|---|---|");
        }
        let twin = if entry.large.is_some() { "c" } else { "" };
        let state = if entry.state == State::Done { "done" } else { "unimplemented" };
        println!("| `{}` | {twin} | {state} | {} |", signature(entry, 0), entry.doc.trim());
    }
}
