//! What documents and comments say of the tree is so: the lists of modules in heads are complete, and every path that is named exists.

mod documents {
    mod layout;
    mod paths;
    mod tree;
}
