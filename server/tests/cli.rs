//! Tests the built binary as an operator uses it, each test in a folder of its own.

#[path = "clients/python.rs"]
mod python;

mod cli {
    mod acnetd;
    pub mod admin;
    pub mod api;
    pub mod backup;
    pub mod bench;
    pub mod check;
    pub mod cluster;
    pub mod cluster_acme;
    pub mod cluster_client;
    pub mod cluster_deaths;
    pub mod cluster_kills;
    pub mod cluster_misfits;
    pub mod cluster_moves;
    pub mod cluster_pressure;
    pub mod cluster_redis;
    pub mod completions;
    pub mod compose;
    pub mod config;
    pub mod control;
    pub mod databases;
    pub mod dpm;
    pub mod events;
    pub mod examples;
    pub mod export;
    pub mod fail2ban;
    pub mod foreign;
    pub mod hostile;
    pub mod image;
    pub mod install;
    pub mod interface;
    pub mod invite;
    pub mod json;
    pub mod ldap;
    pub mod log;
    pub mod logins;
    pub mod mariadb;
    pub mod outside;
    mod package;
    pub mod person;
    pub mod postgres;
    pub mod profile;
    mod promtool;
    pub mod restart;
    pub mod rig;
    pub mod s2s;
    pub mod setup;
    pub mod slow;
    pub mod start;
    pub mod store;
    pub mod supervisor;
    pub mod token;
    pub mod top;
    pub mod trace;
    pub mod uploads;
    pub mod user;
    pub mod wrong;
}
