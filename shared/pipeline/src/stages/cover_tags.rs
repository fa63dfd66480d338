//! What a filing with inline XBRL declares about itself: the facts of its cover. No page shows most of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use stemma_document::FactDefinition;
use stemma_xbrl::{FactTable, FactValue, TaggedFact};

/// The facts of the cover by their names in the metadata of a source. Those of a part of the company, such as a co-registrant, have
/// dimensions and do not count. Of a fact that is tagged twice, as the auditors of two years are, the first about the last period
/// counts.
pub(super) fn cover_tags(table: &FactTable) -> BTreeMap<String, String> {
    let mut tags = BTreeMap::new();
    let mut facts: Vec<TaggedFact<'_>> = table
        .facts()
        .filter(|fact| fact.dimensions.is_empty())
        .collect();
    facts.sort_by_key(|fact| Reverse(fact.period.end()));
    for fact in facts {
        let mut declared = FactDefinition::ALL.iter().filter_map(|fact| fact.tag);
        let Some(tag) = declared.find(|tag| tag.concept == fact.concept) else {
            continue;
        };
        let value = match fact.value {
            FactValue::Text(text) => text.trim().to_owned(),
            FactValue::Number(number) => number.normalize().to_string(),
            FactValue::Nil | FactValue::Unreadable => continue,
        };
        if !value.is_empty() && !fact.is_cut {
            tags.entry(tag.key.to_owned()).or_insert(value);
        }
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_the_whole_company_about_the_last_period_are_read() {
        let filing = r#"<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" xmlns:xbrli="http://www.xbrl.org/2003/instance"
xmlns:xbrldi="http://xbrl.org/2006/xbrldi"><ix:header><ix:hidden><ix:nonNumeric name="dei:EntityCentralIndexKey" contextRef="part">0000000078</ix:nonNumeric>
<ix:nonNumeric name="dei:EntityCentralIndexKey" contextRef="all">0000000077</ix:nonNumeric>
<ix:nonNumeric name="dei:DocumentFiscalYearFocus" contextRef="before">2023</ix:nonNumeric>
<ix:nonNumeric name="dei:DocumentFiscalYearFocus" contextRef="all">2024</ix:nonNumeric>
<ix:nonNumeric name="dei:AmendmentFlag" contextRef="all">false</ix:nonNumeric></ix:hidden><ix:resources>
<xbrli:context id="all"><xbrli:entity><xbrli:identifier scheme="x">0000000077</xbrli:identifier></xbrli:entity>
<xbrli:period><xbrli:instant>2024-12-31</xbrli:instant></xbrli:period></xbrli:context>
<xbrli:context id="before"><xbrli:entity><xbrli:identifier scheme="x">0000000077</xbrli:identifier></xbrli:entity>
<xbrli:period><xbrli:instant>2023-12-31</xbrli:instant></xbrli:period></xbrli:context>
<xbrli:context id="part"><xbrli:entity><xbrli:identifier scheme="x">0000000077</xbrli:identifier><xbrli:segment>
<xbrldi:explicitMember dimension="dei:LegalEntityAxis">x:PartMember</xbrldi:explicitMember></xbrli:segment></xbrli:entity>
<xbrli:period><xbrli:instant>2024-12-31</xbrli:instant></xbrli:period></xbrli:context></ix:resources></ix:header>
<body><ix:nonNumeric name="dei:EntityRegistrantName" contextRef="all">Acme  Anvils</ix:nonNumeric>
<ix:nonNumeric name="dei:EntityRegistrantName" contextRef="all">Other</ix:nonNumeric></body></html>"#;
        let tags = cover_tags(&stemma_xbrl::read_facts(filing.as_bytes()));
        let expected = [
            ("tags.cik", "0000000077"),
            ("tags.company", "Acme Anvils"),
            ("tags.fiscal_year", "2024"),
        ];
        assert_eq!(
            tags,
            expected
                .map(|(name, value)| (name.into(), value.into()))
                .into()
        );
    }
}
