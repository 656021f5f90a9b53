//! What the authors of BluesMPI have measured: Bayatpour, Sarkauskas, Subramoni and Panda, "BluesMPI: Efficient MPI Non-blocking Alltoall Offloading Designs on Modern
//! BlueField Smart NICs", ISC High Performance 2021, and their talk at the OpenFabrics Alliance's workshop of 2021. 32 nodes with 16 and 32 ranks, 1, 2 and 4 workers.

/// What, and the figure.
pub const PUBLISHED: [(&str, &str); 4] = [
    ("overlap of Ialltoall, 16 KiB to 512 KiB", "close to 100 %"),
    ("pure latency of Ialltoall", "on a par with the host's"),
    ("total time of osu_ialltoall", "up to 44 % less"),
    ("P3DFFT, 1024 ranks", "up to 30 % less time"),
];
