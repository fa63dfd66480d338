//! Outlines of texts without pages: headings from the markup, small ones merged on request, large ones split at paragraphs.

use stemma_document::{
    DraftEntry, EntryVerdict, EvidenceSource, Extent, Gap, Heading, LocatedEntry, Method,
    OutlineError, SectionStart, TextLines, VerifiedOutline,
};

use super::oversized_sections::RowTokens;
use super::{Draft, StructureSettings, statements, text_items};

/// A heading or a numbered part of a large section.
#[derive(Debug, Clone)]
struct MarkupNode {
    line: u32,
    level: u16,
    title: String,
    part: bool,
}

pub(super) fn outline(
    extent: Extent,
    text: &TextLines,
    is_submission: bool,
    settings: &StructureSettings,
) -> Result<Draft, OutlineError> {
    let counts = text.lines.iter().enumerate().map(|(at, line)| {
        let counted = text.tokens.get(at).copied();
        counted.unwrap_or_else(|| u32::try_from(line.len() / 4 + 1).unwrap_or(u32::MAX))
    });
    let tokens = RowTokens::new(counts);

    let headings = text_items::add_items(&text.headings, &text.lines, is_submission);
    let mut nodes = nest_headings(&headings, text.lines.len());
    if settings.thin_below_tokens > 0 {
        nodes = merge_small(nodes, &tokens, end_of(text), settings.thin_below_tokens);
    }
    let nodes = split_leaves(&nodes, text, &tokens, settings.max_tokens_per_node);
    let gaps = parts_gap(&nodes);
    Ok(Draft {
        outline: VerifiedOutline::new(extent, nodes.into_iter().map(located_entry).collect())?,
        method: Method::Markup,
        labels: Vec::new(),
        gaps,
        cross_index: Vec::new(),
    })
}

/// The line behind the last, from 1.
fn end_of(text: &TextLines) -> u32 {
    u32::try_from(text.lines.len() + 1).unwrap_or(u32::MAX)
}

/// Levels without gaps: a skipped level nests under the nearest higher heading. Headings outside the text are dropped.
fn nest_headings(headings: &[Heading], lines: usize) -> Vec<MarkupNode> {
    let mut stack: Vec<u16> = Vec::new();
    let mut nodes: Vec<MarkupNode> = Vec::with_capacity(headings.len());
    for heading in headings
        .iter()
        .filter(|heading| (1..=lines).contains(&(heading.line as usize)))
    {
        while stack.last().is_some_and(|top| *top >= heading.level) {
            stack.pop();
        }
        stack.push(heading.level);
        let level = u16::try_from(stack.len()).unwrap_or(u16::MAX);
        nodes.push(MarkupNode {
            line: heading.line,
            level,
            title: heading.title.clone(),
            part: false,
        });
    }
    nodes.sort_by_key(|node| node.line);
    let titles: Vec<&str> = nodes.iter().map(|node| node.title.as_str()).collect();
    let mut levels: Vec<u16> = nodes.iter().map(|node| node.level).collect();
    statements::nest_under_index(&titles, &mut levels);
    for (node, level) in nodes.iter_mut().zip(levels) {
        node.level = level;
    }
    nodes
}

/// Removes the descendants of every node whose subtree has fewer than `below` tokens.
fn merge_small(
    nodes: Vec<MarkupNode>,
    tokens: &RowTokens,
    end: u32,
    below: u32,
) -> Vec<MarkupNode> {
    let ends = subtree_ends(&nodes, end);
    let mut remaining: Vec<MarkupNode> = Vec::with_capacity(nodes.len());
    let mut inside: Option<u32> = None;
    for (node, end) in nodes.into_iter().zip(ends) {
        if inside.is_some_and(|until| node.line < until) {
            continue;
        }
        inside = (tokens.between(node.line, end) < u64::from(below)).then_some(end);
        remaining.push(node);
    }
    remaining
}

/// The line behind each node's subtree.
fn subtree_ends(nodes: &[MarkupNode], end: u32) -> Vec<u32> {
    let mut ends = vec![end; nodes.len()];
    let mut open: Vec<usize> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        while let Some(top) = open
            .last()
            .copied()
            .filter(|top| nodes[*top].level >= node.level)
        {
            ends[top] = node.line;
            open.pop();
        }
        open.push(at);
    }
    ends
}

/// Splits leaves over `limit` tokens at empty lines into numbered parts.
fn split_leaves(
    nodes: &[MarkupNode],
    text: &TextLines,
    tokens: &RowTokens,
    limit: u32,
) -> Vec<MarkupNode> {
    let mut all: Vec<MarkupNode> = Vec::with_capacity(nodes.len());

    for at in 0..nodes.len() {
        let node = &nodes[at];
        let next = nodes.get(at + 1);
        let end = next.map_or(end_of(text), |next| next.line);
        all.push(node.clone());
        let leaf = next.is_none_or(|next| next.level <= node.level);
        if leaf && tokens.between(node.line, end) > u64::from(limit) {
            all.extend(split_into_parts(node, end, text, tokens, limit));
        }
    }
    all
}

fn split_into_parts(
    node: &MarkupNode,
    end: u32,
    text: &TextLines,
    tokens: &RowTokens,
    limit: u32,
) -> Vec<MarkupNode> {
    let mut starts = vec![node.line];
    let mut last_break = node.line;
    for line in node.line + 1..end {
        let start = starts.last().copied().unwrap_or(node.line);
        let blank_above = text
            .lines
            .get(line as usize - 2)
            .is_some_and(|above| above.trim().is_empty());
        if blank_above {
            last_break = line;
        }
        if tokens.between(start, line + 1) > u64::from(limit) {
            // Cut at the last paragraph, or right here if that paragraph alone is too long.
            let cut = if last_break > start { last_break } else { line };
            starts.push(cut);
        }
    }
    if starts.len() < 2 {
        return Vec::new();
    }
    starts
        .iter()
        .enumerate()
        .map(|(at, line)| MarkupNode {
            line: *line,
            level: node.level.saturating_add(1),
            title: format!("{} (part {})", node.title, at + 1),
            part: true,
        })
        .collect()
}

fn parts_gap(nodes: &[MarkupNode]) -> Vec<Gap> {
    let count = nodes.iter().filter(|node| node.part).count();
    if count == 0 {
        return Vec::new();
    }
    vec![Gap {
        code: "structure.parts".into(),
        pages: None,
        detail: format!("sections without sub-headings were split into {count} numbered parts"),
    }]
}

fn located_entry(node: MarkupNode) -> (LocatedEntry, EntryVerdict) {
    let number = super::numbering::leading_number(&node.title);
    let (verdict, evidence) = match node.part {
        true => (EntryVerdict::Declared, EvidenceSource::Window),
        false => {
            let verdict = EntryVerdict::Confirmed { starts_page: true };
            (verdict, EvidenceSource::Markup)
        }
    };
    let entry = DraftEntry {
        number,
        title: node.title,
        label: None,
        target: None,
        level: node.level,
        evidence,
    };
    (
        LocatedEntry {
            entry,
            place: SectionStart::Line(node.line),
        },
        verdict,
    )
}

#[cfg(test)]
mod tests {
    use super::super::fixture::text;
    use super::super::{StructureSettings, outline};
    use stemma_document::{EntryVerdict, SectionStart, Source};

    fn entries(source: &Source, settings: &StructureSettings) -> Vec<(u32, u16, String)> {
        let draft = outline(source, settings).unwrap();
        draft
            .outline
            .entries()
            .iter()
            .map(|e: &stemma_document::VerifiedEntry| match e.located.place {
                SectionStart::Line(line) => {
                    (line, e.located.entry.level, e.located.entry.title.clone())
                }
                SectionStart::Page(_) => panic!("a page in a text"),
            })
            .collect()
    }

    #[test]
    fn skipped_levels_nest_under_shallower_heading() {
        let source = text(
            &["x"; 12],
            &[
                (1, 3, "A"),
                (3, 1, "B"),
                (5, 4, "C"),
                (7, 2, "D"),
                (99, 1, "outside"),
            ],
        );
        let levels: Vec<_> = entries(&source, &StructureSettings::default())
            .into_iter()
            .map(|e| e.1)
            .collect();
        assert_eq!(levels, [1, 1, 2, 2]);
    }

    #[test]
    fn small_subtrees_are_merged() {
        let source = text(
            &["some words"; 20],
            &[(1, 1, "A"), (3, 2, "B"), (5, 1, "C"), (12, 2, "D")],
        );
        let settings = StructureSettings {
            thin_below_tokens: 20,
            ..StructureSettings::default()
        };
        let titles: Vec<_> = entries(&source, &settings)
            .into_iter()
            .map(|e| e.2)
            .collect();
        assert_eq!(titles, ["A", "C", "D"]);
    }

    #[test]
    fn large_leaves_split_into_numbered_parts() {
        let mut lines = vec!["# A"];
        for _ in 0..10 {
            lines.extend(["a paragraph of some length", ""]);
        }
        let source = text(&lines, &[(1, 1, "A")]);
        let settings = StructureSettings {
            max_tokens_per_node: 30,
            ..StructureSettings::default()
        };
        let draft = outline(&source, &settings).unwrap();
        let parts: Vec<_> = draft
            .outline
            .entries()
            .iter()
            .filter(|e| e.verdict == EntryVerdict::Declared)
            .collect();
        assert!(parts.len() >= 2);
        assert_eq!(parts[1].located.entry.title, "A (part 2)");
        for part in &parts[1..] {
            let SectionStart::Line(line) = part.located.place else {
                panic!()
            };
            assert_eq!(lines[line as usize - 2], "");
        }
        assert_eq!(draft.gaps[0].code, "structure.parts");
    }

    #[test]
    fn text_without_headings_has_no_entries() {
        assert!(entries(&text(&["prose"; 5], &[]), &StructureSettings::default()).is_empty());
        assert!(entries(&text(&[], &[(1, 1, "x")]), &StructureSettings::default()).is_empty());
    }
}
