//! The choices that all processes of a job share: settings, and whether ranks share cores.

use super::allgather::Allgather;
use super::allreduce::Allreduce;
use super::alltoall::Alltoall;
use super::barrier::Barrier;
use super::bcast::Bcast;
use super::gather::Gather;
use super::reduce::Reduce;
use super::reduce_scatter::ReduceScatter;
use super::scan::Scan;
use super::scatter::Scatter;
use super::select::{self, settings::*};
use crate::comm::choices::{COLLECTIVES, Choices, OFFLOAD_ALL, OFFLOAD_NEVER};
use base::config::{Text, Var};
use channel::bootstrap::JobInfo;

/// The choices of a job. Its ranks may have been started with different settings, so all follow those of rank 0, which the launcher has told
/// them. Only jobs under one kernel say whether ranks share cores: all of their ranks are told the same.
pub fn of(job: &JobInfo) -> Choices {
    let one_node = job.local_ranks.len() == job.size as usize;
    // A process without a launcher has its own.
    let told = job.launched.then_some(job.collectives.as_slice());
    let text = |setting: &'static Text| told.map_or(setting.value(), |told| setting.among(told));
    let number = |setting: &Var<u64>| told.map_or_else(|| setting.value(), |told| setting.among(told));
    let oversubscribed = match text(&COLL_OVERSUBSCRIBED) {
        "yes" => true,
        "no" => false,
        _ => one_node && job.node_cpus > 0 && job.size > job.node_cpus,
    };
    Choices {
        oversubscribed,
        forced: forced(text),
        segment_bytes: number(&COLL_SEGMENT_BYTES) as u32,
        barrier_fanout: number(&COLL_BARRIER_FANOUT) as u32,
        offload_min: match text(&COLL_OFFLOAD) {
            _ if job.offload.workers == 0 => OFFLOAD_NEVER,
            "off" => OFFLOAD_NEVER,
            "all" => OFFLOAD_ALL,
            _ => number(&COLL_OFFLOAD_MIN_BYTES) as u32,
        },
    }
}

macro_rules! collectives {
    ($($collective:ident $setting:ident;)+) => {
        /// What the settings force, in the order of [`Collective`](super::choices::Collective).
        fn forced<'a>(text: impl Fn(&'static Text) -> &'a str) -> [u8; COLLECTIVES] {
            let mut forced = [0; COLLECTIVES];
            $(forced[<$collective as select::Algorithm>::COLLECTIVE] =
                select::place::<$collective>(text(&$setting).trim());)+
            forced
        }

        /// Forces the algorithm of this name in every collective that has one.
        #[cfg(test)]
        pub fn forcing(name: &str) -> Choices {
            let mut choices = Choices::DEFAULT;
            $(choices.forced[<$collective as select::Algorithm>::COLLECTIVE] =
                if <$collective as select::Algorithm>::ALL.iter().any(|a| select::Algorithm::name(*a) == name) {
                    select::place::<$collective>(name)
                } else {
                    0
                };)+
            choices
        }
    };
}

collectives! {
    Barrier COLL_BARRIER;
    Bcast COLL_BCAST;
    Reduce COLL_REDUCE;
    Allreduce COLL_ALLREDUCE;
    Gather COLL_GATHER;
    Scatter COLL_SCATTER;
    Allgather COLL_ALLGATHER;
    Alltoall COLL_ALLTOALL;
    ReduceScatter COLL_REDUCE_SCATTER;
    Scan COLL_SCAN;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coll::needs::SelectionKey;
    use crate::coll::select::{Algorithm, choose, place};

    fn always_answers<A: Algorithm>() {
        for ranks in 1..40 {
            for bytes in [0, 8, 1000, 4096, 70_000, 1 << 20, 1 << 26] {
                for bits in 0..16 {
                    let bit = |i: i32| bits & (1 << i) != 0;
                    let s = SelectionKey {
                        oversubscribed: bit(0),
                        commutative: bit(1),
                        even: bit(2),
                        in_place: bit(3),
                        ..SelectionKey::new(ranks, bytes)
                    };
                    let choice = choose::<A>(&Choices::DEFAULT, &s);
                    assert!(choice.needs().are_met(&s), "{choice:?} for {s:?}");
                }
            }
        }
    }

    #[test]
    fn every_key_has_an_algorithm() {
        always_answers::<Barrier>();
        always_answers::<Bcast>();
        always_answers::<Reduce>();
        always_answers::<Allreduce>();
        always_answers::<Gather>();
        always_answers::<Scatter>();
        always_answers::<Allgather>();
        always_answers::<Alltoall>();
        always_answers::<ReduceScatter>();
        always_answers::<Scan>();
    }

    #[test]
    fn a_communicator_forces_an_algorithm_where_it_can_run() {
        let mut choices = Choices::DEFAULT;
        choices.forced[Allgather::COLLECTIVE] = place::<Allgather>("recursive_doubling");
        assert_eq!(choose::<Allgather>(&choices, &SelectionKey::new(8, 1 << 20)), Allgather::RecursiveDoubling);
        assert_ne!(choose::<Allgather>(&choices, &SelectionKey::new(7, 1 << 20)), Allgather::RecursiveDoubling);
        assert_eq!(place::<Allgather>("auto"), 0);
        choices.forced[Allgather::COLLECTIVE] = u8::MAX;
        let key = SelectionKey::new(7, 1 << 20);
        assert_eq!(choose::<Allgather>(&choices, &key), choose(&Choices::DEFAULT, &key));
    }

    #[test]
    fn names_differ() {
        let mut names: Vec<_> = Bcast::ALL.iter().map(|a| a.name()).collect();
        names.dedup();
        assert_eq!(names.len(), Bcast::ALL.len());
    }
}
