//! Tests that documents and comments are true to the tree: the lists of modules in heads are
//! complete, every path and link leads somewhere, programs in documents are in the tree, pictures
//! show functions of the code, comments follow STYLE.md, and a one-word type is unique.

mod documents {
    mod book;
    mod hostile;
    mod layout;
    mod listings;
    mod participles;
    mod paths;
    mod pictures;
    mod steps;
    mod structs;
    mod tree;
    mod types;
    mod words;
}
