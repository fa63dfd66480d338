//! Where the text blocks of a filing with inline XBRL begin: its notes and accounting policies.

use stemma_xbrl::FactTable;

// Name of the list in the metadata of a source.
const TEXT_BLOCKS: &str = "tags.text_blocks";
// A filing has some hundred blocks.
const MAX_BLOCKS: usize = 10_000;

/// Offsets of the displayed text blocks in the file, in its order, separated by spaces. Blocks of tables begin with captions, and
/// those of the cover and of other reports than the statements inside a text, so that neither says where a section begins.
pub(super) fn text_block_tags(table: &FactTable) -> Option<(String, String)> {
    let blocks = table.facts().filter(|fact| {
        let (prefix, name) = fact.concept.split_once(':').unwrap_or_default();
        let is_table = name.contains("Table") || name.starts_with("ScheduleOf");
        let is_of_statements = !matches!(prefix, "dei" | "cyd" | "ecd");
        let is_block = name.ends_with("TextBlock") && is_of_statements && !is_table;
        is_block && !fact.is_hidden
    });
    let offsets: Vec<String> = blocks
        .take(MAX_BLOCKS)
        .map(|fact| fact.byte.to_string())
        .collect();
    (!offsets.is_empty()).then(|| (TEXT_BLOCKS.to_owned(), offsets.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_blocks_of_the_statements_are_listed() {
        let block = |name: &str| {
            format!("<ix:nonNumeric name=\"{name}\" contextRef=\"c\">x</ix:nonNumeric>")
        };
        let hidden = block("us-gaap:LesseeLeasesPolicyTextBlock");
        let shown = [
            "dei:DocumentsIncorporatedByReferenceTextBlock",
            "us-gaap:RevenueRecognitionPolicyTextBlock",
            "us-gaap:ScheduleOfDebtTableTextBlock",
            "us-gaap:RevenueFromContractWithCustomerTextBlock",
            "us-gaap:Revenues",
        ]
        .map(block);
        let filing = format!(
            "<html xmlns:ix=\"http://www.xbrl.org/2013/inlineXBRL\" xmlns:xbrli=\"http://www.xbrl.org/2003/instance\"><ix:header><ix:hidden>{hidden}</ix:hidden>\
             <ix:resources><xbrli:context id=\"c\"><xbrli:entity><xbrli:identifier scheme=\"x\">7</xbrli:identifier></xbrli:entity><xbrli:period>\
             <xbrli:instant>2024-12-31</xbrli:instant></xbrli:period></xbrli:context></ix:resources></ix:header>{}</html>",
            shown.concat()
        );
        let (name, offsets) = text_block_tags(&stemma_xbrl::read_facts(filing.as_bytes())).unwrap();
        let at = |block: &String| filing.find(block.as_str()).unwrap();
        let expected = format!("{} {}", at(&shown[1]), at(&shown[3]));
        assert_eq!((name.as_str(), offsets), (TEXT_BLOCKS, expected));
    }

    #[test]
    fn filings_without_blocks_have_no_list() {
        assert_eq!(text_block_tags(&FactTable::default()), None);
    }
}
