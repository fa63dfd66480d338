//! Where a statement names rows by their whole labels. The words of a label say which row is meant, and nothing else: "Increases for tax
//! positions fell" speaks of a fall, and "inventories as a percentage of total liabilities" of no other row.

use std::ops::Range;

use stemma_reading::text_words::{blank, without_parentheses, words};

/// The labels of a statement's operands in its text.
pub(super) struct RowNames<'a> {
    text: &'a str,
    labels: Vec<String>,
    /// For each label the bytes that have it word for word.
    pub(super) spans: Vec<Option<Range<usize>>>,
}

impl<'a> RowNames<'a> {
    /// If labels share words, the longest is found first; equal labels share their place.
    pub(super) fn new(text: &'a str, labels: &[&str]) -> Self {
        let words = words(text);
        let mut spans: Vec<Option<Range<usize>>> = vec![None; labels.len()];
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(labels[*at].len()));
        for at in order {
            let same = (0..labels.len()).find(|other| *other != at && labels[*other] == labels[at]);
            let taken: Vec<Range<usize>> = spans.iter().flatten().cloned().collect();
            let shared = same.and_then(|other| spans[other].clone());
            spans[at] = shared.or_else(|| {
                place_of(labels[at], &words, |span| {
                    taken
                        .iter()
                        .all(|one| one.end <= span.start || span.end <= one.start)
                })
            });
        }
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Self {
            text,
            labels,
            spans,
        }
    }

    /// The text without labels.
    pub(super) fn rest(&self) -> String {
        blank(self.text, self.spans.iter().flatten())
    }

    /// The text without the labels of other rows than that of the operand `at`.
    pub(super) fn rest_for(&self, at: usize) -> String {
        let others = (0..self.labels.len()).filter(|other| self.labels[*other] != self.labels[at]);
        blank(
            self.text,
            others.filter_map(|other| self.spans[other].as_ref()),
        )
    }

    /// Whether a range of the text is inside a label.
    pub(super) fn covers(&self, range: &Range<usize>) -> bool {
        let mut spans = self.spans.iter().flatten();
        spans.any(|span| span.start <= range.start && range.end <= span.end)
    }
}

/// How many words a label has, if the text has all of them in their order; else 0.
pub(super) fn literal_length(label: &str, text: &str) -> usize {
    let words = words(text);
    let place = place_of(label, &words, |_| true);
    place.map_or(0, |span| {
        let inside = words
            .iter()
            .filter(|(_, at)| span.start <= at.start && at.end <= span.end);
        inside.count()
    })
}

fn place_of(
    label: &str,
    text: &[(String, Range<usize>)],
    is_free: impl Fn(&Range<usize>) -> bool,
) -> Option<Range<usize>> {
    let find = |label: &str| {
        let label: Vec<String> = words(label).into_iter().map(|(word, _)| word).collect();
        // `Total debt less cash`: a row that is taken off may begin with the word that says so.
        let label = label
            .strip_prefix(&["less".to_owned()][..])
            .unwrap_or(&label);
        let windows = text.windows(label.len().max(1));
        let mut places = windows
            .filter(|window| window.iter().map(|(word, _)| word).eq(label))
            .map(|window| window[0].1.start..window[window.len() - 1].1.end);
        places.find(&is_free)
    };
    find(label).or_else(|| find(&without_parentheses(label)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_label_is_found_first() {
        let text = "Total assets as a percentage of total assets of segments(1) grew";
        let names = RowNames::new(text, &["Total assets", "Total assets of segments"]);
        let found: Vec<&str> = (names.spans.iter().flatten())
            .map(|span| &text[span.clone()])
            .collect();
        assert_eq!(found, ["Total assets", "total assets of segments"]);
        assert!(!names.rest().contains("assets") && names.rest().contains("grew"));
        assert_eq!(names.rest_for(0).matches("assets").count(), 1);
    }

    #[test]
    fn labels_are_compared_word_for_word() {
        for (label, text, length) in [
            ("Due to affiliates", "Due to affiliates grew", 3),
            ("Due to affiliates", "Due from affiliates grew", 0),
            ("Less: cash", "Debt less cash was", 1),
            ("Additions (net) to plant", "Additions to plant", 3),
            ("Receivables(1)", "Receivables were", 1),
            ("", "x", 0),
        ] {
            assert_eq!(literal_length(label, text), length, "{label} / {text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(label in ".{0,30}", text in ".{0,60}") {
            let names = RowNames::new(&text, &[&label, &text]);
            proptest::prop_assert_eq!(names.rest().len(), text.len());
        }
    }
}
