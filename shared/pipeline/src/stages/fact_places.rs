//! Where tagged facts are: the page and line of each, by the bytes of lines.

use stemma_document::{PageNo, Source, SourceBody};
use stemma_xbrl::{FactTable, TaggedFact};

// Lines of a table row overlap, so a figure may lie in the bytes of several; more than this are the lines of a text block.
const MAX_CANDIDATES: usize = 64;

struct PlacedLine<'a> {
    start: u32,
    end: u32,
    /// The greatest end of this line and those before.
    reach: u32,
    page: PageNo,
    line: u32,
    text: &'a str,
}

/// Sets page and line of the facts of a document with pages.
pub(super) fn place_facts(table: &mut FactTable, source: &Source) {
    let SourceBody::Pages(pages) = &source.body else {
        return;
    };
    let mut lines: Vec<PlacedLine<'_>> = Vec::new();
    for (page, content) in pages.iter().enumerate() {
        for (line, content) in (0..).zip(&content.lines) {
            lines.extend(content.bytes.map(|bytes| PlacedLine {
                start: bytes.start,
                end: bytes.end,
                reach: bytes.end,
                page: PageNo::from_index(page),
                line,
                text: &content.text,
            }));
        }
    }
    lines.sort_by_key(|line| (line.start, line.page, line.line));
    let mut reach = 0;
    for line in &mut lines {
        reach = reach.max(line.end);
        line.reach = reach;
    }
    table.place(|fact| line_of(fact, &lines).map(|line| (Some(line.page), line.line)));
}

// The first line that has bytes of the fact, or of these the first that has what it displays.
fn line_of<'l, 'a>(
    fact: &TaggedFact<'_>,
    lines: &'l [PlacedLine<'a>],
) -> Option<&'l PlacedLine<'a>> {
    let first = lines.partition_point(|line| line.reach <= fact.byte);
    let candidates = || {
        let near = lines[first..]
            .iter()
            .take_while(|line| line.start < fact.end)
            .filter(|line| line.end > fact.byte);
        near.take(MAX_CANDIDATES)
    };
    candidates()
        .find(|line| !fact.displayed.is_empty() && line.text.contains(fact.displayed))
        .or_else(|| candidates().next())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use stemma_extract::{EncodedSource, ExtractJob, Limits};

    use super::super::{extract_document, extracted};

    const FILING: &str = r#"<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" xmlns:xbrli="http://www.xbrl.org/2003/instance">
<body><div style="display:none"><ix:header><ix:hidden><ix:nonNumeric name="dei:AmendmentFlag" contextRef="c">false</ix:nonNumeric>
</ix:hidden><ix:resources><xbrli:context id="c"><xbrli:entity><xbrli:identifier scheme="x">0000000001</xbrli:identifier></xbrli:entity>
<xbrli:period><xbrli:instant>2024-12-31</xbrli:instant></xbrli:period></xbrli:context><xbrli:unit id="usd">
<xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit></ix:resources></ix:header></div>
<p>Acme Inc. has few words on its first page.</p><hr style="page-break-after:always"/>
<p>Balance sheet</p><table><tr><td>Cash</td><td>$<ix:nonFraction name="us-gaap:Cash" contextRef="c" unitRef="usd" scale="6">12</ix:nonFraction></td></tr>
<tr><td>Assets</td><td>$<ix:nonFraction name="us-gaap:Assets" contextRef="c" unitRef="usd" scale="6">345</ix:nonFraction></td></tr></table>
<p><ix:nonNumeric name="x:Unknown" contextRef="c" format="x:y">a</ix:nonNumeric></p></body></html>"#;

    #[test]
    fn facts_of_a_filing_have_the_page_and_line_where_they_are_shown() {
        let job = ExtractJob::new("a.htm".into(), FILING.into(), None, Limits::default());
        let blobs =
            extracted::split_extracted(Bytes::from(extract_document(job).unwrap())).unwrap();
        let source = EncodedSource::open(blobs.source).unwrap().decode().unwrap();
        assert!(
            source
                .defects
                .iter()
                .any(|defect| defect.code == "xbrl.format_unknown")
        );
        let table = stemma_xbrl::decode_facts(&blobs.facts.unwrap()).unwrap();
        let stemma_document::SourceBody::Pages(pages) = &source.body else {
            panic!("HTML has pages")
        };
        let places = table.facts().map(|fact| {
            let page = fact.page?;
            let line = &pages[page.index()].lines[fact.line? as usize];
            Some((page.get(), line.text.as_str()))
        });
        let places: Vec<Option<(u32, &str)>> = places.collect();
        assert_eq!(
            places[..3],
            [None, Some((2, "Cash $12")), Some((2, "Assets $345"))]
        );
    }

    #[test]
    fn documents_without_facts_are_a_source_alone() {
        for (name, text) in [("a.htm", "<html><p>Cash 12</p></html>"), ("a.md", "# Cash")] {
            let job = ExtractJob::new(name.into(), text.into(), None, Limits::default());
            let blobs =
                extracted::split_extracted(Bytes::from(extract_document(job).unwrap())).unwrap();
            assert_eq!(blobs.facts, None, "{name}");
        }
    }
}
