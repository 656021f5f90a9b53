//! PMIx, as `srun --mpi=pmix` and PRRTE (`prterun`, Open MPI's `mpirun`) offer it, through the system's library.

use super::launcher::{self, Launcher, Place, ranks_of};
use base::{Result, fail, log};
use sys::pmix::Value;

base::config! {
    /// The PMIx library that is loaded under a PMIx launcher, a name that the dynamic linker knows or a path; empty for the launcher's own
    /// if it can be seen, else libpmix.so.2.
    PMIX_LIBRARY: text = "";
}

fn library() -> String {
    let set = PMIX_LIBRARY.value();
    if !set.is_empty() {
        return set.into();
    }
    // Of other versions some grumble at each other.
    let own = sys::watch::library_of_parent("libpmix.so");
    own.map_or_else(|| "libpmix.so.2".into(), |path| path.to_string_lossy().into_owned())
}

/// A connection to a PMIx server.
pub struct Pmix {
    /// None after `finalize`.
    client: Option<sys::pmix::Pmix>,
    place: Place,
}

fn failed<T>(result: std::result::Result<T, String>) -> Result<T> {
    match result {
        Ok(value) => Ok(value),
        Err(why) => {
            log!(Error, "PMIx: {why}");
            fail!(ERR_OTHER, "the PMIx launcher refused a request")
        }
    }
}

impl Pmix {
    /// Connects and learns this process's place.
    pub fn connect() -> Result<Pmix> {
        let file = library();
        let client = match sys::pmix::Pmix::open(&file) {
            Ok(client) => client,
            Err(why) => {
                log!(
                    Error,
                    "this process was started by a PMIx launcher (srun --mpi=pmix, prterun, Open MPI's mpirun), but {file} does not \
                     do: {why}; install it (Debian: libpmix2), name it by FERRULE_PMIX_LIBRARY, or set FERRULE_SINGLETON=1 to run \
                     this process as a job of one rank"
                );
                fail!(ERR_OTHER, "the PMIx library is missing");
            }
        };
        let number = |rank, key: &str| match client.get(rank, key) {
            Ok(Value::Number(n)) => u32::try_from(n).ok(),
            _ => None,
        };
        let rank = client.rank();
        let Some(size) = number(None, "pmix.job.size") else {
            fail!(ERR_OTHER, "the PMIx server does not say the size of the job");
        };
        let local = match client.get(None, "pmix.lpeers") {
            Ok(Value::Text(text)) => text,
            _ => String::new(),
        };
        let leader = ranks_of(&local).min().filter(|_| ranks_of(&local).any(|p| p == rank));
        let Some(leader) = leader.or((size == 1).then_some(rank)) else {
            fail!(ERR_OTHER, "the PMIx server does not say which ranks share this node");
        };
        let place = Place {
            rank,
            size,
            app_num: number(Some(rank), "pmix.appnum"),
            universe_size: number(None, "pmix.univ.size").unwrap_or(0),
            leader,
        };
        let mut pmix = Pmix { client: Some(client), place };
        if size > 1 {
            launcher::put_peers(&mut pmix, &local)?;
        }
        Ok(pmix)
    }

    fn with<T>(&self, ask: impl FnOnce(&sys::pmix::Pmix) -> std::result::Result<T, String>) -> Result<T> {
        match &self.client {
            Some(client) => failed(ask(client)),
            None => fail!(ERR_INTERN, "the PMIx server has been left"),
        }
    }
}

impl Launcher for Pmix {
    fn name(&self) -> &'static str {
        "a PMIx launcher"
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn leaders(&mut self) -> Result<Vec<u32>> {
        // Not every server tells the nodes of all ranks.
        launcher::leaders_by_peers(self)
    }

    fn value_max(&self) -> usize {
        1 << 20
    }

    fn put(&mut self, key: &str, value: &str) -> Result {
        self.with(|client| client.put(key, value))
    }

    fn fence(&mut self) -> Result {
        self.with(sys::pmix::Pmix::fence)
    }

    fn get(&mut self, from: u32, key: &str) -> Result<String> {
        match self.with(|client| client.get(Some(from), key))? {
            Value::Text(text) => Ok(text),
            Value::Number(_) => fail!(ERR_OTHER, "the PMIx server gives something else than was stored"),
        }
    }

    fn abort(&mut self, code: i32, text: &str) {
        let _ = self.with(|client| {
            client.abort(code, text);
            Ok(())
        });
    }

    fn finalize(&mut self) -> Result {
        match self.client.take() {
            Some(client) => failed(client.finalize()),
            None => Ok(()),
        }
    }
}
