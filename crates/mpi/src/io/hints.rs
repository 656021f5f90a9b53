//! Hints (MPI-5.0, 14.2.8), with ROMIO's names where the standard has none. All processes of a file use those of rank 0.

use crate::info::Info;

/// Whether to do something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// Always.
    Enable,
    /// Never.
    Disable,
    /// If it seems to pay.
    Automatic,
}

impl Switch {
    fn parse(text: &str) -> Option<Switch> {
        match text.to_ascii_lowercase().as_str() {
            "enable" | "true" => Some(Switch::Enable),
            "disable" | "false" => Some(Switch::Disable),
            "automatic" => Some(Switch::Automatic),
            _ => None,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Switch::Enable => "enable",
            Switch::Disable => "disable",
            Switch::Automatic => "automatic",
        }
    }
}

/// The hints in force.
#[derive(Clone, PartialEq, Debug)]
pub struct Hints {
    /// Processes that access the file for all in a collective; at most all of them.
    pub cb_nodes: usize,
    /// Bytes that such a process moves at a time.
    pub cb_buffer_bytes: usize,
    /// Whether collective writes are done together.
    pub cb_write: Switch,
    /// Whether collective reads are done together.
    pub cb_read: Switch,
    /// Whether a write to a view with holes reads and writes back the holes.
    pub ds_write: Switch,
    /// Whether a read of a view with holes reads the holes, too.
    pub ds_read: Switch,
    /// Bytes that such a read reads at a time.
    pub read_buffer_bytes: usize,
    /// Bytes that such a write moves at a time.
    pub write_buffer_bytes: usize,
    /// File permissions of a new file.
    pub file_perm: u32,
    /// The parts of the file that one process accesses in a collective begin at multiples of this.
    pub striping_unit: u64,
    /// Keys that are shown as they were given.
    other: Vec<(String, String)>,
}

/// Keys of the standard and of ROMIO that change nothing here.
const SHOWN: &[&str] = &[
    "access_style",
    "collective_buffering",
    "cb_block_size",
    "cb_config_list",
    "chunked",
    "chunked_item",
    "chunked_size",
    "filename",
    "io_node_list",
    "nb_proc",
    "num_io_nodes",
    "striping_factor",
    "start_iodevice",
    "direct_read",
    "direct_write",
    "mpi_assert_",
    "romio_",
];

/// The largest buffer: positions in it have 32 bits in messages.
const BUFFER_BYTES_MAX: usize = 1 << 30;

impl Hints {
    /// The defaults; `nodes` are those that the processes run on.
    pub fn new(nodes: usize) -> Hints {
        Hints {
            cb_nodes: nodes.max(1),
            cb_buffer_bytes: 16 << 20,
            cb_write: Switch::Automatic,
            cb_read: Switch::Automatic,
            ds_write: Switch::Disable,
            ds_read: Switch::Automatic,
            read_buffer_bytes: 4 << 20,
            write_buffer_bytes: 512 << 10,
            file_perm: 0o666,
            striping_unit: 4096,
            other: Vec::new(),
        }
    }

    /// Takes over what `entries` say. Values that make no sense change nothing, as the standard says of hints.
    pub fn apply(&mut self, entries: &[(String, String)]) {
        for (key, value) in entries {
            let bytes = || value.parse().ok().map(|n: usize| n.clamp(4096, BUFFER_BYTES_MAX));
            let switch = || Switch::parse(value);
            match key.as_str() {
                "cb_nodes" => set(&mut self.cb_nodes, value.parse().ok().filter(|n| *n > 0)),
                "cb_buffer_size" => set(&mut self.cb_buffer_bytes, bytes()),
                "romio_cb_write" => set(&mut self.cb_write, switch()),
                "romio_cb_read" => set(&mut self.cb_read, switch()),
                "romio_ds_write" => set(&mut self.ds_write, switch()),
                "romio_ds_read" => set(&mut self.ds_read, switch()),
                "ind_rd_buffer_size" => set(&mut self.read_buffer_bytes, bytes()),
                "ind_wr_buffer_size" => set(&mut self.write_buffer_bytes, bytes()),
                "file_perm" => set(&mut self.file_perm, u32::from_str_radix(value, 8).ok().filter(|n| *n <= 0o777)),
                "striping_unit" => set(&mut self.striping_unit, value.parse().ok().filter(|n| *n > 0)),
                _ if SHOWN.iter().any(|known| key.starts_with(known)) => self.show(key, value),
                _ => {}
            }
            if key == "collective_buffering"
                && let Some(switch) = switch()
            {
                (self.cb_write, self.cb_read) = (switch, switch);
            }
        }
    }

    fn show(&mut self, key: &str, value: &str) {
        match self.other.iter_mut().find(|(known, _)| known == key) {
            Some(entry) => entry.1 = value.into(),
            None => self.other.push((key.into(), value.into())),
        }
    }

    /// `MPI_File_get_info`.
    pub fn info(&self) -> Info {
        let info = Info::new();
        let put = |key: &str, value: &dyn ToString| info.put(key, value.to_string().as_bytes());
        put("cb_nodes", &self.cb_nodes);
        put("cb_buffer_size", &self.cb_buffer_bytes);
        put("romio_cb_write", &self.cb_write.text());
        put("romio_cb_read", &self.cb_read.text());
        put("romio_ds_write", &self.ds_write.text());
        put("romio_ds_read", &self.ds_read.text());
        put("ind_rd_buffer_size", &self.read_buffer_bytes);
        put("ind_wr_buffer_size", &self.write_buffer_bytes);
        put("striping_unit", &self.striping_unit);
        put("file_perm", &format!("{:o}", self.file_perm));
        for (key, value) in &self.other {
            put(key, value);
        }
        info
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// Keys and values of an info object, for a message.
pub fn to_bytes(info: Option<&Info>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 0..info.map_or(0, Info::len) {
        let Some(Ok(key)) = info.map(|info| info.nth_key(n as i32)) else { continue };
        let Some(Ok(Some(value))) = info.map(|info| info.get(&key)) else { continue };
        bytes.extend(key.iter().chain(&[0]).chain(&value).chain(&[0]));
    }
    bytes
}

/// The reverse of [`to_bytes`].
pub fn from_bytes(bytes: &[u8]) -> Vec<(String, String)> {
    let texts: Vec<_> = bytes.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_used_and_shown() {
        let info = Info::new();
        for (key, value) in
            [("cb_nodes", "3"), ("cb_buffer_size", "nonsense"), ("striping_factor", "7"), ("color", "red")]
        {
            info.put(key, value.as_bytes());
        }
        let mut hints = Hints::new(1);
        hints.apply(&from_bytes(&to_bytes(Some(&info))));
        let shown = hints.info();
        assert_eq!(hints.cb_nodes, 3);
        assert_eq!(shown.text("cb_buffer_size").as_deref(), Some("16777216"));
        assert_eq!(shown.text("striping_factor").as_deref(), Some("7"));
        assert_eq!(shown.text("color"), None);
    }
}
