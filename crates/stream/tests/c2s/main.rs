//! The negotiation of client streams as transcripts: one file per topic.

mod before_login;
mod bind;
mod dialogue;
mod garbage;
mod header;
mod limits;
mod resume;
mod sasl;
mod sasl2;
mod scram;
mod starttls;
