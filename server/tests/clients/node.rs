//! Node with the libraries for browsers that the scenarios of `web.py` and `bosh.py` use.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the folder with the libraries and the script that uses them: created once below
/// `target/`, and again when the list of libraries changes.
///
/// # Panics
///
/// If it can't be created.
pub fn folder() -> &'static Path {
    static READY: OnceLock<PathBuf> = OnceLock::new();
    READY.get_or_init(|| {
        rookery_needs::programs(&[("node", "nodejs"), ("npm", "npm")]);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("node");
        fs::create_dir_all(&folder).expect("a folder below target/");
        // Another run of the tests may be creating the same.
        let lock = File::create(folder.join("lock")).expect("a lock file");
        lock.lock().expect("the lock");
        for (name, script) in SCRIPTS {
            fs::write(folder.join(name), script).expect("a script");
        }
        if fs::read_to_string(folder.join(MADE_FOR)).ok().as_deref() != Some(LOCKED) {
            make(&folder);
        }
        folder
    })
}

fn make(folder: &Path) {
    fs::write(folder.join("package.json"), PACKAGE).expect("the list of libraries");
    fs::write(folder.join("package-lock.json"), LOCKED).expect("their versions");
    let npm =
        Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(folder).output();
    let npm = npm.expect("npm runs");
    assert!(npm.status.success(), "npm ci: {}", String::from_utf8_lossy(&npm.stderr));
    fs::write(folder.join(MADE_FOR), LOCKED).expect("a mark");
}

const PACKAGE: &str = include_str!("../../../tests/clients/web/package.json");
const LOCKED: &str = include_str!("../../../tests/clients/web/package-lock.json");
const SCRIPTS: [(&str, &str); 4] = [
    ("bot.mjs", include_str!("../../../examples/bot.mjs")),
    ("chat.mjs", include_str!("../../../tests/clients/web/chat.mjs")),
    ("request.mjs", include_str!("../../../tests/clients/web/request.mjs")),
    ("resume.mjs", include_str!("../../../tests/clients/web/resume.mjs")),
];
/// The file with the list of libraries that is installed.
const MADE_FOR: &str = "made-for";
