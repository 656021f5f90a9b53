//! Which algorithm runs. Each collective has its algorithms by name and a table of rules (`<collective>/choice.rs`); the first rule that
//! fits wins, unless the communicator's [`Choices`] force an algorithm.
//!
//! All processes of a collective must come to the same answer, so a [`SelectionKey`] holds only what all of them know. Limits in bytes
//! come from the cost models at the heads of the algorithms and from measurements on shared memory; a process that waits on a shared core costs a
//! context switch, so there the algorithms with the fewest waits win.

pub mod settings;

use super::needs::{Needs, SelectionKey};
use crate::comm::choices::Choices;

/// The algorithms of one collective.
pub trait Algorithm: Copy + PartialEq + std::fmt::Debug + 'static {
    /// All of them.
    const ALL: &'static [Self];
    /// Name for the setting.
    fn name(self) -> &'static str;
    /// Restrictions.
    fn needs(self) -> Needs;
    /// Rules in the order in which they are tried; the last fits always.
    fn rules() -> &'static [Rule<Self>];
    /// Place of the collective in [`Choices::forced`].
    const COLLECTIVE: usize;
}

/// One line of a table of rules.
pub struct Rule<A> {
    /// Smallest and largest number of processes.
    pub ranks: (usize, usize),
    /// Smallest and largest number of bytes.
    pub bytes: (usize, usize),
    /// Whether it is for shared cores (`Some(true)`), own cores (`Some(false)`) or both.
    pub oversubscribed: Option<bool>,
    /// The choice.
    pub algorithm: A,
}

/// The algorithm for `s` on a communicator with these choices.
#[inline]
pub fn choose<A: Algorithm>(choices: &Choices, s: &SelectionKey) -> A {
    let place = usize::from(choices.forced[A::COLLECTIVE]);
    if let Some(&forced) = A::ALL.get(place.wrapping_sub(1))
        && forced.needs().are_met(s)
    {
        return forced;
    }
    let fits = |rule: &&Rule<A>| {
        rule.ranks.0 <= s.ranks
            && s.ranks <= rule.ranks.1
            && rule.bytes.0 <= s.bytes
            && s.bytes <= rule.bytes.1
            && rule.oversubscribed.is_none_or(|o| o == s.oversubscribed)
            && rule.algorithm.needs().are_met(s)
    };
    let rules = A::rules();
    rules.iter().find(fits).unwrap_or(&rules[rules.len() - 1]).algorithm
}

/// The place, plus one, of the algorithm with this name; 0 for `auto` and, with a warning, for unknown names.
pub fn place<A: Algorithm>(name: &str) -> u8 {
    let found = A::ALL.iter().position(|a| a.name() == name);
    if found.is_none() && name != "auto" {
        let known: Vec<_> = A::ALL.iter().map(|a| a.name()).collect();
        base::log!(Warn, "no collective algorithm is called {name}: there are {}", known.join(", "));
    }
    found.map_or(0, |place| place as u8 + 1)
}

/// Any number.
pub const ALL: (usize, usize) = (0, usize::MAX);
/// 1,024.
pub const KIB: usize = 1 << 10;
/// For ranks that share cores.
pub const SHARED: Option<bool> = Some(true);

/// A line of a table.
pub const fn rule<A>(
    ranks: (usize, usize),
    bytes: (usize, usize),
    oversubscribed: Option<bool>,
    algorithm: A,
) -> Rule<A> {
    Rule { ranks, bytes, oversubscribed, algorithm }
}

/// Declares the algorithms of a collective: variant, name, needs. The table of rules is its constant `RULES`.
macro_rules! algorithms {
    (#[doc = $doc:literal] $collective:ident { $($variant:ident $name:literal $needs:expr;)+ }) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[expect(missing_docs, reason = "each has a file of its name")]
        pub enum $collective { $($variant),+ }

        impl $crate::coll::select::Algorithm for $collective {
            const ALL: &'static [$collective] = &[$($collective::$variant),+];
            const COLLECTIVE: usize = $crate::comm::choices::Collective::$collective as usize;

            fn name(self) -> &'static str {
                match self { $($collective::$variant => $name),+ }
            }

            #[inline]
            fn needs(self) -> $crate::coll::needs::Needs {
                match self { $($collective::$variant => $needs),+ }
            }

            #[inline]
            fn rules() -> &'static [Rule<$collective>] {
                $collective::RULES
            }
        }
    };
}
pub(crate) use algorithms;
