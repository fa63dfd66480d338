//! Made-up filings with inline XBRL.

use std::fmt::Write;

use stemma_document::{ByteSpan, FilingFacts, GridCell, GridLine, Line, PageNo, SourceBody};
use stemma_store::blobs::Blobs;
use stemma_xbrl::{FactTable, TaggedFact, read_facts};

use super::{pages, publish_with_facts};

/// A filing of one company about a period, with figures in millions.
pub struct InlineFiling<'a> {
    /// Ten digits.
    pub cik: &'a str,
    pub company: &'a str,
    /// The last day of its period.
    pub period_end: &'a str,
    /// Concept, first day (empty for a value at the end of a day), last day, and the number as displayed; in parentheses it
    /// is tagged as negative.
    pub figures: &'a [(&'a str, &'a str, &'a str, &'a str)],
}

impl InlineFiling<'_> {
    pub fn html(&self) -> String {
        let mut contexts = String::new();
        let mut facts = String::new();
        for (at, (concept, from, to, displayed)) in self.figures.iter().enumerate() {
            contexts.push_str(&self.context(&format!("c{at}"), from, to, ""));
            let number = displayed.trim_matches(['(', ')']);
            let sign = match number.len() < displayed.len() {
                true => r#"sign="-" "#,
                false => "",
            };
            let tag = format!(
                r#"<ix:nonFraction name="{concept}" contextRef="c{at}" unitRef="usd" scale="6" decimals="-6" {sign}format="ixt:num-dot-decimal">{number}</ix:nonFraction>"#
            );
            let _ = write!(
                facts,
                "<p>{concept} ${}</p>",
                displayed.replace(number, &tag)
            );
        }
        contexts.push_str(&self.context("cover", "2000-01-01", self.period_end, ""));
        contexts.push_str(&self.context("segment", "2000-01-01", self.period_end, SEGMENT));
        format!(
            r#"<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" xmlns:xbrli="http://www.xbrl.org/2003/instance"
 xmlns:xbrldi="http://xbrl.org/2006/xbrldi" xmlns:ixt="http://www.xbrl.org/inlineXBRL/transformation/2020-02-12">
<div style="display:none"><ix:header><ix:hidden><ix:nonNumeric name="dei:DocumentPeriodEndDate" contextRef="cover">{}</ix:nonNumeric>
</ix:hidden><ix:resources>{contexts}<xbrli:unit id="usd"><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit>
</ix:resources></ix:header></div><p><ix:nonNumeric name="dei:EntityRegistrantName" contextRef="cover">{}</ix:nonNumeric></p>{facts}
<p>Europe <ix:nonFraction name="us-gaap:Revenues" contextRef="segment" unitRef="usd" scale="6" decimals="-6">77</ix:nonFraction></p></html>"#,
            self.period_end, self.company
        )
    }

    fn context(&self, id: &str, from: &str, to: &str, segment: &str) -> String {
        let period = match from {
            "" => format!("<xbrli:instant>{to}</xbrli:instant>"),
            from => format!(
                "<xbrli:startDate>{from}</xbrli:startDate><xbrli:endDate>{to}</xbrli:endDate>"
            ),
        };
        format!(
            r#"<xbrli:context id="{id}"><xbrli:entity><xbrli:identifier scheme="http://www.sec.gov/CIK">{}</xbrli:identifier>{segment}</xbrli:entity><xbrli:period>{period}</xbrli:period></xbrli:context>"#,
            self.cik
        )
    }

    /// Publishes it with these texts as pages; a fact is on the first line that has what it displays. A line with figures is a
    /// row of a table, with a cell for each.
    pub async fn publish(&self, blobs: &dyn Blobs, path: &str, texts: &[&str]) {
        let mut table = read_facts(self.html().as_bytes());
        assert_eq!(table.defects, []);
        let mut body = pages(texts);
        let SourceBody::Pages(read) = &mut body else {
            panic!("pages are pages")
        };
        table.place(|fact| {
            let mut lines = read.iter().enumerate().flat_map(|(page, content)| {
                content
                    .lines
                    .iter()
                    .enumerate()
                    .map(move |(at, line)| (page, at, line))
            });
            let (page, line, _) = lines.find(|(.., line)| line.text.contains(fact.displayed))?;
            Some((Some(PageNo::from_index(page)), u32::try_from(line).ok()?))
        });
        for (number, page) in (0..).zip(read) {
            for (row, line) in (0..).zip(&mut page.lines) {
                let cells = row_cells(line, &table);
                line.grid = (!cells.is_empty()).then(|| {
                    Box::new(GridLine {
                        table: number,
                        row,
                        cells,
                    })
                });
            }
        }
        publish_with_facts(blobs, path, body, FilingFacts::default(), Some(&table)).await;
    }
}

// The label of a line and the figures in it; empty without figures.
fn row_cells(line: &Line, facts: &FactTable) -> Vec<GridCell> {
    let figure = |fact: TaggedFact<'_>| {
        fact.number()?;
        let start = line.text.find(fact.displayed)?;
        Some(GridCell {
            start: u32::try_from(start).ok()?,
            end: u32::try_from(start + fact.displayed.len()).ok()?,
            bytes: Some(ByteSpan {
                start: fact.byte,
                end: fact.end,
            }),
            ..GridCell::default()
        })
    };
    let mut cells: Vec<GridCell> = facts.facts().filter_map(figure).collect();
    cells.sort_by_key(|cell| cell.start);
    if let Some(first) = cells.first() {
        let label = GridCell {
            end: first.start,
            ..GridCell::default()
        };
        cells.insert(0, label);
    }
    for (column, cell) in (0..).zip(&mut cells) {
        cell.column = column;
        cell.columns = 1;
        cell.rows = 1;
    }
    cells
}

const SEGMENT: &str = r#"<xbrli:segment><xbrldi:explicitMember dimension="srt:StatementGeographicalAxis">srt:EuropeMember</xbrldi:explicitMember></xbrli:segment>"#;
