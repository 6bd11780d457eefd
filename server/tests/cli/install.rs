//! `rookery web install` without npm: the server downloads the package itself.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::rig::CliRig;

/// A site of files, encrypted; it ends with the test.
struct Files(Child);

impl Drop for Files {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_chat_page_is_got_without_npm() {
    rookery_needs::programs(&[("openssl", "openssl")]);
    let rig = CliRig::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    rig.write("site.pem", &(made.cert.pem() + &made.signing_key.serialize_pem()));
    let package = rig.path(&format!("converse.js/-/converse.js-{}.tgz", rookery_web::chat::package::VERSION));
    fs::create_dir_all(package.parent().expect("a folder")).expect("a folder");
    fs::write(&package, "something else").expect("written");
    let port = rookery_needs::free_port();
    let mut site = Command::new("openssl");
    site.args(["s_server", "-quiet", "-WWW", "-cert", "site.pem", "-accept"]).arg(format!("127.0.0.1:{port}"));
    let quiet = site.current_dir(rig.path("")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let files = Files(quiet.spawn().expect("openssl"));
    let listens = (0..1000).any(|_| {
        thread::sleep(Duration::from_millis(20));
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    assert!(listens, "openssl serves the files");
    let registry = format!("https://localhost:{port}");
    let install = |arguments: &[&str]| {
        let mut command = rig.command(&[&["web", "install"], arguments].concat());
        command.env("PATH", rig.path("nowhere")).env("SSL_CERT_FILE", rig.path("site.pem"));
        let output = command.env("npm_config_registry", &registry).output().expect("a process");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = install(&[]);
    assert!(
        code == Some(1) && said.contains("this is not converse.js"),
        "it is asked for, and its hash looked at: {said}"
    );
    let (code, said) = install(&["--from", &format!("{registry}/site.pem")]);
    assert!(code == Some(1) && said.contains("this is not converse.js"), "{said}");
    let (code, said) = install(&["--from", "converse.js@1.0.0"]);
    assert!(code == Some(1) && said.contains("npm, which would download"), "{said}");
    let mut unset = rig.command(&["web", "install"]);
    unset.env("PATH", rig.path("nowhere")).env_remove("npm_config_registry");
    let said = String::from_utf8_lossy(&unset.output().expect("a process").stderr).into_owned();
    assert!(said.contains("set npm_config_registry, or give the package with --from FILE"), "{said}");
    drop(files);
    let (code, said) = install(&[]);
    assert!(code == Some(1) && said.contains(&registry) && said.contains("--from FILE"), "{said}");
}
