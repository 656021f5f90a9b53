//! Hints of a communicator (MPI-5.0, 7.4.4): assertions that a program makes about its own use of it, and the class of lanes that its messages take.

use super::Comm;
use crate::cs::Section;
use crate::engine;
use crate::info::{Info, MEMORY_KINDS};
use base::log;
use protocol::lanes::{Class, LanePlan};
use std::sync::atomic::{AtomicBool, Ordering};

/// The class of lanes that messages of a communicator take ([`Class::named`]); `default` for those of their kind or size.
const LANE_CLASS: &str = "ferrule_lane_class";

/// Whether workers run the non-blocking collectives of a communicator (`mpiexec --offload`): `true` for all, `false` for none. The same on all processes.
const OFFLOAD: &str = "ferrule_offload";

/// The assertions of the standard; each is `true` or `false`.
const ASSERTIONS: [&str; 5] = [
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_persistent_collective_ordering",
];

/// The assertions made.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Hints {
    made: [Option<bool>; ASSERTIONS.len()],
    /// Only one that lanes of the job have.
    lane_class: Option<Class>,
    offload: Option<bool>,
}

impl Hints {
    /// The hints of an info object; others are ignored, as are values that are neither `true` nor `false`.
    pub fn of(info: &Info) -> Hints {
        let mut hints = Hints::default();
        hints.update(info);
        hints
    }

    /// Takes over the hints that `info` has.
    fn update(&mut self, info: &Info) {
        for (key, made) in ASSERTIONS.iter().zip(&mut self.made) {
            match info.text(key).as_deref() {
                Some("true") => *made = Some(true),
                Some("false") => *made = Some(false),
                _ => {}
            }
        }
        match info.text(OFFLOAD).as_deref() {
            Some("true") => self.offload = Some(true),
            Some("false") => self.offload = Some(false),
            _ => {}
        }
        if let Some(name) = info.text(LANE_CLASS) {
            let plan = LanePlan::configured().unwrap_or(LanePlan::SINGLE);
            self.lane_class = lane_class(&name, &plan);
        }
    }

    /// Whether workers shall run the non-blocking collectives, if the program has said.
    pub fn offload(&self) -> Option<bool> {
        self.offload
    }

    /// The hints in use.
    pub fn to_info(self) -> Info {
        let info = Info::new();
        for (key, made) in ASSERTIONS.iter().zip(self.made) {
            if let Some(made) = made {
                info.put(key, if made { b"true" } else { b"false" });
            }
        }
        if let Some(class) = self.lane_class {
            info.put(LANE_CLASS, class.to_string().as_bytes());
        }
        if let Some(offload) = self.offload {
            info.put(OFFLOAD, if offload { b"true" } else { b"false" });
        }
        info.put("mpi_memory_alloc_kinds", MEMORY_KINDS.as_bytes());
        info
    }
}

/// The class of this name, if lanes of the plan carry it alone; says if not.
fn lane_class(name: &str, plan: &LanePlan) -> Option<Class> {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if name == "default" {
        return None;
    }
    let Some(class) = Class::named(name) else {
        let names: Vec<String> = Class::all().map(|class| class.to_string()).collect();
        log!(Warn, "{LANE_CLASS}={name} is none of default, {}; it is ignored", names.join(", "));
        return None;
    };
    if plan.group_of(class).is_none() {
        if !TOLD.swap(true, Ordering::Relaxed) {
            log!(
                Warn,
                "{LANE_CLASS}={name}: no lane is for this class alone (lanes: {plan}), so messages take the default lanes"
            );
        }
        return None;
    }
    Some(class)
}

/// From now on messages of `comm` are sent with the class of its hints, or, once the communicator is gone, with none.
pub(crate) fn apply_class(cs: &Section, comm: &Comm, is_gone: bool) {
    let class = comm.hints.borrow().lane_class.filter(|_| !is_gone);
    for context in [Some(comm.context), comm.local.as_ref().map(|local| local.context)].into_iter().flatten() {
        engine::with(cs, |engine| engine.set_class(context, class));
    }
}

/// Whether messages of `comm` have a class of their own.
pub(super) fn has_class(comm: &Comm) -> bool {
    comm.hints.borrow().lane_class.is_some()
}

/// `MPI_Comm_set_info`.
pub fn set_info(cs: &Section, comm: &Comm, info: &Info) {
    comm.hints.borrow_mut().update(info);
    apply_class(cs, comm, false);
}

/// `MPI_Comm_get_info`: a new object with the hints in use.
pub fn get_info(comm: &Comm) -> Info {
    comm.hints.borrow().to_info()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_classes_with_lanes_are_in_force() {
        let plan = |lanes, policy| LanePlan::parse(lanes, policy).unwrap();
        assert_eq!(lane_class("bulk", &plan("2", "segregate")), Some(Class::Bulk));
        assert_eq!(lane_class("collectives", &plan("2", "segregate:traffic")), Some(Class::Collectives));
        for (name, plan) in [
            ("onesided", plan("2", "segregate:traffic")),
            ("bulk", LanePlan::SINGLE),
            ("share1", plan("2", "distribute")),
            ("fast", plan("2", "segregate")),
            ("default", plan("2", "segregate")),
        ] {
            assert_eq!(lane_class(name, &plan), None, "{name} {plan}");
        }
    }

    #[test]
    fn known_hints_survive_and_others_do_not() {
        let info = Info::new();
        info.set(b"mpi_assert_no_any_tag", b"true").unwrap();
        info.set(b"mpi_assert_exact_length", b"maybe").unwrap();
        info.set(b"colour", b"red").unwrap();
        let back = Hints::of(&info).to_info();
        assert_eq!(back.text("mpi_assert_no_any_tag").as_deref(), Some("true"));
        assert_eq!(back.text("mpi_assert_exact_length"), None);
        assert_eq!(back.text("colour"), None);
        assert_eq!(back.text("mpi_memory_alloc_kinds").as_deref(), Some(MEMORY_KINDS));
    }
}
