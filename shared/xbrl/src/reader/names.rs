//! Namespaces and names.

use std::collections::HashMap;

use quick_xml::events::BytesStart;

use super::defects::DefectLog;
use super::entities::unescape;
use crate::transform::Registry;

// Filings declare some twenty.
const MAX_PREFIXES: usize = 1_000;

const INLINE: [&str; 2] = [
    "http://www.xbrl.org/2013/inlineXBRL",
    "http://www.xbrl.org/2008/inlineXBRL",
];
const INSTANCE: [&str; 2] = [
    "http://www.xbrl.org/2003/instance",
    "http://xbrl.org/2006/xbrldi",
];

/// Taxonomies that many companies use, by a part of their namespaces, which name the year. A filing may use any prefix for them.
const TAXONOMIES: [(&str, &str); 8] = [
    ("fasb.org/us-gaap/", "us-gaap"),
    ("fasb.org/srt/", "srt"),
    ("xbrl.sec.gov/dei/", "dei"),
    ("xbrl.sec.gov/country/", "country"),
    ("xbrl.sec.gov/ecd/", "ecd"),
    ("xbrl.sec.gov/cyd/", "cyd"),
    ("xbrl.sec.gov/exch/", "exch"),
    ("/ifrs-full", "ifrs-full"),
];

/// Whether a text has a namespace of inline XBRL at all.
pub(super) fn declares_inline_xbrl(text: &str) -> bool {
    INLINE.iter().any(|namespace| text.contains(namespace))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vocabulary {
    /// `ix:`
    InlineXbrl,
    /// `xbrli:` and `xbrldi:`
    Instance,
    Other,
}

/// The prefixes of a file. Files declare them at the root; a prefix that is bound again has its last meaning from there on.
#[derive(Default)]
pub(super) struct Names {
    namespaces: HashMap<String, Namespace>,
}

struct Namespace {
    uri: String,
    vocabulary: Vocabulary,
    // The usual prefix of a known taxonomy.
    usual: Option<&'static str>,
}

impl Names {
    pub(super) fn declare(&mut self, tag: &BytesStart<'_>, defects: &mut DefectLog) {
        for attribute in tag.attributes().with_checks(false).flatten() {
            let Some(prefix) = attribute.key.as_ref().strip_prefix("xmlns:") else {
                continue;
            };
            if self.namespaces.len() >= MAX_PREFIXES {
                defects.record(
                    "xbrl.limit",
                    "the file declares more namespaces than are kept",
                );
                return;
            }
            let uri = unescape(&attribute.value);
            let before = self.namespaces.get(prefix);
            if before.is_some_and(|before| before.uri != uri) {
                defects.record(
                    "xbrl.namespace",
                    &format!("the prefix `{prefix}` has two meanings in the file"),
                );
            }
            let namespace = Namespace {
                vocabulary: match uri.as_str() {
                    uri if INLINE.contains(&uri) => Vocabulary::InlineXbrl,
                    uri if INSTANCE.contains(&uri) => Vocabulary::Instance,
                    _ => Vocabulary::Other,
                },
                usual: TAXONOMIES
                    .iter()
                    .find(|(part, _)| uri.contains(part))
                    .map(|(_, usual)| *usual),
                uri,
            };
            self.namespaces.insert(prefix.to_owned(), namespace);
        }
    }

    /// The vocabulary of a tag, and its local name.
    pub(super) fn vocabulary<'n>(&self, name: &'n str) -> (Vocabulary, &'n str) {
        let Some((prefix, local)) = name.split_once(':') else {
            return (Vocabulary::Other, name);
        };
        let vocabulary = self
            .namespaces
            .get(prefix)
            .map_or(Vocabulary::Other, |namespace| namespace.vocabulary);
        (vocabulary, local)
    }

    /// A name with the usual prefix of its taxonomy.
    pub(super) fn canonical(&self, name: &str) -> String {
        let name = name.trim();
        let usual = name
            .split_once(':')
            .and_then(|(prefix, local)| Some((self.namespaces.get(prefix)?.usual?, local)));
        usual.map_or_else(
            || name.to_owned(),
            |(prefix, local)| format!("{prefix}:{local}"),
        )
    }

    /// The registry of a format, and its local name.
    pub(super) fn registry<'f>(&self, format: &'f str) -> Option<(Registry, &'f str)> {
        let (prefix, name) = format.trim().split_once(':')?;
        Some((
            Registry::from_namespace(&self.namespaces.get(prefix)?.uri)?,
            name,
        ))
    }
}
