//! The terminal on standard output.

/// Columns that are assumed where the terminal doesn't say.
const COLUMNS: usize = 80;

/// Width of the terminal on standard output.
pub fn columns() -> usize {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes a winsize.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    if result == 0 && size.ws_col > 0 { usize::from(size.ws_col) } else { COLUMNS }
}
