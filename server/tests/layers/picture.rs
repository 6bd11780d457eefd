//! Draws the crates and their dependencies from `cargo metadata`, so that the picture in the book
//! can't differ from the code.
//!
//! A crate stands one row above the highest crate that it uses. An arrow that follows from two
//! others is left out, and so is `base`, which all crates may use.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The crates with the crates of ours that their libraries use, by short names.
pub type CrateGraph = BTreeMap<String, BTreeSet<String>>;

/// The width of the picture, the distance of two rows, and the height of a box, in pixels.
const WIDTH: usize = 960;
const ROW: usize = 78;
const HEIGHT: usize = 30;
/// The passes in which the boxes of a row move towards those that they are connected with.
const PASSES: usize = 12;

const STYLE: &str = "\
text { font: 14px system-ui, sans-serif; text-anchor: middle; fill: #1c2733 } \
rect { fill: #e8eef5; stroke: #7189a3 } path { fill: none; stroke: #7189a3; stroke-width: 1.2 } \
@media (prefers-color-scheme: dark) { text { fill: #e3eaf2 } rect { fill: #243242; stroke: #8aa2bc } path { stroke: #8aa2bc } }";

/// A crate, or a place in a row through which an arrow passes: its two ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum DrawnPlace {
    Crate(String),
    Arrow(String, String),
}

/// Returns the picture as SVG.
pub fn draw(graph: &CrateGraph) -> String {
    let ways: Vec<_> = without_detours(graph).iter().map(|(from, to)| way(graph, from, to)).collect();
    let rows = arrange(graph, &ways);
    let top = |row: usize| 20 + ROW * (rows.len() - 1 - row);
    let mut places = BTreeMap::new();
    for (row, drawn) in rows.iter().enumerate() {
        places.extend(drawn.iter().zip(spread(drawn)).map(|(place, x)| ((row, place), x)));
    }
    let height = 40 + HEIGHT + ROW * (rows.len() - 1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>The crates and the crates that they use</title>\n<style>{STYLE}</style>\n"
    );
    for way in &ways {
        let mut path = String::new();
        for pair in way.windows(2) {
            let (x1, y1) = (places[&(pair[0].0, &pair[0].1)], top(pair[0].0) + HEIGHT);
            let (x2, y2) = (places[&(pair[1].0, &pair[1].1)], top(pair[1].0));
            let (start, middle) = (if path.is_empty() { "M" } else { "L" }, (y1 + y2) / 2);
            path += &format!("{start}{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}");
        }
        writeln!(svg, "<path d=\"{path}\"/>").expect("a string takes text");
    }
    for ((row, place), x) in &places {
        let (DrawnPlace::Crate(name), y) = (place, top(*row)) else { continue };
        let (left, width, line) = (x - breadth(place) / 2, breadth(place), y + 20);
        let shape = format!("<rect x=\"{left}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" rx=\"5\"/>");
        writeln!(svg, "{shape}<text x=\"{x}\" y=\"{line}\">{name}</text>").expect("a string takes text");
    }
    svg + "</svg>\n"
}

/// Returns the places of an arrow from above to below, each with its row.
fn way(graph: &CrateGraph, from: &str, to: &str) -> Vec<(usize, DrawnPlace)> {
    let (upper, lower) = (height_of(graph, from), height_of(graph, to));
    let between = (lower + 1..upper).rev();
    let between = between.map(|row| (row, DrawnPlace::Arrow(from.to_owned(), to.to_owned())));
    let ends = |name: &str, row| (row, DrawnPlace::Crate(name.to_owned()));
    std::iter::once(ends(from, upper)).chain(between).chain([ends(to, lower)]).collect()
}

/// Returns the width that a place takes.
fn breadth(place: &DrawnPlace) -> usize {
    match place {
        DrawnPlace::Crate(name) => 24 + 8 * name.len(),
        DrawnPlace::Arrow(..) => 4,
    }
}

/// Returns the middle of each place of a row, with equal gaps between them.
fn spread(row: &[DrawnPlace]) -> Vec<usize> {
    let filled: usize = row.iter().map(breadth).sum();
    let gap = WIDTH.saturating_sub(filled) / (row.len() + 1);
    let mut left = gap;
    let middle = |place: &DrawnPlace| {
        let middle = left + breadth(place) / 2;
        left += breadth(place) + gap;
        middle
    };
    row.iter().map(middle).collect()
}

/// Returns all crates that a crate uses, directly or through others.
fn reachable(graph: &CrateGraph, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = graph[from].iter().collect();
    while let Some(name) = open.pop() {
        if found.insert(name.clone()) {
            open.extend(&graph[name]);
        }
    }
    found
}

/// Returns the arrows that don't follow from others.
fn without_detours(graph: &CrateGraph) -> Vec<(String, String)> {
    let mut arrows = Vec::new();
    for (from, used) in graph {
        let further: BTreeSet<String> = used.iter().flat_map(|name| reachable(graph, name)).collect();
        arrows.extend(used.difference(&further).map(|to| (from.clone(), to.clone())));
    }
    arrows
}

/// Returns the rows, the lowest first, each in an order with few crossings.
fn arrange(graph: &CrateGraph, ways: &[Vec<(usize, DrawnPlace)>]) -> Vec<Vec<DrawnPlace>> {
    let crates = graph.keys().map(|name| (height_of(graph, name), DrawnPlace::Crate(name.clone())));
    let all: BTreeSet<_> = crates.chain(ways.iter().flatten().cloned()).collect();
    let mut rows: Vec<Vec<DrawnPlace>> = Vec::new();
    for (row, place) in all {
        rows.resize(rows.len().max(row + 1), Vec::new());
        rows[row].push(place);
    }
    for pass in 0..PASSES {
        // Down from the top, then up from the bottom: each row by the one before it.
        let order: Vec<usize> = if pass % 2 == 0 { (0..rows.len()).rev().collect() } else { (0..rows.len()).collect() };
        for pair in order.windows(2) {
            let (fixed, moved) = (pair[0], pair[1]);
            let at: BTreeMap<_, _> = rows[fixed].iter().cloned().zip(spread(&rows[fixed])).collect();
            let own: BTreeMap<_, _> = rows[moved].iter().cloned().zip(spread(&rows[moved])).collect();
            rows[moved].sort_by_cached_key(|place| {
                let pairs = ways.iter().flat_map(|way| way.windows(2)).map(|pair| (&pair[0], &pair[1]));
                let both = pairs.flat_map(|(upper, lower)| [(upper, lower), (lower, upper)]);
                let others = both.filter(|((row, one), (other, _))| (*row, *other) == (moved, fixed) && one == place);
                let places: Vec<usize> = others.map(|(_, (_, other))| at[other]).collect();
                (places.iter().sum::<usize>().checked_div(places.len()).unwrap_or(own[place]), place.clone())
            });
        }
    }
    rows
}

/// Returns the row of a crate: above all that it uses.
fn height_of(graph: &CrateGraph, name: &str) -> usize {
    graph[name].iter().map(|used| height_of(graph, used) + 1).max().unwrap_or(0)
}
