//! Rules that judge a line by itself and its neighbors: what certainly is text, part of a table or page furniture is
//! not a heading, however it is set.

use stemma_reading::heading_look::{LARGER, LINE_WORDS, PLAIN_WORDS, SAME_SIZE, TitleText};
use stemma_reading::letters::{digit_value, is_caseless, opens_title};
use stemma_reading::sentences::{is_full_stop, is_pause, is_stop};
use stemma_reading::vocabulary::EXHIBIT_COLUMNS;

use super::false_headings::{
    ends_mid_sentence, inside_paragraph, is_boilerplate, labels_table_rows,
};
use super::line_features::{LineFeatures, LineTable};
use super::numbering::{self, NumberClass, TitleNumber};
use super::titles;
use super::weights::{
    EMPHASIS_SPACE, NARROW, NUMBER_SPACE, PAGE_TOP, RIGHT_EDGE, SAME_PARAGRAPH, SOME_SPACE,
    TEXT_WORDS, TIGHT, WRAPPED,
};

/// A line that is set apart from the text.
pub(super) struct LineView<'l> {
    lines: &'l LineTable<'l>,
    at: usize,
    row: &'l LineFeatures<'l>,
    next: Option<&'l LineFeatures<'l>>,
    number: Option<TitleNumber<'l>>,
    letters: usize,
    /// Has letters of a script without capitals.
    is_caseless: bool,
    is_emphasized: bool,
}

type LineRule = (&'static str, fn(&LineView<'_>) -> bool);

/// What drops a line, from cheap to expensive. The last rule judges the look: size, weight, case or slant.
const LINE_RULES: &[LineRule] = &[
    ("running_head", |line| line.row.running),
    ("prose", |line| line.row.prose),
    ("footnote_mark", |line| line.row.marked),
    ("table_row", |line| {
        let row = line.row;
        (row.table || row.declared_row || row.cells >= 3 || row.figures) && !row.titled
    }),
    ("exhibit_list_head", |line| heads_exhibits(line.row)),
    ("no_words", |line| {
        // A word of two letters is short only in scripts whose letters are few.
        let few = if line.is_caseless { 2 } else { 3 };
        line.letters < few || line.row.words == 0
    }),
    ("long_line", |line| line.row.words as usize > LINE_WORDS),
    ("figure_caption", |line| line.has_class(NumberClass::Figure)),
    // An exhibit heading begins a page; elsewhere the line is an entry of a list.
    ("exhibit_entry", |line| {
        let page = line.lines.rows_on(line.row.page as usize);
        line.has_class(NumberClass::Exhibit) && line.at > page.start + PAGE_TOP
    }),
    ("no_title_start", |line| !line.starts_title()),
    ("open_sentence", |line| line.is_open_sentence()),
    ("boilerplate", |line| is_boilerplate(line.row)),
    ("below_signature", |line| {
        is_below_signature(line.lines, line.at)
    }),
    ("inside_paragraph", |line| {
        inside_paragraph(line.lines, line.at)
    }),
    // The first line of a paragraph that is set in another size.
    ("paragraph_start", |line| {
        let is_marked = line.row.bold || line.is_emphasized || line.row.caps;
        !is_marked
            && line.next.is_some_and(|next| {
                next.prose && next.gap < SAME_PARAGRAPH && LineTable::same_style(line.row, next)
            })
    }),
    // A cell in the head of a table.
    ("table_head", |line| {
        line.next
            .is_some_and(|next| next.gap < -SOME_SPACE && next.table && next.x0 < line.row.x0)
    }),
    ("table_label", |line| {
        !line.lines.body.is_large(line.row.size)
            && line.number.is_none()
            && labels_table_rows(line.lines, line.at)
    }),
    ("weak_look", |line| {
        !line.has_strong_look() && !is_plain_numbered(line.lines, line.at)
    }),
];

/// Whether size, weight, case, slant or a number sets a line apart from the text.
pub(super) fn stands_out(lines: &LineTable<'_>, at: usize) -> bool {
    let row = &lines.rows[at];
    lines.body.sets_apart(row.look()) || row.caps || is_plain_numbered(lines, at)
}

/// The first rule that drops a line.
pub(super) fn rule_against_line(lines: &LineTable<'_>, at: usize) -> Option<&'static str> {
    let line = LineView::new(lines, at);
    let (name, _) = LINE_RULES.iter().find(|(_, drops)| drops(&line))?;
    Some(*name)
}

impl<'l> LineView<'l> {
    fn new(lines: &'l LineTable<'_>, at: usize) -> Self {
        let row = &lines.rows[at];
        Self {
            lines,
            at,
            row,
            next: lines.next_on_page(at),
            number: numbering::first_number(row.text),
            letters: TitleText::new(row.text).letters,
            is_caseless: row.text.contains(is_caseless),
            is_emphasized: lines.body.is_emphasized(row.emphasis),
        }
    }

    fn has_class(&self, class: NumberClass) -> bool {
        self.number.is_some_and(|number| number.class == class)
    }

    fn starts_title(&self) -> bool {
        let text = self.row.text;
        // Where no script of the line has capitals, figures in front say nothing.
        let words = text.trim_start_matches(|c: char| {
            digit_value(c).is_some() || c.is_whitespace() || matches!(c, '.' | '-' | '(' | ')')
        });
        self.number.is_some()
            || text.starts_with(|c: char| opens_title(c) || matches!(c, '“' | '"' | '‘' | '«'))
            || words.starts_with(is_caseless)
            || is_yeared(text)
    }

    /// Whether the line ends inside a sentence that is not a title of more lines.
    fn is_open_sentence(&self) -> bool {
        let row = self.row;
        let wraps = self.next.is_some_and(|next| {
            next.gap < WRAPPED + self.lines.leading && LineTable::same_style(row, next)
        });
        let is_heavy = row.bold || self.is_emphasized;
        ends_mid_sentence(row)
            && !(wraps && is_heavy)
            && !((is_heavy || row.caps) && opens_text(self.lines, self.at, self.at))
    }

    fn has_strong_look(&self) -> bool {
        let row = self.row;
        let is_small = self.lines.body.is_small(row.size);
        // A heading may be smaller than the body text if it is above small print of its own size.
        let is_bold = self.lines.body.is_bold(row.bold)
            && (!is_small
                || self.next.is_some_and(|next| {
                    next.prose && !next.bold && next.size < row.size + SAME_SIZE
                }));
        let is_caps = row.caps && !is_small && row.gap > SOME_SPACE && self.letters >= 5;
        let is_slanted = self.is_emphasized
            && (row.words as usize <= PLAIN_WORDS || self.number.is_some())
            && row.gap > EMPHASIS_SPACE
            && !is_small;
        self.lines.body.is_large(row.size) || is_bold || is_caps || is_slanted
    }
}

/// Whether the row is the name below a signature.
fn is_below_signature(lines: &LineTable<'_>, at: usize) -> bool {
    let signature = lines.above_on_page(at).map_or("", |above| above.text);
    let signer = signature.rsplit_once("/s/").map_or("", |(_, name)| name);
    let signer = titles::normalize_key(signer);
    !signer.is_empty() && lines.rows[at].key.starts_with(&signer)
}

/// Whether the row is the head of a list of exhibits: `Exhibit No.` and `Description`.
fn heads_exhibits(row: &LineFeatures<'_>) -> bool {
    row.cells >= 2 && EXHIBIT_COLUMNS.contains(&titles::normalize_key(row.first_cell))
}

/// Whether a bold or emphasized sentence is alone above a paragraph of another style.
pub(super) fn opens_text(lines: &LineTable<'_>, first: usize, last: usize) -> bool {
    let row = &lines.rows[last];
    let has_paragraph_below = lines.next_on_page(last).is_some_and(|next| {
        let is_apart = (next.prose || next.words >= TEXT_WORDS)
            && next.cells == 1
            && next.gap > SOME_SPACE + lines.leading;
        is_apart && !LineTable::same_style(row, next)
    });
    has_paragraph_below
        && (row.bold || lines.body.is_emphasized(row.emphasis))
        && row.text.ends_with(is_full_stop)
        && lines.rows[first].gap > TIGHT + lines.leading
}

/// Whether the line above or below has the number before or after. Without capitals, nothing else tells a title from a step.
fn is_between_steps(lines: &LineTable<'_>, at: usize, number: TitleNumber<'_>) -> bool {
    let number_of = |at: usize| numbering::first_number(lines.rows.get(at)?.text);
    let above = at.checked_sub(1).and_then(number_of);
    let below = number_of(at + 1);
    above.is_some_and(|above| above.precedes(&number))
        || below.is_some_and(|below| number.precedes(&below))
}

/// `2023 financial results`: a year and words.
fn is_yeared(text: &str) -> bool {
    let year = text.get(..4).is_some_and(|year| {
        year.starts_with(['1', '2']) && year.bytes().all(|b| b.is_ascii_digit())
    });
    year && text[4..].starts_with(' ') && text[4..].trim_start().starts_with(char::is_alphabetic)
}

/// Whether a line set like the text is a numbered heading.
// Rules and contracts set headings like their text. A number alone would admit every list, so the line must also be short,
// in title case, without closing punctuation and with space above (and below, unless a word like `Chapter` precedes).
fn is_plain_numbered(lines: &LineTable<'_>, at: usize) -> bool {
    let row = &lines.rows[at];
    let fits = row.words as usize <= PLAIN_WORDS
        && row.gap > NUMBER_SPACE
        && row.size > lines.body.size() - LARGER
        && !row
            .text
            .ends_with(|c: char| is_stop(c) && !matches!(c, '?' | '!') || is_pause(c) || c == ':');
    if !fits {
        return false;
    }
    let number = numbering::first_number(row.text);
    let Some(number) = number.filter(|number| !number.rest.is_empty()) else {
        return false;
    };
    let next = lines.next_on_page(at);
    // `3.6 Why Models Fail` may go on in the next line; the space comes below that one.
    let wraps = matches!(number.class, NumberClass::Decimal(2..))
        && next.is_some_and(|next| {
            let is_full = row.x1 > next.x1 - RIGHT_EDGE && row.x1 - row.x0 > NARROW;
            let is_short = next.words <= TEXT_WORDS && next.x0 >= row.x0 - 1.0;
            is_full && is_short && next.gap < SAME_PARAGRAPH
        })
        && lines
            .next_on_page(at + 1)
            .is_some_and(|after| after.gap > NUMBER_SPACE);
    let worded = matches!(
        number.class,
        NumberClass::Chapter
            | NumberClass::Article
            | NumberClass::Appendix
            | NumberClass::CjkChapter
            | NumberClass::CjkSection
    );
    number.rest.starts_with(opens_title)
        && !(number.rest.starts_with(is_caseless) && is_between_steps(lines, at, number))
        && (worded || wraps || next.is_none_or(|next| next.gap > NUMBER_SPACE))
        && TitleText::new(number.rest).is_title_case()
}
