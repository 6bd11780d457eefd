//! The package for Debian has everything that a server needs, and nothing that gets in the way of
//! `rookery setup`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rookery_web::chat;

use super::rig::CliRig;

/// Runs a program that has to succeed, and returns its output.
#[track_caller]
fn run(program: &str, arguments: &[&Path]) -> String {
    let mut command = Command::new(program);
    // The package is thrown away; compressing it would take half a minute more.
    let output = command.args(arguments).env("DPKG_DEB_COMPRESSOR_TYPE", "none").output().expect(program);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {words}");
    String::from_utf8(output.stdout).expect("text")
}

/// Makes the package of the built binary, and returns its file.
fn make_package(rig: &CliRig) -> PathBuf {
    rookery_needs::programs(&[("dpkg-deb", "dpkg"), ("objdump", "binutils"), ("gzip", "gzip"), ("npm", "npm")]);
    let script = Path::new(ROOT).join("packaging/deb");
    let made = run(script.to_str().expect("a path"), &[Path::new(env!("CARGO_BIN_EXE_rookery")), &rig.path("made")]);
    let package = PathBuf::from(made.trim_end());
    assert!(package.starts_with(fs::canonicalize(rig.path("made")).expect("the folder")), "{made}");
    package
}

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

rookery_needs::needing! { "cli.lintian": lintian_finds_no_mistake }

mod test {
    use super::*;

    pub fn lintian_finds_no_mistake() {
        let rig = CliRig::empty();
        let package = make_package(&rig);
        rookery_needs::programs(&[("lintian", "lintian"), ("md5sum", "coreutils")]);
        let (tree, small) = (rig.path("tree"), rig.path("small.deb"));
        run("dpkg-deb", &[Path::new("--raw-extract"), &package, &tree]);
        // Another program stands in for the binary, since lintian takes minutes to search one with
        // all its symbols.
        fs::copy("/bin/true", tree.join("usr/bin/rookery")).expect("copied");
        let sums = "find usr -type f -print0 | xargs -0 md5sum > DEBIAN/md5sums";
        run("env", &["-C".as_ref(), &tree, "sh".as_ref(), "-c".as_ref(), sums.as_ref()]);
        let mut build = Command::new("dpkg-deb");
        let built = build.args(["--build", "--root-owner-group"]).args([&tree, &small]).output().expect("dpkg-deb");
        assert!(built.status.success(), "{built:?}");
        // There is no bug of Debian's that asks for the package.
        let known = "initial-upload-closes-no-bugs";
        let mut lintian = Command::new("lintian");
        lintian.args(["--fail-on", "error,warning", "--suppress-tags", known]).arg(&small);
        let ended = lintian.output().expect("lintian");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }
}

#[test]
fn the_package_is_whole() {
    let rig = CliRig::empty();
    let (root, package) = (Path::new(ROOT), &*make_package(&rig));

    let control = run("dpkg-deb", &[Path::new("--info"), package]);
    for words in [
        " Package: rookery",
        concat!(" Version: ", env!("CARGO_PKG_VERSION"), "-1"),
        " Depends: ca-certificates, passwd, libc6 (>= 2.",
        "postinst",
        "prerm",
        "postrm",
    ] {
        assert!(control.contains(words), "{words:?} is not in:\n{control}");
    }
    let conffiles = run("dpkg-deb", &[Path::new("--info"), package, Path::new("conffiles")]);
    let kept = ["fail2ban/filter.d/rookery.conf", "fail2ban/jail.d/rookery.conf", "rookery/rookery.toml"];
    assert_eq!(conffiles.lines().collect::<Vec<_>>(), kept.map(|file| format!("/etc/{file}")));
    let contents = run("dpkg-deb", &[Path::new("--contents"), package]);
    for line in contents.lines() {
        let is_safe = line.starts_with("drwxr-xr-x root/root") || line.starts_with("-rw-r--r-- root/root");
        assert!(is_safe || line.starts_with("-rwxr-xr-x root/root") && line.ends_with("./usr/bin/rookery"), "{line}");
    }

    run("dpkg-deb", &[Path::new("--extract"), package, &rig.path("tree")]);
    let installed = |path: &str| rig.path(&format!("tree/{path}"));
    let unit = fs::read_to_string(installed("usr/lib/systemd/system/rookery.service")).expect("the unit");
    assert_eq!(unit, fs::read_to_string(root.join("packaging/rookery.service")).expect("the unit"));
    for path in [
        "usr/lib/systemd/system/rookery-backup.service",
        "usr/lib/systemd/system/rookery-backup.timer",
        "usr/lib/sysusers.d/rookery.conf",
        "usr/share/man/man1/rookery.1.gz",
        "usr/share/man/man1/rookery-user-add.1.gz",
        "usr/share/bash-completion/completions/rookery",
        "usr/share/zsh/vendor-completions/_rookery",
        "usr/share/fish/vendor_completions.d/rookery.fish",
        "usr/share/doc/rookery/copyright",
    ] {
        assert!(installed(path).is_file(), "{path}");
    }
    let chat = chat::package::folder(&installed("usr/share/rookery"));
    for file in ["converse.min.js", "converse.min.js.gz", "converse.min.css"] {
        assert!(chat.join(file).is_file(), "{file}");
    }
    let copyright = fs::read_to_string(installed("usr/share/doc/rookery/copyright")).expect("the copyright");
    assert!(copyright.contains("Files: usr/share/rookery/web/*\n") && copyright.contains("License: MPL-2.0"));
    let version = run(installed("usr/bin/rookery").to_str().expect("a path"), &[Path::new("--version")]);
    assert_eq!(version, concat!("rookery ", env!("CARGO_PKG_VERSION"), "\n"));

    let file = installed("etc/rookery/rookery.toml");
    let file = file.to_str().expect("a path");
    let setup =
        ["setup", "a.test", "--config", file, "--data-dir", "data", "--dns", "127.0.0.1:9", "--address", "203.0.113.5"];
    rig.run(&setup).fine();
    assert!(fs::read_to_string(file).expect("the configuration").contains("domains = [\"a.test\"]"));
}
