//! What one rank does in a collective, as far as time depends on it, and how far a run of that has come.

/// One step. Transfers are only begun; [`Step::Await`] and [`Step::Fence`] wait for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are what their names say")]
pub enum Step {
    /// Send to a rank.
    Send { to: u32, bytes: u32 },
    /// Receive from a rank.
    Receive { from: u32, bytes: u32 },
    /// Copy in the own memory.
    Copy { bytes: u32 },
    /// Wait for one transfer: the how-manieth it is.
    Await(u32),
    /// Wait for all transfers so far.
    Fence,
}

/// The steps of one rank. Between two ranks, messages are received in the order in which they are sent.
pub type Schedule = Vec<Step>;

/// What is to be begun now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Todo {
    /// This step, which is the transfer of this number (that of the next one, if it is a copy).
    Begin(Step, u32),
    /// Nothing before something is complete.
    Wait,
    /// Nothing any more: all is complete.
    Ended,
}

/// How far a run of a schedule has come.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    next: usize,
    /// Of each transfer that was begun.
    complete: Vec<bool>,
    /// All transfers before this one are complete.
    open: usize,
    is_copying: bool,
}

impl Cursor {
    /// Goes on as far as nothing has to be begun or waited for.
    pub fn advance(&mut self, schedule: &[Step]) -> Todo {
        while !self.is_copying {
            let Some(step) = schedule.get(self.next) else {
                return if self.settle() { Todo::Ended } else { Todo::Wait };
            };
            let may_pass = match *step {
                Step::Await(transfer) => self.complete[transfer as usize],
                Step::Fence => self.settle(),
                Step::Send { .. } | Step::Receive { .. } => {
                    self.next += 1;
                    self.complete.push(false);
                    return Todo::Begin(*step, self.complete.len() as u32 - 1);
                }
                Step::Copy { .. } => {
                    self.next += 1;
                    self.is_copying = true;
                    return Todo::Begin(*step, self.complete.len() as u32);
                }
            };
            if !may_pass {
                break;
            }
            self.next += 1;
        }
        Todo::Wait
    }

    /// Whether all transfers that were begun are complete.
    fn settle(&mut self) -> bool {
        while self.complete.get(self.open).is_some_and(|complete| *complete) {
            self.open += 1;
        }
        self.open == self.complete.len()
    }

    /// A transfer is complete.
    pub fn complete(&mut self, transfer: u32) {
        self.complete[transfer as usize] = true;
    }

    /// The copy is done.
    pub fn copied(&mut self) {
        self.is_copying = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_hold_a_run_up_and_copies_are_done_in_their_place() {
        let (send, receive, copy) =
            (Step::Send { to: 1, bytes: 8 }, Step::Receive { from: 2, bytes: 8 }, Step::Copy { bytes: 4 });
        let schedule = [send, receive, Step::Await(1), copy, send, Step::Fence];
        let mut cursor = Cursor::default();
        assert_eq!(cursor.advance(&schedule), Todo::Begin(send, 0));
        assert_eq!(cursor.advance(&schedule), Todo::Begin(receive, 1));
        assert_eq!(cursor.advance(&schedule), Todo::Wait);
        cursor.complete(1);
        assert_eq!(cursor.advance(&schedule), Todo::Begin(copy, 2));
        assert_eq!(cursor.advance(&schedule), Todo::Wait);
        cursor.copied();
        assert_eq!(cursor.advance(&schedule), Todo::Begin(send, 2));
        cursor.complete(2);
        assert_eq!(cursor.advance(&schedule), Todo::Wait);
        cursor.complete(0);
        assert_eq!(cursor.advance(&schedule), Todo::Ended);
    }
}
