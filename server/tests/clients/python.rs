//! Python with the packages that the scenarios need.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns a Python with the packages of a list: created once below `target/`, in a folder of this
/// name, and again when the list changes.
///
/// # Panics
///
/// If it can't be created, with the packages to install.
pub fn python(name: &str, requirements: &str) -> Command {
    static READY: OnceLock<Python> = OnceLock::new();
    let python = READY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).expect("a folder below target/");
        // Another run of the tests may be creating the same.
        let lock = File::create(folder.join("lock")).expect("a lock file");
        lock.lock().expect("the lock");
        Python::find(&folder, requirements).unwrap_or_else(|| Python::make(&folder, requirements))
    });
    let mut command = Command::new(&python.program);
    command.envs(python.packages.as_ref().map(|packages| ("PYTHONPATH", packages)));
    // Compiled scripts stay out of the sources, and are there for the next scenario.
    command.env("PYTHONPYCACHEPREFIX", Path::new(env!("CARGO_TARGET_TMPDIR")).join("bytecode"));
    command
}

struct Python {
    program: PathBuf,
    /// The folder of its packages, if it isn't an environment of its own.
    packages: Option<PathBuf>,
}

impl Python {
    /// Finds one from an earlier run.
    fn find(folder: &Path, requirements: &str) -> Option<Python> {
        let made_for = fs::read_to_string(folder.join(MADE_FOR)).ok()?;
        let python = Python::in_folder(folder);
        let works = Command::new(&python.program).arg("--version").output().is_ok_and(|output| output.status.success());
        (made_for == requirements && works).then_some(python)
    }

    fn in_folder(folder: &Path) -> Python {
        let program = folder.join("venv/bin/python");
        if program.exists() {
            return Python { program, packages: None };
        }
        Python { program: "python3".into(), packages: Some(folder.join("packages")) }
    }

    /// Creates an environment or, if Debian's python3-venv is missing and can't be installed, a
    /// folder of packages.
    fn make(folder: &Path, requirements: &str) -> Python {
        rookery_needs::programs(&[("python3", "python3")]);
        let _ = fs::remove_file(folder.join(MADE_FOR));
        let (venv, packages) = (folder.join("venv"), folder.join("packages"));
        for old in [&venv, &packages] {
            let _ = fs::remove_dir_all(old);
        }
        let list = folder.join("requirements.txt");
        fs::write(&list, requirements).expect("a file below target/");
        let make = || succeeds(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let mut pip = Command::new(venv.join("bin/python"));
        if make().is_err() {
            let _ = fs::remove_dir_all(&venv);
            pip = Command::new("python3");
        }
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--requirement"]).arg(&list);
        if !venv.exists() {
            pip.arg("--target").arg(&packages);
        }
        if let Err(said) = succeeds(&mut pip) {
            panic!("the Python packages of these tests can't be installed; python3-venv may be missing:\n{said}");
        }
        fs::write(folder.join(MADE_FOR), requirements).expect("a file below target/");
        Python::in_folder(folder)
    }
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let said = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(said()) }
}

/// The file with the list of packages that are installed.
const MADE_FOR: &str = "made-for.txt";
