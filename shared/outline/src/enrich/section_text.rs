//! Tokens of sections.

use stemma_document::text::own_lines;
use stemma_document::{Section, SectionId, SectionKind, SectionSpan, SectionTree, Source};

/// Sets `own_tokens` and `tokens` of every section from the tokens of its lines.
pub(super) fn count_tokens(sections: &mut [Section], source: &Source) {
    for section in sections {
        count_tokens(&mut section.children, source);
        let own = own_lines(section, &source.body)
            .iter()
            .fold(0u32, |sum, line| sum.saturating_add(line.tokens));
        section.own_tokens = own;
        section.tokens = section
            .children
            .iter()
            .fold(own, |sum, child| sum.saturating_add(child.tokens));
    }
}

/// Removes a preface of blank lines, so that the tree starts with its first heading.
pub(super) fn drop_blank_preface(tree: &mut SectionTree, source: &Source) {
    if tree.sections.len() > 1
        && tree.sections.first().is_some_and(|section| {
            let declared = section.kind == SectionKind::Preface && section.children.is_empty();
            let text = matches!(section.span, SectionSpan::Lines { .. });
            declared
                && text
                && own_lines(section, &source.body)
                    .iter()
                    .all(|line| line.text.trim().is_empty())
        })
    {
        tree.sections.remove(0);
        let mut id = 0;
        renumber(&mut tree.sections, "", &mut id);
    }
}

fn renumber(sections: &mut [Section], prefix: &str, id: &mut u32) {
    for (index, section) in sections.iter_mut().enumerate() {
        section.id = SectionId(*id);
        section.structure = format!("{prefix}{}", index + 1);
        *id += 1;
        renumber(
            &mut section.children,
            &format!("{}.", section.structure),
            id,
        );
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::text::{full_text, own_text};

    use super::super::fixture::{paged, text_tree, tree};
    use super::*;

    #[test]
    fn own_texts_partition_the_lines() {
        let source = paged(&[
            "cover\nA\nabout a",
            "more a\nA.1\nfirst\nA.2",
            "second\nB\nabout b",
        ]);
        let tree = tree(
            &source,
            &[
                (1, 1, 1, "A"),
                (2, 1, 2, "A.1"),
                (2, 3, 2, "A.2"),
                (3, 1, 1, "B"),
            ],
        );
        let own: Vec<String> = tree
            .walk()
            .map(|(_, section)| own_text(section, &source.body))
            .collect();
        assert_eq!(
            own,
            [
                "cover\nA\nabout a\nmore a",
                "A.1\nfirst",
                "A.2\nsecond",
                "B\nabout b"
            ]
        );
        assert_eq!(
            full_text(&tree.sections[0], &source.body),
            own[..3].join("\n")
        );
    }

    #[test]
    fn position_past_page_end_has_no_text() {
        let source = paged(&["one", "two"]);
        let tree = tree(&source, &[(1, 0, 1, "A"), (1, 99, 1, "B"), (2, 99, 1, "C")]);
        let own: Vec<String> = tree
            .walk()
            .map(|(_, section)| own_text(section, &source.body))
            .collect();
        assert_eq!(own, ["one", "two", ""]);
    }

    #[test]
    fn blank_preface_is_dropped() {
        let (source, mut tree) = text_tree("\n\n# A\ntext\n## B", &[(3, 1, "A"), (5, 2, "B")]);
        drop_blank_preface(&mut tree, &source);
        let lines: Vec<String> = tree
            .walk()
            .map(|(_, s)| format!("{} {} {}", s.id, s.structure, own_text(s, &source.body)))
            .collect();
        assert_eq!(lines, ["0000 1 # A\ntext", "0001 1.1 ## B"]);
        let (source, mut with_preface) = text_tree("intro\n# A", &[(2, 1, "A")]);
        drop_blank_preface(&mut with_preface, &source);
        assert_eq!(with_preface.sections.len(), 2);
    }

    #[test]
    fn tokens_add_up() {
        let source = paged(&["A\none", "A.1\ntwo two"]);
        let mut tree = tree(&source, &[(1, 0, 1, "A"), (2, 0, 2, "A.1")]);
        count_tokens(&mut tree.sections, &source);
        let top = &tree.sections[0];
        // The fixture counts a line's words as its tokens.
        assert_eq!(top.own_tokens, 2);
        assert_eq!(top.tokens, 5);
        assert_eq!(top.children[0].tokens, 3);
    }
}
