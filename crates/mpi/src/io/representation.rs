//! Data representations (MPI-5.0, 14.5): native, internal, external32, and those of the program.
//!
//! `internal` is `native`: all processes of a job have one architecture. In the other ones a datatype has its own layout in the file
//! ([`in_file`]): predefined types have other sizes there, displacements in elements follow them, and displacements in bytes stay.

use super::stream::Items;
use crate::cs::Section;
use crate::datatype::{self, Combiner, Contents, DarrayArgs, Datatype, Form, Name};
use crate::inside::Inside;
use base::{Result, ensure, fail};
use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

/// `MPI_MAX_DATAREP_STRING`, with the terminating zero.
pub const MAX_DATAREP_STRING: usize = 128;

/// The program's functions for a representation (14.5.3).
pub trait Functions {
    /// Bytes of a predefined type in the file.
    fn extent(&self, cs: &mut Section, datatype: &Rc<Datatype>) -> Result<usize>;

    /// Converts the first `elements` predefined elements at `file` to the items; false if there is no such function.
    ///
    /// # Safety
    /// The items are writable, and `file` has this many elements.
    unsafe fn read(&self, cs: &mut Section, items: &Items<'_>, elements: usize, file: *mut u8) -> Result<bool>;

    /// The reverse of [`Functions::read`].
    ///
    /// # Safety
    /// The items are readable, and `file` has room for this many elements.
    unsafe fn write(&self, cs: &mut Section, items: &Items<'_>, elements: usize, file: *mut u8) -> Result<bool>;
}

/// A representation of the program.
pub struct User {
    name: Vec<u8>,
    functions: Box<dyn Functions>,
}

/// How data look in a file.
#[derive(Clone)]
pub enum Representation {
    /// As in memory.
    Native,
    /// As in memory.
    Internal,
    /// Big-endian, of the standard's sizes.
    External32,
    /// The program converts.
    User(Rc<User>),
}

static REGISTERED: Inside<RefCell<Vec<Rc<User>>>> = Inside::new(RefCell::new(Vec::new()));

/// `MPI_Register_datarep`.
pub fn register(cs: &Section, name: &[u8], functions: Box<dyn Functions>) -> Result {
    ensure!(
        !name.is_empty() && name.len() < MAX_DATAREP_STRING,
        ERR_ARG,
        "the name of a data representation is empty or too long"
    );
    ensure!(Representation::named(cs, name).is_err(), ERR_DUP_DATAREP, "a data representation of this name exists");
    REGISTERED.get(cs).borrow_mut().push(Rc::new(User { name: name.to_vec(), functions }));
    Ok(())
}

impl Representation {
    /// The representation of this name; `ERR_UNSUPPORTED_DATAREP` if there is none.
    pub fn named(cs: &Section, name: &[u8]) -> Result<Representation> {
        Ok(match name {
            b"native" => Representation::Native,
            b"internal" => Representation::Internal,
            b"external32" => Representation::External32,
            _ => match REGISTERED.get(cs).borrow().iter().find(|user| user.name == name) {
                Some(user) => Representation::User(Rc::clone(user)),
                None => fail!(ERR_UNSUPPORTED_DATAREP, "no data representation has this name"),
            },
        })
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        match self {
            Representation::Native => b"native",
            Representation::Internal => b"internal",
            Representation::External32 => b"external32",
            Representation::User(user) => &user.name,
        }
    }

    /// Whether data look as in memory.
    pub fn is_native(&self) -> bool {
        matches!(self, Representation::Native | Representation::Internal)
    }

    /// Bytes of a predefined type in the file.
    fn size_of(&self, cs: &mut Section, name: Name) -> Result<usize> {
        let datatype = datatype::predefined(name);
        match self {
            Representation::Native | Representation::Internal => Ok(datatype.size()),
            Representation::External32 => Ok(datatype::pack_external_size(datatype, 1).unwrap_or(0)),
            Representation::User(user) => user.functions.extent(cs, datatype),
        }
    }

    /// The predefined types of a signature with their bytes in the file.
    fn sizes(&self, cs: &mut Section, datatype: &Datatype) -> Result<Vec<(Name, usize)>> {
        let mut names = Vec::new();
        let Ok(()) = datatype.each_predefined::<Infallible>(1, &mut |name, _| {
            if !names.contains(&name) {
                names.push(name);
            }
            Ok(())
        });
        names.into_iter().map(|name| Ok((name, self.size_of(cs, name)?))).collect()
    }
}

/// The bytes of `name` in a list that has it.
fn size_in(sizes: &[(Name, usize)], name: Name) -> usize {
    sizes.iter().find(|(known, _)| *known == name).map_or(0, |(_, size)| *size)
}

/// Bytes of `count` items in the file.
pub fn file_bytes(cs: &mut Section, form: &Representation, datatype: &Datatype, count: usize) -> Result<usize> {
    let native = datatype.bytes(count)?;
    let item = match form {
        Representation::Native | Representation::Internal => return Ok(native),
        Representation::External32 => datatype::pack_external_size(datatype, 1),
        Representation::User(_) => {
            let sizes = form.sizes(cs, datatype)?;
            let mut sum = Some(0usize);
            let Ok(()) = datatype.each_predefined::<Infallible>(1, &mut |name, number| {
                sum = sum.and_then(|sum| sum.checked_add(size_in(&sizes, name).checked_mul(number)?));
                Ok(())
            });
            sum
        }
    };
    let total = item.and_then(|item| item.checked_mul(count)).filter(|total| *total <= isize::MAX as usize);
    total.ok_or(base::Error::new(base::Class::ERR_COUNT, "the items are larger in the file than memory can hold"))
}

/// Whole predefined elements in the first `bytes` bytes of `count` items in the file: how many, their bytes in the file and in memory.
fn elements_in(
    cs: &mut Section,
    form: &Representation,
    items: &Items<'_>,
    bytes: usize,
) -> Result<(usize, usize, usize)> {
    let sizes = form.sizes(cs, items.datatype)?;
    let (mut elements, mut file, mut memory) = (0, 0, 0);
    let _ = items.datatype.each_predefined(items.count, &mut |name, number| {
        let size = size_in(&sizes, name);
        let fit = (bytes - file).checked_div(size).map_or(number, |most| most.min(number));
        elements += fit;
        file += fit * size;
        memory += fit * datatype::predefined(name).size();
        if fit < number { Err(()) } else { Ok(()) }
    });
    Ok((elements, file, memory))
}

/// The items as they look in the file; `None` if they look as in memory.
///
/// # Safety
/// The items are readable.
pub unsafe fn encode(
    cs: &mut Section,
    form: &Representation,
    items: &Items<'_>,
    len: usize,
) -> Result<Option<Vec<u8>>> {
    if form.is_native() {
        return Ok(None);
    }
    let mut bytes = vec![0u8; len];
    let to = bytes.as_mut_ptr();
    match form {
        Representation::User(user) => {
            let (elements, _, memory) = elements_in(cs, form, items, len)?;
            // SAFETY: by the caller; the vector has room for all elements.
            let converted = unsafe { user.functions.write(cs, items, elements, to)? };
            if !converted {
                ensure!(memory == len, ERR_CONVERSION, "no conversion function, but other sizes in the file");
                // SAFETY: by the caller; the sizes are equal.
                unsafe { datatype::pack(items.datatype, items.buf, items.count, 0, to, len) };
            }
        }
        // SAFETY: by the caller; the vector has this room.
        _ => unsafe {
            datatype::pack_external(items.datatype, items.buf, items.count, to, len)?;
        },
    }
    Ok(Some(bytes))
}

/// Converts what has been read to the items, as far as it goes. Returns the bytes of the items that are known now.
///
/// # Safety
/// The items are writable.
pub unsafe fn decode(cs: &mut Section, form: &Representation, items: &Items<'_>, bytes: &[u8]) -> Result<u64> {
    let Items { buf, count, datatype } = *items;
    let (elements, file, memory) = elements_in(cs, form, items, bytes.len())?;
    if let Representation::User(user) = form {
        // The function may write where it reads: it gets a copy of its own.
        let mut copy = bytes[..file].to_vec();
        // SAFETY: by the caller; the copy has this many elements.
        let converted = unsafe { user.functions.read(cs, items, elements, copy.as_mut_ptr())? };
        if !converted {
            ensure!(memory == file, ERR_CONVERSION, "no conversion function, but other sizes in the file");
            // SAFETY: by the caller; the sizes are equal.
            unsafe { datatype::unpack(datatype, buf, count, 0, bytes.as_ptr(), file) };
        }
        return Ok(memory as u64);
    }
    let (item, size) = (datatype::pack_external_size(datatype, 1).unwrap_or(0), datatype.size());
    let whole = file.checked_div(item).unwrap_or(count);
    // SAFETY: by the caller; `whole` items are there.
    unsafe {
        datatype::unpack_external(datatype, buf, whole, bytes.as_ptr(), whole * item)?;
        if memory > whole * size {
            let place = buf.wrapping_offset(whole as isize * datatype.extent());
            decode_part(datatype, place, &bytes[whole * item..file], item, memory - whole * size)?;
        }
    }
    Ok(memory as u64)
}

/// The first `memory` packed bytes of an item of `size` bytes in external32, of which `bytes` have been read: through an item of our own.
///
/// # Safety
/// The item at `place` is writable.
unsafe fn decode_part(datatype: &Datatype, place: *mut u8, bytes: &[u8], size: usize, memory: usize) -> Result {
    let mut padded = bytes.to_vec();
    padded.resize(size, 0);
    let mut own = vec![0u8; datatype.true_extent() as usize];
    let mut packed = vec![0u8; memory];
    let base = own.as_mut_ptr().wrapping_offset(-datatype.true_lb());
    // SAFETY: `own` has room for the data of an item, which lie between its true bounds; `place` by the caller.
    unsafe {
        datatype::unpack_external(datatype, base, 1, padded.as_ptr(), size)?;
        datatype::pack(datatype, base, 1, 0, packed.as_mut_ptr(), memory);
        datatype::unpack(datatype, place, 1, 0, packed.as_ptr(), memory);
    }
    Ok(())
}

/// The layout of a datatype in the file (14.5.1): of bytes.
pub fn in_file(cs: &mut Section, form: &Representation, datatype: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    if form.is_native() {
        return Ok(Rc::clone(datatype));
    }
    if let Some(builtin) = datatype.builtin() {
        let size = form.size_of(cs, builtin.which)?;
        return datatype::contiguous(Form::Count, size as i64, datatype::byte());
    }
    let contents = datatype.contents();
    let parts = contents.datatypes.iter().map(|part| in_file(cs, form, part)).collect::<Result<Vec<_>>>()?;
    rebuild(datatype.envelope().combiner, contents, &parts)
}

/// The arguments that count or displace, whichever binding was called, in the order of the constructor.
fn numbers(contents: &Contents) -> Vec<i64> {
    if !contents.large_counts.is_empty() {
        return contents.large_counts.clone();
    }
    let integers = contents.integers.iter().map(|n| i64::from(*n));
    integers.chain(contents.addresses.iter().map(|n| *n as i64)).collect()
}

/// The datatype of the same constructor of other parts.
fn rebuild(combiner: Combiner, contents: &Contents, parts: &[Rc<Datatype>]) -> Result<Rc<Datatype>> {
    const FORM: Form = Form::Count;
    let Some(part) = parts.first() else { fail!(ERR_TYPE, "a derived datatype without parts") };
    let n = numbers(contents);
    // Of a constructor with a list, its arguments after the count; half of them for two lists.
    let list = || &n[1..];
    let halves = || n[1..].split_at((n.len() - 1) / 2);
    match combiner {
        Combiner::Dup => Ok(Rc::clone(part)),
        Combiner::Contiguous => datatype::contiguous(FORM, n[0], part),
        Combiner::Vector => datatype::vector(FORM, n[0], n[1], n[2], part),
        Combiner::Hvector => datatype::hvector(FORM, n[0], n[1], n[2], part),
        Combiner::Indexed => datatype::indexed(FORM, halves().0, halves().1, part),
        Combiner::Hindexed => datatype::hindexed(FORM, halves().0, halves().1, part),
        Combiner::IndexedBlock => datatype::indexed_block(FORM, list()[0], &list()[1..], part),
        Combiner::HindexedBlock => datatype::hindexed_block(FORM, list()[0], &list()[1..], part),
        Combiner::Struct => datatype::structure(FORM, halves().0, halves().1, parts),
        Combiner::Resized => datatype::resized(FORM, n[0], n[1], part),
        Combiner::Subarray => rebuild_subarray(contents, part),
        Combiner::Darray => rebuild_darray(contents, part),
        Combiner::Named | Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer | Combiner::ValueIndex => {
            fail!(ERR_TYPE, "a predefined datatype with parts")
        }
    }
}

fn rebuild_subarray(contents: &Contents, part: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    let (ints, large) = (&contents.integers, &contents.large_counts);
    let (dims, order) = (ints[0] as usize, ints[ints.len() - 1]);
    let small = || ints[1..ints.len() - 1].iter().map(|n| i64::from(*n)).collect();
    let lists: Vec<i64> = if large.is_empty() { small() } else { large.clone() };
    let list = |i: usize| &lists[i * dims..(i + 1) * dims];
    datatype::subarray(Form::Count, list(0), list(1), list(2), order, part)
}

fn rebuild_darray(contents: &Contents, part: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    let (ints, large) = (&contents.integers, &contents.large_counts);
    let dims = ints[2] as usize;
    let end = ints.len() - 1;
    let small = || ints[3..3 + dims].iter().map(|n| i64::from(*n)).collect();
    let gsizes: Vec<i64> = if large.is_empty() { small() } else { large.clone() };
    let args = DarrayArgs {
        size: ints[0],
        rank: ints[1],
        gsizes: &gsizes,
        distribs: &ints[end - 3 * dims..end - 2 * dims],
        dargs: &ints[end - 2 * dims..end - dims],
        psizes: &ints[end - dims..end],
        order: ints[end],
    };
    datatype::darray(Form::Count, args, part)
}
