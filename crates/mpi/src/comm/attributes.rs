//! The predefined attributes of communicators (MPI-5.0, 9.1.2).

use crate::cs::Section;
use crate::errors;
use crate::inside::Inside;
use crate::status::{ANY_SOURCE, PROC_NULL, TAG_UB};
use base::Class;
use channel::bootstrap::JobInfo;
use std::cell::Cell;

/// The attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Predefined {
    TagUb,
    Io,
    Host,
    WtimeIsGlobal,
    AppNum,
    LastUsedCode,
    UniverseSize,
}

/// What an attribute is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// A number or truth value.
    Number(i32),
    /// A rank.
    Rank(i32),
    /// An error code.
    Code(Class),
}

struct Attributes {
    app_num: Cell<Option<i32>>,
    universe_size: Cell<i32>,
}

static ATTRIBUTES: Inside<Attributes> =
    Inside::new(Attributes { app_num: Cell::new(None), universe_size: Cell::new(1) });

/// Learns the values that the job decides.
pub(crate) fn set_up(cs: &Section, job: &JobInfo) {
    ATTRIBUTES.get(cs).universe_size.set(job.universe_size as i32);
    ATTRIBUTES.get(cs).app_num.set(job.app_num.map(|number| number as i32));
}

/// The value of a predefined attribute, if it is set.
pub fn predefined(cs: &Section, which: Predefined) -> Option<Value> {
    Some(match which {
        Predefined::TagUb => Value::Number(TAG_UB),
        Predefined::Io => Value::Rank(ANY_SOURCE),
        Predefined::Host => Value::Rank(PROC_NULL),
        Predefined::WtimeIsGlobal => Value::Number(0),
        Predefined::AppNum => Value::Number(ATTRIBUTES.get(cs).app_num.get()?),
        Predefined::LastUsedCode => Value::Code(errors::last_used_code(cs)),
        Predefined::UniverseSize => Value::Number(ATTRIBUTES.get(cs).universe_size.get()),
    })
}
