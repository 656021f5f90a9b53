//! Lists of hosts: `a,b:4` on the command line, and the file formats of Hydra (`host:4`) and Open MPI (`host slots=4 max_slots=8`).

/// A host and what it offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name or address.
    pub name: String,
    /// Ranks it takes per turn; `None` when not said.
    pub slots: Option<u32>,
    /// Ranks it takes at all.
    pub max_slots: Option<u32>,
}

/// Reads `a,b:4`. A host that is named again adds its slots.
pub fn parse_list(text: &str) -> Result<Vec<Host>, String> {
    let mut hosts = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        add(&mut hosts, parse_name(part)?);
    }
    if hosts.is_empty() {
        return Err(format!("'{text}' names no host"));
    }
    Ok(hosts)
}

/// Reads a host file.
pub fn parse_file(text: &str) -> Result<Vec<Host>, String> {
    let mut hosts = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            add(&mut hosts, parse_line(line).map_err(|e| format!("line {}: {e}", number + 1))?);
        }
    }
    if hosts.is_empty() {
        return Err("it names no host".into());
    }
    Ok(hosts)
}

fn parse_line(line: &str) -> Result<Host, String> {
    // Blanks around '=' are allowed.
    let line = line.replace(" =", "=").replace("= ", "=");
    let mut words = line.split_whitespace();
    let mut host = parse_name(words.next().unwrap_or(""))?;
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is not of the form key=value"))?;
        match key {
            "slots" | "cpu" | "count" => host.slots = Some(number(value)?),
            "max_slots" | "max-slots" => host.max_slots = Some(number(value)?),
            "user" => host.name = of_user(value, &host.name)?,
            "port" => return Err(
                "port= is not supported: set the host's port in ~/.ssh/config, or use --launcher-exec 'ssh -p PORT'"
                    .into(),
            ),
            "binding" | "map" => return Err(format!("{key}= is not supported: use --bind-to and --map-by")),
            "ifhn" => return Err("ifhn= is not supported: use -iface".into()),
            _ => return Err(format!("unknown key '{key}' (slots, max_slots)")),
        }
    }
    Ok(host)
}

/// The launcher's name for a host and a login there.
fn of_user(user: &str, host: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    match user.is_empty() || user.starts_with('-') || !user.chars().all(plain) || host.contains('@') {
        true => Err(format!("'{user}' is not a user's name, or the host has one already")),
        false => Ok(format!("{user}@{host}")),
    }
}

/// `host`, `host:4`, `[fe80::1]:4`; an address with several colons has no count unless in brackets.
fn parse_name(text: &str) -> Result<Host, String> {
    let (name, slots) = match (text.strip_prefix('['), text.rsplit_once(':')) {
        (Some(rest), _) => {
            let (name, after) = rest.split_once(']').ok_or_else(|| format!("'{text}' lacks a bracket"))?;
            (name, after.strip_prefix(':'))
        }
        (None, Some((name, slots))) if !name.contains(':') => (name, Some(slots)),
        _ => (text, None),
    };
    let wrong = |c: char| c.is_whitespace() || c.is_control() || "'\"`$;|&<>(){}\\".contains(c);
    if name.is_empty() || name.starts_with('-') || name.contains(wrong) {
        return Err(format!("'{text}' is not a host name"));
    }
    let slots = slots.filter(|s| *s != "*").map(number).transpose()?;
    Ok(Host { name: name.into(), slots, max_slots: None })
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(n) if (1..=1 << 20).contains(&n) => Ok(n),
        _ => Err(format!("'{text}' is not a number of slots")),
    }
}

fn add(hosts: &mut Vec<Host>, host: Host) {
    match hosts.iter_mut().find(|h| h.name == host.name) {
        Some(known) => known.slots = Some(known.slots.unwrap_or(1).saturating_add(host.slots.unwrap_or(1))),
        None => hosts.push(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, slots: Option<u32>, max_slots: Option<u32>) -> Host {
        Host { name: name.into(), slots, max_slots }
    }

    #[test]
    fn both_file_formats_are_read() {
        let text = "# comment\n a:4 # here\nb slots=2 max_slots = 8\n\nc\nd:2 user=bob\nc\n";
        let wanted = [
            host("a", Some(4), None),
            host("b", Some(2), Some(8)),
            host("c", Some(2), None),
            host("bob@d", Some(2), None),
        ];
        assert_eq!(parse_file(text).unwrap(), wanted);
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(parse_list("a,b:3,a").unwrap(), [host("a", Some(2), None), host("b", Some(3), None)]);
        assert_eq!(parse_list("[::1]:2,fe80::1").unwrap(), [host("::1", Some(2), None), host("fe80::1", None, None)]);
    }

    #[test]
    fn slots_of_a_host_that_is_named_very_often_do_not_overflow() {
        let text = "a:1048576,".repeat(5000);
        assert_eq!(parse_list(&text).unwrap(), [host("a", Some(u32::MAX), None)]);
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in ["", ",", "a:0", "a:x", "-oProxyCommand=x", "a b", "$(x)", "[::1"] {
            assert!(parse_list(wrong).is_err(), "{wrong}");
        }
        assert!(parse_file("a slot=3").unwrap_err().contains("line 1"));
        for wrong in ["port=23", "user=", "user=-oX", "user=a;b", "binding=core", "ifhn=eth0"] {
            assert!(parse_file(&format!("a {wrong}")).unwrap_err().starts_with("line 1: "), "{wrong}");
        }
    }

    #[test]
    fn no_text_panics() {
        let mut state = 1u64;
        let alphabet: Vec<char> = "ab:[]=, \t\n#0129-slotmx_é".chars().collect();
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..state % 40 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push(alphabet[(state >> 40) as usize % alphabet.len()]);
            }
            state = state.wrapping_add(7);
            let _ = (parse_file(&text), parse_list(&text));
        }
    }
}
