//! Tests the tables of what other servers, and clients of devices, must never achieve: each row
//! names tests, and they exist.

use super::tree::Tree;

#[test]
fn every_test_of_the_table_exists() {
    let tree = Tree::read();
    for page in ["doc/book/developing/hostile-servers.md", "doc/book/developing/hostile-devices.md"] {
        check(&tree, page);
    }
}

fn check(tree: &Tree, name: &str) {
    let page = tree.text(name);
    let (mut faults, mut lines) = (Vec::new(), 0);
    for line in
        page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| | ") && !line.starts_with("| ---"))
    {
        lines += 1;
        let number = format!("| {lines} |");
        if !line.starts_with(&number) {
            faults.push(format!("{lines} is missing before {line}"));
        }
        let tests = tests(line);
        if tests.is_empty() {
            faults.push(format!("no test: {line}"));
        }
        for (file, test) in tests {
            let is_there = tree.has(file) && tree.text(file).contains(&format!("fn {test}("));
            if !is_there {
                faults.push(format!("{lines}: {file} has no {test}"));
            }
        }
    }
    assert!(lines >= 60, "{name}: {lines} lines are few: are they still found?");
    assert!(faults.is_empty(), "{name}: {} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Returns the files and names of tests in a line.
fn tests(line: &str) -> Vec<(&str, &str)> {
    let quoted: Vec<&str> = line.split('`').skip(1).step_by(2).filter(|quoted| quoted.len() > 1).collect();
    quoted.chunks(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect()
}
