//! Submissions of every kind that the archive has, made up.

use proptest::prelude::*;

use crate::{FullSubmission, PartKind, SkipReason, is_submission};

const HEADER: &str = "\
<SEC-DOCUMENT>0000000001-01-000002.txt : 20010330
<SEC-HEADER>0000000001-01-000002.hdr.sgml : 20010330
ACCESSION NUMBER:\t\t0000000001-01-000002
CONFORMED SUBMISSION TYPE:\t10-K
PUBLIC DOCUMENT COUNT:\t\t2
FILED AS OF DATE:\t\t20010330

FILER:

\tCOMPANY DATA:\t
\t\tCOMPANY CONFORMED NAME:\t\t\tACME TOOLS INC
\t\tCENTRAL INDEX KEY:\t\t\t0000000077
</SEC-HEADER>
";

const PRIVACY: &str = "\
-----BEGIN PRIVACY-ENHANCED MESSAGE-----
Proc-Type: 2001,MIC-CLEAR
Originator-Name: webmaster@example.gov
Originator-Key-Asymmetric:
 MFgwCgYEVQgBAQICAf8DSgAwRwJAW2sNKK9AVtBzYZmr6aGjlWyK3XmZv3dTINen
MIC-Info: RSA-MD5,RSA,
 KmvU5Z5qk7fjtVUrbmvI373H1DIabgMfcRnAJHYQgap1oAWNDbShgwT7/+uA9Hn7

";

fn part(kind: &str, filename: &str, text: &str) -> String {
    format!(
        "<DOCUMENT>\n<TYPE>{kind}\n<SEQUENCE>1\n<FILENAME>{filename}\n<DESCRIPTION>{kind} OF ACME\n<TEXT>\n{text}\n</TEXT>\n</DOCUMENT>\n"
    )
}

// `type kind text` of each part.
fn parts(file: &str) -> Vec<String> {
    let submission = FullSubmission::parse(file.as_bytes());
    let shown = submission.parts.iter().map(|part| {
        let text = file[part.content.clone()].trim();
        format!("{} {:?} {text}", part.entry.document_type, part.kind)
    });
    shown.collect()
}

fn codes(submission: &FullSubmission) -> Vec<&str> {
    submission.defects.iter().map(|d| d.code.as_str()).collect()
}

#[test]
fn parts_are_found_with_their_bytes() {
    let file = format!(
        "{HEADER}{}{}</SEC-DOCUMENT>\n",
        part("10-K", "a.htm", "<html><p>We make tools.</p></html>"),
        part("EX-21", "b.txt", "Hammer Ltd")
    );
    let submission = FullSubmission::parse(file.as_bytes());
    assert_eq!(
        parts(&file),
        [
            "10-K Html <html><p>We make tools.</p></html>",
            "EX-21 Text Hammer Ltd"
        ]
    );
    assert_eq!(submission.header.form.as_deref(), Some("10-K"));
    assert!(submission.defects.is_empty(), "{:?}", submission.defects);
    for found in &submission.parts {
        assert!(file[found.bytes.clone()].starts_with("<DOCUMENT>"));
        assert!(file[found.bytes.clone()].ends_with("</DOCUMENT>"));
        assert!(file[..found.text.start].ends_with("<TEXT>"));
        assert!(file[found.text.end..].starts_with("</TEXT>"));
        assert_eq!(
            found.entry.description.as_deref(),
            Some(format!("{} OF ACME", found.entry.document_type).as_str())
        );
    }
}

#[test]
fn line_ends_and_the_case_of_tags_do_not_matter() {
    let file = format!("{HEADER}{}", part("10-K", "a.txt", "We make tools."));
    let expected = parts(&file);
    assert_eq!(parts(&file.replace('\n', "\r")), expected);
    assert_eq!(parts(&file.replace('\n', "\r\n")), expected);
    let lower = file
        .replace("DOCUMENT>", "document>")
        .replace("TEXT>", "text>")
        .replace("<TYPE>", "<Type>");
    assert_eq!(parts(&lower), expected);
}

#[test]
fn submissions_are_told_by_their_first_tag() {
    for start in [
        HEADER,
        "<SUBMISSION>\r<ACCESSION-NUMBER>1\r",
        "\u{FEFF}\n<IMS-HEADER>x\n",
        "<DOCUMENT>\n<TYPE>S-3/A\n",
    ] {
        assert!(is_submission(start.as_bytes()), "{start}");
        let private = format!("{PRIVACY}{start}");
        assert!(is_submission(private.as_bytes()) || start.starts_with('\u{FEFF}'));
        let headless = private.split_once('\n').unwrap().1;
        assert!(is_submission(headless.as_bytes()) || start.starts_with('\u{FEFF}'));
    }
    for other in [
        "",
        "<DOCUMENT>\n<p>",
        "<html>",
        "The tag <SEC-DOCUMENT>",
        PRIVACY,
        "-----BEGIN CERTIFICATE-----\nMII",
    ] {
        assert!(!is_submission(other.as_bytes()), "{other}");
    }
}

#[test]
fn parts_for_machines_are_left_out_and_counted() {
    let base64 = format!(
        "{}\n",
        "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2"
    )
    .repeat(9);
    let file = [
        HEADER.to_owned(),
        part(
            "10-K",
            "a.htm",
            "<XBRL>\n<?xml version='1.0'?>\n<html xmlns:ix='x'>A</html>\n</XBRL>",
        ),
        part("EX-99.1", "b.htm", "<html>B</html>"),
        part(
            "EX-101.SCH",
            "a.xsd",
            "<XBRL>\n<?xml version='1.0'?><xs:schema/>\n</XBRL>",
        ),
        part("EX-100.INS", "a-20091231.xml", "<XBRL>\n<xbrl/>\n</XBRL>"),
        part("GRAPHIC", "c.jpg", "begin 644 c.jpg\nM1TE&.#EA\n`\nend"),
        part("COVER", "scan.txt", &base64),
        part(
            "10-K",
            "a.pdf",
            "<PDF>\nbegin 644 a.pdf\nM1TE&\nend\n</PDF>",
        ),
        part("XML", "R1.htm", "<XML>\n<html>1</html>\n</XML>"),
        part(
            "4",
            "owner.xml",
            "<XML>\n<?xml version='1.0'?><ownershipDocument/>\n</XML>",
        ),
        part(
            "XML",
            "FilingSummary.xml",
            "<XML>\n<?xml version='1.0'?><HtmlFileName>R1.htm</HtmlFileName>\n</XML>",
        ),
        part("ZIP", "x.zip", "begin 644 x.zip\nM1TE&\nend"),
        part("JSON", "MetaLinks.json", "{}"),
        part("EX-24", "d.txt", ""),
    ]
    .concat();
    let submission = FullSubmission::parse(file.as_bytes());
    let read: Vec<_> = submission
        .documents()
        .map(|part| (part.entry.document_type.as_str(), part.kind))
        .collect();
    assert_eq!(
        read,
        [
            ("10-K", PartKind::InlineXbrl),
            ("EX-99.1", PartKind::Html),
            ("4", PartKind::Xml)
        ]
    );
    let counts: Vec<_> = submission.skipped().into_iter().collect();
    let expected = [
        (SkipReason::Xbrl, 2),
        (SkipReason::Graphic, 2),
        (SkipReason::Pdf, 1),
        (SkipReason::Data, 2),
        (SkipReason::Viewer, 2),
        (SkipReason::Empty, 1),
    ];
    assert_eq!(counts, expected);
    assert_eq!(submission.parts[9].kind, PartKind::Xml);
    assert_eq!(codes(&submission), ["edgar.parts_skipped"]);
    assert_eq!(
        submission.defects[0].detail,
        "10 parts of the submission are not documents to read and were left out: 2 XBRL, 2 graphic, 1 PDF copy, 2 data, 2 viewer, 1 empty"
    );
    assert_eq!(
        &file[submission.parts[0].content.clone()].trim()[..5],
        "<?xml"
    );
    assert!(file[submission.parts[0].content.end..].starts_with("</XBRL>"));
}

#[test]
fn the_form_is_the_one_of_the_header_or_else_of_the_first_document() {
    let facts = |file: &str| FullSubmission::parse(file.as_bytes()).facts();
    let document = "<DOCUMENT>\n<TYPE>S-1/A\n<TEXT>\nText.\n</TEXT>\n</DOCUMENT>\n";
    assert_eq!(facts(document)["edgar.type"], "S-1/A");
    let exhibit = document.replace("S-1/A", "EX-99.1");
    assert!(!facts(&exhibit).contains_key("edgar.type"));
    let header = "<SEC-HEADER>\nFILER:\n\tCOMPANY DATA:\n\tFILING VALUES:\n\t\tFORM TYPE:\t424B3\n</SEC-HEADER>\n";
    let stated = facts(&format!("{header}{document}"));
    assert_eq!(stated["form"], "424B3");
    assert!(!stated.contains_key("edgar.type"));
}

#[test]
fn tags_inside_a_text_are_text() {
    let text = "<html>\n<svg>\n<text>\n12\n</text>\n</svg>\n<DOCUMENT>\n<p>A tag.\n<TYPE>10-Q\n<TEXT>\n</html>";
    let file = format!(
        "{HEADER}{}{}",
        part("10-K", "a.htm", text),
        part("EX-1", "b.txt", "B")
    );
    assert_eq!(
        parts(&file),
        [format!("10-K Html {text}"), "EX-1 Text B".into()]
    );
}

#[test]
fn missing_documents_are_reported_and_not_invented() {
    let file =
        format!("{HEADER}{}", part("10-K", "a.txt", "A")).replace("COUNT:\t\t2", "COUNT:\t\t160");
    let submission = FullSubmission::parse(file.as_bytes());
    assert_eq!(codes(&submission), ["edgar.documents_missing"]);
    assert_eq!(
        submission.defects[0].detail,
        "the header promises 160 documents, but the file has 1"
    );
}

#[test]
fn files_that_are_cut_off_keep_what_they_have() {
    let file = format!(
        "{HEADER}{}{}",
        part("10-K", "a.txt", "A"),
        part("EX-1", "b.txt", "B and more")
    );
    let whole = FullSubmission::parse(file.as_bytes());
    for end in 0..file.len() {
        let cut = FullSubmission::parse(&file.as_bytes()[..end]);
        assert!(cut.parts.len() <= whole.parts.len());
        for (part, full) in cut.parts.iter().zip(&whole.parts) {
            assert!(full.bytes.start == part.bytes.start && part.bytes.end <= full.bytes.end);
        }
    }
    let cut = &file[..file.find("and more").unwrap()];
    assert_eq!(parts(cut), ["10-K Text A", "EX-1 Text B"]);
    assert_eq!(
        codes(&FullSubmission::parse(cut.as_bytes())),
        ["edgar.truncated"]
    );
    let endless = file.replace("</TEXT>\n</DOCUMENT>\n", "");
    assert_eq!(parts(&endless), ["10-K Text A", "EX-1 Text B and more"]);
    let without_document_ends = file.replace("</DOCUMENT>\n", "");
    assert_eq!(
        parts(&without_document_ends),
        ["10-K Text A", "EX-1 Text B and more"]
    );
    let joined = file.replace("\n</TEXT>", "</TEXT>");
    assert_eq!(parts(&joined), ["10-K Text A", "EX-1 Text B and more"]);
}

#[test]
fn hostile_files_take_linear_time_and_bounded_memory() {
    let many = FullSubmission::parse(&b"<DOCUMENT>\n<TYPE>X\n<TEXT>\n".repeat(100_000));
    assert_eq!(many.parts.len(), 20_000);
    assert_eq!(
        codes(&many)[..2],
        ["edgar.truncated", "edgar.too_many_parts"]
    );
    for unit in [
        &b"</TEXT>\n\n\n\n"[..],
        b"<DOCUMENT>\n\n",
        b"</DOCUMENT>\n",
        b"<<<<<<<<",
        b"COMPANY DATA:\n",
        b"\n",
        b"begin 644 x\n",
    ] {
        let mut file = b"<SEC-HEADER>\n<DOCUMENT>\n<TYPE>X\n<TEXT>\n".to_vec();
        file.extend(unit.repeat(10_000_000 / unit.len()));
        FullSubmission::parse(&file);
        FullSubmission::parse(&unit.repeat(10_000_000 / unit.len()));
    }
}

proptest! {
    #[test]
    fn parts_lie_in_the_file_in_order(words in prop::collection::vec("(<DOCUMENT>|</DOCUMENT>|<TYPE>X|<TEXT>|</TEXT>|<XBRL>|</XBRL>|<PDF>|</pdf>|a: b|<html>|\\PC{0,5})(\n|\r|\r\n| |)", 0..60)) {
        let file = words.concat();
        let submission = FullSubmission::parse(file.as_bytes());
        let mut before = 0;
        for part in &submission.parts {
            prop_assert!(before <= part.bytes.start && part.bytes.start < part.bytes.end && part.bytes.end <= file.len());
            prop_assert!(part.bytes.start <= part.text.start && part.text.start <= part.text.end && part.text.end <= part.bytes.end);
            prop_assert!(part.text.start <= part.content.start && part.content.start <= part.content.end && part.content.end <= part.text.end);
            before = part.bytes.end;
        }
    }

    #[test]
    fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        is_submission(&bytes);
        FullSubmission::parse(&bytes);
    }
}
