//! Whether a peer's large messages are streamed through memory that both share, or pulled from the peer's memory by single copy.
//!
//! ```text
//!               enough measurements                enough measurements
//! streams (new) ───────────────────► pulls (new) ─────────────────────► the faster way ◄───┐
//!                                                                          │               │ after STREAM_RETRIES messages
//!                                                       after STREAM_RETRY │               │
//!                                                      messages of a class ▼               │
//!                                                                       the slower way ────┘ next time after twice as many
//! ```
//! One machine per class of sizes. Which way is faster differs by the distance of the two processors, and the host of a virtual machine
//! changes that while a job runs (docs/design/0003-cells.md). A way counts with its best time of the last 32 to 64 messages: what delays a
//! message says nothing about its way.

base::config! {
    /// Whether large messages on a node are streamed or pulled where both can be: `auto` (the faster way), `stream` or `pull`.
    STREAM: text = "auto";
    /// Messages of a class of sizes after which the slower way is tried again, at first; twice as many whenever it is still slower.
    STREAM_RETRY: u64 = 256, 1..=1000000, "messages";
    /// The same at most.
    STREAM_RETRY_MAX: u64 = 8192, 1..=1000000, "messages";
    /// How many in a row are sent the slower way then: one alone would find cold caches.
    STREAM_RETRIES: u64 = 8, 1..=1000, "messages";
    /// What a pull costs beside the copy that is measured: the offer, the answer, and that the sender waits for it.
    PULL_EXTRA_NS: u64 = 1500, 0..=1000000, "ns";
    /// How much faster than streaming a pull must be.
    PULL_GAIN: f64 = 1.1, 0.1..=100.0, "";
}

/// Largest messages of all classes but the last one.
const CLASS_BYTES: [usize; 4] = [32 << 10, 128 << 10, 512 << 10, 2 << 20];
const CLASSES: usize = CLASS_BYTES.len() + 1;
/// Measurements of a way before it can be called the slower one: the first ones are spoilt by page faults (until all cells have been
/// used) and cold caches.
const TRIES: [u32; CLASSES] = [64, 16, 16, 16, 16];
/// Measurements after which older ones are forgotten, a window later.
const WINDOW: u32 = 32;

/// What one process knows of one peer's large messages.
#[derive(Debug)]
pub struct Preference {
    /// Both ways exist. (Streaming through the ring alone is never preferred: it uses the processor of both sides for longer.)
    has_choice: bool,
    /// What the setting says, if it says anything.
    fixed: Option<bool>,
    classes: [Class; CLASSES],
}

/// What is known of one way for one class of sizes.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Best time of 1 KiB in the last window and in the present one.
    best_ns: [f64; 2],
    tries: u32,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    streamed: Way,
    pulled: Way,
    /// Messages until the slower way is tried again.
    retry_in: u64,
    retry_after: u64,
    retries: u64,
    /// Its [`TRIES`].
    tries: u32,
}

impl Way {
    const UNKNOWN: Way = Way { best_ns: [f64::MAX; 2], tries: 0 };

    fn note(&mut self, ns_per_kib: f64) {
        if self.tries.is_multiple_of(WINDOW) {
            self.best_ns = [self.best_ns[1], f64::MAX];
        }
        self.tries = self.tries.checked_add(1).unwrap_or(WINDOW);
        self.best_ns[1] = self.best_ns[1].min(ns_per_kib);
    }

    /// The best of one to two windows: what delays a message says nothing about its way.
    fn best_ns(&self) -> f64 {
        self.best_ns[0].min(self.best_ns[1])
    }
}

impl Class {
    fn new(tries: u32) -> Class {
        let (streamed, pulled) = (Way::UNKNOWN, Way::UNKNOWN);
        let retry_after = STREAM_RETRY.value();
        Class { streamed, pulled, retry_in: retry_after, retry_after, retries: 0, tries }
    }

    fn is_known(&self) -> bool {
        self.streamed.tries >= self.tries && self.pulled.tries >= self.tries
    }

    fn pull_is_faster(&self) -> bool {
        self.pulled.best_ns() * PULL_GAIN.value() < self.streamed.best_ns()
    }

    fn pulls(&self) -> bool {
        if self.is_known() { self.pull_is_faster() != (self.retries > 0) } else { self.streamed.tries >= self.tries }
    }

    /// One more message is measured.
    fn count(&mut self, was_faster: bool) {
        if !self.is_known() {
            return;
        }
        if self.pull_is_faster() != was_faster {
            (self.retry_after, self.retries) = (STREAM_RETRY.value(), 0);
            self.retry_in = self.retry_after;
        } else if self.retries > 0 {
            self.retries -= 1;
        } else if self.retry_in > 0 {
            self.retry_in -= 1;
        } else {
            self.retries = STREAM_RETRIES.value();
            self.retry_after = (2 * self.retry_after).min(STREAM_RETRY_MAX.value());
            self.retry_in = self.retry_after;
        }
    }
}

impl Preference {
    /// Nothing is known yet. Without cells, or without single copy, there is no choice.
    pub fn new(has_cells: bool, can_pull: bool) -> Preference {
        let fixed = match STREAM.value() {
            "stream" => Some(false),
            "pull" => Some(true),
            "auto" => None,
            other => {
                base::log!(Warn, "FERRULE_STREAM={other} is not auto, stream or pull; using auto");
                None
            }
        };
        Preference { has_choice: has_cells && can_pull, fixed, classes: TRIES.map(Class::new) }
    }

    /// Whether the next message of `len` bytes should be pulled, if there is a choice.
    pub fn pulls(&self, len: usize) -> bool {
        self.pulls_class(&self.classes[class_of(len)])
    }

    fn pulls_class(&self, class: &Class) -> bool {
        self.has_choice && self.fixed.unwrap_or_else(|| class.pulls())
    }

    /// [`Preference::pulls`] of all classes as bits by [`class_of`], for the sender.
    pub fn pulled_classes(&self) -> u32 {
        let bit = |(at, class): (usize, &Class)| u32::from(self.pulls_class(class)) << at;
        self.classes.iter().enumerate().map(bit).sum()
    }

    /// There is no single copy any more.
    pub fn cannot_pull(&mut self) {
        self.has_choice = false;
    }

    /// A message of `len` bytes took `ns`, streamed.
    pub fn note_streamed(&mut self, len: usize, ns: u64) {
        self.note(len, ns, |class| &mut class.streamed);
    }

    /// The data of a message of `len` bytes took `ns` to be pulled.
    pub fn note_pulled(&mut self, len: usize, ns: u64) {
        self.note(len, ns + PULL_EXTRA_NS.value(), |class| &mut class.pulled);
    }

    fn note(&mut self, len: usize, ns: u64, way: impl Fn(&mut Class) -> &mut Way) {
        let class = &mut self.classes[class_of(len)];
        let was_faster = class.pull_is_faster();
        way(class).note(ns as f64 * 1024.0 / len.max(1) as f64);
        class.count(was_faster);
    }
}

/// Sizes that are told apart: what fits the private caches, the shared one, neither.
pub fn class_of(len: usize) -> usize {
    CLASS_BYTES.iter().position(|most| len <= *most).unwrap_or(CLASS_BYTES.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `messages` are streamed when the two ways take so long.
    fn streamed(preference: &mut Preference, messages: usize, stream_ns: u64, pull_ns: u64) -> usize {
        let pull = |p: &mut Preference| {
            let pulls = p.pulls(1 << 20);
            if pulls {
                p.note_pulled(1 << 20, pull_ns)
            } else {
                p.note_streamed(1 << 20, stream_ns)
            }
            pulls
        };
        (0..messages).filter(|_| !pull(preference)).count()
    }

    #[test]
    fn the_faster_way_is_preferred_and_the_other_retried() {
        for (stream_ns, pull_ns) in [(10_000, 20_000), (20_000, 5_000)] {
            let mut preference = Preference::new(true, true);
            let n = streamed(&mut preference, 4000, stream_ns, pull_ns);
            assert_eq!(n > 2000, stream_ns < pull_ns, "{n} of 4000 were streamed");
            assert!((16..200).contains(&n.min(4000 - n)), "{n} of 4000 were streamed");
        }
        assert!(!Preference::new(false, true).pulls(1 << 20), "nothing to choose");
    }

    #[test]
    fn a_preference_follows_the_machine() {
        let mut preference = Preference::new(true, true);
        streamed(&mut preference, 3000, 10_000, 20_000);
        let after = streamed(&mut preference, 2000, 100_000, 20_000);
        assert!(after < 300, "{after} were streamed after that had become slow");
        let back = streamed(&mut preference, 20_000, 10_000, 20_000);
        assert!(back > 15_000, "only {back} were streamed after that had become fast again");
        assert_eq!(preference.pulled_classes() & 1 << class_of(1000), 0, "other sizes are another matter");
    }

    #[test]
    fn a_setting_decides_for_good() {
        for pulls in [false, true] {
            let mut preference = Preference { fixed: Some(pulls), ..Preference::new(true, true) };
            let n = streamed(&mut preference, 1000, 10_000, 20_000);
            assert_eq!(n, if pulls { 0 } else { 1000 });
            preference.cannot_pull();
            assert!(!preference.pulls(1 << 20));
        }
    }
}
