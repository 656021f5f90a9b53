//! The program's items as a stream of bytes in the file's representation.

use super::representation::{self, Representation};
use crate::cs::Section;
use crate::datatype::{self, Datatype};
use base::Result;
use std::rc::Rc;

/// A buffer of the program: where data are written from, or read to.
#[derive(Clone, Copy)]
pub struct Items<'a> {
    /// Address of the first item.
    pub buf: *mut u8,
    /// Number of items.
    pub count: usize,
    /// Their type.
    pub datatype: &'a Rc<Datatype>,
}

/// See the head of this file.
pub struct Stream<'a> {
    items: Items<'a>,
    /// The bytes, where the file's representation isn't the memory's.
    converted: Option<Vec<u8>>,
    len: u64,
}

impl<'a> Stream<'a> {
    /// The items for writing.
    ///
    /// # Safety
    /// The items are readable as long as the stream is used.
    pub unsafe fn outgoing(cs: &mut Section, items: Items<'a>, form: &Representation) -> Result<Stream<'a>> {
        let len = representation::file_bytes(cs, form, items.datatype, items.count)? as u64;
        // SAFETY: by the caller.
        let converted = unsafe { representation::encode(cs, form, &items, len as usize)? };
        Ok(Stream { items, converted, len })
    }

    /// Room for what is read.
    ///
    /// # Safety
    /// The items are writable, and nobody else's, as long as the stream is used.
    pub unsafe fn incoming(cs: &mut Section, items: Items<'a>, form: &Representation) -> Result<Stream<'a>> {
        let len = representation::file_bytes(cs, form, items.datatype, items.count)? as u64;
        let converted = (!form.is_native()).then(|| vec![0; len as usize]);
        Ok(Stream { items, converted, len })
    }

    /// Bytes of the stream.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The bytes where they are, if they are one run of memory.
    pub fn as_run(&mut self) -> Option<*mut u8> {
        match &mut self.converted {
            Some(bytes) => Some(bytes.as_mut_ptr()),
            None => {
                let begin = self.items.datatype.dense_offset(self.items.count)?;
                Some(self.items.buf.wrapping_offset(begin))
            }
        }
    }

    /// Copies `len` bytes from position `from` on to `to`.
    ///
    /// # Safety
    /// There is room for `len` bytes, and the stream has them.
    pub unsafe fn copy_out(&self, from: usize, to: *mut u8, len: usize) {
        let Items { buf, count, datatype } = self.items;
        // SAFETY: by the caller, and by whoever made the stream.
        unsafe {
            match &self.converted {
                Some(bytes) => std::ptr::copy_nonoverlapping(bytes.as_ptr().add(from), to, len),
                None => datatype::pack(datatype, buf, count, from, to, len),
            }
        }
    }

    /// Copies `len` bytes to position `at` on.
    ///
    /// # Safety
    /// `len` bytes are readable, and the stream has room for them.
    pub unsafe fn copy_in(&mut self, at: usize, from: *const u8, len: usize) {
        let Items { buf, count, datatype } = self.items;
        // SAFETY: by the caller, and by whoever made the stream.
        unsafe {
            match &mut self.converted {
                Some(bytes) => std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().add(at), len),
                None => datatype::unpack(datatype, buf, count, at, from, len),
            }
        }
    }

    /// The first `len` bytes have been read: gives them to the program. Returns how many bytes of its items that are.
    pub fn finish(self, cs: &mut Section, form: &Representation, len: u64) -> Result<u64> {
        match self.converted {
            None => Ok(len),
            // SAFETY: the items are writable, by whoever made the stream.
            Some(bytes) => unsafe { representation::decode(cs, form, &self.items, &bytes[..len as usize]) },
        }
    }

    /// Bytes of the items in memory of the first `len` bytes of the stream: all of them, or those that need no conversion.
    pub fn memory_bytes(&self, len: u64) -> u64 {
        match self.converted {
            Some(_) if len == self.len => (self.items.count * self.items.datatype.size()) as u64,
            Some(_) => 0,
            None => len,
        }
    }
}
