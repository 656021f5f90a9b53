//! Schemes on emulated hosts.

use super::Comparison;
use super::hosts::Hosts;
use super::results::SchemePoint;
use super::run::{self, Failed};
use netsim::startup::Scheme;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a series of points has in common.
#[derive(Clone, Debug)]
struct Setting {
    session_ms: u32,
    connect: String,
}

/// Which options this mpiexec has.
#[derive(Clone, Copy, Debug)]
struct Knows {
    startup: bool,
    connect: bool,
    report: bool,
}

/// What stays the same for all jobs.
struct Bed<'a> {
    hosts: Hosts,
    knows: Knows,
    program: &'a Path,
    report: PathBuf,
}

impl Comparison {
    /// Measures all schemes at all N in all settings.
    pub fn schemes(&mut self, program: &Path) -> Result<(), Failed> {
        let schemes = self.options.chosen();
        if schemes.is_empty() {
            return Ok(());
        }
        let count = self.options.hosts_max();
        eprintln!("making {count} emulated hosts");
        let hosts = match Hosts::new(count, &self.options.rate) {
            Ok(hosts) => hosts,
            Err(why) => {
                self.failed("schemes", 0, why);
                return self.save();
            }
        };
        let bed = Bed { hosts, knows: self.knows()?, program, report: self.scratch.0.join("report.json") };
        let mut settings = Vec::new();
        for connect in &self.options.connect {
            let each = self.options.session_ms.iter();
            settings.extend(each.map(|&session_ms| Setting { session_ms, connect: connect.clone() }));
        }
        self.progress.1 += settings.len() * self.options.ranks.len() * schemes.len();
        for setting in settings {
            self.series(&setting, schemes.clone(), &bed)?;
        }
        Ok(())
    }

    /// Asks mpiexec for its options.
    fn knows(&self) -> Result<Knows, Failed> {
        let done = Command::new(&self.mpiexec).arg("--help").output();
        let done = done.map_err(|e| format!("{}: {e}", self.mpiexec.display()))?;
        let text = String::from_utf8_lossy(&done.stdout);
        let has = |name: &str| text.contains(name);
        Ok(Knows { startup: has("--startup"), connect: has("--connect"), report: has("--report-startup") })
    }

    fn series(&mut self, setting: &Setting, mut schemes: Vec<Scheme>, bed: &Bed<'_>) -> Result<(), Failed> {
        let mut sizes = self.options.ranks.clone();
        sizes.sort_unstable();
        for ranks in sizes {
            let mut points: Vec<(Scheme, SchemePoint)> = Vec::new();
            if !self.has_time() {
                self.failed(&format!("schemes ({setting})"), ranks, "no time is left of --budget".into());
                return self.save();
            }
            for repeat in 0..self.options.repeats {
                let count = schemes.len().max(1);
                schemes.rotate_left(repeat % count);
                schemes.retain(|&scheme| match self.job(scheme, setting, ranks, bed) {
                    Ok((wall_s, report)) => {
                        add(&mut points, scheme, setting, ranks, self.options.ranks_per_host, wall_s, report);
                        true
                    }
                    Err(why) => {
                        points.retain(|(s, _)| *s != scheme);
                        self.failed(&format!("{} ({setting})", scheme.name()), ranks, why);
                        false
                    }
                });
            }
            points.sort_by_key(|(scheme, _)| *scheme);
            for (scheme, point) in points {
                let what = format!("{}, {ranks} ranks on {} hosts, {setting}", scheme.name(), point.hosts);
                let times = point.times().to_vec();
                self.results.schemes.push(point);
                self.done(&what, &times)?;
            }
        }
        Ok(())
    }

    /// One job: its wall time and mpiexec's report, if there is one.
    fn job(
        &self,
        scheme: Scheme,
        setting: &Setting,
        ranks: usize,
        bed: &Bed<'_>,
    ) -> Result<(f64, serde_json::Value), Failed> {
        let each = self.options.ranks_per_host;
        let hosts: Vec<String> =
            bed.hosts.names[..ranks.div_ceil(each)].iter().map(|name| format!("{name}:{each}")).collect();
        let launcher = match setting.session_ms {
            0 => "nsenter --net=/run/netns/{host} -- {command}".to_string(),
            ms => format!("{} {{host}} {{command}}", self.scratch.session(ms)?.display()),
        };
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", bed.hosts.login)).arg("--").arg(&self.mpiexec);
        command.arg("--launcher-exec").arg(launcher).args(["--tree-width", &self.options.tree_width.to_string()]);
        command.args(["-hosts", &hosts.join(","), "-n", &ranks.to_string()]);
        match (bed.knows.startup, scheme) {
            (true, _) => drop(command.arg(format!("--startup={}", scheme.name()))),
            (false, Scheme::Lazy) => {}
            (false, _) => return Err("this mpiexec has no --startup".into()),
        }
        match (setting.connect.as_str(), bed.knows.connect) {
            ("all", true) => drop(command.arg("--connect=all")),
            ("all", false) => return Err("this mpiexec has no --connect".into()),
            _ => {}
        }
        let _ = std::fs::remove_file(&bed.report);
        if bed.knows.report {
            command.arg(format!("--report-startup={}", bed.report.display()));
        }
        // One machine plays them all: ranks would find that they can share memory.
        command.arg(bed.program).env("FERRULE_LOCALITY", "node");
        let wall_s = run::timed(&mut command, self.limit(), &self.scratch.0)?;
        let text = std::fs::read_to_string(&bed.report).unwrap_or_default();
        Ok((wall_s, serde_json::from_str(&text).unwrap_or_default()))
    }
}

fn add(
    points: &mut Vec<(Scheme, SchemePoint)>,
    scheme: Scheme,
    setting: &Setting,
    ranks: usize,
    ranks_per_host: usize,
    wall_s: f64,
    report: serde_json::Value,
) {
    let at = points.iter().position(|(s, _)| *s == scheme).unwrap_or_else(|| {
        let point = SchemePoint {
            scheme: scheme.name().into(),
            ranks,
            hosts: ranks.div_ceil(ranks_per_host),
            session_ms: setting.session_ms,
            connect: setting.connect.clone(),
            ..SchemePoint::default()
        };
        points.push((scheme, point));
        points.len() - 1
    });
    let point = &mut points[at].1;
    point.wall_s.push(wall_s);
    point.init_s.extend(report.get("wall").and_then(serde_json::Value::as_f64));
    point.report = report;
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sessions of {} ms, connect {}", self.session_ms, self.connect)
    }
}
