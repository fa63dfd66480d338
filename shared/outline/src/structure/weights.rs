//! Constants of the rules: what looks like a heading, and how good a place is for an announced section. They were fitted on
//! the development filings with `stemma eval`.
//!
//! Gaps between lines are in font sizes, and count from the usual distance of lines (`LineTable::leading`) where text may be
//! double-spaced.

// Sizes, in points.

/// Titles larger than the body by more are display type.
pub(super) const DISPLAY_TYPE: f32 = 4.0;

// Gaps.

/// The gap of the first line of a page or column.
pub(super) const PAGE_TOP_GAP: f32 = 9.0;
/// A heading over a phrase in capitals, and over text of another style, needs this much space.
pub(super) const SOME_SPACE: f32 = 0.3;
/// Space above an emphasized heading.
pub(super) const EMPHASIS_SPACE: f32 = 0.35;
/// Lines with a smaller gap are lines of one paragraph.
pub(super) const SAME_PARAGRAPH: f32 = 0.4;
/// Space above and below a numbered heading that is set like the text.
pub(super) const NUMBER_SPACE: f32 = 0.45;
/// Lines with a smaller gap belong together; a heading has more space above.
pub(super) const TIGHT: f32 = 0.5;
/// A line continues the paragraph above up to this gap.
pub(super) const FLOWING: f32 = 0.6;
/// A title wraps over a smaller gap.
pub(super) const WRAPPED: f32 = 0.75;
/// A paragraph goes on in lower case over a smaller gap; a label of a table is as close to the rows above.
pub(super) const CLOSE: f32 = 0.9;
/// A row of a table is closer to the label above.
pub(super) const LABEL_GAP: f32 = 1.0;
/// Rows of a table, and lines of one style, are closer than this. A title may be as far below its number.
pub(super) const JOINED: f32 = 1.2;
/// A title is at most as far below its number alone on a line, and its next line below the one before.
pub(super) const TITLE_GAP: f32 = 2.5;
/// Two blank lines.
pub(super) const BLANK_LINES: f32 = 2.0;

/// A phrase fills its line if it ends at most this far left of the next line, in font sizes.
pub(super) const RAGGED_EDGE: f32 = 5.0;

// Lengths, in points.

/// A line ends at the right edge if it ends at most this far left of the next one.
pub(super) const RIGHT_EDGE: f32 = 5.0;
/// Width of a line that may wrap in a narrow column.
pub(super) const NARROW: f32 = 110.0;
/// Width of a line that may wrap over a gap.
pub(super) const WIDE: f32 = 250.0;
pub(super) const PARAGRAPH_WIDTH: f32 = 200.0;
/// A short title may end left of the words below it.
pub(super) const SHORT_TITLE: f32 = 30.0;

// Words.

/// A row that continues a title has at most as many words.
pub(super) const WRAPPED_WORDS: u16 = 22;
/// A longer numbered title, or sentence, is text.
pub(super) const NUMBERED_WORDS: usize = 55;
/// Any other longer title is text.
pub(super) const TITLE_WORDS: usize = 32;
/// A longer sentence is a heading only if others of its style are.
pub(super) const OPEN_WORDS: usize = 9;
/// Shorter titles with a full stop are labels that open a paragraph, not sentences.
pub(super) const SENTENCE_WORDS: usize = 6;
/// As many words on a line are text.
pub(super) const TEXT_WORDS: u16 = 8;
/// As many words outside tables are a paragraph, although its second line is not like the first.
pub(super) const LONG_TEXT_WORDS: u16 = 12;

// Counts and shares.

/// Lines at the top of a page where exhibits are announced and running heads are printed.
pub(super) const PAGE_TOP: usize = 5;
/// Fewer phrases of one look at the start of paragraphs only emphasize.
pub(super) const RUN_INS: usize = 3;
/// More sentences of one style are a list finer than the sections that authors put into outlines, such as risk factors: they
/// only divide sections that are too large.
pub(super) const SERIES: usize = 12;
/// A list of contents in the text has at least as many titles that return later.
pub(super) const LISTED_TITLES: usize = 3;
/// Rows between two entries of a list of contents in the text.
pub(super) const LISTED_ROWS: usize = 4;
/// If more of the lines of a style are in tables, the style marks cells and not headings.
pub(super) const TABLE_SHARE: f32 = 0.4;
/// Above this share, space above a line does not make it a heading either.
pub(super) const MAX_TABLE_SHARE: f32 = 0.8;
/// More unnumbered headings of one style than pages are labels; short documents may have as many in any case.
pub(super) const MIN_DENSE: usize = 24;
/// A style with this share of lines above paragraphs is a style of headings, not of labels.
pub(super) const OVER_TEXT: f32 = 0.9;
/// As `OVER_TEXT`, for HTML: it declares the rows of tables, so labels in them are not candidates. For PDF the lower share
/// costs precision: .61 instead of .68 on half B of `tests/bench/run structure` (outline removed).
pub(super) const HTML_OVER_TEXT: f32 = 0.75;
/// Rows between a section and a sub-section that repeats its title.
pub(super) const REPEATED_ROWS: usize = 3;
/// Titles that are more similar are the same.
pub(super) const REPEATED_TITLE: f32 = 0.9;

// Outside filings.

/// Fewer headings of one style say nothing about the style.
pub(super) const MIN_CAPTIONS: usize = 3;
/// Three headings may follow each other directly: chapter, section, sub-section.
pub(super) const MIN_LABELS: usize = 4;
/// Rows of other columns between a heading and its text.
pub(super) const ROWS_BETWEEN: usize = 6;
/// Lines of a page that show the look of its text.
pub(super) const MIN_TEXT: usize = 3;
/// A heading that holds a larger share of the headings is not a chapter among others.
pub(super) const MOST: f32 = 0.6;
/// Fewer numbered headings are not chapters.
pub(super) const MIN_CHAPTERS: usize = 3;
/// Chapters span a larger share of the rows. Steps of a procedure are numbered like them, but end on the page or two where
/// they begin.
pub(super) const CHAPTERS_SHARE: f32 = 0.15;

// Budget.

/// A short document may have this many headings per page, up to the budget of one with `SHORT_PAGES` pages: the Items of a
/// form and its notes do not get fewer with its pages.
pub(super) const MAX_HEADINGS_PER_PAGE: f32 = 5.0;
pub(super) const SHORT_PAGES: f32 = 100.0;
/// More headings of one style per page are labels of paragraphs.
pub(super) const MAX_STYLE_PER_PAGE: f32 = 2.0;
/// A short document may have this many headings of one style in any case.
pub(super) const MIN_STYLE: usize = 24;
/// A style that is always above paragraphs may exceed the budget by this factor.
pub(super) const ROOM_OVER_TEXT: f32 = 1.5;

// Similarity of titles (0–1).

/// The titles of one section.
pub(super) const SAME_TITLE: f32 = 0.85;
/// The title of an Item, or of a heading that opens a paragraph.
pub(super) const RIGHT_TITLE: f32 = 0.8;
/// The title of an Item behind a number without the word `Item`.
pub(super) const BARE_ITEM_TITLE: f32 = 0.72;
/// The title of a numbered section that opens a paragraph: the number makes it as good as certain.
pub(super) const NUMBERED_TITLE: f32 = 0.95;
/// A line of a paragraph that is not a mere mention of the title.
pub(super) const PROSE_TITLE: f32 = 0.97;
/// No more lines are joined to the title.
pub(super) const WHOLE_TITLE: f32 = 0.98;
/// As `WHOLE_TITLE`, for titles of Items.
pub(super) const WHOLE_ITEM_TITLE: f32 = 0.995;
/// What a line that is joined to a title has to gain, so that a heading does not swallow the line below it.
pub(super) const JOINED_GAIN: f32 = 0.02;
/// What a title of an Item with joined lines reaches at least.
pub(super) const JOINED_TITLE: f32 = 0.5;

// Scores of lines that may be the heading of an announced section. They add up.

/// The number of an Item, and its similar title (times the similarity).
pub(super) const ITEM_NUMBER: f32 = 0.7;
pub(super) const ITEM_TITLE: f32 = 0.6;
/// A PART, which often has no title to compare.
pub(super) const PART_NUMBER: f32 = 0.8;
/// A number without the word `Item`.
pub(super) const BARE_NUMBER: f32 = 0.3;
/// The exact title without a number.
pub(super) const TITLE_ALONE: f32 = 0.1;
/// An exact title in any marked style, or a similar one in bold.
pub(super) const GOOD_HEADING: f32 = 1.35;
/// On Form 10-Q each PART has an Item 1: the same PART counts half a title.
pub(super) const SAME_PART: f32 = 0.5;
/// In a paragraph without the right title: a mention.
pub(super) const MENTION: f32 = -0.7;
/// In a paragraph with a similar title, and in a row of figures.
pub(super) const PROSE: f32 = -0.35;
pub(super) const FIGURES: f32 = -0.2;
/// On the page of the link, next to it, elsewhere.
pub(super) const TARGET_PAGE: [f32; 3] = [2.0, 1.0, -0.6];
/// On the page of the printed label, one page off, two or three, more.
pub(super) const LABEL_PAGE: [f32; 4] = [1.0, 0.6, 0.1, -0.4];
/// A score that no text alone reaches.
pub(super) const ANNOUNCED: f32 = 1.0;
/// The style of the line.
pub(super) const BOLD: f32 = 0.15;
pub(super) const LARGE: f32 = 0.15;
pub(super) const CAPITALS: f32 = 0.08;
pub(super) const SPACE_ABOVE: f32 = 0.08;
/// For a line smaller than the text by more than `SMALL_BY` points.
pub(super) const SMALL_PRINT: f32 = -0.2;
pub(super) const SMALL_BY: f32 = 1.2;
/// Running heads lose most: they repeat real titles word for word.
pub(super) const RUNNING_HEAD: f32 = -0.6;
/// A page number behind the title marks a row of an index.
pub(super) const INDEX_ROW: f32 = -0.4;
