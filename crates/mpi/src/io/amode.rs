//! Access modes (MPI-5.0, 14.2.1). The bits are our own: each ABI has its numbers.

use base::{Result, ensure};

/// A set of `MPI_MODE_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amode(pub u32);

impl Amode {
    /// `MPI_MODE_RDONLY`
    pub const RDONLY: Amode = Amode(1);
    /// `MPI_MODE_WRONLY`
    pub const WRONLY: Amode = Amode(1 << 1);
    /// `MPI_MODE_RDWR`
    pub const RDWR: Amode = Amode(1 << 2);
    /// `MPI_MODE_CREATE`
    pub const CREATE: Amode = Amode(1 << 3);
    /// `MPI_MODE_EXCL`
    pub const EXCL: Amode = Amode(1 << 4);
    /// `MPI_MODE_APPEND`
    pub const APPEND: Amode = Amode(1 << 5);
    /// `MPI_MODE_SEQUENTIAL`
    pub const SEQUENTIAL: Amode = Amode(1 << 6);
    /// `MPI_MODE_UNIQUE_OPEN`
    pub const UNIQUE_OPEN: Amode = Amode(1 << 7);
    /// `MPI_MODE_DELETE_ON_CLOSE`
    pub const DELETE_ON_CLOSE: Amode = Amode(1 << 8);
    /// What stands for bits that no ABI has.
    pub const UNKNOWN: Amode = Amode(1 << 31);

    /// Whether all of these bits are set.
    pub fn has(self, bits: Amode) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// Both sets.
    pub fn with(self, bits: Amode) -> Amode {
        Amode(self.0 | bits.0)
    }

    /// Whether data may be read.
    pub fn reads(self) -> bool {
        !self.has(Amode::WRONLY)
    }

    /// Whether data may be written.
    pub fn writes(self) -> bool {
        !self.has(Amode::RDONLY)
    }

    /// `ERR_AMODE` for what the standard excludes.
    pub fn check(self) -> Result {
        ensure!(!self.has(Amode::UNKNOWN), ERR_AMODE, "the access mode has unknown bits");
        let access = [Amode::RDONLY, Amode::WRONLY, Amode::RDWR].into_iter().filter(|mode| self.has(*mode)).count();
        ensure!(access == 1, ERR_AMODE, "the access mode must have exactly one of RDONLY, WRONLY, RDWR");
        let creates = self.has(Amode::CREATE) || self.has(Amode::EXCL);
        ensure!(!(creates && self.has(Amode::RDONLY)), ERR_AMODE, "CREATE and EXCL are not allowed with RDONLY");
        let both = self.has(Amode::SEQUENTIAL) && self.has(Amode::RDWR);
        ensure!(!both, ERR_AMODE, "SEQUENTIAL is not allowed with RDWR");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_way_of_access_and_no_creation_of_what_is_only_read() {
        let good = [Amode::RDONLY, Amode::WRONLY.with(Amode::CREATE), Amode::RDWR.with(Amode::EXCL)];
        assert!(good.iter().all(|amode| amode.check().is_ok()));
        let bad = [
            Amode::default(),
            Amode::RDONLY.with(Amode::RDWR),
            Amode::RDONLY.with(Amode::CREATE),
            Amode::RDONLY.with(Amode::EXCL),
            Amode::RDWR.with(Amode::SEQUENTIAL),
            Amode::RDWR.with(Amode::UNKNOWN),
        ];
        assert!(bad.iter().all(|amode| amode.check().is_err()));
    }
}
