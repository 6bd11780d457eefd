//! The container image, as `packaging/image` makes it, run by podman. No registry of images is
//! used: the base is built from this machine's C library and BusyBox.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

rookery_needs::needing!("cli.image": a_container_serves_by_its_environment_and_keeps_its_data);

/// A container engine with its own storage, which is removed with it.
struct Engine {
    folder: TempDir,
}

impl Engine {
    fn start() -> Engine {
        let needed = [
            ("podman", "podman"),
            ("runc", "runc"),
            ("conmon", "conmon"),
            ("busybox", "busybox-static"),
            ("strip", "binutils"),
            ("npm", "npm"),
        ];
        rookery_needs::programs(&needed);
        let engine = Engine { folder: tempfile::tempdir().expect("a folder") };
        let folder = engine.folder.path().display();
        // Limits that every machine allows; the parts of systemd, Netavark or the kernel that do
        // more elsewhere aren't needed.
        let containers = format!(
            "[containers]\ndefault_ulimits = [\"nofile=4096:4096\", \"nproc=1024:1024\"]\nlog_driver = \"k8s-file\"\n\
             [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\ntmp_dir = \"{folder}/libpod\"\n\
             [network]\nnetwork_config_dir = \"{folder}/networks\"\n"
        );
        let storage =
            format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{folder}/storage\"\nrunroot = \"{folder}/run\"\n");
        fs::write(engine.folder.path().join("containers.conf"), containers).expect("written");
        fs::write(engine.folder.path().join("storage.conf"), storage).expect("written");
        engine
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("CONTAINERS_CONF", self.folder.path().join("containers.conf"));
        command.env("CONTAINERS_STORAGE_CONF", self.folder.path().join("storage.conf"));
        command
    }

    /// Runs podman; returns its exit code and output.
    fn podman(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.command("podman").args(arguments).output().expect("podman");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    /// Runs podman, which has to succeed.
    #[track_caller]
    fn fine(&self, arguments: &[&str]) -> String {
        let (code, said) = self.podman(arguments);
        assert_eq!(code, Some(0), "podman {arguments:?}: {said}");
        said
    }

    /// Builds an image with a shell and the libraries that a binary of this machine needs.
    fn base(&self, binary: &str) {
        let root = self.folder.path().join("base");
        let put = |file: &str, place: &Path| {
            fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
            fs::copy(file, place).expect(file);
        };
        put("/bin/busybox", &root.join("bin/busybox"));
        for applet in ["sh", "mkdir", "mv", "chmod", "chown", "id"] {
            symlink("busybox", root.join("bin").join(applet)).expect("a link");
        }
        let linked = Command::new("ldd").arg(binary).output().expect("ldd");
        let linked = String::from_utf8(linked.stdout).expect("text");
        for file in linked.split_whitespace().filter(|word| word.starts_with('/')) {
            put(file, &root.join(&file[1..]));
        }
        let archive = self.folder.path().join("base.tar");
        let packed = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status();
        assert!(packed.expect("tar").success());
        self.fine(&["import", archive.to_str().expect("a path"), BASE]);
    }

    /// Waits until a container reports itself healthy.
    #[track_caller]
    fn wait_for(&self, container: &str) {
        for _ in 0..200 {
            if self.podman(&["healthcheck", "run", container]).0 == Some(0) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("{container} isn't healthy: {}", self.podman(&["logs", container]).1);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.podman(&["rm", "--all", "--force", "--time", "0"]));
    }
}

mod test {
    use super::*;

    pub fn a_container_serves_by_its_environment_and_keeps_its_data() {
        let engine = Engine::start();
        let binary = env!("CARGO_BIN_EXE_rookery");
        engine.base(binary);
        let script = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/image"));
        let mut making = engine.command(script);
        making.args([binary, "rookery:tried"]).env("ENGINE", "podman").envs([("BASE", BASE), ("BUILDER", BASE)]);
        let made = making.output().expect("the script");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        assert_eq!(String::from_utf8_lossy(&made.stdout), "rookery:tried\n");

        // Only the data is written, no capability is needed, and there is no timer of systemd.
        let run = [
            "--network=none",
            "--read-only",
            "--cap-drop=all",
            "--health-interval=disable",
            "--volume=data:/var/lib/rookery",
        ];
        let serve = |variable: &str, name: &str| {
            let own = ["run", "--detach", "--name", name, "--env", "ROOKERY__DOMAINS=a.test", "--env", variable];
            engine.fine(&[&own[..], &run, &["rookery:tried"]].concat())
        };
        serve("ROOKERY__LOGIN__SCRAM_ITERATIONS=4096", "first");
        engine.wait_for("first");
        assert_eq!(engine.fine(&["exec", "first", "id", "-u"]), "10000\n");
        assert_eq!(engine.fine(&["exec", "first", "rookery", "user", "list"]), "admin@a.test\n");
        let password = engine.fine(&["exec", "first", "busybox", "cat", "/var/lib/rookery/first-password"]);
        assert!(password.trim().len() == 20 && !engine.fine(&["logs", "first"]).contains(password.trim()));
        let authorities = engine.fine(&["exec", "first", "busybox", "head", "-n", "1", AUTHORITIES]);
        assert!(authorities.contains("BEGIN CERTIFICATE"), "{authorities}");
        // The chat page is there without a download, and without a network.
        let file = format!("http://127.0.0.1:5280/chat/{}/manifest.json", rookery_web::chat::package::VERSION);
        let manifest = engine.fine(&["exec", "first", "busybox", "wget", "-q", "-O", "-", &file]);
        assert!(manifest.contains("Converse"), "{manifest}");
        engine.fine(&["stop", "first"]);
        let code = engine.fine(&["inspect", "--format", "{{.State.ExitCode}}", "first"]);
        assert_eq!(code.trim(), "0", "{}", engine.fine(&["logs", "first"]));

        serve("ROOKERY__LOG__FORMAT=json", "second");
        engine.wait_for("second");
        assert_eq!(engine.fine(&["exec", "second", "rookery", "user", "list"]), "admin@a.test\n");

        let wrong = [
            "run",
            "--rm",
            "--network=none",
            "--health-interval=disable",
            "--env",
            "ROOKERY__SHARD=1",
            "rookery:tried",
        ];
        let (code, said) = engine.podman(&wrong);
        assert!(said.contains("ROOKERY__SHARD: shard: there is no such key; did you mean `shards`?"), "{said}");
        assert_eq!(code, Some(78));
    }
}

/// The name of the image that replaces one from a registry.
const BASE: &str = "localhost/base";
/// The certificates by which TLS connections to other servers are verified.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
