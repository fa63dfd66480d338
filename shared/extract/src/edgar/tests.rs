//! Submissions of text, made up.

use proptest::prelude::*;

use super::*;

fn lines_of(text: &str) -> (Source, TextLines) {
    let source = read(text.as_bytes(), &Limits::default()).unwrap();
    let SourceBody::Lines(body) = source.body.clone() else {
        panic!("no lines")
    };
    (source, body)
}

// `line:level:title` of each heading.
fn headings(text: &str) -> Vec<String> {
    lines_of(text)
        .1
        .headings
        .iter()
        .map(|h| format!("{}:{}:{}", h.line, h.level, h.title))
        .collect()
}

const SUBMISSION: &str = "\
<SEC-DOCUMENT>0000000001-01-000002.txt : 20010330
<SEC-HEADER>0000000001-01-000002.hdr.sgml : 20010330
ACCESSION NUMBER:\t\t0000000001-01-000002
CONFORMED SUBMISSION TYPE:\t10-K
CONFORMED PERIOD OF REPORT:\t20001231
FILED AS OF DATE:\t\t20010330

FILER:

\tCOMPANY DATA:\t
\t\tCOMPANY CONFORMED NAME:\t\t\tACME TOOLS INC
\t\tCENTRAL INDEX KEY:\t\t\t0000000001
</SEC-HEADER>
<DOCUMENT>
<TYPE>10-K
<SEQUENCE>1
<DESCRIPTION>FORM 10-K
<TEXT>

<PAGE>   1

PART I

ITEM 1. BUSINESS

We make tools.
<TABLE>
<CAPTION>
<S>                <C>

ITEM 9. IN A TABLE

Sales              12
</TABLE>
</TEXT>
</DOCUMENT>
<DOCUMENT>
<TYPE>EX-13
<SEQUENCE>2
<DESCRIPTION>ANNUAL REPORT
<TEXT>
<HTML><body>
<p style='a
b'>OVERVIEW</p>

<p>Tools &amp; more&nbsp;tools, 1 < 2.</p>
</HTML>
</TEXT>
</DOCUMENT>
<DOCUMENT>
<TYPE>GRAPHIC
<TEXT>
begin 644 logo.gif
M1TE&.#EA
end
</TEXT>
</DOCUMENT>
</SEC-DOCUMENT>
";

#[test]
fn a_submission_is_its_documents() {
    let (source, body) = lines_of(SUBMISSION);
    let expected = [
        "1:1:10-K",
        "22:2:PART I",
        "24:3:ITEM 1. BUSINESS",
        "37:1:EX-13 ANNUAL REPORT",
        "44:2:OVERVIEW",
    ];
    assert_eq!(headings(SUBMISSION), expected);
    let metadata: Vec<String> = source
        .metadata
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let fields = [
        "accession=0000000001-01-000002",
        "cik=1",
        "company=ACME TOOLS INC",
        "filed=2001-03-30",
        "form=10-K",
        "period=2000-12-31",
    ];
    assert_eq!(metadata, fields);
    assert_eq!(body.lines.len(), SUBMISSION.lines().count());
    assert_eq!(
        (
            body.lines[45].as_str(),
            body.lines[19].as_str(),
            body.lines[53].as_str()
        ),
        ("Tools & more tools, 1 < 2.", "", "")
    );
    let header: Vec<&String> = body.lines[..19]
        .iter()
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(header, [""; 0], "the header is metadata");
    assert_eq!(source.defects[0].code, "edgar.parts_skipped");
}

#[test]
fn lines_are_those_of_the_file_for_every_line_end() {
    let (_, expected) = lines_of(SUBMISSION);
    for line_end in ["\r", "\r\n"] {
        let (_, body) = lines_of(&SUBMISSION.replace('\n', line_end));
        assert_eq!(body, expected);
    }
    let on_one_line = SUBMISSION.replace("<TEXT>\n\n<PAGE>", "<TEXT> The first words");
    assert_eq!(lines_of(&on_one_line).1.lines[17], " The first words   1");
}

#[test]
fn parts_for_machines_leave_no_lines() {
    let noise = "<DOCUMENT>\n<TYPE>EX-101.INS\n<TEXT>\n<XBRL>\n<?xml version='1.0'?>\n<xbrl>NOISE</xbrl>\n</XBRL>\n</TEXT>\n</DOCUMENT>\n";
    let (source, body) = lines_of(&format!("{SUBMISSION}{}", noise.repeat(50)));
    assert!(!body.lines.iter().any(|line| line.contains("NOISE")));
    assert_eq!(
        source.defects[0].detail,
        "51 parts of the submission are no documents to read and were left out: 50 XBRL, 1 graphic"
    );
}

#[test]
fn a_submission_without_documents_is_an_error() {
    let file = "<SEC-DOCUMENT>x\n<DOCUMENT>\n<TYPE>4\n<TEXT>\n<XML>\n<?xml version='1.0'?><a/>\n</XML>\n</TEXT>\n</DOCUMENT>\n";
    let error = read(file.as_bytes(), &Limits::default()).unwrap_err();
    assert_eq!(error.code, "edgar.no_documents");
    assert_eq!(
        error.message,
        "the submission has no document to read: it has only 1 XML"
    );
    let empty = read(b"<SEC-DOCUMENT>x\n", &Limits::default()).unwrap_err();
    assert!(empty.message.ends_with("it has no parts"));
}

#[test]
fn limits_hold_for_submissions() {
    let limits = Limits {
        max_lines: 40,
        ..Limits::default()
    };
    assert_eq!(
        read(SUBMISSION.as_bytes(), &limits).unwrap_err().code,
        "limits.lines"
    );
}

proptest! {
    #[test]
    fn heading_lines_rise_and_exist(text in prop::collection::vec("(PART I|Section 1\\.|1\\. A|TITLE|---|<PAGE>|<TEXT>|</TEXT>|</DOCUMENT>|<DOCUMENT>|<TYPE>EX-1|<a|text\\.|\\PC{0,9})(\n|\r|\r\n|\n\n| )", 0..40)) {
        let file = format!("<SEC-DOCUMENT>\n<DOCUMENT>\n<TYPE>X\n<TEXT>\n.{}", text.concat());
        let (_, body) = lines_of(&file);
        let lines: Vec<u32> = body.headings.iter().map(|heading| heading.line).collect();
        prop_assert!(lines.is_sorted_by(|a, b| a < b), "{lines:?}");
        prop_assert!(lines.iter().all(|line| (1..=body.lines.len()).contains(&(*line as usize))));
        prop_assert!(body.headings.iter().all(|h| h.level >= 1 && !h.title.is_empty() && title::clean(&h.title) == h.title));
    }
}
