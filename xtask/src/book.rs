//! Builds the book with mdBook, and fails if a link in its HTML is dead.
//!
//! Pages in `doc` link to pages and programs outside of it, such as `ARCHITECTURE.md`, but mdBook
//! builds a single folder. So xtask makes that folder in `target`: a copy of `doc` and of
//! everything that its pages link to, each file at its path in the repository. A link is then the
//! same in an editor, on a forge and in the HTML.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::{XtaskOutcome, entries, read, root, run};

/// Builds `target/book` from `doc` and the files that its pages link to.
pub fn build() -> XtaskOutcome {
    let (source, html) = (root().join("target/book-source"), root().join("target/book"));
    for folder in [&source, &html] {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
    }
    let outside = gather(&source)?;
    let contents = contents(&read(&root().join("doc/SUMMARY.md"))?, &outside)?;
    write(&source.join("SUMMARY.md"), contents.as_bytes())?;
    fs::remove_file(source.join("doc/SUMMARY.md")).map_err(|error| error.to_string())?;
    run(Command::new("mdbook").args(["build", "doc/book"]).current_dir(root()))?;
    // mdBook copies the first page to this place, where the links in it would start from the wrong
    // folder.
    write(&html.join("index.html"), FIRST_PAGE.as_bytes())?;
    let (faults, found) = dead_links(&html)?;
    if !faults.is_empty() {
        return Err(format!("{} links of the book are dead:\n{}", faults.len(), faults.join("\n")));
    }
    if found < FEWEST_LINKS {
        return Err(format!("only {found} links were found: the search for links may be broken"));
    }
    println!("target/book: all {found} links lead somewhere");
    Ok(())
}

/// Copies `doc` and everything that it links to, and returns the pages outside of `doc`.
fn gather(source: &Path) -> Result<Vec<PathBuf>, String> {
    let mut waiting = below(&root().join("doc"))?;
    let mut seen: BTreeSet<PathBuf> = waiting.iter().cloned().collect();
    let mut outside = Vec::new();
    while let Some(file) = waiting.pop() {
        let relative = file.strip_prefix(root()).map_err(|error| error.to_string())?;
        let bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        write(&source.join(relative), &bytes)?;
        if file.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        if !relative.starts_with("doc") {
            outside.push(relative.to_owned());
        }
        let text = String::from_utf8_lossy(&bytes);
        for target in text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)) {
            let path = target.split('#').next().unwrap_or_default();
            let linked = resolve(&file, path);
            if linked.starts_with(root()) && linked.is_file() && seen.insert(linked.clone()) {
                waiting.push(linked);
            }
        }
    }
    outside.sort();
    Ok(outside)
}

/// Returns mdBook's table of contents: the one of `doc`, with its links one folder further down,
/// and the pages outside of `doc`.
fn contents(summary: &str, outside: &[PathBuf]) -> Result<String, String> {
    let mut contents = summary.replace("](", "](doc/");
    contents.push_str("\n# The repository\n\n");
    for page in outside {
        let text = read(&root().join(page))?;
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("Untitled");
        contents.push_str(&format!("- [{title}]({})\n", page.display()));
    }
    Ok(contents)
}

/// Returns the links in the HTML that lead to no file or no heading, and the number of all links.
fn dead_links(html: &Path) -> Result<(Vec<String>, usize), String> {
    let (mut faults, mut found) = (Vec::new(), 0);
    let pages = below(html)?.into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "html"));
    for page in pages {
        // These repeat other pages, or stand in for any page.
        if page.ends_with("404.html") || page.ends_with("toc.html") || page.ends_with("print.html") {
            continue;
        }
        let text = read(&page)?;
        for target in attributes(&text) {
            found += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = if path.is_empty() { page.clone() } else { resolve(&page, path) };
            let is_there = linked.starts_with(html) && linked.is_file();
            if !is_there || !anchor.is_empty() && !read(&linked)?.contains(&format!("id=\"{anchor}\"")) {
                faults.push(format!("{}: {target}", page.display()));
            }
        }
    }
    Ok((faults, found))
}

/// Returns the addresses within the book that a page's links, pictures and scripts have.
fn attributes(text: &str) -> impl Iterator<Item = &str> {
    let values = ["href=\"", "src=\""].into_iter().flat_map(move |name| text.split(name).skip(1));
    let values = values.filter_map(|rest| Some(rest.split_once('"')?.0));
    values.filter(|value| !value.is_empty() && !value.contains(':') && !value.starts_with("//"))
}

/// Returns the file that a link in another file leads to.
fn resolve(file: &Path, link: &str) -> PathBuf {
    let mut path = file.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Returns all files in a folder and the folders below it.
fn below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() {
            files.append(&mut below(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

fn write(file: &Path, bytes: &[u8]) -> XtaskOutcome {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    fs::write(file, bytes).map_err(failed)
}

const FEWEST_LINKS: usize = 1000;

const FIRST_PAGE: &str = "\
<!DOCTYPE html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>Rookery</title>
<meta http-equiv=\"refresh\" content=\"0; url=doc/book/introduction.html\">
<a href=\"doc/book/introduction.html\">Rookery</a>
</html>
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_outside_of_doc_become_part_of_the_book() {
        let source = std::env::temp_dir().join(format!("rookery-book-{}", std::process::id()));
        let outside = gather(&source);
        let copied = source.join("tests/behaviour/recipe/note.rs").is_file();
        let _ = fs::remove_dir_all(&source);
        let outside = outside.unwrap();
        assert!(outside.contains(&PathBuf::from("ARCHITECTURE.md")), "{outside:?}");
        assert!(copied, "programs that pages link to are copied");
        let contents = contents("- [Limits](limits.md)\n", &outside).unwrap();
        assert!(contents.starts_with("- [Limits](doc/limits.md)\n"), "{contents}");
        assert!(contents.contains("\n- [Architecture](ARCHITECTURE.md)\n"), "{contents}");
    }

    #[test]
    fn links_to_no_file_or_heading_are_found() {
        let html = std::env::temp_dir().join(format!("rookery-links-{}", std::process::id()));
        let page = "<a href=\"b.html#here\"></a> <a href=\"#top\"></a> <a href=\"https://x.example/\"></a>\
                    <h1 id=\"top\"></h1> <img src=\"../no.png\">";
        write(&html.join("a.html"), page.as_bytes()).unwrap();
        write(&html.join("b.html"), b"<h1 id=\"there\"></h1>").unwrap();
        let found = dead_links(&html);
        let _ = fs::remove_dir_all(&html);
        let (faults, found) = found.unwrap();
        let targets: Vec<&str> = faults.iter().filter_map(|fault| fault.split(": ").nth(1)).collect();
        assert_eq!((targets, found), (vec!["b.html#here", "../no.png"], 3));
    }
}
