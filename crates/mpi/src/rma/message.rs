//! What processes of a window tell each other by messages: a header of eight words, the layout of the target's items, data.
//!
//! Everything is looked at again by the one who gets it: layouts are checked ([`FlatType::decode`]), places against its memory.

use crate::datatype::flat::FlatType;
use crate::datatype::{Builtin, Datatype, Name};
use crate::op;
use base::{Class, Error, Result};

/// What is asked or told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Ask {
    /// Writes the data.
    Put = 1,
    /// Answers with the data.
    Get,
    /// Combines; answers with what was there before if `flag` is 1.
    Accumulate,
    /// Compares with the first half of the data, and writes the second half if that is there. Answers with what was there.
    CompareSwap,
    /// Takes the lock; alone if `flag` is 1.
    Lock,
    /// Gives the lock back; taken alone if `flag` is 1.
    Unlock,
    /// An exposure epoch begins.
    Post,
    /// An access epoch ends.
    Complete,
    /// The end of what `token` has asked: done, or the error class `flag`. With the data.
    Done,
}

const ALL: [Ask; 9] = [
    Ask::Put,
    Ask::Get,
    Ask::Accumulate,
    Ask::CompareSwap,
    Ask::Lock,
    Ask::Unlock,
    Ask::Post,
    Ask::Complete,
    Ask::Done,
];

/// A message of a window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// What is asked.
    pub ask: Ask,
    /// Names the question for its answer.
    pub token: u64,
    /// Where the first item is: bytes from the beginning of the window, or the address in a dynamic one.
    pub at: i64,
    /// Number of items.
    pub count: u64,
    /// What combines.
    pub op: op::Predefined,
    /// The basic type of all elements.
    pub element: Name,
    /// See [`Ask`].
    pub flag: i64,
    /// Layout of the target's items.
    pub layout: FlatType,
    /// The packed data.
    pub data: Vec<u8>,
}

const WORDS: usize = 8;
const INVALID: Error = Error::new(Class::ERR_INTERN, "a message of a window is not valid");

impl Message {
    /// A message that only asks.
    pub fn new(ask: Ask, token: u64) -> Message {
        Message {
            ask,
            token,
            at: 0,
            count: 0,
            op: op::Predefined::NoOp,
            element: Name::MPI_BYTE,
            flag: 0,
            layout: FlatType::default(),
            data: Vec::new(),
        }
    }

    /// With the target's place.
    pub fn to(self, at: i64, count: usize, datatype: &Datatype) -> Result<Message> {
        Ok(Message { at, count: count as u64, layout: FlatType::of(datatype)?, ..self })
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let numbers = [
            self.ask as u64,
            self.token,
            self.at as u64,
            self.count,
            self.op as u64,
            self.element as u64,
            self.flag as u64,
            self.data.len() as u64,
        ];
        let mut out = Vec::with_capacity(8 * WORDS + 64 + self.data.len());
        numbers.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        self.layout.encode(&mut out);
        out.extend_from_slice(&self.data);
        out
    }

    /// Reads the bytes.
    pub fn decode(mut bytes: &[u8]) -> Result<Message> {
        let mut words = [0u64; WORDS];
        for word in &mut words {
            let (first, rest) = bytes.split_first_chunk::<8>().ok_or(INVALID)?;
            (*word, bytes) = (u64::from_le_bytes(*first), rest);
        }
        let [ask, token, at, count, op, element, flag, len] = words;
        let ask = ALL.into_iter().find(|known| *known as u64 == ask).ok_or(INVALID)?;
        let op = op::ALL.into_iter().find(|known| *known as u64 == op).ok_or(INVALID)?;
        let element = usize::try_from(element).ok().and_then(|at| Name::ALL.get(at)).copied().ok_or(INVALID)?;
        let layout = FlatType::decode(&mut bytes)?;
        match bytes.len() as u64 == len {
            true => {
                let (at, flag, data) = (at as i64, flag as i64, bytes.to_vec());
                Ok(Message { ask, token, at, count, op, element, flag, layout, data })
            }
            false => Err(INVALID),
        }
    }

    /// The basic type of all elements.
    pub fn builtin(&self) -> Builtin {
        Builtin::named(self.element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::{self, Form};

    #[test]
    fn messages_survive_the_wire_and_garbage_is_refused() {
        let double = datatype::predefined(Name::MPI_DOUBLE);
        let vector = datatype::vector(Form::Int, 3, 2, 5, double).unwrap();
        let message = Message {
            op: op::Predefined::Maxloc,
            element: Name::MPI_DOUBLE,
            flag: -3,
            data: vec![7; 48],
            ..Message::new(Ask::Accumulate, 99).to(-8, 1, &vector).unwrap()
        };
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes), Ok(message));
        for len in 0..bytes.len() {
            assert!(Message::decode(&bytes[..len]).is_err(), "{len}");
        }
        let mut state = 88_172_645_463_325_252_u64;
        for _ in 0..20_000 {
            let mut hostile = bytes.clone();
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = (state >> 32) as usize % hostile.len();
            hostile[at] = state as u8;
            if let Ok(message) = Message::decode(&hostile) {
                assert_eq!(message.encode(), hostile);
            }
        }
    }
}
