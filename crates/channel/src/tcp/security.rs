//! What protects the bytes between two ranks: `FERRULE_TCP_SECURITY`.

use super::TCP_SECURITY;

/// How the records of a connection are protected; the same on all ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Security {
    /// Not at all: there are no records.
    None,
    /// Everybody can read them, nobody can change them.
    Mac,
    /// Nobody can read or change them.
    Encrypt,
}

impl Security {
    const ALL: [Security; 3] = [Security::None, Security::Mac, Security::Encrypt];

    /// What the setting says. One that can't be read is an error: nobody must end up with less than was asked for.
    pub fn configured() -> Result<Security, String> {
        let text = TCP_SECURITY.value().trim();
        let found = Security::ALL.into_iter().find(|security| security.name() == text);
        found.ok_or_else(|| format!("FERRULE_TCP_SECURITY={text} is not none, mac or encrypt"))
    }

    /// Its number in the introduction.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The one with this number.
    pub fn of_code(code: u8) -> Option<Security> {
        Security::ALL.into_iter().find(|security| security.code() == code)
    }

    fn name(self) -> &'static str {
        match self {
            Security::None => "none",
            Security::Mac => "mac",
            Security::Encrypt => "encrypt",
        }
    }
}

impl std::fmt::Display for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
