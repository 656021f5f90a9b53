//! The objects of this process that a schedule names by numbers, and the steps that work on memory of this process.

use super::schedule::Step;
use crate::datatype::{self, Datatype};
use crate::op::Op;
use std::rc::Rc;

/// The operation of a reducing collective.
pub struct Reduction {
    /// The operation.
    pub op: Rc<Op>,
    /// Type of the items.
    pub datatype: Rc<Datatype>,
}

/// See the head of this file.
#[derive(Default)]
pub struct Objects {
    types: Vec<Rc<Datatype>>,
    reduction: Option<Reduction>,
}

impl Objects {
    /// Forgets all.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.types.clear();
        self.reduction = None;
    }

    /// Enters a datatype and says its number.
    #[inline]
    pub(super) fn enter(&mut self, datatype: &Rc<Datatype>) -> u32 {
        if !self.types.last().is_some_and(|last| Rc::ptr_eq(last, datatype)) {
            self.types.push(Rc::clone(datatype));
        }
        self.types.len() as u32 - 1
    }

    /// Enters the operation.
    #[inline]
    pub(super) fn set_reduction(&mut self, op: &Rc<Op>, datatype: &Rc<Datatype>) {
        self.reduction = Some(Reduction { op: Rc::clone(op), datatype: Rc::clone(datatype) });
    }

    /// The datatype with this number.
    #[inline]
    pub fn datatype(&self, index: u32) -> &Rc<Datatype> {
        &self.types[index as usize]
    }

    /// All datatypes.
    pub fn datatypes(&self) -> &[Rc<Datatype>] {
        &self.types
    }

    /// The operation.
    #[inline]
    pub fn reduction(&self) -> Option<&Reduction> {
        self.reduction.as_ref()
    }

    /// Performs a step that is no transfer on memory of this process. `reduce` calls the operation for a number of items.
    ///
    /// # Safety
    /// The memory that the step names is valid, and the step belongs to these objects.
    #[inline]
    pub unsafe fn perform(&self, step: &Step, reduce: impl FnOnce(&Reduction, *const u8, *mut u8, usize)) {
        // SAFETY: by the contract of this function, for every arm.
        unsafe {
            match *step {
                Step::Move { from, into, len } => std::ptr::copy(from, into, len),
                Step::Convert { from, from_count, from_type, into, into_count, into_type } => {
                    let (from_type, into_type) = (self.datatype(from_type), self.datatype(into_type));
                    datatype::copy(from, from_count, from_type, into, into_count, into_type);
                }
                Step::Pack { from, count, datatype, into } => {
                    let datatype = self.datatype(datatype);
                    datatype::pack(datatype, from, count, 0, into, count * datatype.size());
                }
                Step::Unpack { from, into, count, datatype } => {
                    let datatype = self.datatype(datatype);
                    datatype::unpack(datatype, into, count, 0, from, count * datatype.size());
                }
                Step::Reduce { input, inout, count } => {
                    if let Some(reduction) = &self.reduction {
                        reduce(reduction, input, inout, count);
                    }
                }
                _ => {}
            }
        }
    }
}
