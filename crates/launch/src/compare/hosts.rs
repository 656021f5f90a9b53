//! Emulated hosts: network namespaces around a router, with links of limited rate.
//!
//! A cleaner process removes them when this process is done or gone, whatever ended it: it waits for the end of a pipe.

use super::run::{self, Failed};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Hosts at most: their addresses are in one /16.
const HOSTS_MAX: usize = 60_000;
/// What a link may send at once, and how long it keeps more.
const BURST: [&str; 4] = ["burst", "256kb", "latency", "100ms"];

/// Address of mpiexec's namespace.
const LOGIN: &str = "10.99.255.254";

/// Address of a host.
fn address(host: usize) -> String {
    format!("10.99.{}.{}", host / 250, host % 250 + 1)
}

/// The namespaces, as long as this lives.
pub struct Hosts {
    /// Where mpiexec runs; it routes for all.
    pub login: String,
    /// One for each host.
    pub names: Vec<String>,
    cleaner: Child,
}

impl Hosts {
    /// Makes `count` hosts whose links carry `rate` (of `tc`, or `none`).
    pub fn new(count: usize, rate: &str) -> Result<Hosts, Failed> {
        if count > HOSTS_MAX {
            return Err(format!("{count} emulated hosts are more than {HOSTS_MAX}"));
        }
        let prefix = format!("fs{}", std::process::id());
        let (login, names) = (format!("{prefix}-login"), (0..count).map(|i| format!("{prefix}-{i}")).collect());
        let hosts = Hosts { cleaner: cleaner(&prefix)?, login, names };
        hosts.make().map_err(|e| format!("cannot make emulated hosts (this needs root and iproute2): {e}"))?;
        if rate != "none" {
            hosts.limit(rate)?;
        }
        Ok(hosts)
    }

    fn make(&self) -> Result<(), Failed> {
        let mut all = format!("netns add {}\n", self.login);
        self.names.iter().for_each(|name| all += &format!("netns add {name}\n"));
        batch(&["ip", "-batch", "-"], &all)?;
        let login = &self.login;
        // Routed, not bridged: all namespaces share one table of neighbours, which 64 hosts that know each other would overflow.
        let mut router = String::from("link set lo up\n");
        for (i, name) in self.names.iter().enumerate() {
            router += &format!("link add h{i} type veth peer name eth0 netns {name}\nlink set h{i} up\n");
            router += &if i == 0 { format!("addr add {LOGIN}/32 dev h0\n") } else { String::new() };
            router += &format!("route add {}/32 dev h{i} src {LOGIN}\n", address(i));
        }
        batch(&["ip", "-n", login, "-batch", "-"], &router)?;
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        batch(&["nsenter", &format!("--net=/run/netns/{login}"), "--", "sh", "-c", forward], "")?;
        for (i, name) in self.names.iter().enumerate() {
            let own = format!(
                "link set lo up\naddr add {}/32 dev eth0\nlink set eth0 up\nroute add {LOGIN} dev eth0\nroute add default via {LOGIN}\n",
                address(i)
            );
            batch(&["ip", "-n", name, "-batch", "-"], &own)?;
        }
        Ok(())
    }

    /// Both directions of each host's link.
    fn limit(&self, rate: &str) -> Result<(), Failed> {
        let line = |device: &str| format!("qdisc add dev {device} root tbf rate {rate} {}\n", BURST.join(" "));
        let ports: String = (0..self.names.len()).map(|i| line(&format!("h{i}"))).collect();
        batch(&["tc", "-n", &self.login, "-batch", "-"], &ports)?;
        self.names.iter().try_for_each(|name| batch(&["tc", "-n", name, "-batch", "-"], &line("eth0")))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        drop(self.cleaner.stdin.take());
        let _ = self.cleaner.wait();
    }
}

fn batch(words: &[&str], input: &str) -> Result<(), Failed> {
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{}: {e}", words[0]))?;
    // A command that has failed no longer reads; its exit code and words say more than the broken pipe.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    let done = child.wait_with_output().map_err(|e| format!("{}: {e}", words[0]))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", words.join(" "), run::tail(&String::from_utf8_lossy(&done.stderr))))
}

/// Waits until its input ends, then kills what is in the namespaces and removes them.
fn cleaner(prefix: &str) -> Result<Child, Failed> {
    let script = format!(
        "trap '' INT TERM HUP\n\
         cat > /dev/null\n\
         names=$(ip netns list | sed -n 's/^\\({prefix}-[a-z0-9]*\\).*/\\1/p')\n\
         for name in $names; do ip netns pids $name; done 2>/dev/null | xargs -r kill -9 2>/dev/null\n\
         for name in $names; do echo netns delete $name; done | ip -force -batch - 2>/dev/null\n"
    );
    Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|e| format!("sh: {e}"))
}
