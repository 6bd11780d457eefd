//! Messages of public clients and servers, read and written by our code. See `vectors/README.md`.

#[path = "vectors/daq.rs"]
mod daq;
#[path = "vectors/drf.rs"]
mod drf;
#[path = "vectors/names.rs"]
mod names;
#[path = "vectors/recordings.rs"]
mod recordings;
#[path = "vectors/scaling.rs"]
mod scaling;
#[path = "vectors/sdd.rs"]
mod sdd;

/// Returns the rows of a table, without its comments, split at tabs.
fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.starts_with("# ")).map(|line| line.split('\t').collect())
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|digit| digit.to_digit(16).expect("a hexadecimal digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
