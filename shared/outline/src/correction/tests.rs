use stemma_document::{Collection, DocId, EvidenceSource, Method, SectionTree, SourceFormat};

use super::*;
use crate::structure::fixture::{Doc, line, text};
use crate::structure::{self, StructureSettings};

fn doc_id() -> DocId {
    DocId::new(&Collection::default(), "file:///a.pdf")
}

fn rules_tree(source: &Source) -> SectionTree {
    let draft = structure::outline(source, &StructureSettings::default()).unwrap();
    SectionTree::build(&draft.outline, draft.method, Vec::new())
}

fn corrected_tree(source: &Source, correction: &Correction) -> SectionTree {
    let rules = structure::outline(source, &StructureSettings::default()).unwrap();
    let draft = draft(source, rules, correction).unwrap();
    SectionTree::build(&draft.outline, draft.method, draft.gaps)
}

fn exported(tree: &SectionTree, source: &Source) -> String {
    let correction = Correction::from_tree(tree, source);
    print(&correction, source.extent(), "a", doc_id(), 1)
}

// Without comments and empty lines.
fn headings(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

// The header of an export above `headings`.
fn with_header(headings: &str) -> String {
    format!("# document: {}\n# version: 1\n{headings}", doc_id())
}

fn errors(headings: &str, source: &Source) -> Vec<String> {
    let text = with_header(headings);
    let result = match parse(text.as_bytes(), source.extent()) {
        Err(errors) => Err(errors),
        Ok(read) => check(source, &read.correction, &read.lines),
    };
    let errors = result.err().unwrap_or_default();
    errors
        .into_iter()
        .map(|error| format!("{}: {}", error.line - 2, error.message))
        .collect()
}

fn annual_report() -> Source {
    let mut doc = Doc::new(5);
    doc.section(0, "Overview of the Company");
    doc.section(1, "Results of Operations");
    doc.add(1, line("Segments").bold());
    doc.prose(1, 10.0, 4);
    doc.add(1, line("Segments").bold());
    doc.prose(1, 10.0, 4);
    doc.section(2, "Liquidity and Capital");
    doc.section(3, "Critical Accounting Policies");
    doc.prose(4, 10.0, 8);
    doc.source()
}

#[test]
fn an_export_is_read_back_unchanged() {
    let source = annual_report();
    let tree = rules_tree(&source);
    let text = exported(&tree, &source);
    let read = parse(text.as_bytes(), source.extent()).unwrap();
    assert_eq!(read.correction, Correction::from_tree(&tree, &source));
    assert_eq!((read.doc, read.seq), (doc_id(), 1));
    assert_eq!(check(&source, &read.correction, &read.lines), Ok(()));
    let again = corrected_tree(&source, &read.correction);
    assert_eq!(exported(&again, &source), text);
}

#[test]
fn a_correction_decides_titles_levels_and_pages() {
    let source = annual_report();
    let correction = parse(
        with_header(
            "p. 1 Overview of the Company\n  p. 2 Results of Operations\n    p. 2:15 Segments\n\
             p. 3 (?) Cash\np. 4 Critical Accounting Policies\n",
        )
        .as_bytes(),
        source.extent(),
    )
    .unwrap();
    let result = check(&source, &correction.correction, &correction.lines);
    // The line of the second `Segments` depends on the fixture; the error names it.
    let lines: Vec<u32> = match &source.body {
        stemma_document::SourceBody::Pages(pages) => (1..)
            .zip(&pages[1].lines)
            .filter(|(_, line)| line.text == "Segments")
            .map(|(number, _)| number)
            .collect(),
        stemma_document::SourceBody::Lines(_) => Vec::new(),
    };
    assert_eq!(result, Ok(()), "`Segments` is on lines {lines:?}");
    let tree = corrected_tree(&source, &correction.correction);
    assert_eq!(tree.provenance.method, Method::Person);
    let sections: Vec<_> = tree
        .walk()
        .map(|(depth, section)| (depth, section.title.as_str(), section.verified))
        .collect();
    assert_eq!(
        sections,
        [
            (1, "Overview of the Company", true),
            (2, "Results of Operations", true),
            (3, "Segments", true),
            (1, "Cash", false),
            (1, "Critical Accounting Policies", true),
        ]
    );
    assert!(
        tree.walk()
            .all(|(_, section)| section.evidence == EvidenceSource::Person)
    );
    let SectionSpan::Pages { from, .. } = tree.walk().nth(2).unwrap().1.span else {
        panic!()
    };
    assert_eq!(from.line + 1, lines[1], "the second one was named");
    let text = exported(&tree, &source);
    assert!(headings(&text).contains(&"    p. 2:15 Segments"), "{text}");
    assert!(headings(&text).contains(&"p. 3 (?) Cash"), "{text}");
}

#[test]
fn titles_that_are_not_there_name_line_page_and_place() {
    let source = annual_report();
    let reported = errors(
        "p. 1 Overview of the Company\np. 2 Liquidity and Capital\np. 4 Bananas and Pears\n",
        &source,
    );
    assert_eq!(
        reported,
        [
            "2: `Liquidity and Capital` is not on page 2; page 3 has `Liquidity and Capital`",
            "3: `Bananas and Pears` is not on page 4; write (?) before a title that is not printed",
        ]
    );
    assert_eq!(
        errors("p. 4 Critical Bananas Policies\n", &source),
        [
            "1: `Critical Bananas Policies` is not on page 4; the nearest line there is \
             `Critical Accounting Policies`"
        ]
    );
    let reported = errors(
        "p. 1 Overview of the Company\np. 2 Segments\np. 2 Results of Operations\n",
        &source,
    );
    assert_eq!(
        reported,
        [
            "3: `Results of Operations` is above the heading of line 4; headings follow the order \
             of the document"
        ]
    );
}

#[test]
fn titles_that_are_not_printed_need_a_line_that_exists() {
    let source = annual_report();
    assert_eq!(
        errors("p. 4:900 (?) Cash\n", &source),
        ["1: page 4 has no text on line 900"]
    );
    assert_eq!(
        errors("p. 2 Segments\np. 2 (?) Cash\n", &source),
        [
            "2: `Cash` is above the heading of line 3; headings follow the order of the document; give its line, \
             as in `p. 2:34`"
        ]
    );
}

#[test]
fn malformed_lines_are_reported_with_their_numbers() {
    let source = annual_report();
    let reported = errors(
        "  p. 1 Overview\np. 9 Late\np. 0 Zero\np. 2\np. 2:0 X\n\tp. 2 Tab\n p. 2 Odd\npage 2 Word\np. 2 A\n    p. 2 Jump\np. 3 \u{1}\n",
        &source,
    );
    assert_eq!(
        reported,
        [
            "1: the first heading must not be indented",
            "2: no page 9: the document has 5 pages",
            "3: no page 0: the document has 5 pages",
            "4: no title",
            "5: lines of a page are counted from 1",
            "6: a tab or another control character; indent with two spaces per level",
            "7: indented by 1 spaces; indent with two spaces per level",
            "8: expected `p. 12 Title`",
            "10: level 3 below level 1: a level is left out",
            "11: a tab or another control character; indent with two spaces per level",
        ]
    );
    let extent = source.extent();
    let of = |bytes: &[u8]| parse(bytes, extent).unwrap_err()[0].clone();
    assert_eq!(of(b"# a\np. 1 \xff\n"), LineError::new(2, "not UTF-8"));
    assert_eq!(of(b"").message, "the outline has no headings");
    assert!(of(b"p. 1 Overview\n").message.contains("# document"));
    let long = "p. 1 A\n".repeat(50_001);
    let found = parse(with_header(&long).as_bytes(), extent).unwrap_err();
    assert_eq!(found, [LineError::new(50_001, "more than 50000 lines")]);
    let many = "?\n".repeat(1_000);
    assert_eq!(
        parse(many.as_bytes(), extent).unwrap_err().len(),
        20,
        "a file of another kind"
    );
}

#[test]
fn a_heading_that_repeats_its_parent_is_an_error() {
    let source = annual_report();
    let reported = errors(
        "p. 1 Overview of the Company\n  p. 1 Overview of the Company\n",
        &source,
    );
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].starts_with("2: "), "{reported:?}");
}

#[test]
fn lines_of_a_text_are_checked() {
    let source = text(
        &[
            "# Report",
            "",
            "one",
            "## Results",
            "two",
            "",
            "Costs",
            "three",
        ],
        &[(1, 1, "Report"), (4, 2, "Results")],
    );
    assert_eq!(source.format, SourceFormat::Markdown);
    let tree = rules_tree(&source);
    let text = exported(&tree, &source);
    assert_eq!(headings(&text), ["line 1 Report", "  line 4 Results"]);
    assert!(!text.contains("page"), "{text}");
    let own = "line 1 Report\n  line 4 Results\n  line 7 Costs\n";
    assert_eq!(errors(own, &source), [""; 0]);
    let read = parse(with_header(own).as_bytes(), source.extent()).unwrap();
    let tree = corrected_tree(&source, &read.correction);
    assert_eq!(
        headings(&exported(&tree, &source)),
        headings(&with_header(own))
    );
    assert_eq!(
        errors(
            "line 1 Report\nline 3 Results\nline 4 (?) Findings\n",
            &source
        ),
        ["2: `Results` is not on line 3; line 4 has it"]
    );
    assert_eq!(
        errors(
            "line 1 Report\nline 4 Results\nline 4 (?) Findings\n",
            &source
        ),
        ["3: `Findings` is on the heading of line 4; headings follow the order of the document"]
    );
}

#[test]
fn a_part_of_a_word_is_no_title() {
    let source = text(&["Our costs fell by a third."], &[]);
    assert_eq!(errors("line 1 costs fell\n", &source), [""; 0]);
    assert_eq!(errors("line 1 cost\n", &source).len(), 1);
    assert_eq!(errors("line 1 ell\n", &source).len(), 1);
}

#[test]
fn a_title_like_a_mark_is_escaped() {
    let source = text(
        &["# (?) What", "", "# \\ Backslash"],
        &[(1, 1, "(?) What"), (3, 1, "\\ Backslash")],
    );
    let tree = rules_tree(&source);
    let text = exported(&tree, &source);
    assert_eq!(
        headings(&text),
        ["line 1 \\(?) What", "line 3 \\\\ Backslash"]
    );
    let read = parse(text.as_bytes(), source.extent()).unwrap();
    assert_eq!(read.correction, Correction::from_tree(&tree, &source));
}

#[test]
fn a_heading_that_is_no_longer_found_stays_and_is_recorded() {
    let source = annual_report();
    let correction = Correction {
        headings: vec![CorrectedHeading {
            level: 1,
            at: 2,
            line: None,
            claim: HeadingClaim::Printed,
            title: "Vanished words".into(),
        }],
    };
    let tree = corrected_tree(&source, &correction);
    let gaps: Vec<_> = tree.gaps.iter().map(|gap| gap.code.as_str()).collect();
    assert_eq!(gaps, ["outline.correction_not_found"]);
    assert!(
        tree.walk()
            .any(|(_, section)| section.title == "Vanished words" && !section.verified)
    );
}

#[test]
fn a_heading_that_is_no_longer_found_stays_below_the_one_above_it() {
    let source = annual_report();
    let heading = |level, title: &str| CorrectedHeading {
        level,
        at: 2,
        line: None,
        claim: HeadingClaim::Printed,
        title: title.into(),
    };
    let correction = Correction {
        headings: vec![
            heading(1, "Results of Operations"),
            heading(2, "Segments"),
            heading(3, "Vanished words"),
        ],
    };
    let tree = corrected_tree(&source, &correction);
    let sections: Vec<_> = tree
        .walk()
        .map(|(depth, section)| (depth, section.title.as_str()))
        .filter(|(_, title)| *title != "Preface")
        .collect();
    assert_eq!(
        sections,
        [
            (1, "Results of Operations"),
            (2, "Segments"),
            (3, "Vanished words")
        ]
    );
}
