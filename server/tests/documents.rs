//! Documents and comments tell the truth of the tree: the lists of modules in heads are complete,
//! every path and link leads somewhere, programs that documents show are in the tree, comments have
//! the words of STYLE.md, and a word alone names one type.

mod documents {
    mod book;
    mod hostile;
    mod layout;
    mod listings;
    mod paths;
    mod structs;
    mod tree;
    mod types;
    mod words;
}
