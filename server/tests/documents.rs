//! Documents and comments tell the truth of the tree: the lists of modules in heads are complete, every path that is named exists, and
//! programs that documents show are in the tree.

mod documents {
    mod layout;
    mod listings;
    mod paths;
    mod structs;
    mod tree;
}
