//! Submissions of text, made up.

use proptest::prelude::*;
use stemma_document::{Page, SourceBody, SourceFormat, TextLines};
use stemma_reading::title;

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


<B>OVERVIEW</B>

Tools & more<F1> tools, 1 < 2.


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
        "51 parts of the submission are not documents to read and were left out: 50 XBRL, 1 graphic"
    );
}

#[test]
fn a_submission_without_documents_is_an_error() {
    let file = "<SEC-DOCUMENT>x\n<DOCUMENT>\n<TYPE>JSON\n<TEXT>\n{}\n</TEXT>\n</DOCUMENT>\n";
    let error = read(file.as_bytes(), &Limits::default()).unwrap_err();
    assert_eq!(error.code, "edgar.no_documents");
    assert_eq!(
        error.message,
        "the submission has no document to read: it has only 1 data"
    );
    let empty = read(b"<SEC-DOCUMENT>x\n", &Limits::default()).unwrap_err();
    assert!(empty.message.ends_with("it has no parts"));
}

#[test]
fn xml_documents_of_a_submission_are_read_or_named() {
    let part = |xml: &str| {
        format!(
            "<SEC-DOCUMENT>x\n<DOCUMENT>\n<TYPE>4\n<TEXT>\n<XML>\n<?xml version='1.0'?>{xml}\n</XML>\n</TEXT>\n</DOCUMENT>\n"
        )
    };
    let owner =
        "<ownershipDocument><issuer><issuerName>ACME</issuerName></issuer></ownershipDocument>";
    let source = read(part(owner).as_bytes(), &Limits::default()).unwrap();
    let SourceBody::Pages(pages) = &source.body else {
        panic!("no pages")
    };
    assert!(
        pages[0]
            .lines
            .iter()
            .any(|line| line.text == "Issuer ACME" && line.bytes.is_none())
    );
    let error = read(part("<xsl:stylesheet/>").as_bytes(), &Limits::default()).unwrap_err();
    assert_eq!(error.code, "xml.not_a_document");
}

#[test]
fn long_lines_take_linear_time() {
    let text = "<".repeat(3_000_000);
    let file =
        format!("<SEC-DOCUMENT>x\n<DOCUMENT>\n<TYPE>X\n<TEXT>\nA {text}\n</TEXT>\n</DOCUMENT>\n");
    assert_eq!(lines_of(&file).1.lines[4].len(), text.len() + 2);
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

const MIXED: &str = "\
<SEC-DOCUMENT>0000000001-01-000002.txt : 20010330
<SEC-HEADER>0000000001-01-000002.hdr.sgml : 20010330
ACCESSION NUMBER:\t\t0000000001-01-000002
CONFORMED SUBMISSION TYPE:\t10-K
</SEC-HEADER>
<DOCUMENT>
<TYPE>10-K
<TEXT>
<XBRL>
<html><body><p><a href='#b'>Item 1. Business</a></p><hr style='page-break-after:always'><p id='b'>We make tools.</p></body></html>
</XBRL>
</TEXT>
</DOCUMENT>
<DOCUMENT>
<TYPE>EX-4
<DESCRIPTION>INDENTURE
<TEXT>
<html><body><p> </p></body></html>
</TEXT>
</DOCUMENT>
<DOCUMENT>
<TYPE>EX-21
<TEXT>
<PAGE>   1
SUBSIDIARIES      STATE
<PAGE>   2
Hammer <B>Ltd</B>        Ohio
</TEXT>
</DOCUMENT>
<DOCUMENT>
<TYPE>EX-99
<TEXT>
<html><body><p>Sales rose.</p></body></html>
</TEXT>
</DOCUMENT>
";

fn pages_of(text: &str) -> (Source, Vec<Page>) {
    let source = read(text.as_bytes(), &Limits::default()).unwrap();
    let SourceBody::Pages(pages) = source.body.clone() else {
        panic!("no pages")
    };
    (source, pages)
}

#[test]
fn a_submission_with_html_is_the_pages_of_its_documents() {
    let (source, pages) = pages_of(MIXED);
    let texts: Vec<String> = pages.iter().map(Page::text).collect();
    let expected = [
        "Item 1. Business",
        "We make tools.",
        "SUBSIDIARIES STATE",
        "Hammer Ltd Ohio",
        "Sales rose.",
    ];
    assert_eq!(texts, expected);
    assert_eq!(source.format, SourceFormat::Html);
    let documents = source.outline.iter().map(|item| {
        let page = item.target.map_or(0, |target| target.page.get());
        format!("{page} {}", item.title)
    });
    let documents: Vec<String> = documents.collect();
    assert_eq!(documents, ["1 10-K", "3 EX-21", "5 EX-99"]);
    assert_eq!(source.metadata["form"], "10-K");
    let unreadable = source
        .defects
        .iter()
        .find(|d| d.code == "edgar.document_unreadable");
    assert_eq!(
        unreadable.unwrap().detail,
        "EX-4 INDENTURE: the file displays no text"
    );
}

#[test]
fn lines_and_links_of_documents_keep_their_places() {
    let moved = MIXED.replacen("<TYPE>10-K", "<TYPE>EX-1\n<TEXT>\n<html><p>First.</p></html>\n</TEXT>\n</DOCUMENT>\n<DOCUMENT>\n<TYPE>10-K", 1);
    for file in [MIXED, &moved] {
        let (source, pages) = pages_of(file);
        for line in pages.iter().flat_map(|page| &page.lines) {
            if let Some(bytes) = line.bytes {
                let start = bytes.start as usize;
                assert!(file[start..].starts_with(&line.text), "{}", line.text);
            }
        }
        let [link] = source.links.as_slice() else {
            panic!("{:?}", source.links)
        };
        assert_eq!(link.target.page.get(), link.page.get() + 1);
        assert_eq!(pages[link.target.page.index()].text(), "We make tools.");
    }
}

#[test]
fn pages_of_a_submission_are_limited_as_a_whole() {
    let limits = Limits {
        max_pages: 3,
        ..Limits::default()
    };
    let source = read(MIXED.as_bytes(), &limits).unwrap();
    assert_eq!(source.extent().size(), 3);
    let codes: Vec<&str> = source.defects.iter().map(|d| d.code.as_str()).collect();
    assert!(codes.contains(&"limits.pages"), "{codes:?}");
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
