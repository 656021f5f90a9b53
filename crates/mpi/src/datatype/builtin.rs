//! Facts about the predefined datatypes: name, representation (MPI-5.0, 3.2.2, 14.5.2 and chapter 20).
//!
//! Fortran types have the sizes of gfortran without options: INTEGER, REAL and LOGICAL 4, DOUBLE PRECISION 8.

/// How one scalar lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)]
pub enum Repr {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    F16,
    F32,
    F64,
    /// x87 extended precision: 10 bytes of value in 16.
    F80,
    F128,
}

impl Repr {
    /// Bytes in memory; also the alignment.
    pub const fn size(self) -> usize {
        match self {
            Repr::I8 | Repr::U8 => 1,
            Repr::I16 | Repr::U16 | Repr::F16 => 2,
            Repr::I32 | Repr::U32 | Repr::F32 => 4,
            Repr::I64 | Repr::U64 | Repr::F64 => 8,
            Repr::I128 | Repr::U128 | Repr::F80 | Repr::F128 => 16,
        }
    }

    /// Whether sign extension applies when an integer is widened.
    pub const fn is_signed(self) -> bool {
        matches!(self, Repr::I8 | Repr::I16 | Repr::I32 | Repr::I64 | Repr::I128)
    }
}

/// The groups that decide which reduction operations are defined (MPI-5.0, 6.9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Family {
    /// C integer types, without characters.
    CInteger,
    /// Fortran INTEGER kinds.
    FortranInteger,
    /// Real types of C and Fortran.
    Float,
    /// C and C++ bool.
    Logical,
    /// Fortran LOGICAL kinds, whose bit patterns the program may tell.
    FortranLogical,
    /// Complex types of all languages.
    Complex,
    /// `MPI_BYTE`.
    Byte,
    /// `MPI_AINT`, `MPI_COUNT`, `MPI_OFFSET`.
    MultiLanguage,
    /// Value and index, for `MPI_MAXLOC` and `MPI_MINLOC`.
    Pair,
    /// Printable characters: no reduction.
    Character,
    /// `MPI_PACKED`: no reduction.
    Packed,
}

/// Everything fixed about a predefined type.
#[derive(Debug)]
pub struct Info {
    /// Which one it is.
    pub which: Name,
    /// Name of the constant.
    pub name: &'static str,
    /// Group for reductions.
    pub family: Family,
    /// The scalar; of a complex type one component, of a pair the value.
    pub repr: Repr,
    /// The index of a pair.
    pub index: Option<Repr>,
    /// Bytes of one scalar in external32.
    pub external: usize,
    /// Bytes of the index in external32 (pairs only).
    pub external_index: usize,
}

impl Info {
    /// Bytes of data in one element, without padding.
    pub const fn size(&self) -> usize {
        match (self.family, self.index) {
            (Family::Complex, _) => 2 * self.repr.size(),
            (_, Some(index)) => self.repr.size() + index.size(),
            _ => self.repr.size(),
        }
    }

    /// Where a pair's index lies, as in a C struct of value and index.
    pub const fn index_offset(&self) -> usize {
        match self.index {
            Some(index) => self.repr.size().next_multiple_of(index.size()),
            None => 0,
        }
    }

    /// Alignment of the C or Fortran type.
    pub const fn align(&self) -> usize {
        match self.index {
            Some(index) if index.size() > self.repr.size() => index.size(),
            _ => self.repr.size(),
        }
    }

    /// Distance between two consecutive elements.
    pub const fn extent(&self) -> usize {
        match self.index {
            Some(index) => (self.index_offset() + index.size()).next_multiple_of(self.align()),
            None => self.size(),
        }
    }

    /// Bytes in external32.
    pub const fn external_size(&self) -> usize {
        match self.family {
            Family::Complex => 2 * self.external,
            _ => self.external + self.external_index,
        }
    }

    /// Basic elements as `MPI_Get_elements` counts them: a pair is two.
    pub const fn elements(&self) -> usize {
        if self.index.is_some() { 2 } else { 1 }
    }
}

/// A predefined type: compares by identity.
#[derive(Clone, Copy)]
pub struct Builtin(pub(super) &'static Info);

impl std::ops::Deref for Builtin {
    type Target = Info;
    #[inline]
    fn deref(&self) -> &Info {
        self.0
    }
}

impl PartialEq for Builtin {
    #[inline]
    fn eq(&self, other: &Builtin) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Builtin {}

impl std::fmt::Debug for Builtin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.name)
    }
}

impl Builtin {
    /// The predefined type of this name.
    pub fn named(name: Name) -> Builtin {
        Builtin(&INFOS[name as usize])
    }
}

impl Builtin {
    /// A predefined type of this kind: all of them are reduced alike.
    pub fn alike(family: Family, repr: Repr, index: Option<Repr>) -> Option<Builtin> {
        INFOS.iter().find(|info| (info.family, info.repr, info.index) == (family, repr, index)).map(Builtin)
    }
}

macro_rules! infos {
    ($($name:ident $family:ident $repr:ident $($ext:literal)? $(+ $index:ident $(as $ext_value:literal)?)?;)*) => {
        /// The names of the predefined types.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[expect(missing_docs, non_camel_case_types, reason = "the standard's names")]
        pub enum Name { $($name),* }

        impl Name {
            /// All of them, in their order.
            pub const ALL: &[Name] = &[$(Name::$name),*];
        }

        /// All named predefined types, by name.
        pub(super) static INFOS: &[Info] = &[$(Info {
            which: Name::$name,
            name: stringify!($name),
            family: Family::$family,
            repr: Repr::$repr,
            index: infos!(@index $($index)?),
            external: infos!(@external $repr $($ext)? $($($ext_value)?)?),
            external_index: infos!(@external_index $($index)?),
        },)*];
    };
    (@index) => { None };
    (@index $index:ident) => { Some(Repr::$index) };
    (@external $repr:ident) => { Repr::$repr.size() };
    (@external $repr:ident $ext:literal) => { $ext };
    (@external_index) => { 0 };
    (@external_index $index:ident) => { Repr::$index.size() };
}

// A number after the representation is the size in external32, where it differs (table in 14.5.2).
infos! {
    MPI_AINT MultiLanguage I64;
    MPI_COUNT MultiLanguage I64;
    MPI_OFFSET MultiLanguage I64;
    MPI_PACKED Packed U8;
    MPI_SHORT CInteger I16;
    MPI_INT CInteger I32;
    MPI_LONG CInteger I64 4;
    MPI_LONG_LONG_INT CInteger I64;
    MPI_UNSIGNED_SHORT CInteger U16;
    MPI_UNSIGNED CInteger U32;
    MPI_UNSIGNED_LONG CInteger U64 4;
    MPI_UNSIGNED_LONG_LONG CInteger U64;
    MPI_FLOAT Float F32;
    MPI_C_COMPLEX Complex F32;
    MPI_CXX_FLOAT_COMPLEX Complex F32;
    MPI_DOUBLE Float F64;
    MPI_C_DOUBLE_COMPLEX Complex F64;
    MPI_CXX_DOUBLE_COMPLEX Complex F64;
    MPI_LOGICAL FortranLogical U32;
    MPI_INTEGER FortranInteger I32;
    MPI_REAL Float F32;
    MPI_COMPLEX Complex F32;
    MPI_DOUBLE_PRECISION Float F64;
    MPI_DOUBLE_COMPLEX Complex F64;
    MPI_CHARACTER Character U8;
    MPI_LONG_DOUBLE Float F80;
    MPI_C_LONG_DOUBLE_COMPLEX Complex F80;
    MPI_CXX_LONG_DOUBLE_COMPLEX Complex F80;
    MPI_FLOAT_INT Pair F32 + I32;
    MPI_DOUBLE_INT Pair F64 + I32;
    MPI_LONG_INT Pair I64 + I32 as 4;
    MPI_2INT Pair I32 + I32;
    MPI_SHORT_INT Pair I16 + I32;
    MPI_LONG_DOUBLE_INT Pair F80 + I32;
    MPI_2REAL Pair F32 + F32;
    MPI_2DOUBLE_PRECISION Pair F64 + F64;
    MPI_2INTEGER Pair I32 + I32;
    MPI_C_BOOL Logical U8;
    MPI_CXX_BOOL Logical U8;
    MPI_WCHAR Character U32 2;
    MPI_INT8_T CInteger I8;
    MPI_UINT8_T CInteger U8;
    MPI_CHAR CInteger I8; // for text, says 6.9.2, but programs reduce it, and other libraries let them
    MPI_SIGNED_CHAR CInteger I8;
    MPI_UNSIGNED_CHAR CInteger U8;
    MPI_BYTE Byte U8;
    MPI_INT16_T CInteger I16;
    MPI_UINT16_T CInteger U16;
    MPI_INT32_T CInteger I32;
    MPI_UINT32_T CInteger U32;
    MPI_INT64_T CInteger I64;
    MPI_UINT64_T CInteger U64;
    MPI_LOGICAL1 FortranLogical U8;
    MPI_INTEGER1 FortranInteger I8;
    MPI_LOGICAL2 FortranLogical U16;
    MPI_INTEGER2 FortranInteger I16;
    MPI_REAL2 Float F16;
    MPI_LOGICAL4 FortranLogical U32;
    MPI_INTEGER4 FortranInteger I32;
    MPI_REAL4 Float F32;
    MPI_COMPLEX4 Complex F16;
    MPI_LOGICAL8 FortranLogical U64;
    MPI_INTEGER8 FortranInteger I64;
    MPI_REAL8 Float F64;
    MPI_COMPLEX8 Complex F32;
    MPI_LOGICAL16 FortranLogical U128;
    MPI_INTEGER16 FortranInteger I128;
    MPI_REAL16 Float F128;
    MPI_COMPLEX16 Complex F64;
    MPI_COMPLEX32 Complex F128;
}
