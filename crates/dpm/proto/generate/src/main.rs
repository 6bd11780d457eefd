//! Generates the messages and services of gRPC, and their description for reflection.

use std::error::Error;
use std::fs;
use std::path::Path;

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = proto.join("../src/grpc/generated");
    fs::create_dir_all(&out)?;
    let compile = |file: &str| protox::compile([proto.join(file)], [&proto]);
    let mut description = protox::compile([proto.join("daq.proto"), proto.join("devdb.proto")], [&proto])?;
    for file in &mut description.file {
        // Comments are only for readers of the files.
        file.source_code_info = None;
    }
    fs::write(out.join("description.bin"), description.encode_to_vec())?;
    // Readings are encoded once for all readers, which generated servers can't do.
    for (file, is_served) in [("daq.proto", false), ("devdb.proto", true)] {
        let options = tonic_prost_build::configure().build_client(false).build_server(is_served).build_transport(false);
        options.btree_map(".").bytes(".").out_dir(&out).compile_fds(compile(file)?)?;
    }
    Ok(())
}
