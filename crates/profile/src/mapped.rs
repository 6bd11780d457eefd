//! The files whose code a process has mapped (proc_pid_maps(5)).

use std::fs;
use std::io;

/// A part of a file's code in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// The offset in the file of the first address.
    pub offset: u64,
    /// The device and the inode, which are the same for a file in every process.
    pub file: String,
    /// The path, or the system's name for memory without a file, such as `[vdso]`.
    pub path: String,
}

/// Returns the mappings of this process that are code.
///
/// # Errors
/// The system doesn't list them.
pub fn of_process() -> io::Result<Vec<Mapping>> {
    Ok(fs::read_to_string("/proc/self/maps")?.lines().filter_map(read).collect())
}

fn read(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let (field, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = behind.trim_start();
        field
    };
    let [range, rights, offset, device, inode] = std::array::from_fn(|_| field());
    let (start, end) = range.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let is_code = rights.get(2..3) == Some("x") && !rest.is_empty();
    is_code.then_some(Mapping {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        file: format!("{device}:{inode}"),
        path: rest.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_with_its_file() {
        let line = "7f10a000-7f10c000 r-xp 00002000 fd:01 1234                       /usr/lib/a b.so (deleted)";
        let wanted = Mapping {
            start: 0x7f10_a000,
            end: 0x7f10_c000,
            offset: 0x2000,
            file: "fd:01:1234".into(),
            path: "/usr/lib/a b.so (deleted)".into(),
        };
        assert_eq!(read(line), Some(wanted));
        assert_eq!(read(&line.replace("r-xp", "r--p")), None, "that isn't code");
        assert_eq!(read("7f10a000-7f10c000 r-xp 00000000 00:00 0"), None, "that has no name");
        assert!(of_process().expect("mappings").iter().any(|mapping| mapping.file != "00:00:0"));
    }
}
