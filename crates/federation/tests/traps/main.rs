//! Tries what other servers must never achieve: each test is a hostile peer. The table in
//! doc/book/developing/hostile-servers.md lists the tests for each case.

#![allow(clippy::disallowed_methods, reason = "tests may choose by a seed of their own")]

mod answers;
mod associated;
#[path = "../hostile/mod.rs"]
mod hostile;
mod names;
mod operator;
mod reflection;
mod room;

const MESSAGE: &str = "<message from='romeo@a.example/x' to='juliet@b.example'/>";

fn result(from: &str) -> String {
    format!("<db:result from='{from}' to='b.example'>key</db:result>")
}
