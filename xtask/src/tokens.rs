//! A source file of Rust as tokens: words, `::` and single signs. Comments and the contents of literals are left out.

/// One token.
#[derive(Debug, PartialEq)]
pub struct Token {
    /// A word, `::`, or one other character; `"` stands for any literal in quotes.
    pub text: String,
    /// Its line, from 1.
    pub line: usize,
}

impl Token {
    /// True for identifiers and keywords.
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// Cuts a source file into tokens.
pub fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let (mut i, mut line) = (0, 1);
    while i < chars.len() {
        let start = i;
        let next = |n: usize| chars.get(start + n).copied().unwrap_or('\0');
        let mut token = String::new();
        match chars[i] {
            '/' if next(1) == '/' => i = position(&chars, i, |c| c == '\n'),
            '/' if next(1) == '*' => i = block_comment(&chars, i),
            '"' => {
                i = string(&chars, i);
                token.push('"');
            }
            '\'' => {
                i = character_or_lifetime(&chars, i);
                token.push('"');
            }
            'r' | 'b' | 'c' if literal_prefix(&chars, i).is_some() => {
                i = literal_prefix(&chars, i).unwrap_or(i + 1);
                token.push('"');
            }
            ':' if next(1) == ':' => {
                i += 2;
                token.push_str("::");
            }
            c if c.is_alphanumeric() || c == '_' => {
                i = position(&chars, i, |c| !c.is_alphanumeric() && c != '_');
                token.extend(&chars[start..i]);
            }
            c => {
                i += 1;
                token.extend(Some(c).filter(|c| !c.is_whitespace()));
            }
        }
        if !token.is_empty() {
            found.push(Token { text: token, line });
        }
        line += chars[start..i].iter().filter(|c| **c == '\n').count();
    }
    found
}

fn position(chars: &[char], from: usize, is_end: impl Fn(char) -> bool) -> usize {
    let rest = chars.get(from..).unwrap_or_default();
    rest.iter().position(|c| is_end(*c)).map_or(chars.len(), |n| from + n)
}

fn block_comment(chars: &[char], from: usize) -> usize {
    let (mut i, mut depth) = (from, 0);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

/// Behind a literal in quotes that begins at `from`.
fn string(chars: &[char], from: usize) -> usize {
    let mut i = from + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

/// Behind `'x'`, `'\n'` or `'a` of a lifetime.
fn character_or_lifetime(chars: &[char], from: usize) -> usize {
    match (chars.get(from + 1), chars.get(from + 2)) {
        (Some('\\'), _) => (position(chars, from + 3, |c| c == '\'') + 1).min(chars.len()),
        (Some(_), Some('\'')) => from + 3,
        _ => from + 1,
    }
}

/// Behind a literal such as `b"…"`, `r#"…"#` or `b'x'`, if one begins here.
fn literal_prefix(chars: &[char], from: usize) -> Option<usize> {
    let mut i = from;
    let mut raw = false;
    while let Some(c @ ('r' | 'b' | 'c')) = chars.get(i) {
        raw |= *c == 'r';
        i += 1;
    }
    if i - from > 2 {
        return None;
    }
    if !raw {
        return match chars.get(i) {
            Some('"') => Some(string(chars, i)),
            Some('\'') if i == from + 1 && chars[from] == 'b' => Some(character_or_lifetime(chars, i)),
            _ => None,
        };
    }
    let hashes = chars[i..].iter().take_while(|c| **c == '#').count();
    i += hashes;
    if chars.get(i) != Some(&'"') {
        return None;
    }
    let mut end = i + 1;
    while end < chars.len() {
        let closed = chars[end] == '"' && chars[end + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
        end += 1;
        if closed {
            return Some(end + hashes);
        }
    }
    Some(chars.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokens(text).into_iter().filter(Token::is_word).map(|t| t.text).collect()
    }

    #[test]
    fn comments_and_literals_hide_what_is_in_them() {
        let text = "a /* x /* y */ z */ b // c\nd \"e \\\" f\" r#\"g \" h\"# b'i' '\\'' '{' k<'l> r#type br\"m\"";
        assert_eq!(words(text), ["a", "b", "d", "k", "l", "r", "type"]);
    }

    #[test]
    fn a_token_knows_its_line() {
        let lines: Vec<_> = tokens("a\n\"b\nc\"\nd").iter().map(|t| t.line).collect();
        assert_eq!(lines, [1, 2, 4]);
    }

    #[test]
    fn unfinished_literals_end_with_the_file() {
        for text in ["\"a", "r##\"a\"#", "'", "'\\", "/* a", "b'", "\"\\"] {
            assert!(tokens(text).len() <= 2, "{text}");
        }
    }
}
