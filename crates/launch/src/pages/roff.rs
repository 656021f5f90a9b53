//! A man page, line by line, in the macros of man(7).

/// A page that is written from top to bottom.
pub struct Page {
    text: String,
}

impl Page {
    /// Begins the page `name`(`section`); `what` is the line that `apropos` shows.
    pub fn new(name: &str, section: u8, names: &str, what: &str) -> Page {
        let text = format!(
            ".\\\" Made by `ferrule info --pages`.\n.TH {} {section} \"\" \"Ferrule {}\" \"Ferrule\"\n.SH NAME\n{} \\- {}\n",
            escaped(&name.to_uppercase()),
            env!("CARGO_PKG_VERSION"),
            escaped(names),
            escaped(what),
        );
        Page { text }
    }

    /// A section.
    pub fn section(&mut self, title: &str) -> &mut Page {
        self.line(&format!(".SH {}", escaped(&title.to_uppercase())))
    }

    /// A part of a section.
    pub fn subsection(&mut self, title: &str) -> &mut Page {
        self.line(&format!(".SS {}", escaped(title)))
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) -> &mut Page {
        self.line(".PP").line(&protected(text))
    }

    /// A term and what it means.
    pub fn item(&mut self, term: &str, text: &str) -> &mut Page {
        self.line(".TP").line(&format!("\\fB{}\\fR", escaped(term))).line(&protected(text))
    }

    /// Lines as they are written in a terminal.
    pub fn example(&mut self, lines: &[&str]) -> &mut Page {
        self.line(".PP").line(".RS 4").line(".nf");
        for line in lines {
            self.line(&protected(line));
        }
        self.line(".fi").line(".RE")
    }

    fn line(&mut self, text: &str) -> &mut Page {
        self.text.push_str(text);
        self.text.push('\n');
        self
    }

    /// The page.
    pub fn end(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

/// A text in which roff finds no command.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            '\n' => out.push(' '),
            c if c.is_ascii() => out.push(c),
            c => out.push_str(&format!("\\[u{:04X}]", c as u32)),
        }
    }
    out
}

/// The same as a line of its own: a dot at its begin is no request.
fn protected(text: &str) -> String {
    let text = escaped(text);
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roff_finds_no_command_in_a_text() {
        assert_eq!(escaped("--set 'A\\B' …"), "\\-\\-set \\(aqA\\eB\\(aq \\[u2026]");
        assert_eq!(protected(".TH x"), "\\&.TH x");
    }
}
