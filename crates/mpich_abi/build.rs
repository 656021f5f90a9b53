//! Chooses the ABI of MPICH, gives the shared library its soname and exports the weak aliases, which rustc's own version script would hide.

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rustc-check-cfg=cfg(mpich)");
    println!("cargo:rustc-cfg=mpich");
    println!("cargo:rerun-if-changed=exports.map");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={dir}/exports.map");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi.so.12");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
