//! Made-up filings with inline XBRL.

use std::fmt::Write;

use stemma_document::{FilingFacts, PageNo, SourceBody};
use stemma_engine::blobs::Blobs;
use stemma_xbrl::read_facts;

use super::{pages, publish_with_facts};

/// A filing of one company about a period, with figures in millions.
pub struct InlineFiling<'a> {
    /// Ten digits.
    pub cik: &'a str,
    pub company: &'a str,
    /// The last day of its period.
    pub period_end: &'a str,
    /// Concept, first day (empty for a value at the end of a day), last day, and the number as displayed.
    pub figures: &'a [(&'a str, &'a str, &'a str, &'a str)],
}

impl InlineFiling<'_> {
    pub fn html(&self) -> String {
        let mut contexts = String::new();
        let mut facts = String::new();
        for (at, (concept, from, to, displayed)) in self.figures.iter().enumerate() {
            contexts.push_str(&self.context(&format!("c{at}"), from, to, ""));
            let _ = write!(
                facts,
                r#"<p>{concept} $<ix:nonFraction name="{concept}" contextRef="c{at}" unitRef="usd" scale="6" decimals="-6" format="ixt:num-dot-decimal">{displayed}</ix:nonFraction></p>"#
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

    /// Publishes it with these texts as pages; a fact is on the first line that has what it displays.
    pub async fn publish(&self, blobs: &dyn Blobs, path: &str, texts: &[&str]) {
        let mut table = read_facts(self.html().as_bytes());
        assert_eq!(table.defects, []);
        let body = pages(texts);
        let SourceBody::Pages(read) = &body else {
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
        publish_with_facts(blobs, path, body, FilingFacts::default(), Some(&table)).await;
    }
}

const SEGMENT: &str = r#"<xbrli:segment><xbrldi:explicitMember dimension="srt:StatementGeographicalAxis">srt:EuropeMember</xbrldi:explicitMember></xbrli:segment>"#;
