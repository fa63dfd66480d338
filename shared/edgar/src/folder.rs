//! A mirrored folder of one filing, `edgar/data/<CIK>/<accession>/`: which of its files are documents.

use std::collections::BTreeMap;

use stemma_document::FilingFacts;

use crate::index_file::{FilingIndex, IndexKind};
use crate::part::{PartEntry, SkipReason};

/// The folder of a filing, by its path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilingFolder {
    /// Without leading zeros.
    pub cik: Option<String>,
    /// With hyphens.
    pub accession: String,
}

impl FilingFolder {
    /// From the path of a folder or of a full submission, `/`-separated: `…/<CIK>/<accession>` or `…/<accession>`. Digits
    /// without hyphens are an accession number only below a CIK.
    pub fn from_path(path: &str) -> Option<Self> {
        let mut names = path.rsplit('/');
        let name = names.next()?;
        let stem = ["txt", "nc"]
            .into_iter()
            .find_map(|extension| name.strip_suffix(extension)?.strip_suffix('.'));
        let name = stem.unwrap_or(name);
        let accession = FilingFacts::parse_accession(name)?;
        let cik = names.next().and_then(FilingFacts::parse_cik);
        (cik.is_some() || name.contains('-')).then_some(Self { cik, accession })
    }

    /// Whether a file of this name is the full submission of the filing.
    pub fn is_submission(&self, name: &str) -> bool {
        let stem = ["txt", "nc"]
            .into_iter()
            .find_map(|extension| name.strip_suffix(extension)?.strip_suffix('.'));
        stem.and_then(FilingFacts::parse_accession).as_ref() == Some(&self.accession)
    }

    /// The index files among `names`, best first, and a full submission at the end.
    pub fn index_files<'a>(&self, names: &'a [String]) -> Vec<IndexFile<'a>> {
        let mut files: Vec<IndexFile<'a>> = names
            .iter()
            .filter_map(|name| {
                // A list of names says nothing that the listing does not.
                let kind =
                    IndexKind::from_file_name(name).filter(|kind| *kind != IndexKind::Names)?;
                Some(IndexFile {
                    name,
                    kind: Some(kind),
                })
            })
            .collect();
        files.sort_by_key(|file| file.kind);
        let submission = names.iter().find(|name| self.is_submission(name));
        files.extend(submission.map(|name| IndexFile { name, kind: None }));
        files
    }
}

// A page of an index has some kilobytes, the header of the largest filings a megabyte.
const MAX_INDEX_BYTES: u64 = 16 << 20;
// Its parts are listed only if no index file is there.
const MAX_SUBMISSION_BYTES: u64 = 512 << 20;

/// A file of a folder that says what the others are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexFile<'a> {
    pub name: &'a str,
    // `None` for the full submission.
    kind: Option<IndexKind>,
}

impl IndexFile<'_> {
    /// A larger file is not read.
    pub fn max_bytes(&self) -> u64 {
        match self.kind {
            Some(_) => MAX_INDEX_BYTES,
            None => MAX_SUBMISSION_BYTES,
        }
    }

    /// Whether it is read at all: a full submission only if the index files leave out the form or the documents.
    pub fn adds_to(&self, known: &FilingIndex) -> bool {
        self.kind.is_some() || known.header.form.is_none() || known.entries.is_empty()
    }

    /// Adds what its bytes say and better files did not.
    #[must_use]
    pub fn complete(&self, known: FilingIndex, bytes: &[u8]) -> FilingIndex {
        known.or(match self.kind {
            Some(kind) => FilingIndex::parse(kind, bytes),
            None => FilingIndex::from_submission(bytes),
        })
    }
}

/// A file of a filing that is a document of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderDocument {
    pub name: String,
    /// What the index says about it.
    pub entry: Option<PartEntry>,
    /// Name of the label linkbase of its tagged facts.
    pub labels: Option<String>,
}

/// Whether a file of this name is a label linkbase: what a company calls the concepts of its tagged facts.
pub fn is_label_linkbase(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with("_lab.xml")
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FolderPlan {
    /// In order of their sequence, then by name.
    pub documents: Vec<FolderDocument>,
    pub skipped: BTreeMap<SkipReason, usize>,
    /// Names of files that are not documents and not known of filings.
    pub other: Vec<String>,
}

impl FolderPlan {
    /// Decides about the files of a folder. The documents of a filing are read one by one if all are there; else its full
    /// submission is.
    pub fn new(folder: &FilingFolder, names: &[String], index: &FilingIndex) -> Self {
        let mut plan = Self::default();
        let mut submissions: Vec<&String> = Vec::new();
        let mut linkbases: Vec<&String> = Vec::new();
        for name in names {
            if folder.is_submission(name) {
                submissions.push(name);
                continue;
            }
            if is_label_linkbase(name) {
                linkbases.push(name);
                continue;
            }
            let entry = index.entry(name).cloned();
            let reason = match IndexKind::from_file_name(name) {
                Some(_) => Some(SkipReason::Index),
                None => match &entry {
                    Some(entry) => entry.skip_reason(),
                    None => SkipReason::from_file_name(name),
                },
            };
            match reason {
                Some(reason) => plan.skip(reason),
                None if is_readable(name) => plan.documents.push(FolderDocument {
                    name: name.clone(),
                    entry,
                    labels: None,
                }),
                None => plan.other.push(name.clone()),
            }
        }
        plan.drop_copies();
        plan.choose_submission(&submissions, index);
        plan.documents.sort_by_key(|document| {
            let sequence = document
                .entry
                .as_ref()
                .and_then(|entry| entry.sequence.as_ref());
            let number: u32 = sequence.and_then(|s| s.parse().ok()).unwrap_or(u32::MAX);
            (number, document.name.clone())
        });
        plan.assign_labels(folder, &linkbases);
        plan
    }

    // Filers name a linkbase like its document, `acme-20230930.htm` and `acme-20230930_lab.xml`, or the document otherwise: then
    // the only linkbase belongs to the pages that are not exhibits. A full submission has its own.
    fn assign_labels(&mut self, folder: &FilingFolder, linkbases: &[&String]) {
        for linkbase in linkbases {
            let mut pages: Vec<_> = self
                .documents
                .iter_mut()
                .filter(|document| {
                    let name = document.name.to_ascii_lowercase();
                    !folder.is_submission(&name)
                        && (name.ends_with(".htm") || name.ends_with(".html"))
                })
                .collect();
            let is_named_alike = |page: &FolderDocument| {
                format!("{}_lab.xml", stem(&page.name)) == linkbase.to_ascii_lowercase()
            };
            let has_name = pages.iter().any(|page| is_named_alike(page));
            pages.retain(|page| match has_name {
                true => is_named_alike(page),
                false => {
                    linkbases.len() == 1 && !page.entry.as_ref().is_some_and(PartEntry::is_exhibit)
                }
            });
            if pages.is_empty() {
                self.skip(SkipReason::Xbrl);
            } else {
                for page in pages {
                    page.labels = Some((*linkbase).clone());
                }
            }
        }
    }

    fn skip(&mut self, reason: SkipReason) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    // A PDF is a courtesy copy if a page or text has its name or its type.
    fn drop_copies(&mut self) {
        let kind =
            |document: &FolderDocument| document.entry.as_ref().map(|e| e.document_type.clone());
        let (copies, texts): (Vec<_>, Vec<_>) = std::mem::take(&mut self.documents)
            .into_iter()
            .partition(|document| is_pdf(&document.name));
        for pdf in copies {
            let has_text = texts.iter().any(|text| {
                stem(&text.name) == stem(&pdf.name)
                    || kind(text).is_some() && kind(text) == kind(&pdf)
            });
            if has_text {
                self.skip(SkipReason::Pdf);
            } else {
                self.documents.push(pdf);
            }
        }
        self.documents.extend(texts);
    }

    // A full submission in the folder or next to it.
    fn choose_submission(&mut self, submissions: &[&String], index: &FilingIndex) {
        let Some(submission) = submissions.first() else {
            return;
        };
        let lacks_part = index.entries.iter().any(|entry| {
            let name = entry.filename.as_deref().unwrap_or_default();
            entry.skip_reason().is_none()
                && !is_pdf(name)
                && !self
                    .documents
                    .iter()
                    .any(|document| document.name.eq_ignore_ascii_case(name))
        });
        let complete = !self.documents.is_empty() && !lacks_part;
        let mut dropped = submissions.len();
        if !complete {
            for _ in 0..self.documents.len() {
                self.skip(SkipReason::Part);
            }
            self.documents = vec![FolderDocument {
                name: (*submission).clone(),
                entry: None,
                labels: None,
            }];
            dropped -= 1;
        }
        for _ in 0..dropped {
            self.skip(SkipReason::Submission);
        }
    }
}

// In lower case.
fn stem(name: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    stem.to_ascii_lowercase()
}

fn is_pdf(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".pdf")
}

fn is_readable(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".htm", ".html", ".txt", ".pdf"]
        .iter()
        .any(|extension| name.ends_with(extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> FilingFolder {
        FilingFolder::from_path("edgar/data/77/000000007723000012").unwrap()
    }

    fn index(rows: &[(&str, &str)]) -> FilingIndex {
        let entries = rows
            .iter()
            .zip(1..)
            .map(|((kind, name), at): (_, u32)| PartEntry {
                document_type: (*kind).into(),
                sequence: Some(at.to_string()),
                filename: Some((*name).into()),
                description: None,
            });
        FilingIndex {
            entries: entries.collect(),
            ..FilingIndex::default()
        }
    }

    // Names of the documents, and counts of the rest.
    fn plan(names: &[&str], index: &FilingIndex) -> (Vec<String>, Vec<(SkipReason, usize)>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let plan = FolderPlan::new(&folder(), &names, index);
        let documents = plan.documents.into_iter().map(|document| document.name);
        (documents.collect(), plan.skipped.into_iter().collect())
    }

    #[test]
    fn folders_of_filings_are_told_by_path() {
        for (path, expected) in [
            (
                "edgar/data/77/000000007723000012",
                Some(("77", "0000000077-23-000012")),
            ),
            (
                "/a/0000000077/0000000077-23-000012",
                Some(("77", "0000000077-23-000012")),
            ),
            (
                "a/77/0000000077-23-000012.txt",
                Some(("77", "0000000077-23-000012")),
            ),
            (
                "a/b/0000000077-23-000012.nc",
                Some(("", "0000000077-23-000012")),
            ),
            ("a/b/000000007723000012", None),
            ("a/77/aapl.txt", None),
        ] {
            let found = FilingFolder::from_path(path);
            let found = found.map(|f| (f.cik.unwrap_or_default(), f.accession));
            let expected = expected.map(|(cik, number)| (cik.to_owned(), number.to_owned()));
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn documents_of_a_mirrored_folder_are_read_and_the_rest_is_counted() {
        let names = [
            "0000000077-23-000012-index-headers.html",
            "0000000077-23-000012-index.htm",
            "0000000077-23-000012.txt",
            "index.json",
            "acme-20230630.htm",
            "acme-20230630.pdf",
            "ex311.htm",
            "R1.htm",
            "R10.htm",
            "FilingSummary.xml",
            "acme-20230630.xsd",
            "acme-20230630_cal.xml",
            "acme-20230630_htm.xml",
            "logo.jpg",
            "Financial_Report.xlsx",
            "0000000077-23-000012-xbrl.zip",
        ];
        let known = index(&[("10-Q", "acme-20230630.htm"), ("EX-31.1", "ex311.htm")]);
        for index in [FilingIndex::default(), known] {
            let (documents, skipped) = plan(&names, &index);
            assert_eq!(documents, ["acme-20230630.htm", "ex311.htm"]);
            let expected = [
                (SkipReason::Xbrl, 3),
                (SkipReason::Graphic, 1),
                (SkipReason::Pdf, 1),
                (SkipReason::Data, 2),
                (SkipReason::Viewer, 3),
                (SkipReason::Index, 3),
                (SkipReason::Submission, 1),
            ];
            assert_eq!(skipped, expected);
        }
    }

    #[test]
    fn the_submission_replaces_documents_that_are_not_there() {
        let known = index(&[
            ("10-Q", "a.htm"),
            ("EX-31.1", "ex311.htm"),
            ("GRAPHIC", "logo.jpg"),
        ]);
        let (documents, skipped) = plan(&["0000000077-23-000012.txt", "ex311.htm"], &known);
        assert_eq!(documents, ["0000000077-23-000012.txt"]);
        assert_eq!(skipped, [(SkipReason::Part, 1)]);
        let (documents, _) = plan(&["0000000077-23-000012.txt"], &FilingIndex::default());
        assert_eq!(documents, ["0000000077-23-000012.txt"]);
        let (documents, _) = plan(&["ex311.htm"], &known);
        assert_eq!(documents, ["ex311.htm"]);
    }

    #[test]
    fn the_index_decides_about_type_and_order() {
        let known = index(&[("10-Q", "z.htm"), ("EX-99", "r2.htm"), ("XML", "a.htm")]);
        let (documents, skipped) = plan(&["a.htm", "r2.htm", "z.htm"], &known);
        assert_eq!(documents, ["z.htm", "r2.htm"]);
        assert_eq!(skipped, [(SkipReason::Viewer, 1)]);
        let (documents, _) = plan(&["scan.pdf", "z.htm"], &known);
        assert_eq!(documents, ["z.htm", "scan.pdf"]);
    }

    #[test]
    fn a_label_linkbase_belongs_to_its_document() {
        let labels = |names: &[&str], index: &FilingIndex| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let plan = FolderPlan::new(&folder(), &names, index);
            let labels: Vec<_> = plan
                .documents
                .into_iter()
                .map(|d| (d.name, d.labels.unwrap_or_default()))
                .collect();
            (labels, plan.skipped.get(&SkipReason::Xbrl).copied())
        };
        let pair = |name: &str, labels: &str| (name.to_owned(), labels.to_owned());
        let none = FilingIndex::default();
        // By its name, among exhibits.
        let names = [
            "a-20230630_lab.xml",
            "a-20230630.htm",
            "ex.htm",
            "a-20230630_pre.xml",
        ];
        let (found, skipped) = labels(&names, &none);
        let expected = [
            pair("a-20230630.htm", "a-20230630_lab.xml"),
            pair("ex.htm", ""),
        ];
        assert_eq!((found.as_slice(), skipped), (&expected[..], Some(1)));
        // The only one belongs to the document of the filing.
        let known = index(&[("10-Q", "form10-q.htm"), ("EX-31", "ex31.htm")]);
        let names = ["a-20230630_lab.xml", "ex31.htm", "form10-q.htm"];
        let (found, skipped) = labels(&names, &known);
        let expected = [
            pair("form10-q.htm", "a-20230630_lab.xml"),
            pair("ex31.htm", ""),
        ];
        assert_eq!((found.as_slice(), skipped), (&expected[..], None));
        // If there are two, one belongs to nobody; a submission has its own.
        let (found, skipped) = labels(&["b_lab.xml", "a_lab.xml", "A.HTM"], &none);
        assert_eq!(
            (found, skipped),
            (vec![pair("A.HTM", "a_lab.xml")], Some(1))
        );
        let (found, skipped) = labels(&["0000000077-23-000012.txt", "a_lab.xml"], &none);
        let expected = vec![pair("0000000077-23-000012.txt", "")];
        assert_eq!((found, skipped), (expected, Some(1)));
    }
}
