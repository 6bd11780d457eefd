//! The core opens no socket and reads no clock: only the driver and the command line may.

use std::fs;
use std::path::Path;

#[test]
fn only_the_driver_reaches_the_outside() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut looked_at = 0;
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                if path != root.join("driver") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|kind| kind == "rs") && path != root.join("cli.rs") {
                let text = fs::read_to_string(&path).expect("a text");
                for outside in
                    ["Instant::now", "SystemTime", "UdpSocket", "TcpStream", "TcpListener", "rustix::", "std::thread"]
                {
                    assert!(!text.contains(outside), "{} uses {outside}", path.display());
                }
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 25);
}
