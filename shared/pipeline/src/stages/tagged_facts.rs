//! The tagged facts of a file: of an HTML filing, or of the primary document of a full submission. A linkbase names them, which
//! is a part of the submission or is next to the file.

use stemma_document::SourceFormat;
use stemma_edgar::{FullSubmission, PartKind, SubmissionPart, is_submission};
use stemma_extract::ExtractJob;
use stemma_xbrl::FactTable;

/// `None` for documents without inline XBRL, and for those that are refused anyway.
pub(super) fn tagged_facts(job: &ExtractJob) -> Option<FactTable> {
    if job.bytes.len() as u64 > job.limits.max_bytes {
        return None;
    }
    let table = if is_submission(&job.bytes) {
        submission_facts(&job.bytes)?
    } else if stemma_extract::detect_format(&job.bytes, &job.name) == Ok(SourceFormat::Html) {
        let mut table = stemma_xbrl::read_facts(&job.bytes);
        if let Some(companion) = job.companion.as_ref().filter(|_| !table.is_empty()) {
            add_labels(&mut table, companion.as_deref());
        }
        table
    } else {
        return None;
    };
    (!table.is_empty() || !table.defects.is_empty()).then_some(table)
}

// The first document with tags is the primary one. Exhibits with tags of their own (fees of an offering) are other facts.
fn submission_facts(bytes: &[u8]) -> Option<FactTable> {
    let submission = FullSubmission::parse(bytes);
    let mut documents = submission.documents();
    let tagged = documents.find(|part| part.kind == PartKind::InlineXbrl)?;
    let mut table = stemma_xbrl::read_facts(&bytes[tagged.content.clone()]);
    table.move_by(u32::try_from(tagged.content.start).ok()?);
    let is_linkbase =
        |part: &&SubmissionPart| part.entry.document_type.eq_ignore_ascii_case("EX-101.LAB");
    if let Some(linkbase) = submission.parts.iter().find(is_linkbase) {
        add_labels(&mut table, Ok(&bytes[linkbase.content.clone()]));
    }
    Some(table)
}

// Adds what a linkbase says; `Err` is why there is none. Facts have the names of their concepts without it.
fn add_labels(table: &mut FactTable, linkbase: Result<&[u8], &String>) {
    let defect = match linkbase {
        Ok(bytes) => {
            let labels = stemma_xbrl::read_labels(bytes);
            table.set_labels(&labels.by_concept);
            labels.defect
        }
        Err(reason) => Some(stemma_xbrl::labels_defect(reason)),
    };
    table.defects.extend(defect);
}

#[cfg(test)]
mod tests {
    use stemma_extract::Limits;

    use super::*;

    const FILING: &str = r#"<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" xmlns:xbrli="http://www.xbrl.org/2003/instance">
<body><div style="display:none"><ix:header><ix:resources><xbrli:context id="c"><xbrli:entity><xbrli:identifier scheme="x">77</xbrli:identifier>
</xbrli:entity><xbrli:period><xbrli:instant>2024-12-31</xbrli:instant></xbrli:period></xbrli:context><xbrli:unit id="usd">
<xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit></ix:resources></ix:header></div><p>Assets of
<ix:nonFraction name="us-gaap:Assets" contextRef="c" unitRef="usd" scale="3">1234</ix:nonFraction></p></body></html>"#;
    const LABELS: &str = r#"<link:linkbase xmlns:link="http://www.xbrl.org/2003/linkbase" xmlns:xlink="http://www.w3.org/1999/xlink">
<link:labelLink><link:loc xlink:href="acme.xsd#us-gaap_Assets" xlink:label="l"/><link:labelArc xlink:from="l" xlink:to="t"/>
<link:label xlink:label="t" xlink:role="http://www.xbrl.org/2003/role/label">Total assets of Acme</link:label></link:labelLink></link:linkbase>"#;

    #[test]
    fn primary_document_of_a_submission_is_read_with_its_labels() {
        let document = |kind: &str, name: &str, text: &str| {
            format!(
                "<DOCUMENT>\n<TYPE>{kind}\n<FILENAME>{name}\n<TEXT>\n{text}\n</TEXT>\n</DOCUMENT>\n"
            )
        };
        let text = [
            "<SEC-DOCUMENT>0000000077-25-000001.txt\n".to_owned(),
            document("EX-1", "x.htm", "<html><p>No tags.</p></html>"),
            document("10-K", "a.htm", &format!("<XBRL>\n{FILING}\n</XBRL>")),
            document(
                "EX-101.LAB",
                "a_lab.xml",
                &format!("<XBRL>\n{LABELS}\n</XBRL>"),
            ),
        ]
        .concat();
        let bytes = text.clone().into_bytes();
        let job = ExtractJob::new("a.txt".into(), bytes, None, Limits::default());
        let table = tagged_facts(&job).unwrap();
        let fact = table.facts().next().unwrap();
        assert_eq!(fact.label, "Total assets of Acme");
        assert_eq!(fact.number().unwrap().to_string(), "1234000");
        let tag = &text[fact.byte as usize..fact.end as usize];
        assert!(tag.starts_with("<ix:nonFraction") && tag.ends_with("</ix:nonFraction>"));
    }

    #[test]
    fn a_label_file_names_facts_or_is_a_defect() {
        let read = |companion| {
            let job = ExtractJob {
                companion,
                ..ExtractJob::new("a.htm".into(), FILING.into(), None, Limits::default())
            };
            let table = tagged_facts(&job).unwrap();
            let label = table.facts().next().unwrap().label.to_owned();
            (label, table.defects)
        };
        let (label, defects) = read(Some(Ok(LABELS.into())));
        assert_eq!((label.as_str(), defects), ("Total assets of Acme", vec![]));
        let (label, defects) = read(Some(Err("there is no such object".into())));
        assert_eq!((label.as_str(), defects.len()), ("Assets", 1));
        assert!(defects[0].detail.contains("no such object"), "{defects:?}");
        let (label, defects) = read(Some(Ok(b"<html>not found</html>".to_vec())));
        assert_eq!((label.as_str(), defects.len()), ("Assets", 1));
        let (label, defects) = read(None);
        assert_eq!((label.as_str(), defects), ("Assets", vec![]));
    }

    #[test]
    fn labels_of_a_page_without_facts_are_not_read() {
        let page = b"<html><p>No tags.</p></html>".to_vec();
        let job = ExtractJob {
            companion: Some(Err("it is gone".into())),
            ..ExtractJob::new("a.htm".into(), page, None, Limits::default())
        };
        assert_eq!(tagged_facts(&job), None);
    }
}
