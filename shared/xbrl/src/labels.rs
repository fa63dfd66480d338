//! Labels of a linkbase (XBRL 2.1, section 5.2.2): what a company calls its concepts.

use std::collections::HashMap;

use quick_xml::events::{BytesEnd, BytesStart, Event};
use quick_xml::reader::Reader;
use stemma_document::Defect;

use crate::reader::{as_text, push_entity, unescape};

// The label that has no purpose of its own (total, period start, documentation).
const STANDARD_ROLE: &str = "http://www.xbrl.org/2003/role/label";
// Labels are shown in lines of tables; documentation has other roles.
const MAX_LABEL_BYTES: usize = 500;
// A filing has some thousand of each.
const MAX_ENTRIES: usize = 200_000;

/// What a company calls its concepts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels {
    /// Standard labels by names of concepts with prefix (`us-gaap:Revenues`).
    pub by_concept: HashMap<String, String>,
    /// Why labels are missing, if the file is damaged or no linkbase.
    pub defect: Option<Defect>,
}

#[derive(Default)]
struct Linkbase {
    // Locator to concept.
    concepts: HashMap<String, String>,
    // Locator to resource.
    arcs: Vec<(String, String)>,
    // Resource to label.
    labels: HashMap<String, String>,
    // The resource and text of an open label.
    open: Option<(String, String)>,
    is_linkbase: bool,
    is_closed: bool,
    is_cut: bool,
}

/// Reads the standard labels of a linkbase. English labels only, because concepts are looked for in English. What cannot be read
/// is left out: concepts have names.
pub fn read_labels(bytes: &[u8]) -> Labels {
    let (text, _) = as_text(bytes);
    let mut reader = Reader::from_str(text.trim_start_matches('\u{FEFF}'));
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.allow_dangling_amp = true;
    let mut linkbase = Linkbase::default();
    loop {
        match reader.read_event() {
            Ok(Event::Start(tag)) => linkbase.start(&tag),
            Ok(Event::End(tag)) => linkbase.end(&tag),
            Ok(Event::Text(text)) => linkbase.text(&text),
            Ok(Event::CData(text)) => linkbase.text(&text),
            Ok(Event::GeneralRef(entity)) => {
                let mut character = String::new();
                push_entity(&mut character, &entity);
                linkbase.text(&character);
            }
            Ok(Event::Eof) => return linkbase.finish(None),
            Err(error) => return linkbase.finish(Some(error.to_string())),
            Ok(_) => {}
        }
    }
}

impl Linkbase {
    fn start(&mut self, tag: &BytesStart<'_>) {
        let value = |name: &str| attribute(tag, name);
        match local_name(tag.name().as_ref()) {
            "linkbase" => self.is_linkbase = true,
            "loc" | "labelArc" | "label" if self.is_full() => self.is_cut = true,
            "loc" => {
                let concept = value("href").and_then(|href| concept_of(&href));
                self.concepts.extend(value("label").zip(concept));
            }
            "labelArc" => {
                self.arcs.extend(value("from").zip(value("to")));
            }
            "label" => {
                let is_standard = value("role").is_none_or(|role| role == STANDARD_ROLE);
                let is_english = value("lang").is_none_or(|language| language.starts_with("en"));
                let resource = value("label").filter(|_| is_standard && is_english);
                self.open = resource.map(|resource| (resource, String::new()));
            }
            _ => {}
        }
    }

    fn is_full(&self) -> bool {
        let most = self.concepts.len().max(self.labels.len());
        most.max(self.arcs.len()) >= MAX_ENTRIES
    }

    fn text(&mut self, text: &str) {
        if let Some((_, label)) = &mut self.open {
            let room = MAX_LABEL_BYTES.saturating_sub(label.len());
            label.push_str(&text[..text.floor_char_boundary(room)]);
        }
    }

    fn end(&mut self, tag: &BytesEnd<'_>) {
        match local_name(tag.name().as_ref()) {
            "label" => self.close_label(),
            "linkbase" => self.is_closed = true,
            _ => {}
        }
    }

    fn close_label(&mut self) {
        let Some((resource, label)) = self.open.take() else {
            return;
        };
        let label = label.split_whitespace().collect::<Vec<_>>().join(" ");
        if !label.is_empty() {
            self.labels.entry(resource).or_insert(label);
        }
    }

    // `error` says where the file stopped being XML.
    fn finish(self, error: Option<String>) -> Labels {
        let problem = match error {
            Some(error) => Some(format!("the file is not XML from some place on: {error}")),
            None if !self.is_linkbase => Some("the file is not a linkbase".into()),
            None if self.is_cut => Some(format!("it has more than {MAX_ENTRIES} entries")),
            None if !self.is_closed => Some("the file is cut short".into()),
            None => None,
        };
        let mut labels = HashMap::new();
        for (locator, resource) in &self.arcs {
            let concept = self.concepts.get(locator);
            if let Some((concept, label)) = concept.zip(self.labels.get(resource)) {
                labels
                    .entry(concept.clone())
                    .or_insert_with(|| label.clone());
            }
        }
        Labels {
            by_concept: labels,
            defect: problem.map(|problem| labels_defect(&problem)),
        }
    }
}

/// The defect of a document whose labels cannot be read, or not all of them.
pub fn labels_defect(problem: &str) -> Defect {
    Defect {
        code: "xbrl.labels".into(),
        page: None,
        detail: format!("labels of tagged facts are missing: {problem}"),
    }
}

// `http://xbrl.fasb.org/us-gaap/2024/us-gaap-2024.xsd#us-gaap_Revenues`: ids of concepts are prefix, underscore and name.
fn concept_of(href: &str) -> Option<String> {
    let (_, id) = href.rsplit_once('#')?;
    let (prefix, name) = id.split_once('_')?;
    (!prefix.is_empty() && !name.is_empty()).then(|| format!("{prefix}:{name}"))
}

// By its name without a prefix.
fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = tag
        .attributes()
        .with_checks(false)
        .flatten()
        .find(|attribute| local_name(attribute.key.as_ref()) == name)?;
    Some(unescape(&found.value))
}

fn local_name(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linkbase(links: &str) -> HashMap<String, String> {
        let text = format!(
            "<?xml version=\"1.0\"?><link:linkbase xmlns:link=\"l\" xmlns:xlink=\"x\"><link:labelLink>{links}</link:labelLink></link:linkbase>"
        );
        let labels = read_labels(text.as_bytes());
        assert_eq!(labels.defect, None);
        labels.by_concept
    }

    fn label(resource: &str, attributes: &str, text: &str) -> String {
        format!("<link:label xlink:label=\"{resource}\" {attributes}>{text}</link:label>")
    }

    const LOCATOR: &str = "<link:loc xlink:href=\"a.xsd#us-gaap_Assets\" xlink:label=\"l\"/>\
        <link:labelArc xlink:from=\"l\" xlink:to=\"t\"/>";

    #[test]
    fn standard_label_is_read_whatever_the_order() {
        let terse = label(
            "t",
            "xlink:role=\"http://www.xbrl.org/2003/role/terseLabel\"",
            "Assets",
        );
        let german = label("t", "xml:lang=\"de\"", "Aktiva");
        let standard = label(
            "t",
            "xlink:role=\"http://www.xbrl.org/2003/role/label\" xml:lang=\"en-US\"",
            "Total\n assets &amp; more",
        );
        let expected = HashMap::from([("us-gaap:Assets".into(), "Total assets & more".into())]);
        assert_eq!(
            linkbase(&[LOCATOR, &terse, &german, &standard].concat()),
            expected
        );
        assert_eq!(linkbase(&[&standard, LOCATOR].concat()), expected);
    }

    #[test]
    fn damaged_linkbases_give_what_is_whole() {
        assert_eq!(linkbase(LOCATOR), HashMap::new());
        let other = LOCATOR.replace("us-gaap_Assets", "nothing");
        assert_eq!(linkbase(&(other + &label("t", "", "x"))), HashMap::new());
        let long = linkbase(&[LOCATOR, &label("t", "", &"\u{e9}".repeat(400))].concat());
        assert_eq!(long["us-gaap:Assets"].len(), MAX_LABEL_BYTES);
    }

    #[test]
    fn damage_is_a_defect() {
        let whole = format!(
            "<linkbase>{LOCATOR}{}</linkbase>",
            label("t", "", "Total assets")
        );
        let cut = whole.trim_end_matches("</linkbase>");
        let torn = &whole[..whole.len() - 4];
        for (file, labels, problem) in [
            (cut.as_bytes(), 1, "cut short"),
            (torn.as_bytes(), 1, "not XML"),
            (whole.replace("</linkbase>", "<!x").as_bytes(), 1, "not XML"),
            (b"<html><body>Not found</body></html>", 0, "not a linkbase"),
            (b"\xff\xfe<a", 0, "not XML"),
            (b"", 0, "not a linkbase"),
        ] {
            let read = read_labels(file);
            let detail = read.defect.map(|defect| defect.detail).unwrap_or_default();
            assert!(detail.contains(problem), "{problem}: {detail}");
            assert_eq!(read.by_concept.len(), labels, "{problem}");
        }
    }

    #[test]
    fn entities_are_not_expanded_and_entries_are_bounded() {
        let bomb = "<!DOCTYPE x [<!ENTITY a \"lol\"><!ENTITY b \"&a;&a;&a;\">]>";
        let file = format!(
            "{bomb}<linkbase>{LOCATOR}{}</linkbase>",
            label("t", "", "Total &b;")
        );
        let read = read_labels(file.as_bytes());
        let total = read.by_concept["us-gaap:Assets"].as_str();
        assert!(!total.contains("lol"), "{total}");
        let arcs = "<labelArc from=\"l\" to=\"t\"/>".repeat(MAX_ENTRIES + 1);
        let read = read_labels(format!("<linkbase>{arcs}</linkbase>").as_bytes());
        let detail = read.defect.map(|defect| defect.detail).unwrap_or_default();
        assert!(detail.contains("entries"), "{detail}");
    }
}
