//! Headings of plain text: by numbering, capitals and underlines.
//!
//! Plain text has no markup, so a heading needs several pieces of evidence: its form (`candidates.rs`), its context,
//! and its place in a numbered series (`numbering.rs`). In doubt a line is text, since a missed heading costs less than
//! an invented one.

mod candidates;
mod numbering;

use stemma_document::Heading;

/// The headings of lines of text: numbered lines (`PART I`, `Article IV`, `Section. 2.`, `Item 1A. Risk Factors`, `1.2 Title`,
/// `第一章 总则`), short lines in capitals with blank lines around them, and underlined lines. `is_prose` tells whether a 0-based
/// line may be a heading; `documents` are level-1 headings that contain the others.
pub fn find_headings(
    lines: &[String],
    is_prose: impl Fn(usize) -> bool,
    documents: &[Heading],
) -> Vec<Heading> {
    let is_blank: Vec<bool> = lines.iter().map(|line| line.trim().is_empty()).collect();
    let candidates = candidates::find_candidates(lines, &is_blank, is_prose);
    numbering::select_headings(candidates, &is_blank, documents)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::title;

    fn find(text: &str) -> Vec<Heading> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        find_headings(&lines, |_| true, &[])
    }

    // `line:level:title` of each heading.
    fn headings(text: &str) -> Vec<String> {
        find(text)
            .iter()
            .map(|h| format!("{}:{}:{}", h.line, h.level, h.title))
            .collect()
    }

    #[test]
    fn constitution_headings_are_articles_and_sections() {
        let text = "\
THE CHARTER OF THE REPUBLIC

We the members of this society, in order to keep its papers, do
ordain this charter.

Article. I.

Section. 1.

All powers granted herein shall be vested in a council of members,
which shall meet once a year.

Section. 2.
The council shall be chosen every second year by the members.
No person shall sit who has not been a member for three years.

Article. II.

Section. 1.

The executive power shall be vested in a chair. Section 2 of the old
Section 1 is no heading, and neither is
Section 3 of this paragraph.

Section. 2.

The chair shall keep the papers.
";
        let expected = [
            "1:1:THE CHARTER OF THE REPUBLIC",
            "6:1:Article. I.",
            "8:2:Section. 1.",
            "13:2:Section. 2.",
            "17:1:Article. II.",
            "19:2:Section. 1.",
            "25:2:Section. 2.",
        ];
        assert_eq!(headings(text), expected);
    }

    #[test]
    fn annual_report_headings_are_parts_items_and_notes() {
        let text = "\
Item 1.    Business .......... 3
Item 1A.   Risk Factors ...... 9
Item 2.    Properties ........ 12

PART I

Item 1. Business

We make things for people who need things.

OVERVIEW

We were founded in 1901.

Item 1A. Risk Factors

Things may break. See Item 7 below.

Item 2. Properties.

We own a shed.

PART II

Item 7. Management's Discussion and Analysis of Financial Condition
        and Results of Operations

Sales rose.

NOTE 1 - BASIS OF PRESENTATION

The statements are presented fairly.
";
        let expected = [
            "5:1:PART I",
            "7:2:Item 1. Business",
            "11:3:OVERVIEW",
            "15:2:Item 1A. Risk Factors",
            "19:2:Item 2. Properties.",
            "23:1:PART II",
            "25:2:Item 7. Management's Discussion and Analysis of Financial Condition and Results of Operations",
            "30:3:NOTE 1 - BASIS OF PRESENTATION",
        ];
        assert_eq!(headings(text), expected);
    }

    #[test]
    fn decimal_numbers_nest_and_keep_their_sequence() {
        let text = "\
1. Introduction

Text here.

1.1 Scope

Text here.

1.2 Terms

The following are used:

1. a sentence that goes on and on, as sentences do
2. another one

7. Out of Sequence

Text here.

2. Method

Text here.
";
        assert_eq!(
            headings(text),
            [
                "1:1:1. Introduction",
                "5:2:1.1 Scope",
                "9:2:1.2 Terms",
                "20:1:2. Method"
            ]
        );
    }

    #[test]
    fn lists_tables_and_signatures_are_not_headings() {
        let text = "\
Before you start:

1. Open the box

2. Take the device

3. Close the box

Then proceed as follows.

1. The company shall deliver the goods within thirty days of the order.

2. The buyer shall pay for the goods within thirty days of delivery.

REVENUE            2023      2022
PRODUCTS          1,234     1,111

ACME CORPORATION
12 MAIN STREET
NEW YORK, NEW YORK 10017

By: /s/ JOHN DOE

JOHN DOE
Chief Executive Officer

SIGNED, SEALED AND DELIVERED.
";
        assert_eq!(headings(text), [""; 0]);
    }

    #[test]
    fn underlines_make_headings_but_not_table_rules() {
        let text = "\
The Manual
==========

Words.

First steps
-----------
Words.

Name      Amount
----      ------
Total        12

Amount
------
 1,234
";
        assert_eq!(headings(text), ["1:1:The Manual", "6:2:First steps"]);
    }

    #[test]
    fn chapters_may_be_chinese() {
        let text = "第一章 总则\n\n正文。\n\n第一节 目的\n\n正文。\n\n第二节 范围\n\n正文。\n\n第二章 附则\n\n正文。\n";
        assert_eq!(
            headings(text),
            [
                "1:1:第一章 总则",
                "5:2:第一节 目的",
                "9:2:第二节 范围",
                "13:1:第二章 附则"
            ]
        );
    }

    #[test]
    fn bare_label_absorbs_the_title_below() {
        let text = "ARTICLE I\n\nDEFINITIONS\n\nText.\n\nARTICLE II\n\nTHE MERGER\n\nText.\n";
        assert_eq!(
            headings(text),
            ["1:1:ARTICLE I DEFINITIONS", "7:1:ARTICLE II THE MERGER"]
        );
    }

    #[test]
    fn prose_has_no_headings() {
        let text = "This is prose.\nPart of it goes on\n\nSection 5 of the act applies. Item 2 does not.\n\nI. think so\n";
        assert_eq!(headings(text), [""; 0]);
    }

    // So many that work which grows with the square takes longer than a test may.
    #[test]
    fn many_candidates_are_processed_in_linear_time() {
        for unit in [
            "A. B\n\n",
            "1. A\n\nb\n\n",
            "ABCD EF\n\n",
            "PART I\n\n",
            "X\n---\n\n",
            "1.1 A\n\nb\n\n",
            "ABCD\n",
        ] {
            headings(&unit.repeat(200_000));
        }
        let numbered: String = (1..200_000)
            .map(|n| format!("{n}. Title\n\ntext\n\n"))
            .collect();
        assert_eq!(headings(&numbered).len(), 999, "numbers end at 999");
    }

    proptest! {
        #[test]
        fn heading_lines_rise_and_exist(text in prop::collection::vec("(PART I|Section 1\\.|1\\. A|2\\. B|TITLE|---|<PAGE>|<TEXT>|<a|text\\.|第一章|\\PC{0,9})(\n|\n\n| )", 0..40)) {
            let text = text.concat();
            let headings = find(&text);
            let lines: Vec<u32> = headings.iter().map(|heading| heading.line).collect();
            prop_assert!(lines.is_sorted_by(|a, b| a < b), "{lines:?}");
            prop_assert!(lines.iter().all(|line| (1..=text.lines().count()).contains(&(*line as usize))));
            prop_assert!(headings.iter().all(|h| h.level >= 1 && !h.title.is_empty() && title::clean(&h.title) == h.title));
        }
    }
}
