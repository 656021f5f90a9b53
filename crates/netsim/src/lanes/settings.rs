//! What the model of a fabric assumes, with units.

use super::credits::{BLOCK_BYTES, Buffering};
use super::tables::{BadTables, Tables};

/// The constants of a fabric. [`Settings::qdr`] says where each comes from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A byte on a link.
    pub link_ps_per_byte: u32,
    /// A byte between a channel adapter and memory; it is the slower one of both rates that a host sends and receives at.
    pub host_ps_per_byte: u32,
    /// One way over a cable. A credit takes as long to come back.
    pub wire_ps: u64,
    /// From a packet's first byte at a switch until it can leave again.
    pub switch_ps: u64,
    /// Packets are forwarded while they still come in. Otherwise only when they have come in.
    pub is_cut_through: bool,
    /// Most payload of a packet.
    pub mtu_bytes: u32,
    /// Headers and checksums of a packet.
    pub header_bytes: u32,
    /// Memory of each input port.
    pub buffering: Buffering,
    /// Packets that a channel adapter sends of one queue pair before it turns to the next one of the same lane.
    pub turn_packets: u32,
    /// Service levels, lanes and weights.
    pub tables: Tables,
}

impl Settings {
    /// QDR InfiniBand with ConnectX-2 adapters on PCI Express 2.0, the authors' kind of hardware.
    ///
    /// 4X QDR carries 32 Gb/s of data. PCI Express 2.0 with 8 lanes carries about 3.2 GB/s of payload of 256-byte transactions. A cable of 5 m takes 25 ns, an
    /// InfiniScale IV switch 100 ns (data sheet: port to port). Headers: LRH 8, BTH 12, ICRC 4, VCRC 2 bytes. Two constants are in no data sheet
    /// and are assumed: 8 KiB of input buffer for each lane, and turns of 16 KiB (8 packets) of a queue pair.
    pub fn qdr(tables: Tables) -> Settings {
        Settings {
            link_ps_per_byte: 250,
            host_ps_per_byte: 312,
            wire_ps: 25_000,
            switch_ps: 100_000,
            is_cut_through: true,
            mtu_bytes: 2048,
            header_bytes: 26,
            buffering: Buffering::Private { lane_bytes: 8192 },
            turn_packets: 8,
            tables,
        }
    }

    /// Bytes of a packet with this payload on the wire.
    pub(super) fn wire_bytes(&self, payload_bytes: u32) -> u32 {
        payload_bytes + self.header_bytes
    }

    /// Refuses what can't work: bad tables, links without a rate, lanes whose own buffer holds no whole packet.
    pub fn check(&self) -> Result<(), BadTables> {
        self.tables.check()?;
        let fail = |what: String| Err(BadTables(what));
        if self.link_ps_per_byte == 0 || self.mtu_bytes == 0 || self.turn_packets == 0 {
            return fail("rate of a link, MTU and packets of a turn are at least 1".into());
        }
        if !(64..=65_536).contains(&self.mtu_bytes) || self.header_bytes > 1024 || self.link_ps_per_byte > 1_000_000 {
            return fail("the MTU is 64 to 65536 bytes, a header at most 1024 bytes, a byte takes at most 1 µs".into());
        }
        let blocks = self.wire_bytes(self.mtu_bytes).div_ceil(BLOCK_BYTES);
        let (own, _) = self.buffering.blocks(self.tables.lanes);
        if own < blocks {
            let (own, packet) = (own * BLOCK_BYTES, blocks * BLOCK_BYTES);
            return fail(format!("a lane has a buffer of {own} bytes, but a packet takes {packet}"));
        }
        Ok(())
    }
}
