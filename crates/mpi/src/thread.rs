//! Thread levels (MPI-5.0, 11.6).

/// How threads may call MPI.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// `MPI_THREAD_SINGLE`.
    Single,
    /// `MPI_THREAD_FUNNELED`.
    Funneled,
    /// `MPI_THREAD_SERIALIZED`.
    Serialized,
    /// `MPI_THREAD_MULTIPLE`.
    Multiple,
}

const LEVELS: [(Level, &str); 4] = [
    (Level::Single, "MPI_THREAD_SINGLE"),
    (Level::Funneled, "MPI_THREAD_FUNNELED"),
    (Level::Serialized, "MPI_THREAD_SERIALIZED"),
    (Level::Multiple, "MPI_THREAD_MULTIPLE"),
];

impl Level {
    /// The level of this name.
    pub fn named(name: &str) -> Option<Level> {
        LEVELS.iter().find(|(_, known)| *known == name).map(|(level, _)| *level)
    }

    /// The name of the constant.
    pub fn name(self) -> &'static str {
        LEVELS.iter().find(|(level, _)| *level == self).map_or("", |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names() {
        for (level, name) in LEVELS {
            assert_eq!(Level::named(name), Some(level));
            assert_eq!(level.name(), name);
        }
    }
}
