//! PMI-2 as Slurm's `srun --mpi=pmi2` speaks it over `PMI_FD`.

use super::launcher::{self, Launcher, Place, ranks_of};
use super::pmi1::Wire;
use base::{Result, fail};
use protocol::pmi::v2::{self, HEADER};
use protocol::pmi::{Reply, mapping};

/// Slurm's limit is 1024 with the final zero.
const VALUE_MAX: usize = 1000;

/// A conversation in PMI-2.
pub struct Pmi2 {
    wire: Wire,
    place: Place,
    /// As the mapping says; empty if the ranks tell each other.
    leaders: Vec<u32>,
    job: String,
}

impl Pmi2 {
    /// Connects and learns this process's place.
    pub fn connect(variable: &dyn Fn(&str) -> Option<String>) -> Result<Pmi2> {
        let Some(fd) = variable("PMI_FD") else { fail!(ERR_OTHER, "PMI_FD is not set") };
        let mut wire = Wire::inherited(&fd)?;
        let reply = wire.ask("init", &[("pmi_version", "2"), ("pmi_subversion", "0")], "response_to_init")?;
        if reply.number("pmi_version") != Some(2) {
            fail!(ERR_OTHER, "the launcher does not speak PMI-2");
        }
        let rank = variable("PMI_RANK").unwrap_or_default();
        let job = variable("PMI_JOBID").unwrap_or_default();
        let fields = [("pmijobid", job.trim()), ("pmirank", rank.trim()), ("threaded", "FALSE")];
        let reply = ask(&mut wire, "fullinit", &fields)?;
        let number = |name: &str| reply.number(name).and_then(|n| u32::try_from(n).ok());
        let (Some(rank), Some(size)) = (number("rank"), number("size").filter(|n| *n > 0)) else {
            fail!(ERR_OTHER, "the launcher does not say rank and size");
        };
        let place = Place { rank, size, app_num: number("appnum"), universe_size: 0, leader: 0 };
        let job = ask(&mut wire, "job-getid", &[])?.get("jobid").unwrap_or_default().to_string();
        let mut pmi = Pmi2 { wire, place, leaders: Vec::new(), job };
        // Of a job with --distribution=arbitrary Slurm's mapping is wrong, but its tasks know who is beside them.
        let tasks = variable("SLURM_GTIDS").filter(|list| ranks_of(list).any(|task| task == rank));
        if let Some(tasks) = tasks {
            pmi.place.leader = ranks_of(&tasks).min().unwrap_or(rank);
            launcher::put_peers(&mut pmi, &tasks)?;
        } else {
            pmi.read_mapping()?;
        }
        let universe = pmi.attribute("universeSize")?.and_then(|text| text.trim().parse().ok());
        pmi.place.universe_size = universe.unwrap_or(0);
        Ok(pmi)
    }

    fn read_mapping(&mut self) -> Result {
        let Place { rank, size, .. } = self.place;
        let text = self.attribute("PMI_process_mapping")?.unwrap_or_default();
        // Of a process that is alone some launchers say nothing.
        let node_of = if size == 1 { vec![0] } else { mapping::parse(&text, size)? };
        self.leaders = mapping::leaders(&node_of);
        self.place.leader = self.leaders.get(rank as usize).copied().unwrap_or(0);
        Ok(())
    }

    fn attribute(&mut self, key: &str) -> Result<Option<String>> {
        let reply = ask(&mut self.wire, "info-getjobattr", &[("key", key)])?;
        Ok(reply.get("value").filter(|_| reply.get("found") == Some("TRUE")).map(String::from))
    }
}

/// Asks, and waits for the answer.
fn ask(wire: &mut Wire, name: &str, fields: &[(&str, &str)]) -> Result<Reply> {
    wire.write(&v2::command(name, fields)?)?;
    let mut header = [0; HEADER];
    wire.read(&mut header)?;
    let mut body = vec![0; v2::length(header)?];
    wire.read(&mut body)?;
    v2::parse(&body)?.expect(&format!("{name}-response"))
}

impl Launcher for Pmi2 {
    fn name(&self) -> &'static str {
        "a PMI-2 launcher"
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn leaders(&mut self) -> Result<Vec<u32>> {
        if self.leaders.is_empty() { launcher::leaders_by_peers(self) } else { Ok(self.leaders.clone()) }
    }

    fn value_max(&self) -> usize {
        VALUE_MAX
    }

    fn put(&mut self, key: &str, value: &str) -> Result {
        ask(&mut self.wire, "kvs-put", &[("key", key), ("value", value)]).map(drop)
    }

    fn fence(&mut self) -> Result {
        ask(&mut self.wire, "kvs-fence", &[]).map(drop)
    }

    fn get(&mut self, _from: u32, key: &str) -> Result<String> {
        let job = self.job.clone();
        let reply = ask(&mut self.wire, "kvs-get", &[("jobid", &job), ("srcid", "-1"), ("key", key)])?;
        match reply.get("value") {
            Some(value) => Ok(value.to_string()),
            None => fail!(ERR_OTHER, "the launcher's key-value space lacks what was stored"),
        }
    }

    fn abort(&mut self, _code: i32, text: &str) {
        let words: String = text.chars().map(|c| if c.is_ascii_graphic() { c } else { ' ' }).take(200).collect();
        if let Ok(message) = v2::command("abort", &[("isworld", "TRUE"), ("msg", &words)]) {
            let _ = self.wire.write(&message);
        }
    }

    /// Slurm kills the tasks, and `srun` exits with the highest code of any: that of SIGKILL.
    fn keeps_code(&self) -> bool {
        false
    }

    fn finalize(&mut self) -> Result {
        ask(&mut self.wire, "finalize", &[]).map(drop)
    }
}
