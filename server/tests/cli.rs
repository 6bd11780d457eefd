//! The built binary, driven as an operator drives it, each test in a folder of its own.

mod cli {
    pub mod admin;
    pub mod backup;
    pub mod check;
    pub mod cluster;
    pub mod config;
    pub mod control;
    pub mod databases;
    pub mod dpm;
    pub mod export;
    pub mod foreign;
    pub mod invite;
    pub mod mariadb;
    pub mod package;
    pub mod postgres;
    pub mod rig;
    pub mod setup;
    pub mod start;
    pub mod store;
    pub mod supervisor;
    pub mod token;
    pub mod user;
}
