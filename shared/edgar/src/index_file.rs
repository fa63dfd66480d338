//! Index files of a filing: its header and the list of its documents, without their text.
//!
//! The archive has them as pages for people, `…-index.htm`, as the header in a page, `…-index-headers.html`, and as
//! `….hdr.sgml`. A full submission says the same. `index.json` names files only, as the folder itself does.

use stemma_document::FilingFacts;

use crate::header::{Party, SubmissionHeader};
use crate::html_blocks::{Block, blocks};
use crate::part::PartEntry;
use crate::submission::FullSubmission;

// A page lists fewer; the header has all.
const MAX_PARTIES: usize = 1_000;

/// What an index file says about a filing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilingIndex {
    pub header: SubmissionHeader,
    pub entries: Vec<PartEntry>,
    /// Whether companies have their names of today, as on pages for people, rather than those in the filing.
    pub has_current_names: bool,
}

/// The kinds of index files, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexKind {
    /// The whole header and all documents.
    Headers,
    /// A header, sometimes without documents.
    HeaderOnly,
    /// The page for people.
    Page,
    /// A list of names.
    Names,
}

impl IndexKind {
    /// By the name of a file; `None` if it is not an index file.
    pub fn from_file_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let ends = |ending: &str| name.ends_with(ending);
        match name.as_str() {
            _ if ends("-index-headers.html") || ends("-index-headers.htm") => Some(Self::Headers),
            _ if ends(".hdr.sgml") => Some(Self::HeaderOnly),
            _ if ends("-index.htm") || ends("-index.html") => Some(Self::Page),
            "index.json" | "index.htm" | "index.html" | "index.xml" => Some(Self::Names),
            _ => None,
        }
    }
}

impl FilingIndex {
    /// Reads an index file; one that only has names says nothing.
    pub fn parse(kind: IndexKind, bytes: &[u8]) -> Self {
        match kind {
            IndexKind::Headers => Self::from_headers_page(bytes),
            IndexKind::HeaderOnly => Self::from_submission(bytes),
            IndexKind::Page => Self::from_page(bytes),
            IndexKind::Names => Self::default(),
        }
    }

    /// The header and the documents of a full submission.
    pub fn from_submission(bytes: &[u8]) -> Self {
        let submission = FullSubmission::parse(bytes);
        Self {
            header: submission.header,
            entries: submission
                .parts
                .into_iter()
                .map(|part| part.entry)
                .collect(),
            has_current_names: false,
        }
    }

    // The header is in the page with its brackets as entities. A comment before it says the same in the other form.
    fn from_headers_page(bytes: &[u8]) -> Self {
        let text = crate::tag_lines::decode(bytes);
        let lower = text.to_ascii_lowercase();
        let body = lower.find("<pre").map_or(text.as_str(), |at| &text[at..]);
        let mut plain = String::with_capacity(body.len());
        for block in blocks(body) {
            match block {
                Block::Text(text) => plain.push_str(&text),
                Block::Tag("br" | "pre") => plain.push('\n'),
                Block::Tag(_) => {}
            }
        }
        Self::from_submission(plain.as_bytes())
    }

    fn from_page(bytes: &[u8]) -> Self {
        let text = crate::tag_lines::decode(bytes);
        let mut page = PageReader::default();
        for block in blocks(&text) {
            page.read(&block);
        }
        page.finish()
    }

    pub fn entry(&self, filename: &str) -> Option<&PartEntry> {
        self.entries.iter().find(|entry| {
            let name = entry.filename.as_deref().unwrap_or_default();
            name.eq_ignore_ascii_case(filename)
        })
    }

    /// Takes from `other` what is missing here.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        let header = &mut self.header;
        header.accession = header.accession.take().or(other.header.accession);
        header.form = header.form.take().or(other.header.form);
        header.period = header.period.take().or(other.header.period);
        header.filed = header.filed.take().or(other.header.filed);
        if header.parties.is_empty() {
            header.parties = other.header.parties;
            self.has_current_names = other.has_current_names;
        }
        if self.entries.is_empty() {
            self.entries = other.entries;
        }
        self
    }
}

// The page for people: captions, then values; companies; tables of documents.
#[derive(Default)]
struct PageReader {
    index: FilingIndex,
    line: String,
    caption: String,
    cells: Option<Vec<String>>,
}

impl PageReader {
    fn read(&mut self, block: &Block<'_>) {
        match block {
            Block::Text(text) => self.line.push_str(text),
            Block::Tag("td") => self.line.clear(),
            Block::Tag("/td") => {
                let cell = self.take_line();
                if let Some(cells) = &mut self.cells {
                    cells.push(cell);
                }
            }
            Block::Tag("tr") => self.cells = Some(Vec::new()),
            Block::Tag("/table") => self.cells = None,
            Block::Tag("/tr") => {
                let cells = self.cells.take().unwrap_or_default();
                self.add_row(&cells);
            }
            // In a row only cells count: a file may be marked `iXBRL` in a span.
            Block::Tag("div" | "/div" | "p" | "/p" | "span" | "/span" | "br")
                if self.cells.is_none() =>
            {
                let line = self.take_line();
                if !line.is_empty() {
                    self.read_line(line);
                }
            }
            Block::Tag(_) => {}
        }
    }

    fn take_line(&mut self) -> String {
        let words: Vec<&str> = self.line.split_whitespace().collect();
        let line = words.join(" ");
        self.line.clear();
        line
    }

    // Sequence, description, document, type, size. The document may be followed by `iXBRL`.
    fn add_row(&mut self, cells: &[String]) {
        let [sequence, description, document, kind, ..] = cells else {
            return;
        };
        let filename = document.split_whitespace().next().and_then(non_empty);
        if !kind.is_empty() && filename.is_some() {
            self.index.entries.push(PartEntry {
                document_type: kind.clone(),
                sequence: non_empty(sequence),
                filename,
                description: non_empty(description),
            });
        }
    }

    fn read_line(&mut self, line: String) {
        let header = &mut self.index.header;
        let caption = std::mem::take(&mut self.caption);
        let below = match caption.as_str() {
            "Filing Date" => Some(&mut header.filed),
            "Period of Report" => Some(&mut header.period),
            _ => None,
        };
        if let Some(field) = below {
            field.get_or_insert(line.clone());
        }
        if let Some(form) = line.strip_prefix("Form ") {
            let form = form.split(" - ").next().unwrap_or(form).trim();
            header.form.get_or_insert(form.to_owned());
        } else if line.contains("Accession No.") {
            let number = line
                .rsplit(' ')
                .next()
                .and_then(FilingFacts::parse_accession);
            header.accession = header.accession.take().or(number);
        } else if let Some((name, cik)) = line.split_once("CIK:") {
            self.add_party(name, cik);
        } else if let Some(party) = header.parties.last_mut() {
            set_identity(party, &line);
        }
        self.caption = line;
    }

    // `Acme Inc. (Filer) CIK: 0000000077 (see all company filings)`.
    fn add_party(&mut self, name: &str, cik: &str) {
        let (name, role) = match name.trim().rsplit_once(" (") {
            Some((name, role)) => (name, role.trim_end_matches(')')),
            None => (name.trim(), ""),
        };
        let cik = cik.split_whitespace().next().unwrap_or_default();
        if self.index.header.parties.len() >= MAX_PARTIES {
            return;
        }
        self.index.header.parties.push(Party {
            role: role.replace('-', " ").to_uppercase(),
            name: Some(name.trim().to_owned()),
            cik: Some(cik.to_owned()),
            ..Party::default()
        });
    }

    fn finish(mut self) -> FilingIndex {
        // Some parties of a filing are named twice.
        self.index.has_current_names = true;
        let parties = std::mem::take(&mut self.index.header.parties);
        for party in parties {
            if !self.index.header.parties.contains(&party) {
                self.index.header.parties.push(party);
            }
        }
        self.index
    }
}

fn non_empty(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

// `State of Incorp.: CA | Fiscal Year End: 0924`, `File No.: 001-36743`, `SIC: 3571 Electronic Computers`.
fn set_identity(party: &mut Party, line: &str) {
    for pair in line.split('|') {
        let Some((name, value)) = pair.split_once(':') else {
            continue;
        };
        let first = value.split_whitespace().next();
        let field = match name.trim() {
            "Fiscal Year End" => &mut party.fiscal_year_end,
            "State of Incorp." => &mut party.state,
            "IRS No." | "EIN" => &mut party.irs_number,
            "File No." => &mut party.file_number,
            "SIC" => &mut party.sic,
            _ => continue,
        };
        *field = field.take().or(first.map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS_PAGE: &str = "\
<HTML><HEAD><TITLE>SEC EDGAR Submission 0000000077-23-000012</TITLE>
<!--
<SEC-HEADER>0000000077-23-000012.hdr.sgml : 20230801
<TYPE>10-Q
<FILER>
<COMPANY-DATA>
<CONFORMED-NAME>ACME & SONS
</COMPANY-DATA>
</SEC-HEADER>
-->
</HEAD><BODY>
<PRE>&lt;SEC-DOCUMENT&gt;0000000077-23-000012-index.html : 20230801
&lt;SEC-HEADER&gt;0000000077-23-000012.hdr.sgml : 20230801
ACCESSION NUMBER:\t\t0000000077-23-000012
CONFORMED SUBMISSION TYPE:\t10-Q
CONFORMED PERIOD OF REPORT:\t20230630
FILED AS OF DATE:\t\t20230801

FILER:

\tCOMPANY DATA:\t
\t\tCOMPANY CONFORMED NAME:\t\t\tACME &amp; SONS
\t\tCENTRAL INDEX KEY:\t\t\t0000000077
&lt;/SEC-HEADER&gt;
&lt;DOCUMENT&gt;
&lt;TYPE&gt;10-Q
&lt;SEQUENCE&gt;1
&lt;FILENAME&gt;<a href=\"acme-20230630.htm\">acme-20230630.htm</a>
&lt;DESCRIPTION&gt;10-Q
&lt;TEXT&gt;
<a href=\"acme-20230630.htm\">acme-20230630.htm</a><br>
&lt;/TEXT&gt;
&lt;/DOCUMENT&gt;
&lt;DOCUMENT&gt;
&lt;TYPE&gt;EX-31.1
&lt;FILENAME&gt;ex311.htm
&lt;TEXT&gt;
&lt;/DOCUMENT&gt;
</PRE></BODY></HTML>";

    const PAGE: &str = r#"<html><body>
<div id="formHeader"><div id="formName"><strong>Form 10-Q</strong> - Quarterly report [Sections 13 or 15(d)]:</div>
<div id="secNum"><strong><acronym title="Securities and Exchange Commission">SEC</acronym> Accession <acronym title="Number">No.</acronym></strong> 0000000077-23-000012</div></div>
<div class="formGrouping"><div class="infoHead">Filing Date</div><div class="info">2023-08-01</div>
<div class="infoHead">Accepted</div><div class="info">2023-08-01 16:30:00</div></div>
<div class="formGrouping"><div class="infoHead">Period of Report</div><div class="info">2023-06-30</div></div>
<table class="tableFile" summary="Document Format Files">
<tr><th>Seq</th><th>Description</th><th>Document</th><th>Type</th><th>Size</th></tr>
<tr><td scope="row">1</td><td>QUARTERLY&nbsp;REPORT</td><td><a href="/ix?doc=/Archives/x/acme-20230630.htm">acme-20230630.htm</a> <span class="blue">iXBRL</span></td><td>10-Q</td><td>99</td></tr>
<tr><td>2</td><td>EX-31.1</td><td><a href="ex311.htm">ex311.htm</a></td><td>EX-31.1</td><td>9</td></tr>
<tr><td>&nbsp;</td><td>Complete submission text file</td><td><a href="x.txt">0000000077-23-000012.txt</a></td><td>&nbsp;</td><td>999</td></tr>
</table>
<div class="companyInfo"><span class="companyName">ACME &amp; SONS (Filer) <acronym title="Central Index Key">CIK</acronym>: <a href="?CIK=77">0000000077 (see all company filings)</a></span>
<p class="identInfo"><acronym>IRS No.</acronym>: <strong>123456789</strong> | State of Incorp.: <strong>OH</strong> | Fiscal Year End: <strong>0930</strong><br>Type: <strong>10-Q</strong> | File No.: <a><strong>001-00077</strong></a><br><acronym>SIC</acronym>: <b><a>3420</a></b> Cutlery</p></div>
</body></html>"#;

    fn rows(index: &FilingIndex) -> Vec<String> {
        let rows = index.entries.iter().map(|entry| {
            let name = entry.filename.as_deref().unwrap_or("-");
            format!(
                "{} {} {name}",
                entry.sequence.as_deref().unwrap_or("-"),
                entry.document_type
            )
        });
        rows.collect()
    }

    #[test]
    fn the_page_with_headers_has_header_and_documents() {
        let index = FilingIndex::parse(IndexKind::Headers, HEADERS_PAGE.as_bytes());
        assert_eq!(
            rows(&index),
            ["1 10-Q acme-20230630.htm", "- EX-31.1 ex311.htm"]
        );
        let facts = index.header.facts();
        assert_eq!(facts["company"], "ACME & SONS");
        assert_eq!(facts["accession"], "0000000077-23-000012");
        assert_eq!(facts["period"], "2023-06-30");
        assert_eq!(index.header.parties.len(), 1);
    }

    #[test]
    fn the_page_for_people_has_header_and_documents() {
        let index = FilingIndex::parse(IndexKind::Page, PAGE.as_bytes());
        assert_eq!(
            rows(&index),
            ["1 10-Q acme-20230630.htm", "2 EX-31.1 ex311.htm"]
        );
        assert_eq!(
            index.entries[0].description.as_deref(),
            Some("QUARTERLY REPORT")
        );
        let facts: Vec<String> = index
            .header
            .facts()
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let expected = [
            "accession=0000000077-23-000012",
            "cik=77",
            "company=ACME & SONS",
            "file_number=001-00077",
            "filed=2023-08-01",
            "fiscal_year_end=0930",
            "form=10-Q",
            "period=2023-06-30",
            "sic=3420",
        ];
        assert_eq!(facts, expected);
        assert_eq!(index.header.parties[0].role, "FILER");
    }

    #[test]
    fn index_files_are_told_by_name() {
        for (name, kind) in [
            (
                "0000000077-23-000012-index-headers.html",
                Some(IndexKind::Headers),
            ),
            ("0000000077-23-000012.hdr.sgml", Some(IndexKind::HeaderOnly)),
            ("0000000077-23-000012-index.htm", Some(IndexKind::Page)),
            ("0000000077-23-000012-INDEX.HTML", Some(IndexKind::Page)),
            ("index.json", Some(IndexKind::Names)),
            ("acme-20230630.htm", None),
            ("0000000077-23-000012.txt", None),
        ] {
            assert_eq!(IndexKind::from_file_name(name), kind, "{name}");
        }
    }

    #[test]
    fn what_one_index_lacks_another_has() {
        let page = FilingIndex::parse(IndexKind::Page, PAGE.as_bytes());
        let names = FilingIndex::parse(IndexKind::Names, b"{}");
        assert_eq!(names.or(page.clone()), page);
        assert_eq!(page.entry("EX311.htm").unwrap().document_type, "EX-31.1");
    }

    #[test]
    fn hostile_pages_take_linear_time() {
        for unit in [
            "<td>",
            "<",
            "&lt;",
            "<div>CIK:",
            "</tr>",
            "<!--",
            "<a title='",
        ] {
            let page = unit.repeat(100_000);
            for kind in [IndexKind::Headers, IndexKind::Page] {
                FilingIndex::parse(kind, page.as_bytes());
            }
        }
    }
}
