//! Slurm's way to write many host names and many counts: `n[01-03,7],gpu-[1-2]x` and `2(x3),1`.
//!
//! Invariant: nothing is expanded before it is known to stay within [`HOSTS_MAX`]; an error names the place in the text.

/// Most hosts of a list.
pub const HOSTS_MAX: usize = 1 << 16;
/// Longest host name.
const NAME_MAX: usize = 255;

/// What is wrong, and where (counted in characters from 1).
fn wrong<T>(text: &str, at: usize, what: &str) -> Result<T, String> {
    Err(format!(
        "host list '{}', character {}: {what}",
        shown(text),
        text.get(..at).unwrap_or(text).chars().count() + 1
    ))
}

fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(60).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().count() > 60 {
        short.push('…');
    }
    short
}

/// A part of a name: itself, or numbers to put in its place.
enum Part {
    Text(String),
    /// First, last, digits to fill up to.
    Numbers(Vec<(u32, u32, usize)>),
}

/// The hosts of a list, in order.
pub fn expand(text: &str) -> Result<Vec<String>, String> {
    let (mut hosts, mut parts, mut at) = (Vec::new(), Vec::new(), 0);
    while at < text.len() {
        let rest = &text[at..];
        let plain = rest.find([',', '[', ']']).unwrap_or(rest.len());
        if plain > 0 {
            let name = &rest[..plain];
            if let Some(bad) = name.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))) {
                return wrong(text, at + bad, "not a character of a host name");
            }
            parts.push(Part::Text(name.into()));
            at += plain;
            continue;
        }
        match rest.as_bytes()[0] {
            b',' => {
                finish(text, at, &mut parts, &mut hosts)?;
                at += 1;
            }
            b'[' => {
                let Some(len) = rest.find(']') else { return wrong(text, at, "this bracket isn't closed") };
                parts.push(Part::Numbers(ranges(text, at + 1, &rest[1..len])?));
                at += len + 1;
            }
            _ => return wrong(text, at, "this bracket isn't opened"),
        }
    }
    finish(text, at, &mut parts, &mut hosts)?;
    Ok(hosts)
}

/// The ranges between brackets, which begin at `start`.
fn ranges(text: &str, start: usize, inside: &str) -> Result<Vec<(u32, u32, usize)>, String> {
    let (mut all, mut at) = (Vec::new(), start);
    for range in inside.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |digits: &str| digits.parse::<u32>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
        match (number(first), number(last)) {
            (Some(low), Some(high)) if low <= high && first.len() <= 10 => all.push((low, high, first.len())),
            (Some(low), Some(high)) if low > high => return wrong(text, at, "this range runs backwards"),
            _ => return wrong(text, at, "not a number or a range of numbers"),
        }
        at += range.len() + 1;
    }
    Ok(all)
}

/// Appends the hosts that `parts` stand for.
fn finish(text: &str, at: usize, parts: &mut Vec<Part>, hosts: &mut Vec<String>) -> Result<(), String> {
    let count = parts.iter().try_fold(1u64, |product, part| match part {
        Part::Text(_) => Some(product),
        Part::Numbers(list) => {
            let sum: u64 = list.iter().map(|(low, high, _)| u64::from(high - low) + 1).sum();
            product.checked_mul(sum)
        }
    });
    if parts.is_empty() {
        return wrong(text, at, "a host name is missing");
    }
    if count.is_none_or(|count| count + hosts.len() as u64 > HOSTS_MAX as u64) {
        return wrong(text, at, &format!("up to here these are more than {HOSTS_MAX} hosts"));
    }
    let mut names = vec![String::new()];
    for part in parts.drain(..) {
        names = match part {
            Part::Text(name) => names.into_iter().map(|n| n + &name).collect(),
            Part::Numbers(list) => {
                names.iter().flat_map(|name| list.iter().flat_map(move |r| numbered(name, *r))).collect()
            }
        };
    }
    if names.iter().any(|name| name.len() > NAME_MAX || name.starts_with('-')) {
        return wrong(text, at, "the name before this is too long or begins with a dash");
    }
    hosts.append(&mut names);
    Ok(())
}

fn numbered(name: &str, (low, high, width): (u32, u32, usize)) -> impl Iterator<Item = String> {
    (low..=high).map(move |number| format!("{name}{number:0width$}"))
}

/// Counts for `hosts` hosts: `2(x3),1`.
pub fn counts(text: &str, hosts: usize) -> Result<Vec<u32>, String> {
    let bad = || format!("'{}' is not a list of counts like 2(x3),1", shown(text));
    let mut all = Vec::new();
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')').ok_or_else(bad)?),
            None => (part, "1"),
        };
        let count = count.parse::<u32>().ok().filter(|n| (1..=1 << 20).contains(n)).ok_or_else(bad)?;
        let times = times.parse::<usize>().ok().filter(|n| (1..=HOSTS_MAX).contains(n)).ok_or_else(bad)?;
        if all.len() + times > hosts {
            return Err(format!("'{}' has counts for more than the {hosts} hosts", shown(text)));
        }
        all.resize(all.len() + times, count);
    }
    if all.len() != hosts {
        return Err(format!("'{}' has counts for {} of {hosts} hosts", shown(text), all.len()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_expanded_in_order() {
        let names = |text: &str| expand(text).unwrap().join(" ");
        assert_eq!(names("n[01-03,7],gpu-[1-2]x"), "n01 n02 n03 n7 gpu-1x gpu-2x");
        assert_eq!(names("a"), "a");
        assert_eq!(names("r[1-2]n[08-10]"), "r1n08 r1n09 r1n10 r2n08 r2n09 r2n10");
        assert_eq!(names("a.b-c_d,x[5]"), "a.b-c_d x5");
        assert_eq!(names("n[098-101]"), "n098 n099 n100 n101");
    }

    #[test]
    fn errors_name_the_place() {
        for (text, place) in [
            ("a[1-3", 2),
            ("a]", 2),
            ("n[1-3,x]", 7),
            ("n[3-1]", 3),
            ("a,,b", 3),
            ("a$b", 2),
            ("", 1),
            ("a,", 3),
            ("n[]", 3),
            ("ä", 1),
            ("n[+1-2]", 3),
        ] {
            let why = expand(text).unwrap_err();
            assert!(why.contains(&format!("character {place}:")), "{text}: {why}");
        }
        assert!(expand("-x").is_err());
    }

    #[test]
    fn nothing_explodes() {
        assert!(expand("n[1-999999999]").unwrap_err().contains("more than"));
        assert!(expand("n[0-4294967295][0-4294967295][0-4294967295]").unwrap_err().contains("more than"));
        assert!(expand(&"[1-60000],".repeat(10)).is_err());
        assert!(expand(&format!("{}[1-2]", "x".repeat(300))).is_err());
        assert_eq!(expand("n[1-65536]").unwrap().len(), HOSTS_MAX);
        assert!(counts("1(x999999999)", 4).is_err());
    }

    #[test]
    fn counts_belong_to_hosts() {
        assert_eq!(counts("2(x3),1", 4).unwrap(), [2, 2, 2, 1]);
        for text in ["2(x3)", "2(x5)", "", "0(x4)", "2(x4", "2x4", "a,1,1,1"] {
            assert!(counts(text, 4).is_err(), "{text}");
        }
    }
}
