//! Thread levels (MPI-5.0, 11.6).

/// How threads may call MPI.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(i32)]
pub enum Level {
    /// `MPI_THREAD_SINGLE`.
    Single = 0,
    /// `MPI_THREAD_FUNNELED`.
    Funneled = 1024,
    /// `MPI_THREAD_SERIALIZED`.
    Serialized = 2048,
    /// `MPI_THREAD_MULTIPLE`.
    Multiple = 4096,
}

const LEVELS: [(Level, &str); 4] = [
    (Level::Single, "MPI_THREAD_SINGLE"),
    (Level::Funneled, "MPI_THREAD_FUNNELED"),
    (Level::Serialized, "MPI_THREAD_SERIALIZED"),
    (Level::Multiple, "MPI_THREAD_MULTIPLE"),
];

impl Level {
    /// The least level that gives what `required` asks for.
    pub fn at_least(required: i32) -> Level {
        LEVELS.iter().map(|(level, _)| *level).find(|level| *level as i32 >= required).unwrap_or(Level::Multiple)
    }

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
    fn levels_have_values_and_names() {
        assert_eq!(Level::at_least(-1), Level::Single);
        assert_eq!(Level::at_least(1024), Level::Funneled);
        assert_eq!(Level::at_least(1025), Level::Serialized);
        assert_eq!(Level::at_least(i32::MAX), Level::Multiple);
        for (level, name) in LEVELS {
            assert_eq!(Level::named(name), Some(level));
            assert_eq!(level.name(), name);
        }
    }
}
