//! `--profile`: bytes and messages from each rank to each other one, as one file of the job (docs/reference/profile.schema.json).
//!
//! Agents tell what the ranks have sent. The data that a rank has received is the sum of what the others have sent to it, so counting costs a receiver nothing.
//! If an agent is lost, the sends of its ranks are missing. mpiexec writes the file however the job ends; the file says
//! how each rank ended.

use super::Head;
use crate::children::describe;
use crate::cli::Options;
use crate::settings;
use base::log;
use protocol::control::profile::{Accesses, FileUse, Orders, Part, ROW_WORDS, RankHead, Row};
use protocol::control::tree::{End, JobSpec, Phase};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use sys::process::Ended;

/// Version of the file's form.
const VERSION: u32 = 1;
/// Most parts that are kept of one rank.
const PARTS_MAX: usize = 100_000;

/// What has been told.
pub struct Profile {
    file: File,
    path: PathBuf,
    ranks: Vec<Told>,
}

/// What has been told of one rank.
#[derive(Default)]
struct Told {
    heads: Vec<RankHead>,
    parts: Vec<(u32, Part, Vec<Row>)>,
    /// How it ended, if not by `MPI_Finalize`.
    end: String,
}

/// How the ranks are to count.
pub fn orders(options: &Options) -> Orders {
    let slice_s = options.profile_slice_s.unwrap_or(settings::PROFILE_SLICE.value());
    Orders {
        on: path(options).is_some(),
        detail: options.profile_detail || settings::PROFILE_DETAIL.value(),
        slice_ms: (slice_s * 1000.0).ceil().min(f64::from(u32::MAX)) as u32,
    }
}

fn path(options: &Options) -> Option<PathBuf> {
    let set = settings::PROFILE.value();
    options.profile.clone().or_else(|| (!set.is_empty()).then(|| set.into()))
}

impl Profile {
    /// Opens the file, if one is wanted: a file that can't be written is an error before the job begins.
    pub fn begin(options: &Options, job: &JobSpec) -> Result<Option<Profile>, String> {
        let Some(path) = path(options) else { return Ok(None) };
        let file = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(&path)
            .map_err(|e| format!("cannot write the profile {}: {e}", path.display()))?;
        Ok(Some(Profile { file, path, ranks: job.ranks.iter().map(|_| Told::default()).collect() }))
    }

    fn write(&self, job: &JobSpec) -> std::io::Result<()> {
        self.file.set_len(0)?;
        let mut out = BufWriter::new(&self.file);
        let known: Vec<&RankHead> = self.ranks.iter().flat_map(|told| &told.heads).collect();
        let began_unix_ns = known.iter().map(|head| head.began_unix_ns).min().unwrap_or(0);
        let received = self.received();
        let ranks: Vec<RankOut> =
            (0..self.ranks.len()).map(|rank| self.rank(job, rank, began_unix_ns, &received[rank])).collect();
        let head = HeadOut {
            format: "ferrule-profile",
            version: VERSION,
            level: "messages",
            generator: concat!("mpiexec (Ferrule ", env!("CARGO_PKG_VERSION"), ")"),
            job_id: format!("{:016x}", job.job_id),
            command: job.apps.first().map_or_else(Vec::new, |app| {
                app.argv.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
            }),
            n_procs: self.ranks.len(),
            began: seconds(began_unix_ns),
            duration: ranks.iter().map(|rank| rank.duration).fold(0.0, f64::max),
            complete: ranks.iter().all(|rank| rank.complete),
            slice: (job.profile.slice_ms > 0).then(|| f64::from(job.profile.slice_ms) / 1000.0),
        };
        // One rank a line: for people, and for programs that read line by line.
        let head = serde_json::to_string(&head)?;
        write!(out, "{},\n\"ranks\": [", head.trim_end_matches('}'))?;
        for (at, rank) in ranks.iter().enumerate() {
            out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut out, rank)?;
        }
        out.write_all(b"\n]}\n")?;
        out.flush()
    }

    /// By rank: what each other rank has sent to it.
    fn received(&self) -> Vec<Vec<Row>> {
        let mut received: Vec<Vec<Row>> = self.ranks.iter().map(|_| Vec::new()).collect();
        for (from, told) in self.ranks.iter().enumerate() {
            for row in told.total() {
                if let Some(list) = received.get_mut(row.peer as usize) {
                    list.push(Row { peer: from as u32, ..row });
                }
            }
        }
        received
    }

    fn rank(&self, job: &JobSpec, rank: usize, began_unix_ns: u64, received: &[Row]) -> RankOut {
        let (told, ranks) = (&self.ranks[rank], self.ranks.len());
        let sent = told.total();
        let known = !told.heads.is_empty();
        let finalized = known && told.heads.iter().all(|head| head.finalized);
        let end = match (finalized, told.end.as_str()) {
            (true, "") => "finalized".to_string(),
            (false, "") if known => "did not call MPI_Finalize".to_string(),
            (false, "") => "nothing is known of it".to_string(),
            (_, end) => end.to_string(),
        };
        let node = job.ranks[rank].node as usize;
        RankOut {
            processor_name: job.hosts.get(node).cloned().unwrap_or_default(),
            rank,
            n_procs: ranks,
            duration: seconds(told.heads.iter().map(|head| head.duration_ns).sum()),
            began: seconds(told.heads.first().map_or(0, |head| head.began_unix_ns.saturating_sub(began_unix_ns))),
            complete: finalized,
            end,
            tx_bytes: known.then(|| dense(&sent, ranks, |row| row.bytes)),
            rx_bytes: dense(received, ranks, |row| row.bytes),
            tx_messages: known.then(|| dense(&sent, ranks, Row::messages)),
            rx_messages: dense(received, ranks, Row::messages),
            tx_message_sizes: known.then(|| histogram(&sent)),
            rx_message_sizes: histogram(received),
            tx: sent.iter().map(RowOut::of).collect(),
            rx: received.iter().map(RowOut::of).collect(),
            phases: told.phases(),
            slices: told.slices(job.profile.slice_ms, began_unix_ns),
            scopes: told.scopes(),
            crowded: told.heads.iter().map(|head| head.crowded).sum(),
            windows: told.windows(),
            files: told.files(),
        }
    }
}

impl Told {
    /// Everything that the rank has sent, by peer.
    fn total(&self) -> Vec<Row> {
        let mut sum: BTreeMap<u32, Row> = BTreeMap::new();
        for (_, part, rows) in &self.parts {
            if let Part::Phase { .. } = part {
                for row in rows {
                    sum.entry(row.peer).and_modify(|old| old.add(row)).or_insert_with(|| row.clone());
                }
            }
        }
        sum.into_values().collect()
    }

    /// Nanoseconds between the beginnings of the rank's first program and of another one.
    fn offset(&self, program: u32) -> u64 {
        let began =
            |program: u32| self.heads.iter().find(|head| head.program == program).map_or(0, |h| h.began_unix_ns);
        began(program).saturating_sub(began(0))
    }

    /// None if the program has never begun one.
    fn phases(&self) -> Vec<PhaseOut> {
        let phases = self.parts.iter().filter_map(|(program, part, rows)| match part {
            Part::Phase { level, began_ns, ended_ns } => {
                Some(PhaseOut::new(Some(*level), self.offset(*program), (*began_ns, *ended_ns), rows))
            }
            _ => None,
        });
        let phases: Vec<PhaseOut> = phases.collect();
        if phases.len() > self.heads.len() { phases } else { Vec::new() }
    }

    /// Slices are numbered from that in which the job began.
    fn slices(&self, slice_ms: u32, began_unix_ns: u64) -> Vec<PhaseOut> {
        let length = u64::from(slice_ms.max(1)) * 1_000_000;
        let own_ns = self.heads.first().map_or(0, |head| head.began_unix_ns);
        let slices = self.parts.iter().filter_map(|(program, part, rows)| match part {
            Part::Slice { began_ns, ended_ns } => {
                let offset = self.offset(*program);
                // A slice is looked at shortly after its end, so its middle tells best which one it is.
                let middle = own_ns.saturating_add(offset).saturating_add(began_ns / 2 + ended_ns / 2);
                let number = (middle / length).saturating_sub(began_unix_ns / length);
                let slice = PhaseOut::new(None, offset, (*began_ns, *ended_ns), rows);
                Some(PhaseOut { slice: Some(number), ..slice })
            }
            _ => None,
        });
        slices.collect()
    }

    /// Accesses to windows of each peer.
    fn windows(&self) -> Vec<WindowsOut> {
        let mut sum: BTreeMap<u32, Accesses> = BTreeMap::new();
        for (peer, accesses) in self.heads.iter().flat_map(|head| &head.accesses) {
            sum.entry(*peer).or_default().add(accesses);
        }
        sum.into_iter().map(|(peer, accesses)| WindowsOut::of(peer, &accesses)).collect()
    }

    /// Accesses to files; none if there were none.
    fn files(&self) -> Option<FilesOut> {
        let mut sum = FileUse::default();
        self.heads.iter().for_each(|head| sum.add(&head.files));
        (sum != FileUse::default()).then(|| FilesOut::of(&sum))
    }

    fn scopes(&self) -> Vec<ScopeOut> {
        let scopes = self.parts.iter().filter_map(|(_, part, rows)| match part {
            Part::Scope { context, comm, collective } => Some(ScopeOut {
                context: format!("{context:x}"),
                communicator: comm.clone(),
                collective: (!collective.is_empty()).then(|| collective.clone()),
                tx: rows.iter().map(RowOut::of).collect(),
            }),
            _ => None,
        });
        scopes.collect()
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn dense(rows: &[Row], ranks: usize, value: impl Fn(&Row) -> u64) -> Vec<u64> {
    let mut all = vec![0; ranks];
    rows.iter().for_each(|row| all[row.peer as usize] = value(row));
    all
}

/// Messages to all peers by size class, as far as the largest.
fn histogram(rows: &[Row]) -> Vec<u64> {
    let mut sum = Row { peer: 0, bytes: 0, sizes: Vec::new() };
    rows.iter().for_each(|row| sum.add(row));
    let mut all = vec![0; sum.sizes.last().map_or(0, |(class, _)| usize::from(*class) + 1)];
    sum.sizes.iter().for_each(|(class, n)| all[usize::from(*class)] = *n);
    all
}

#[derive(Serialize)]
struct HeadOut {
    format: &'static str,
    version: u32,
    level: &'static str,
    generator: &'static str,
    job_id: String,
    command: Vec<String>,
    n_procs: usize,
    began: f64,
    duration: f64,
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    slice: Option<f64>,
}

#[derive(Serialize)]
struct RankOut {
    processor_name: String,
    rank: usize,
    n_procs: usize,
    began: f64,
    duration: f64,
    complete: bool,
    end: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tx_bytes: Option<Vec<u64>>,
    rx_bytes: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tx_messages: Option<Vec<u64>>,
    rx_messages: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tx_message_sizes: Option<Vec<u64>>,
    rx_message_sizes: Vec<u64>,
    tx: Vec<RowOut>,
    rx: Vec<RowOut>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    phases: Vec<PhaseOut>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    slices: Vec<PhaseOut>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes: Vec<ScopeOut>,
    #[serde(skip_serializing_if = "is_zero")]
    crowded: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    windows: Vec<WindowsOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<FilesOut>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[derive(Serialize)]
struct RowOut {
    peer: u32,
    bytes: u64,
    messages: u64,
    sizes: BTreeMap<u8, u64>,
}

impl RowOut {
    fn of(row: &Row) -> RowOut {
        RowOut {
            peer: row.peer,
            bytes: row.bytes,
            messages: row.messages(),
            sizes: row.sizes.iter().copied().collect(),
        }
    }
}

#[derive(Serialize)]
struct WindowsOut {
    peer: u32,
    puts: u64,
    put_bytes: u64,
    gets: u64,
    get_bytes: u64,
    accumulates: u64,
    accumulate_bytes: u64,
}

impl WindowsOut {
    fn of(peer: u32, of: &Accesses) -> WindowsOut {
        let Accesses { puts, put_bytes, gets, get_bytes, accumulates, accumulate_bytes } = *of;
        WindowsOut { peer, puts, put_bytes, gets, get_bytes, accumulates, accumulate_bytes }
    }
}

#[derive(Serialize)]
struct FilesOut {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    write_bytes: u64,
}

impl FilesOut {
    fn of(of: &FileUse) -> FilesOut {
        let FileUse { reads, read_bytes, writes, write_bytes } = *of;
        FilesOut { reads, read_bytes, writes, write_bytes }
    }
}

#[derive(Serialize)]
struct PhaseOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    slice: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<i32>,
    began: f64,
    duration: f64,
    tx: Vec<RowOut>,
}

impl PhaseOut {
    fn new(level: Option<i32>, offset: u64, (began, ended): (u64, u64), rows: &[Row]) -> PhaseOut {
        PhaseOut {
            slice: None,
            level,
            began: seconds(offset.saturating_add(began)),
            duration: seconds(ended.saturating_sub(began)),
            tx: rows.iter().map(RowOut::of).collect(),
        }
    }
}

#[derive(Serialize)]
struct ScopeOut {
    context: String,
    communicator: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    collective: Option<String>,
    tx: Vec<RowOut>,
}

impl Head {
    fn told(&mut self, rank: u32) -> Option<&mut Told> {
        self.profile.as_mut()?.ranks.get_mut(rank as usize)
    }

    pub(super) fn on_profile_rank(&mut self, head: RankHead) {
        let ranks = self.ranks.len() as u32;
        let sound = head.accesses.iter().all(|(peer, _)| *peer < ranks);
        if let Some(told) = self.told(head.rank).filter(|_| sound) {
            told.heads.push(head);
        }
    }

    pub(super) fn on_profile_part(&mut self, rank: u32, part: Part, rows: Vec<Row>) {
        let ranks = self.ranks.len() as u32;
        let sound = rows.iter().all(|row| row.peer < ranks && row.sizes.iter().all(|s| usize::from(s.0) < ROW_WORDS));
        let Some(told) = self.told(rank) else { return };
        let program = told.heads.last().map_or(0, |head| head.program);
        if sound && told.parts.len() < PARTS_MAX {
            told.parts.push((program, part, rows));
        }
    }

    /// A rank has ended otherwise than in good order.
    pub(super) fn note_end(&mut self, rank: u32, end: &End, phase: &Phase, killed: bool) {
        if *phase == (Phase::Finalized {}) {
            return;
        }
        let words = match end {
            End::Exit { code } => describe(Ended::Exit(*code)),
            End::Signal { signal, core } => describe(Ended::Signal(*signal, *core)),
            End::Unseen {} => "ended".to_string(),
        };
        let words = if killed { format!("{words} when the job was ended") } else { words };
        self.note_abort(rank, words);
    }

    /// A rank says why the job has to end.
    pub(super) fn note_abort(&mut self, rank: u32, words: String) {
        if let Some(told) = self.told(rank).filter(|told| told.end.is_empty()) {
            told.end = words;
        }
    }

    pub(super) fn write_profile(&mut self) {
        let Some(profile) = self.profile.take() else { return };
        if let Err(e) = profile.write(&self.job) {
            log!(Error, "cannot write the profile {}: {e}", profile.path.display());
        }
    }
}
