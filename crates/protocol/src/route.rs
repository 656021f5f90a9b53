//! Groups of lanes, and which of them a message takes (decision 0032).
//!
//! The lanes of a pair that carry one [`Class`] are a *group*. Each group counts its packets by itself ([`crate::order`]), so a packet waits only for
//! earlier ones of its own group.
//!
//! MPI's order (MPI-5.0, 3.5) is one of matching: messages of one sender in one context are matched in the order in which they were sent. So the packets that are
//! matched, a message's *envelope*, all go over one group, which follows from the context alone. What is not matched, the *payload*, may go over another.
//!
//! | policy | envelope | payload |
//! |---|---|---|
//! | `segregate` | latency; a message up to `FERRULE_LANE_SMALL_MAX` is whole there | bulk |
//! | `segregate:traffic` | the group of the kind of traffic, else the first | the same |
//! | a context with a class that a group has | that group | the same |
//! | others | the only group | the same |

use crate::lanes::{Class, LANES_MAX, LanePlan, Policy};
use std::ops::Range;

/// Most groups of lanes of a pair.
pub const GROUPS_MAX: usize = 8;

/// The groups that a message's packets take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Route {
    /// For what is matched, and for whole small messages.
    pub envelope: u8,
    /// For the rest.
    pub payload: u8,
}

impl Route {
    /// All over the first group.
    pub const FIRST: Route = Route { envelope: 0, payload: 0 };

    /// Whether a message of more than the largest small one is divided.
    pub fn is_split(self) -> bool {
        self.envelope != self.payload
    }
}

impl LanePlan {
    /// The groups of lanes of a pair, by the numbers of their lanes.
    pub fn groups(&self) -> Vec<Range<usize>> {
        let lanes = self.lanes().min(LANES_MAX);
        match self.policy() {
            Policy::Segregate => vec![0..1, 1..lanes],
            Policy::SegregateTraffic => (0..lanes).map(|lane| lane..lane + 1).collect(),
            Policy::Single | Policy::Distribute | Policy::DistributeConnection => std::iter::once(0..lanes).collect(),
        }
    }

    /// The group that carries a class; `None` if there is none for it alone.
    pub fn group_of(&self, class: Class) -> Option<u8> {
        let of_traffic = || Class::TRAFFIC.iter().take(self.lanes()).position(|other| *other == class);
        match self.policy() {
            Policy::Segregate => [Class::Latency, Class::Bulk].iter().position(|other| *other == class),
            Policy::SegregateTraffic => of_traffic(),
            Policy::Single | Policy::Distribute | Policy::DistributeConnection => None,
        }
        .map(|at| at as u8)
    }

    /// The route of a message of this kind of traffic, in a context of this class.
    pub fn route(&self, class: Option<Class>, kind: Class) -> Route {
        let of_class = class.and_then(|class| self.group_of(class));
        let alone = |group| Route { envelope: group, payload: group };
        match (of_class, self.policy()) {
            (Some(group), _) => alone(group),
            (None, Policy::Segregate) if kind != Class::Control => Route { envelope: 0, payload: 1 },
            (None, _) => alone(self.group_of(kind).unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(lanes: &str, policy: &str) -> LanePlan {
        LanePlan::parse(lanes, policy).unwrap()
    }

    fn route(envelope: u8, payload: u8) -> Route {
        Route { envelope, payload }
    }

    #[test]
    fn lanes_of_one_class_are_a_group() {
        assert!(plan("4", "distribute").groups().into_iter().eq(std::iter::once(0..4)));
        assert!(plan("4", "distribute:connection").groups().into_iter().eq(std::iter::once(0..1)));
        for plan in [plan("3", "segregate"), plan("5", "segregate:traffic")] {
            for (group, lanes) in plan.groups().into_iter().enumerate() {
                assert_eq!(plan.class(lanes.start, 0).and_then(|class| plan.group_of(class)), Some(group as u8));
            }
        }
        assert_eq!(plan("4", "segregate").groups(), [0..1, 1..4]);
        assert_eq!(plan("3", "segregate:traffic").groups(), [0..1, 1..2, 2..3]);
        for plan in [plan("6", "segregate:traffic"), plan("16", "segregate"), plan("16", "distribute")] {
            assert!(plan.groups().len() <= GROUPS_MAX, "{plan}");
        }
    }

    #[test]
    fn small_and_large_go_apart() {
        let plan = plan("2", "segregate");
        assert_eq!(plan.route(None, Class::PointToPoint), route(0, 1));
        assert_eq!(plan.route(None, Class::OneSided), route(0, 1));
        assert_eq!(plan.route(None, Class::Control), route(0, 0));
        assert_eq!(plan.route(Some(Class::Bulk), Class::PointToPoint), route(1, 1));
        assert_eq!(plan.route(Some(Class::Latency), Class::PointToPoint), route(0, 0));
        assert_eq!(plan.route(Some(Class::Io), Class::PointToPoint), route(0, 1), "a class without a lane");
    }

    #[test]
    fn kinds_of_traffic_go_apart() {
        let plan = plan("4", "segregate:traffic");
        for (kind, group) in
            [Class::PointToPoint, Class::Collectives, Class::OneSided, Class::Control].into_iter().zip(0..)
        {
            assert_eq!(plan.route(None, kind), route(group, group), "{kind}");
            assert_eq!(plan.route(Some(Class::Collectives), kind), route(1, 1));
        }
        assert_eq!(plan.with_lanes(2).route(None, Class::Control), Route::FIRST, "no lane of its own");
    }

    #[test]
    fn equal_lanes_are_one_group() {
        for plan in [plan("4", "distribute"), LanePlan::SINGLE, plan("4", "distribute:connection")] {
            assert_eq!(plan.route(None, Class::Collectives), Route::FIRST);
            assert_eq!(plan.route(Some(Class::Share(2)), Class::PointToPoint), Route::FIRST);
        }
    }
}
