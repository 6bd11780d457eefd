//! One file per XEP and the table of all of them.
