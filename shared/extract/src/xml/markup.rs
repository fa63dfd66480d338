//! Writes the elements of an XML file as headings, fields and tables.

use std::collections::HashMap;

use stemma_document::Defect;
use stemma_reading::vocabulary::{XML_LABELS, XML_ROWS, XML_TITLES, XML_VALUES, XML_WRAPPERS};

use super::defect;
use super::elements::{Element, ElementTree};

// Cells of all tables: an information table with 30,000 holdings has half a million.
const MAX_CELLS: usize = 2_000_000;
// A holding of a fund has some fifty.
const MAX_COLUMNS: usize = 80;
const MAX_HEADING: usize = 6;

pub(super) struct Markup {
    pub(super) text: String,
    /// Levels and titles, in order.
    pub(super) headings: Vec<(u16, String)>,
    /// What did not fit.
    pub(super) cut: Option<Defect>,
}

/// The document as HTML. `form` is the form that it states.
pub(super) fn write(tree: &ElementTree, form: Option<&str>) -> Markup {
    let mut writer = Writer {
        tree,
        text: String::from("<html><head><meta charset=\"utf-8\"></head><body>"),
        headings: Vec::new(),
        cells: 0,
        is_cut: false,
    };
    if let Some(root) = tree.root() {
        let form = form.map(|form| form.split_once('/').map_or(form, |(form, _)| form));
        let title = form
            .and_then(|form| XML_TITLES.get(form))
            .or_else(|| XML_TITLES.get(&root.name))
            .map_or_else(|| label("", &root.name), str::to_owned);
        writer.heading(1, &title);
        writer.element(root, 2);
    }
    writer.text.push_str("</body></html>");
    let cut = writer.is_cut.then(|| {
        let detail = format!(
            "tables have more than {MAX_COLUMNS} columns or {MAX_CELLS} cells; the rest was not read"
        );
        defect("xml.cut", detail)
    });
    Markup {
        text: writer.text,
        headings: writer.headings,
        cut,
    }
}

struct Writer<'t> {
    tree: &'t ElementTree,
    text: String,
    headings: Vec<(u16, String)>,
    cells: usize,
    is_cut: bool,
}

impl<'t> Writer<'t> {
    fn heading(&mut self, level: usize, title: &str) {
        let level = level.min(MAX_HEADING);
        let text = escaped(title);
        self.text.push_str(&format!("<h{level}>{text}</h{level}>"));
        let level = u16::try_from(level).unwrap_or(u16::MAX);
        self.headings.push((level, title.to_owned()));
    }

    /// What an element holds: its values first come first, and elements of one name together.
    fn element(&mut self, element: &'t Element, level: usize) {
        let tree = self.tree;
        let mut groups: HashMap<&str, Vec<&Element>> = HashMap::new();
        for child in tree.children(element) {
            groups.entry(child.name.as_str()).or_default().push(child);
        }
        let is_alone = groups.len() == 1;
        let mut fields: Vec<(String, String)> = Vec::new();
        for child in tree.children(element) {
            if let Some(value) = self.scalar(child) {
                if !value.is_empty() {
                    fields.push((field_label(&element.name, child), value));
                }
                continue;
            }
            let name = child.name.as_str();
            // The group is written where its first element is.
            let Some(rows) = groups.remove(name) else {
                continue;
            };
            self.fields(&mut fields);
            let is_table = rows.len() > 1 || XML_ROWS.contains(name);
            let has_heading = !(XML_WRAPPERS.contains(name) || is_table && is_alone);
            if has_heading {
                self.heading(level, &label(&element.name, name));
            }
            if is_table {
                self.table(&rows);
            } else {
                self.element(child, level + usize::from(has_heading));
            }
        }
        self.fields(&mut fields);
    }

    /// Fields that follow each other: labels next to values.
    fn fields(&mut self, fields: &mut Vec<(String, String)>) {
        if fields.is_empty() {
            return;
        }
        self.text.push_str("<table>");
        for (label, value) in fields.drain(..) {
            if !self.count(2) {
                break;
            }
            let label = escaped(&label);
            self.text
                .push_str(&format!("<tr><td>{label}</td><td>{value}</td></tr>"));
        }
        self.text.push_str("</table>");
    }

    /// Rows with a column for each path below them that has a value.
    fn table(&mut self, rows: &[&'t Element]) {
        let mut columns = Columns::default();
        let mut values: Vec<Vec<(usize, String)>> = Vec::new();
        for row in rows {
            let mut cells = Vec::new();
            self.row(row, "", &row.name, &mut columns, &mut cells);
            values.push(cells);
        }
        self.is_cut |= columns.is_cut;
        self.text.push_str("<table><tr>");
        for label in columns.titles() {
            let label = escaped(&label);
            self.text.push_str(&format!("<th>{label}</th>"));
        }
        self.text.push_str("</tr>");
        for cells in values {
            if !self.count(columns.labels.len().max(1)) {
                break;
            }
            let mut line = vec![String::new(); columns.labels.len()];
            for (column, value) in cells {
                let cell = &mut line[column];
                if !cell.is_empty() {
                    cell.push_str(", ");
                }
                cell.push_str(&value);
            }
            self.text.push_str("<tr>");
            for cell in line {
                self.text.push_str("<td>");
                self.text.push_str(&cell);
                self.text.push_str("</td>");
            }
            self.text.push_str("</tr>");
        }
        self.text.push_str("</table>");
    }

    fn row(
        &self,
        element: &'t Element,
        path: &str,
        parent: &'t str,
        columns: &mut Columns<'t>,
        cells: &mut Vec<(usize, String)>,
    ) {
        for child in self.tree.children(element) {
            let path = format!("{path}/{}", child.name);
            match self.scalar(child) {
                Some(value) if value.is_empty() => {}
                Some(value) => {
                    if let Some(column) = columns.find(path, parent, &child.name) {
                        cells.push((column, value));
                    }
                }
                None => self.row(child, &path, &child.name, columns, cells),
            }
        }
    }

    /// The value of an element that has nothing but one, as HTML, with marks of its footnotes.
    fn scalar(&self, element: &Element) -> Option<String> {
        if element.children.is_empty() {
            return Some(escaped(&element.plain_text()));
        }
        let mut value = String::new();
        let mut marks = String::new();
        for child in self.tree.children(element) {
            if !child.children.is_empty() || !XML_VALUES.contains(&child.name) {
                return None;
            }
            match child.attribute("id") {
                Some(id) => marks.push_str(&format!("<sup>({})</sup>", escaped(number_of(id)))),
                None => value.push_str(&escaped(&child.plain_text())),
            }
        }
        Some(value + &marks)
    }

    /// Whether there is room for so many more cells.
    fn count(&mut self, cells: usize) -> bool {
        let has_room = self.cells + cells <= MAX_CELLS;
        self.cells += cells;
        self.is_cut |= !has_room;
        has_room
    }
}

/// The columns of a table, in the order in which rows have them.
#[derive(Default)]
struct Columns<'t> {
    by_path: HashMap<String, usize>,
    // The parent and the name of the element.
    labels: Vec<(&'t str, &'t str)>,
    is_cut: bool,
}

impl<'t> Columns<'t> {
    fn find(&mut self, path: String, parent: &'t str, name: &'t str) -> Option<usize> {
        if let Some(known) = self.by_path.get(&path) {
            return Some(*known);
        }
        if self.labels.len() >= MAX_COLUMNS {
            self.is_cut = true;
            return None;
        }
        self.by_path.insert(path, self.labels.len());
        self.labels.push((parent, name));
        Some(self.labels.len() - 1)
    }

    /// The titles; a title that several have gets the title of the element above.
    fn titles(&self) -> Vec<String> {
        let plain: Vec<String> = self
            .labels
            .iter()
            .map(|(parent, name)| label(parent, name))
            .collect();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for title in &plain {
            *counts.entry(title.as_str()).or_default() += 1;
        }
        let titles = plain.iter().zip(&self.labels);
        titles
            .map(|(title, (parent, _))| match counts.get(title.as_str()) {
                Some(count) if *count > 1 => format!("{}, {title}", label("", parent)),
                _ => title.clone(),
            })
            .collect()
    }
}

fn field_label(parent: &str, element: &Element) -> String {
    let label = label(parent, &element.name);
    match element.attribute("id") {
        Some(id) => format!("{label} {}", number_of(id)),
        None => label,
    }
}

// Ids of footnotes are `F1`, `F2`.
fn number_of(id: &str) -> &str {
    let number = id.trim_start_matches(|c: char| c.is_alphabetic());
    if number.is_empty() { id } else { number }
}

/// The label that the schema gives an element, else its name in words.
fn label(parent: &str, name: &str) -> String {
    let known = XML_LABELS
        .get(&format!("{parent}/{name}"))
        .or_else(|| XML_LABELS.get(name));
    known.map_or_else(|| words_of(name), str::to_owned)
}

/// `issuerTradingSymbol` as `Issuer Trading Symbol`.
fn words_of(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 8);
    let mut before = ' ';
    for c in name.chars() {
        if c == '_' || c == '-' || c == '.' {
            before = ' ';
            continue;
        }
        let starts = words.is_empty() || before == ' ';
        if !words.is_empty() && (starts || c.is_uppercase() && before.is_lowercase()) {
            words.push(' ');
        }
        if starts {
            words.extend(c.to_uppercase());
        } else {
            words.push(c);
        }
        before = c;
    }
    words
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
