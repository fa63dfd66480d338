//! Splits the lines of a section into sentences, labels of table rows and inner headings.

use std::collections::HashSet;

use stemma_document::Line;
use stemma_document::english_words::MONTHS;
use stemma_document::text::BodyLine;
use stemma_reading::document_reading::LineReadings;
use stemma_reading::heading_look::TitleText;
use stemma_reading::lines::LineKind;
use stemma_reading::page_features::is_figure;
use stemma_reading::sentences::{CLOSING, is_stop, sentence_ranges};
use stemma_reading::terms::is_cjk;
use stemma_reading::vocabulary::{COLUMN_HEAD_WORDS, OPEN_ENDS};

// Limits per section; a summary of 60 words needs no more.
const MAX_BYTES: usize = 200_000;
const MAX_SENTENCES: usize = 1_500;
const MAX_LABELS: usize = 200;

/// Content of a section by kind.
#[derive(Debug, Default)]
pub(super) struct ProseContent {
    /// In reading order.
    pub(super) sentences: Vec<ProseSentence>,
    /// Distinct first cells of table rows, without figures.
    pub(super) labels: Vec<String>,
    /// Distinct headings inside the section that are not sections.
    pub(super) headings: Vec<String>,
}

/// A sentence with its lines joined.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProseSentence {
    pub(super) text: String,
    /// Starts like a sentence and ends with a full stop.
    pub(super) is_complete: bool,
}

/// Reads the lines of a section. `readings`: what they are; `is_known_word`: whether a word occurs elsewhere in the document, to rejoin words
/// hyphenated at line ends.
pub(super) fn read_prose(
    lines: &[BodyLine<'_>],
    readings: &LineReadings,
    is_known_word: &dyn Fn(&str) -> bool,
) -> ProseContent {
    let mut reader = ProseReader {
        prose: ProseContent::default(),
        paragraph: String::new(),
        bullet: false,
        labels: HashSet::new(),
        readings,
        is_known_word,
    };
    let mut remaining = MAX_BYTES;
    let mut above: Option<&BodyLine<'_>> = None;
    for line in lines {
        if remaining == 0 || reader.prose.sentences.len() >= MAX_SENTENCES {
            break;
        }
        let text = &line.text[..line.text.floor_char_boundary(remaining)];
        remaining = remaining.saturating_sub(text.len().max(1));
        reader.line(&BodyLine { text, ..*line }, above);
        above = Some(line);
    }
    reader.end_paragraph();
    reader.prose
}

struct ProseReader<'a> {
    prose: ProseContent,
    paragraph: String,
    bullet: bool,
    labels: HashSet<String>,
    readings: &'a LineReadings,
    is_known_word: &'a dyn Fn(&str) -> bool,
}

impl ProseReader<'_> {
    fn line(&mut self, line: &BodyLine<'_>, above: Option<&BodyLine<'_>>) {
        let text = line.text.trim();
        let reading = self.readings.line(line.page, line.number);
        if !text.chars().any(|c| c.is_alphabetic()) {
            // A page number must not end a paragraph that continues on the next page.
            if text.is_empty() && line.page.is_none() {
                self.end_paragraph();
            }
        } else if let Some(label) = reading.label(line.text) {
            self.end_paragraph();
            self.label(row_name(label));
        } else if reading.kind == LineKind::ColumnHead {
            self.end_paragraph();
        } else if is_heading(line, text) {
            self.end_paragraph();
            if !is_column_head(line, text) {
                self.heading(text);
            }
        } else {
            let bullet =
                text.starts_with(BULLETS) || text.starts_with("- ") || text.starts_with("* ");
            if bullet || has_space_above(line, above) {
                self.end_paragraph();
            }
            self.bullet |= bullet;
            let text = if bullet {
                text.trim_start_matches(|c: char| !c.is_alphanumeric())
            } else {
                text
            };
            self.append(text);
        }
    }

    fn label(&mut self, label: &str) {
        if is_date_line(label) {
            return;
        }
        if self.prose.labels.len() < MAX_LABELS && self.labels.insert(label.to_lowercase()) {
            self.prose.labels.push(label.into());
        }
    }

    fn heading(&mut self, text: &str) {
        let text = text.trim_matches(|c: char| !c.is_alphanumeric() && c != ')');
        let letters = text.chars().filter(|c| c.is_alphabetic()).count();
        let words = text.split_whitespace().count();
        let fits = letters >= 4
            && words <= 12
            && is_balanced(text)
            && !is_date_line(text)
            && self.prose.headings.len() < MAX_LABELS;
        if fits && self.labels.insert(text.to_lowercase()) {
            self.prose.headings.push(text.into());
        }
    }

    fn append(&mut self, text: &str) {
        let breaks_word =
            self.paragraph.ends_with('-') && text.starts_with(|c: char| c.is_lowercase());
        let meets_cjk = self.paragraph.ends_with(is_cjk_or_stop) && text.starts_with(is_cjk);
        if breaks_word && self.is_hyphenated_word(text) {
            self.paragraph.pop();
        } else if !breaks_word && !meets_cjk && !self.paragraph.is_empty() {
            self.paragraph.push(' ');
        }
        self.paragraph
            .extend(text.split_whitespace().flat_map(|word| [word, " "]));
        self.paragraph.truncate(self.paragraph.trim_end().len());
    }

    /// Whether the word broken at the line end is one word (`infor-mation`), not a compound (`year-over`).
    fn is_hyphenated_word(&self, text: &str) -> bool {
        let head = self.paragraph.trim_end_matches('-');
        let head = &head[head.trim_end_matches(char::is_alphabetic).len()..];
        let tail = &text[..text.len() - text.trim_start_matches(char::is_alphabetic).len()];
        (self.is_known_word)(&format!("{head}{tail}"))
    }

    fn end_paragraph(&mut self) {
        let paragraph = std::mem::take(&mut self.paragraph);
        let bullet = std::mem::take(&mut self.bullet);
        for range in sentence_ranges(&paragraph) {
            let text = &paragraph[range];
            let starts = text.starts_with(|c: char| {
                !c.is_lowercase() && (c.is_alphanumeric() || "“\"‘'($€£¥「《".contains(c))
            });
            let ends = text.trim_end_matches(CLOSING).ends_with(is_stop);
            let whole = starts && (ends || bullet);
            self.prose.sentences.push(ProseSentence {
                text: text.into(),
                is_complete: whole,
            });
        }
    }
}

const BULLETS: [char; 9] = ['•', '◦', '▪', '■', '●', '–', '·', '►', '✓'];

fn is_cjk_or_stop(c: char) -> bool {
    is_cjk(c) || ('\u{3000}'..='\u{303F}').contains(&c) || ('\u{FF00}'..='\u{FFEF}').contains(&c)
}

/// The name of a row from its label; empty if that is not a name or only half of one.
fn row_name(text: &str) -> &str {
    let figure = text.split_whitespace().find(|word| is_figure(word));
    let end = figure.and_then(|figure| text.find(figure));
    let text = &text[..end.unwrap_or(text.len())];
    let mut label = text.trim_end_matches(|c: char| !c.is_alphanumeric() && c != ')');
    // Footnote marks: `(1)`, `(a)`.
    if let Some(open) = label
        .rfind('(')
        .filter(|open| label.ends_with(')') && label.len() - open <= 4)
    {
        label = label[..open].trim_end_matches(|c: char| !c.is_alphanumeric() && c != ')');
    }
    let letters = label.chars().filter(|c| c.is_alphabetic()).count();
    let last = label.rsplit(' ').next().unwrap_or_default().to_lowercase();
    let goes_on = is_open_word(&last) || !is_balanced(label);
    if letters < 3 || goes_on || label.split_whitespace().count() > 12 {
        ""
    } else {
        label
    }
}

/// Whether no name ends with this word; the rest is on the next line or is a date.
fn is_open_word(word: &str) -> bool {
    OPEN_ENDS.contains(word) || MONTHS.contains(&word)
}

fn wide_gaps(line: &Line) -> usize {
    let gap = 1.5 * line.rect.height().max(1.0);
    line.words
        .windows(2)
        .filter(|pair| pair[1].x0.points() - pair[0].x1.points() > gap)
        .count()
}

/// Whether the line is the head of columns: `Years ended December 31`, `(in millions)`.
fn is_date_line(text: &str) -> bool {
    text.split(|c: char| !c.is_alphabetic())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .all(|word| COLUMN_HEAD_WORDS.contains(&word) || MONTHS.contains(&word.as_str()))
}

/// Whether the line is a heading: bold, in capitals, or marked in Markdown.
fn is_heading(line: &BodyLine<'_>, text: &str) -> bool {
    let title = TitleText::new(text);
    let is_marked = line.layout.is_none() && text.starts_with('#');
    let is_bold = line.layout.is_some_and(|line| line.style().bold) && !text.ends_with(is_stop);
    (title.has_no_small_letters() || is_marked || is_bold)
        && !title.is_cut_off()
        && title.is_short()
}

/// Whether a line that looks like a heading is the head of table columns: three cells, or a repeated word.
fn is_column_head(line: &BodyLine<'_>, text: &str) -> bool {
    let words: Vec<&str> = text
        .split_whitespace()
        .filter(|word| word.len() > 2)
        .collect();
    let repeats = words
        .iter()
        .enumerate()
        .any(|(at, word)| words[..at].contains(word) && !is_open_word(word));
    line.layout.is_some_and(|line| wide_gaps(line) >= 2) || repeats
}

/// Whether every bracket is closed; a name that was cut in two often has an open one.
fn is_balanced(text: &str) -> bool {
    text.matches('(').count() == text.matches(')').count()
}

/// Whether space above the line separates it from the paragraph before.
fn has_space_above(line: &BodyLine<'_>, above: Option<&BodyLine<'_>>) -> bool {
    let Some((line, above)) = above
        .filter(|above| above.page == line.page)
        .and_then(|above| line.layout.zip(above.layout))
    else {
        return false;
    };
    line.rect.y0.points() - above.rect.y1.points() > 0.8 * line.rect.height().max(1.0)
}

#[cfg(test)]
mod tests {
    use stemma_document::text::own_lines;
    use stemma_document::{Source, SourceBody};
    use stemma_reading::document_reading::DocumentReading;

    use super::super::fixture::{lines, paged};

    use super::*;

    fn prose_of(source: &Source) -> ProseContent {
        let entries: &[(u32, u32, u16, &str)] = &[];
        let tree = match source.body {
            SourceBody::Pages(_) => super::super::fixture::tree(source, entries),
            SourceBody::Lines(_) => super::super::fixture::tree(source, entries),
        };
        let readings = DocumentReading::new(&source.body).lines;
        let lines = own_lines(&tree.sections[0], &source.body);
        read_prose(&lines, &readings, &|word| word == "information")
    }

    fn complete_sentences(prose: &ProseContent) -> Vec<&str> {
        prose
            .sentences
            .iter()
            .filter(|sentence| sentence.is_complete)
            .map(|sentence| sentence.text.as_str())
            .collect()
    }

    #[test]
    fn sentences_span_lines_and_end_at_stops() {
        let source = paged(&[
            "The U.S. unit of Acme Inc. sold\nmore infor-\nmation year-over-\nyear (up 5.5%). It grew! Sales fell",
        ]);
        let prose = prose_of(&source);
        assert_eq!(
            complete_sentences(&prose),
            [
                "The U.S. unit of Acme Inc. sold more information year-over-year (up 5.5%).",
                "It grew!"
            ]
        );
        assert_eq!(prose.sentences.last().map(|s| s.is_complete), Some(false));
    }

    #[test]
    fn chinese_sentences_end_at_cjk_stops() {
        let source = paged(&[
            "公司营业收入增长百分之十二。净利润为三亿元；研发投入",
            "增加。",
        ]);
        assert_eq!(
            complete_sentences(&prose_of(&source)),
            [
                "公司营业收入增长百分之十二。",
                "净利润为三亿元；",
                "研发投入增加。"
            ]
        );
    }

    #[test]
    fn table_rows_give_labels_and_no_sentences() {
        let source = paged(&[
            "Sales rose.\nNet sales $ 3,226 $ 2,729\nGross profit 37.6% 39.6%\nGoodwill - -\n2023 2022\nThey fell.",
        ]);
        let prose = prose_of(&source);
        assert_eq!(complete_sentences(&prose), ["Sales rose.", "They fell."]);
        assert_eq!(prose.labels, ["Net sales", "Gross profit", "Goodwill"]);
    }

    #[test]
    fn row_labels_exclude_figures() {
        let page = "Preferred stock, 2,000 issued ....... 5 5\nGoodwill, net (a) ...... 1 2\nBalance at December 31 $ 7 $ 8\n\
            Gross profit as a 37.6% 39.6%\nOther (income 3 4\nItem 16. 1 2";
        assert_eq!(
            prose_of(&paged(&[page])).labels,
            ["Preferred stock", "Goodwill, net"]
        );
    }

    #[test]
    fn column_heads_are_not_headings() {
        let source = paged(&[
            "*Domestic sales*\n*Earnings per Earnings per*\n*Packaging million) net*\nSales rose.",
        ]);
        assert_eq!(prose_of(&source).headings, ["Domestic sales"]);
    }

    #[test]
    fn running_heads_do_not_split_sentences() {
        let page = |text: &str, n: usize| {
            format!("Acme annual report {n}\n{text}\nmore words here\nand here\nand there\n{n}")
        };
        let source = paged(&[&page("One", 1), &page("two", 2), &page("three.", 3)]);
        let prose = prose_of(&source);
        assert!(
            prose
                .sentences
                .iter()
                .all(|sentence| !sentence.text.contains("Acme")),
            "{prose:?}"
        );
    }

    #[test]
    fn headings_and_blank_lines_end_paragraphs() {
        let source =
            lines("# Install it\nRun this\n\nThen wait.\n* first thing done\n* second thing");
        assert_eq!(complete_sentences(&prose_of(&source)), ["Then wait."]);
    }
}
