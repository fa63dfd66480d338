//! Prompt text of sections and pages, and the split of text that is too long for one prompt.

use stemma_document::text::normalize_key;
use stemma_document::{Digest, Page, Section};
use stemma_llm::tokens;
use stemma_reading::sentences::{is_abbreviation, sentence_ranges};
use stemma_store::{Failure, TaskKey};

use crate::FilingTask;

// Bytes of a child's summary in the prompt of its parent: about twelve words, or twenty-six ideographs.
const LEAD_BYTES: usize = 80;
// Bytes of a child's title.
const TITLE_BYTES: usize = 80;
// After a line of this length the next line continues it, even if it begins like a sentence.
const LONG_BYTES: usize = 60;
// Lines with so many words are prose.
const PROSE_WORDS: usize = 5;
// A stretch may end early at a paragraph, within its last quarter.
const SLACK: usize = 4;
/// Tokens reserved in a prompt for instructions, delimiters and child titles.
pub(crate) const PROMPT_OVERHEAD_TOKENS: u32 = 1_000;

/// Digest of the input of a summary: the section's own text, the number of children, and for each child its
/// summary, its text if it is short, or its title.
pub(crate) struct InputDigest(Vec<u8>);

impl InputDigest {
    pub(crate) fn new(own: Digest, parts: usize) -> Self {
        Self([own.as_bytes(), &(parts as u64).to_le_bytes()].concat())
    }

    pub(crate) fn add_part(&mut self, digest: Digest) {
        self.0.extend_from_slice(digest.as_bytes());
    }

    pub(crate) fn finish(self) -> Digest {
        Digest::from_content(&self.0)
    }
}

/// The text of a page without running heads and feet, so that a page keeps its prompt when page numbers
/// change. Known headings (line index and level) stay, and are marked with their levels.
pub(crate) fn page_text(page: &Page, known: &[(u32, u16)]) -> String {
    let mut lines = Vec::with_capacity(page.lines.len());
    for (index, line) in page.lines.iter().enumerate() {
        let level = known.iter().find(|(known, _)| *known as usize == index);
        match level {
            Some((_, level)) => lines.push(format!("[level {level}] {}", line.text)),
            None if line.is_furniture() => {}
            // The text must not mark a line as known.
            None if line.text.trim_start().starts_with("[level ") => {
                lines.push(line.text.replacen('[', "(", 1));
            }
            None => lines.push(line.text.clone()),
        }
    }
    lines.join("\n")
}

pub(crate) fn title_digest(title: &str, text: &str) -> Digest {
    Digest::from_content(format!("{}:{title}{text}", title.len()).as_bytes())
}

/// A text under its title. The title is not repeated if the text begins with it.
pub(crate) fn with_title(title: &str, text: &str) -> String {
    let beginning: String = text.chars().take(2 * title.chars().count()).collect();
    let text = rejoin_lines(text);
    match normalize_key(&beginning).starts_with(&normalize_key(title)) {
        true => text,
        false => format!("{title}\n{text}"),
    }
}

// Joins the lines of a sentence, since each line break costs a token. Headings, tables and ends of sentences
// keep their lines.
fn rejoin_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut last = "";
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            joined.push(if continues_on(last, line) { ' ' } else { '\n' });
        }
        joined.push_str(line);
        last = line;
    }
    joined
}

// Whether a sentence continues on the next line.
fn continues_on(line: &str, next: &str) -> bool {
    let open = line.ends_with(|c: char| c.is_ascii_alphanumeric() || c == ',');
    let begins = next.starts_with(|c: char| c.is_ascii_lowercase());
    let continues = next.starts_with(|c: char| c.is_ascii_alphanumeric())
        && line.len() >= LONG_BYTES
        && is_prose(next);
    open && (begins || continues) && is_prose(line)
}

// Mostly words, hardly any figures.
fn is_prose(line: &str) -> bool {
    let mut letters = 0;
    let mut digits = 0;
    for c in line.chars() {
        letters += usize::from(c.is_alphabetic());
        digits += usize::from(c.is_ascii_digit());
    }
    digits * 6 < letters && line.split_whitespace().count() >= PROSE_WORDS
}

/// The part of a summary in the prompt of its parent: the first sentence. One that is too long ends after a clause, else
/// after a word that is neither an abbreviation nor a figure, whose unit would be missing.
pub(crate) fn first_sentence(summary: &str) -> &str {
    let first = sentence_ranges(summary).into_iter().next();
    let sentence = &summary[first.unwrap_or_default()];
    if sentence.len() <= LEAD_BYTES {
        return sentence;
    }
    let lead = &sentence[..sentence.floor_char_boundary(LEAD_BYTES)];
    let clause = lead.rfind(['，', '；', '、']).or_else(|| {
        lead.rmatch_indices([',', ';', ':'])
            .map(|(at, _)| at)
            .find(|at| lead[at + 1..].starts_with(' '))
    });
    // A clause of a few words says less than a broken one.
    if let Some(clause) = clause.filter(|at| *at >= LEAD_BYTES / 2) {
        return &lead[..clause];
    }
    let mut start = truncate_at_space(sentence, LEAD_BYTES);
    while let Some((shorter, word)) = start.rsplit_once(' ') {
        if !word.contains(|c: char| c.is_ascii_digit()) && !is_abbreviation(word) {
            break;
        }
        start = shorter;
    }
    start
}

fn truncate_at_space(line: &str, most: usize) -> &str {
    if line.len() <= most {
        return line;
    }
    let beginning = &line[..line.floor_char_boundary(most)];
    beginning
        .rsplit_once(' ')
        .map_or(beginning, |(words, _)| words)
}

/// A reply on one line, without control characters.
///
/// # Errors
/// It is empty or has more than `most` characters.
pub(crate) fn single_line(written: &str, most: usize) -> Result<String, String> {
    let words: Vec<&str> = written
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    match line.chars().count() {
        0 => Err("the text is empty".into()),
        n if n > most => Err(format!("the text has {n} characters")),
        _ => Ok(line),
    }
}

pub(crate) async fn load_summary(task: &FilingTask<'_>, key: &TaskKey) -> Result<String, Failure> {
    let summary = task.blob(key, "summary").await?;
    Ok(String::from_utf8_lossy(&summary).into_owned())
}

/// One entry per child: title and lead of those in `summaries` (by index), the text of short ones if `texts`,
/// else the title. Adds what it read to `reads`.
pub(crate) async fn part_summaries(
    task: &FilingTask<'_>,
    source: &TaskKey,
    children: &[Section],
    summaries: &[(u32, TaskKey)],
    texts: bool,
    reads: &mut InputDigest,
) -> Result<String, Failure> {
    let limit = task.settings.sections.summary_tokens_verbatim;
    let mut block = String::new();
    let mut summaries = summaries.iter().peekable();
    for (at, child) in children.iter().enumerate() {
        let title = truncate_at_space(&child.title, TITLE_BYTES);
        if let Some((_, key)) = summaries.next_if(|(part, _)| *part as usize == at) {
            let summary = load_summary(task, key).await?;
            let lead = first_sentence(&summary);
            reads.add_part(title_digest(&child.title, lead));
            block += &format!("\n- {title}: {lead}");
            continue;
        }
        let small = child.tokens < limit;
        let text = task
            .tools
            .text_cache
            .section(task, source, child, small)
            .await?;
        reads.add_part(title_digest(&child.title, &text));
        block += &match small && texts {
            true => format!("\n{}", with_title(&child.title, &text)),
            false => format!("\n- {title}"),
        };
    }
    Ok(block)
}

/// Splits a text into stretches of about `room` tokens, preferably after a paragraph, else after a line.
/// Their concatenation is the text. A line longer than that is split at spaces.
pub(crate) fn stretches(text: &str, room: u32) -> Vec<&str> {
    let mut stretches = Vec::new();
    let mut start = 0;
    let mut at = 0;
    let mut tokens = 0;
    // Ends of the last complete paragraph and of the last line that may end a stretch, with the tokens after them.
    let mut paragraph = (0, 0);
    let mut clean = (0, 0);
    for line in text
        .split_inclusive('\n')
        .flat_map(|line| split_long_line(line, room))
    {
        let more = tokens::count(line);
        if tokens + more > room && at > start {
            let earliest = start + (at - start) / SLACK * (SLACK - 1);
            let (end, remaining) = [paragraph, clean]
                .into_iter()
                .find(|(end, since)| *end > earliest && since + more <= room)
                .unwrap_or((at, 0));
            stretches.push(&text[start..end]);
            (start, tokens) = (end, remaining);
        }
        at += line.len();
        tokens += more;
        paragraph.1 += more;
        clean.1 += more;
        let ending = line.trim_end();
        let last_word = ending.rsplit(' ').next().unwrap_or_default();
        // The sentence goes on behind `U.S.`, and a figure at the end of a line has its unit on the next.
        let is_cut =
            is_abbreviation(last_word) || last_word.ends_with(|c: char| c.is_ascii_digit());
        if !is_cut {
            clean = (at, 0);
        }
        if ending.is_empty() || !is_cut && ending.ends_with(['.', '!', '?', '。', '！', '？']) {
            paragraph = (at, 0);
        }
    }
    if start < text.len() {
        stretches.push(&text[start..]);
    }
    stretches
}

// Splits a long line at spaces. A token has at least one byte, so `room` bytes always fit.
fn split_long_line(line: &str, room: u32) -> Vec<&str> {
    let most = (room as usize).max(4);
    if line.len() <= most || tokens::count(line) <= room {
        return vec![line];
    }
    let mut pieces = Vec::new();
    let mut rest = line;
    while rest.len() > most {
        let cut = rest.floor_char_boundary(most);
        let (bit, tail) = rest.split_at(rest[..cut].rfind(' ').map_or(cut, |space| space + 1));
        pieces.push(bit);
        rest = tail;
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sentence_is_bounded() {
        assert_eq!(first_sentence("Sales rose. Costs fell."), "Sales rose.");
        assert_eq!(first_sentence("营业收入增长。成本下降。"), "营业收入增长。");
        assert_eq!(first_sentence(&"word ".repeat(99)).len(), 79);
        assert!(first_sentence(&"营".repeat(99)).len() <= LEAD_BYTES);
        assert_eq!(first_sentence("no end"), "no end");
    }

    #[test]
    fn first_sentence_ends_neither_after_abbreviations_nor_before_units() {
        let sentence = "Sales in the U.S. Midwest rose. Costs fell.";
        assert_eq!(first_sentence(sentence), "Sales in the U.S. Midwest rose.");
        let long = "Revenue of the whole group rose in the year under review to a total of $3.2 million and more";
        assert_eq!(
            first_sentence(long),
            "Revenue of the whole group rose in the year under review to a total of"
        );
        let clause = "Revenue of the whole group rose in the year under review, as did the costs of sales and more";
        assert_eq!(
            first_sentence(clause),
            "Revenue of the whole group rose in the year under review"
        );
        let abbreviated = "Revenue of the whole group rose in the year under review everywhere in the U.S. of America";
        assert_eq!(
            first_sentence(abbreviated),
            "Revenue of the whole group rose in the year under review everywhere in the"
        );
    }

    #[test]
    fn empty_or_long_text_is_rejected() {
        assert_eq!(single_line(" a\n\u{7}b\tc ", 9).unwrap(), "a b c");
        assert!(single_line(" \n", 9).is_err() && single_line(&"x".repeat(10), 9).is_err());
    }

    #[test]
    fn leading_title_is_not_repeated() {
        assert_eq!(
            with_title("Risk Factors", "RISK\nFACTORS\nWe may fail."),
            "RISK\nFACTORS\nWe may fail."
        );
        assert_eq!(
            with_title("Preface", "Once upon a time"),
            "Preface\nOnce upon a time"
        );
    }

    #[test]
    fn only_lines_of_one_sentence_are_rejoined() {
        let text = "Item 1. Business\nWe make anvils for coyotes in\nforty countries, and rockets too,\nas well as traps.\nNet sales 1,200 1,100\nCosts 900 800";
        let expected = "Item 1. Business\nWe make anvils for coyotes in forty countries, and rockets too, as well as traps.\nNet sales 1,200 1,100\nCosts 900 800";
        assert_eq!(super::rejoin_lines(text), expected);
        assert_eq!(
            super::rejoin_lines("营业收入增长\n成本下降"),
            "营业收入增长\n成本下降"
        );
    }

    #[test]
    fn long_text_is_split_after_paragraphs() {
        let paragraph = "One of the lines of it\nand another one which ends it.\n";
        let text = paragraph.repeat(40);
        let cut = stretches(&text, 100);
        assert!(
            cut.len() > 3 && cut.iter().all(|stretch| stretch.ends_with("ends it.\n")),
            "{cut:?}"
        );
    }

    #[test]
    fn stretches_end_neither_after_abbreviations_nor_before_units() {
        let text = "Sales of the whole group rose in all of the U.S.\nmarkets by an amount of $12\nmillion in the year under review\n"
            .repeat(90);
        for room in 200..230 {
            let cut = stretches(&text, room);
            assert!(cut.len() > 5);
            for stretch in cut {
                let end = stretch.trim_end();
                assert!(
                    !end.ends_with("U.S.") && !end.ends_with("$12"),
                    "{room}: {end}"
                );
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn stretches_are_the_text_and_fit(
            words in proptest::collection::vec("[a-z年]{1,12}[ .\n]{0,2}", 0..300),
            room in 8u32..200,
        ) {
            let text = words.concat();
            let cut = stretches(&text, room);
            proptest::prop_assert_eq!(&cut.concat(), &text);
            for stretch in cut {
                // Token counts of lines do not quite add up: tokens may span a line break.
                proptest::prop_assert!(!stretch.is_empty() && tokens::count(stretch) <= room + room / 20 + 2);
            }
        }
    }
}
