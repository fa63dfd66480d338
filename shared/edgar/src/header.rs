//! What a filing states about itself in the header of its submission.
//!
//! The archive writes indented lines, `CENTRAL INDEX KEY:  0000320193`, the feed bare tags, `<CIK>0000320193`. Names differ
//! in a few words only, so both are read by one table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stemma_document::FilingFacts;

use crate::tag_lines::{decode, is_line_end, line_value, tag_at};

// A header with 399 filers has 250 kB.
const MAX_HEADER_BYTES: usize = 16 << 20;
const MAX_PARTIES: usize = 10_000;
// Former names of one company, and Items of one report.
const MAX_VALUES: usize = 100;

/// The header of a submission, with values as they are written there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SubmissionHeader {
    pub accession: Option<String>,
    pub form: Option<String>,
    /// Number of documents that the submission has.
    pub document_count: Option<String>,
    pub period: Option<String>,
    pub filed: Option<String>,
    /// Titles or numbers of the Items of a current report.
    pub items: Vec<String>,
    pub parties: Vec<Party>,
}

/// A filer, issuer, owner or subject of a filing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Party {
    /// `FILER`, `SUBJECT COMPANY`, `FILED BY`, `REPORTING OWNER`.
    pub role: String,
    pub name: Option<String>,
    pub cik: Option<String>,
    /// The code of the Standard Industrial Classification, as stated: `MOTOR VEHICLES [3711]`.
    pub sic: Option<String>,
    /// Month and day: `0930`.
    pub fiscal_year_end: Option<String>,
    pub irs_number: Option<String>,
    pub state: Option<String>,
    pub file_number: Option<String>,
    pub former_names: Vec<String>,
}

impl SubmissionHeader {
    /// Parses a header of either form. Everything unknown is skipped.
    pub fn parse(bytes: &[u8]) -> Self {
        let bytes = &bytes[..bytes.len().min(MAX_HEADER_BYTES)];
        let mut reader = HeaderReader::default();
        for line in bytes.split(|b| is_line_end(*b)) {
            reader.read_line(line);
        }
        reader.header
    }

    /// The party that the filing is about: the issuer or subject, else the first filer.
    pub fn registrant(&self) -> Option<&Party> {
        self.parties
            .iter()
            .find(|party| matches!(party.role.as_str(), "ISSUER" | "SUBJECT COMPANY"))
            .or(self.parties.first())
    }

    /// Number of documents that the submission has, if it is stated.
    pub fn promised_documents(&self) -> Option<usize> {
        self.document_count.as_ref()?.parse().ok()
    }

    /// The stated facts by the names that metadata has: `company`, `cik`, `accession`, `form`, `period`, `filed`, `sic`,
    /// `former_names` (separated by `; `), `fiscal_year_end`, `file_number`. Dates are ISO 8601.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let party = self.registrant().cloned().unwrap_or_default();
        let sic = party.sic.as_deref().and_then(sic_code);
        let former = party.former_names.join("; ");
        let stated = [
            (
                "accession",
                self.accession
                    .as_deref()
                    .and_then(FilingFacts::parse_accession),
            ),
            ("form", self.form.clone()),
            ("period", self.period.as_deref().map(iso_date)),
            ("filed", self.filed.as_deref().map(iso_date)),
            ("company", party.name),
            ("cik", party.cik.as_deref().and_then(FilingFacts::parse_cik)),
            ("sic", sic),
            ("former_names", Some(former)),
            ("fiscal_year_end", party.fiscal_year_end),
            ("file_number", party.file_number),
        ];
        stated
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value.filter(|v| !v.is_empty())?)))
            .collect()
    }
}

/// Four digits, alone or in brackets behind the name of the industry.
pub(crate) fn sic_code(stated: &str) -> Option<String> {
    let inside = stated.rsplit('[').next().unwrap_or(stated);
    let digits: String = inside.chars().filter(char::is_ascii_digit).collect();
    (digits.len() == 4).then_some(digits)
}

/// Converts `20001231` to `2000-12-31`; other values stay as they are.
pub(crate) fn iso_date(value: &str) -> String {
    let value = value.trim();
    match value.len() == 8 && value.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("{}-{}-{}", &value[..4], &value[4..6], &value[6..]),
        false => value.to_owned(),
    }
}

#[derive(Default)]
struct HeaderReader {
    header: SubmissionHeader,
    // The last group that was opened outside the parts of a party.
    role: String,
}

impl HeaderReader {
    fn read_line(&mut self, line: &[u8]) {
        let (name, value) = if line.first() == Some(&b'<') {
            let Some(tag) = tag_at(line, 0).filter(|tag| !tag.name.starts_with('/')) else {
                return;
            };
            (tag.name.to_owned(), tag.value(line))
        } else {
            let Some(colon) = memchr::memchr(b':', line) else {
                return;
            };
            (decode(&line[..colon]), line_value(&line[colon + 1..]))
        };
        let name = name.trim().replace('-', " ").to_ascii_uppercase();
        if value.is_empty() {
            self.open_group(name);
        } else {
            self.set(&name, value);
        }
    }

    fn open_group(&mut self, name: String) {
        match name.as_str() {
            "COMPANY DATA" | "OWNER DATA" => {
                let role = std::mem::take(&mut self.role);
                self.add_party(role);
            }
            "FILING VALUES" | "BUSINESS ADDRESS" | "MAIL ADDRESS" | "FORMER COMPANY"
            | "FORMER NAME" => {}
            _ => self.role = name,
        }
    }

    fn add_party(&mut self, role: String) {
        if self.header.parties.len() < MAX_PARTIES {
            self.header.parties.push(Party {
                role,
                ..Party::default()
            });
        }
    }

    fn set(&mut self, name: &str, value: String) {
        let header = &mut self.header;
        let field = match name {
            "ACCESSION NUMBER" => &mut header.accession,
            "CONFORMED SUBMISSION TYPE" | "TYPE" | "FORM TYPE" => &mut header.form,
            "PUBLIC DOCUMENT COUNT" => &mut header.document_count,
            "CONFORMED PERIOD OF REPORT" | "PERIOD" => &mut header.period,
            "FILED AS OF DATE" | "FILING DATE" => &mut header.filed,
            "ITEM INFORMATION" | "ITEMS" => {
                push_bounded(&mut header.items, value);
                return;
            }
            _ => return self.set_party(name, value),
        };
        field.get_or_insert(value);
    }

    fn set_party(&mut self, name: &str, value: String) {
        let is_name = matches!(name, "COMPANY CONFORMED NAME" | "CONFORMED NAME");
        if self.header.parties.is_empty() && is_name {
            let role = std::mem::take(&mut self.role);
            self.add_party(role);
        }
        let Some(party) = self.header.parties.last_mut() else {
            return;
        };
        let field = match name {
            _ if is_name => &mut party.name,
            "CENTRAL INDEX KEY" | "CIK" => &mut party.cik,
            "STANDARD INDUSTRIAL CLASSIFICATION" | "ASSIGNED SIC" => &mut party.sic,
            "FISCAL YEAR END" => &mut party.fiscal_year_end,
            "IRS NUMBER" | "EIN" => &mut party.irs_number,
            "STATE OF INCORPORATION" => &mut party.state,
            "SEC FILE NUMBER" | "FILE NUMBER" => &mut party.file_number,
            "FORMER CONFORMED NAME" => {
                push_bounded(&mut party.former_names, value);
                return;
            }
            _ => return,
        };
        field.get_or_insert(value);
    }
}

fn push_bounded(values: &mut Vec<String>, value: String) {
    if values.len() < MAX_VALUES {
        values.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDENTED: &str = "\
<SEC-DOCUMENT>0000000001-01-000002.txt : 20010330
<SEC-HEADER>0000000001-01-000002.hdr.sgml : 20010330
<ACCEPTANCE-DATETIME>20010330101010
ACCESSION NUMBER:\t\t0000000001-01-000002
CONFORMED SUBMISSION TYPE:\t8-K
PUBLIC DOCUMENT COUNT:\t\t2
CONFORMED PERIOD OF REPORT:\t20001231
ITEM INFORMATION:\t
ITEM INFORMATION:\t\tOther Events
FILED AS OF DATE:\t\t20010330

SUBJECT COMPANY:

\tCOMPANY DATA:\t
\t\tCOMPANY CONFORMED NAME:\t\t\tACME TOOLS INC
\t\tCENTRAL INDEX KEY:\t\t\t0000000077
\t\tSTANDARD INDUSTRIAL CLASSIFICATION:\tCUTLERY, HANDTOOLS & GENERAL HARDWARE [3420]
\t\tFISCAL YEAR END:\t\t\t0630

\tFILING VALUES:
\t\tFORM TYPE:\t\tSC TO-T
\t\tSEC FILE NUMBER:\t005-11111

\tFORMER COMPANY:\t
\t\tFORMER CONFORMED NAME:\tACME IRON WORKS
\t\tDATE OF NAME CHANGE:\t19930328

FILED BY:

\tCOMPANY DATA:\t
\t\tCOMPANY CONFORMED NAME:\t\t\tHAMMER CAPITAL
\t\tCENTRAL INDEX KEY:\t\t\t0000000088
</SEC-HEADER>
";

    const TAGGED: &str = "<SUBMISSION>\r<ACCESSION-NUMBER>0000000001-01-000002\r<TYPE>8-K\r<PUBLIC-DOCUMENT-COUNT>2\r<PERIOD>20001231\r\
<ITEMS>5\r<FILING-DATE>20010330\r<SUBJECT-COMPANY>\r<COMPANY-DATA>\r<CONFORMED-NAME>ACME TOOLS INC\r<CIK>0000000077\r<ASSIGNED-SIC>3420\r\
<FISCAL-YEAR-END>0630\r</COMPANY-DATA>\r<FILING-VALUES>\r<FORM-TYPE>SC TO-T\r<FILE-NUMBER>005-11111\r</FILING-VALUES>\r<FORMER-COMPANY>\r\
<FORMER-CONFORMED-NAME>ACME IRON WORKS\r<DATE-CHANGED>19930328\r</FORMER-COMPANY>\r</SUBJECT-COMPANY>\r<FILED-BY>\r<COMPANY-DATA>\r\
<CONFORMED-NAME>HAMMER CAPITAL\r<CIK>0000000088\r</COMPANY-DATA>\r</FILED-BY>\r";

    #[test]
    fn both_forms_of_a_header_say_the_same() {
        let indented = SubmissionHeader::parse(INDENTED.as_bytes());
        let tagged = SubmissionHeader::parse(TAGGED.as_bytes());
        assert_eq!(indented.facts(), tagged.facts());
        let roles: Vec<&str> = tagged.parties.iter().map(|p| p.role.as_str()).collect();
        assert_eq!(roles, ["SUBJECT COMPANY", "FILED BY"]);
        assert_eq!(tagged.promised_documents(), Some(2));
        assert_eq!(indented.items, ["Other Events"]);
        let facts: Vec<String> = indented
            .facts()
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let expected = [
            "accession=0000000001-01-000002",
            "cik=77",
            "company=ACME TOOLS INC",
            "file_number=005-11111",
            "filed=2001-03-30",
            "fiscal_year_end=0630",
            "form=8-K",
            "former_names=ACME IRON WORKS",
            "period=2000-12-31",
            "sic=3420",
        ];
        assert_eq!(facts, expected);
    }

    #[test]
    fn an_empty_group_is_no_party() {
        let header = SubmissionHeader::parse(b"ITEM INFORMATION:\nFILED AS OF DATE:\t19981231\nFILER:\n\n\tCOMPANY DATA:\n\t\tCOMPANY CONFORMED NAME:\tA\n");
        assert!(header.items.is_empty());
        assert_eq!(header.filed.as_deref(), Some("19981231"));
        assert_eq!(header.parties.len(), 1);
        assert_eq!(header.parties[0].role, "FILER");
    }

    #[test]
    fn values_are_bounded_and_decoded() {
        let mut bytes =
            b"FILER:\n\tCOMPANY DATA:\n\t\tCOMPANY CONFORMED NAME:\tSOCI\xC9T\xC9 ".to_vec();
        bytes.extend(vec![b'x'; 1 << 20]);
        let name = SubmissionHeader::parse(&bytes).parties[0]
            .name
            .clone()
            .unwrap();
        assert!(name.starts_with("SOCIÉTÉ x"), "{name}");
        assert!(name.len() < 2_000, "{}", name.len());
        let many = "COMPANY DATA:\n".repeat(50_000);
        assert_eq!(
            SubmissionHeader::parse(many.as_bytes()).parties.len(),
            MAX_PARTIES
        );
    }
}
