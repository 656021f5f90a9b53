//! What a peer must know to reach a rank.

use super::codec::wire;
use std::net::SocketAddr;

wire! {
    /// What a peer must know to reach a rank over UCX.
    pub struct UcxAddress {
        /// Minor version of its UCX.
        pub minor: u32,
        /// Stands for the settings that must be the same on all ranks.
        pub format: u32,
        /// Class and address of each worker.
        pub workers: Vec<(u8, Vec<u8>)>,
    }
}

wire! {
    /// What a peer must know to reach a rank; made by the rank's channels.
    #[derive(Default)]
    pub struct EndpointAddress {
        /// Random identity of the process; proves locality.
        pub rank_id: u128,
        /// Boot id of its kernel: a hint.
        pub boot_id: Option<String>,
        /// Its pid in its own pid namespace: a hint.
        pub pid: u32,
        /// Its user.
        pub uid: u32,
        /// Where its TCP channel listens.
        pub tcp: Vec<SocketAddr>,
        /// Its NUMA node.
        pub numa: Option<u32>,
        /// Name of its inbox in the directory for them, if that is a file; else empty.
        pub inbox_file: String,
        /// Where in the region that it shares with other kernels its inbox for them is: offset and bytes; no bytes if there is none.
        pub region_part: (u64, u64),
        /// Where it is reached over UCX, if it uses that.
        pub ucx: Option<Box<UcxAddress>>,
        /// Whatever else the channels exchange.
        pub extra: Vec<u8>,
    }
}
