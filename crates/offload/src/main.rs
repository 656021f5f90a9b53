//! `ferrule-worker`: started by a node agent of `mpiexec --offload`, and by nobody else.

#![forbid(unsafe_code)]

fn main() {
    std::process::exit(offload::worker::run());
}
