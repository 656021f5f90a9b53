//! What the leaders of two groups tell each other when jobs connect (MPI-5.0, 11.9), over the connection of a port.

use super::codec::wire;
use super::endpoint_address::EndpointAddress;
use base::ids::{JobId, ProcId};
use base::{ContextId, Result, WorldRank, ensure, fail};

/// Version of what leaders say.
pub const VERSION: u16 = 1;

wire! {
    /// A process, as others reach it.
    pub struct Member {
        /// Its job.
        pub job: u64,
        /// Its rank there.
        pub rank: WorldRank,
        /// All numbers of processes that it has met are below this (`crate::realm`).
        pub proposers_end: u32,
        /// Where it is.
        pub address: EndpointAddress,
    }
}

wire! {
    /// A leader's first words.
    pub struct Introduction {
        /// [`VERSION`].
        pub version: u16,
        /// The leader's place among the members.
        pub leader: u32,
        /// Counter of the context that it proposes for both groups.
        pub shared: u32,
        /// Counter of the context for its own group.
        pub own: u32,
        /// Random. The processes of both groups prove themselves by that of the group that was called.
        pub secret: [u8; 16],
        /// The group, in order.
        pub members: Vec<Member>,
    }
}

wire! {
    /// What a leader tells its own group.
    pub struct Met {
        /// The group was called, so it comes first.
        pub is_callee: bool,
        /// What it has said.
        pub mine: Introduction,
        /// What the other one has said.
        pub theirs: Introduction,
    }
}

impl Member {
    /// Its name.
    pub fn id(&self) -> ProcId {
        ProcId { job: JobId(self.job), rank: self.rank }
    }
}

impl Introduction {
    /// Reads the words of a leader that may be anybody.
    pub fn read(bytes: &[u8]) -> Result<Introduction> {
        let version = bytes.first_chunk().map(|version| u16::from_le_bytes(*version));
        ensure!(version == Some(VERSION), ERR_PORT, "the other job has another version of ferrule");
        let said: Introduction = super::decode(bytes)?;
        let possible = (said.leader as usize) < said.members.len()
            && said.members.iter().all(|member| member.rank.0 < WorldRank::COUNT_MAX)
            && [said.shared, said.own].into_iter().all(|counter| counter < ContextId::COUNTERS);
        ensure!(possible, ERR_PORT, "the other job says something impossible");
        Ok(said)
    }

    /// The leader.
    pub fn leader_id(&self) -> Result<ProcId> {
        match self.members.get(self.leader as usize) {
            Some(member) => Ok(member.id()),
            None => fail!(ERR_INTERN, "a leader is not in its group"),
        }
    }

    /// All numbers that members have met are below this.
    pub fn proposers_end(&self) -> u32 {
        self.members.iter().map(|member| member.proposers_end).max().unwrap_or(0)
    }

    /// The members' names.
    pub fn ids(&self) -> Vec<ProcId> {
        self.members.iter().map(Member::id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::encode;

    fn introduction() -> Introduction {
        let member = |rank| Member {
            job: 7,
            rank: WorldRank(rank),
            proposers_end: 4 + rank,
            address: EndpointAddress { tcp: vec!["10.0.0.1:5".parse().unwrap()], ..EndpointAddress::default() },
        };
        let members = vec![member(0), member(2)];
        Introduction { version: VERSION, leader: 1, shared: 16, own: 17, secret: [3; 16], members }
    }

    #[test]
    fn impossible_words_are_refused() {
        let good = introduction();
        assert_eq!(Introduction::read(&encode(&good)).unwrap(), good);
        assert_eq!((good.leader_id().unwrap().rank, good.proposers_end()), (WorldRank(2), 6));
        let mut far = good.clone();
        far.members[0].rank = WorldRank(u32::MAX);
        for wrong in [
            Introduction { version: 9, ..good.clone() },
            Introduction { leader: 2, ..good.clone() },
            Introduction { own: ContextId::COUNTERS, ..good.clone() },
            Introduction { members: Vec::new(), ..good.clone() },
            far,
        ] {
            assert!(Introduction::read(&encode(&wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn no_bytes_of_a_leader_make_a_process_panic() {
        let bytes = encode(&introduction());
        let mut state = 88_172_645_463_325_252_u64;
        for _ in 0..50_000 {
            let mut hostile = bytes.clone();
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            hostile.truncate(1 + (state >> 8) as usize % bytes.len());
            let at = (state >> 32) as usize % hostile.len();
            hostile[at] = state as u8;
            if let Ok(said) = Introduction::read(&hostile) {
                assert_eq!(encode(&said), hostile);
            }
        }
    }
}
