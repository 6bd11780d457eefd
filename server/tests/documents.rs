//! Documents and comments tell the truth of the tree: the lists of modules in heads are complete,
//! every path and link leads somewhere, programs that documents show are in the tree, and comments
//! have the words of STYLE.md.

mod documents {
    mod book;
    mod hostile;
    mod layout;
    mod listings;
    mod paths;
    mod structs;
    mod tree;
    mod words;
}
