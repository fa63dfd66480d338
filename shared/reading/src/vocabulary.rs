//! The words that rules look for. Rules are code; words are data: a file of `data` has a word or phrase a line, below the
//! `[name]` of its list. `#` starts a comment, and quotes keep the spaces at the ends of a phrase.
//!
//! A language is a folder, whose files are named here. A list has the words of all languages.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

macro_rules! language_files {
    ($($language:ident: $($name:ident)+;)+) => {
        &[$($(include_str!(concat!(
            "../data/",
            stringify!($language),
            "/",
            stringify!($name),
            ".txt"
        ))),+),+]
    };
}

const FILES: &[&str] = language_files! {
    all: languages marks;
    en: claims companies exchanges forms items numbers periods questions references sections sentences statements tables titles web_pages words xml_documents;
    ar: words;
    de: numbers periods;
    es: numbers periods;
    fr: numbers periods words;
    hi: numbers words;
    it: numbers periods words;
    nl: numbers periods;
    pt: numbers periods;
    zh: numbers periods titles;
};

// The lines of the lists, by name.
type Lines = HashMap<&'static str, Vec<&'static str>, RandomState>;

static LINES: LazyLock<Lines> = LazyLock::new(|| lines(FILES));

fn lines(files: &[&'static str]) -> Lines {
    let mut lists = Lines::default();
    let mut name = "";
    for line in files.iter().flat_map(|file| file.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        let list = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'));
        match list {
            Some(list) => name = list,
            None if line.is_empty() => {}
            None => lists.entry(name).or_default().push(line.trim_matches('"')),
        }
    }
    lists
}

fn entries(name: &str) -> &'static [&'static str] {
    LINES
        .get(name.to_lowercase().as_str())
        .map_or(&[], Vec::as_slice)
}

/// Words or phrases, in the order of their files.
#[derive(Debug)]
pub struct WordList {
    words: &'static [&'static str],
    set: HashSet<&'static str, RandomState>,
}

impl WordList {
    fn read(name: &str) -> Self {
        let words = entries(name);
        let set = words.iter().copied().collect();
        Self { words, set }
    }

    pub fn contains(&self, word: &str) -> bool {
        self.set.contains(word)
    }

    /// Whether one of them starts the text.
    pub fn starts(&self, text: &str) -> bool {
        self.words.iter().any(|word| text.starts_with(word))
    }

    /// Whether one of them ends the text.
    pub fn ends(&self, text: &str) -> bool {
        self.words.iter().any(|word| text.ends_with(word))
    }

    /// Whether one of them is a part of the text.
    pub fn occurs_in(&self, text: &str) -> bool {
        self.words.iter().any(|word| text.contains(word))
    }
}

impl Deref for WordList {
    type Target = [&'static str];

    fn deref(&self) -> &Self::Target {
        self.words
    }
}

/// Words with their meanings, in the order of their files: `cashflow = cash flow`.
#[derive(Debug)]
pub struct WordMap {
    pairs: Vec<(&'static str, &'static str)>,
    meanings: HashMap<&'static str, &'static str, RandomState>,
}

impl WordMap {
    fn read(name: &str) -> Self {
        let pairs: Vec<_> = entries(name)
            .iter()
            .filter_map(|line| line.split_once(" = "))
            .collect();
        let meanings = pairs.iter().copied().collect();
        Self { pairs, meanings }
    }

    pub fn get(&self, word: &str) -> Option<&'static str> {
        self.meanings.get(word).copied()
    }
}

impl Deref for WordMap {
    type Target = [(&'static str, &'static str)];

    fn deref(&self) -> &Self::Target {
        &self.pairs
    }
}

macro_rules! word_lists {
    ($($name:ident: $kind:ident,)*) => {
        $(pub static $name: LazyLock<$kind> = LazyLock::new(|| $kind::read(stringify!($name)));)*

        // Each list with its length.
        #[cfg(test)]
        fn lengths() -> Vec<(&'static str, usize)> {
            vec![$((stringify!($name), $name.len())),*]
        }
    };
}

word_lists! {
    // claims
    SHARE_WORDS: WordList,
    SHARE_PHRASES: WordList,
    FIGURE_SOURCES: WordList,
    CHANGE_HEADS: WordList,
    DECREASE_STEMS: WordList,
    LOSS_STEMS: WordList,
    MEAN_WORDS: WordList,
    CLAUSE_SEPARATORS: WordList,
    LEVEL_WORDS: WordList,
    FRAMING_WORDS: WordList,
    COMPUTING_WORDS: WordList,
    NEUTRAL_LABEL_WORDS: WordList,
    INCREASES: WordList,
    DECREASES: WordList,
    IN_ORDER: WordList,
    PERIOD_COUNTS: WordList,
    // companies
    LEGAL_FORMS: WordList,
    COMPANY_WORDS: WordList,
    SMALL_WORDS: WordList,
    GENERIC_NAMES: WordList,
    ANNOUNCING_VERBS: WordList,
    OFFICES: WordList,
    COVER_CAPTIONS: WordList,
    PLACE_CAPTIONS: WordList,
    CAPTION_PHRASES: WordList,
    REGISTRANT_CAPTIONS: WordList,
    SMALL_NAME_WORDS: WordList,
    SIGNATURE_LABELS: WordList,
    IRS_CAPTIONS: WordList,
    STATE_CAPTIONS: WordList,
    NUMBER_CAPTIONS: WordList,
    KINDS_OF_COMPANIES: WordList,
    FORMER_NAMES: WordList,
    OWN_COMPANY: WordList,
    COMPANY_GROUPS: WordList,
    DATE_LABELS: WordList,
    RESULTS: WordList,
    AUTHORIZED_WORDS: WordList,
    // countries
    // forms
    QUERIED_FORMS: WordMap,
    COVER_FORMS: WordMap,
    AFTER_FORM: WordList,
    OTHER_FORMS: WordMap,
    COMMISSION_NAMES: WordList,
    AFTER_COMMISSION: WordList,
    REGISTRANT_NAMES: WordList,
    SCHEDULE_FORMS: WordMap,
    RULE_FORMS: WordMap,
    RULE_OPENINGS: WordList,
    BOXED_FORMS: WordMap,
    CONTESTED_FORMS: WordMap,
    OTHER_PARTIES: WordList,
    UNREGISTERED_SECTIONS: WordMap,
    NOTHING_REGISTERED: WordList,
    AMENDMENT_NUMBERS: WordList,
    AMENDMENT_JOINTS: WordList,
    EFFECTIVE_AMENDMENTS: WordMap,
    UNAMENDED_FORMS: WordList,
    FUND_YEAR_ENDS: WordList,
    FUND_PERIODS: WordList,
    POST_EFFECTIVE_FORMS: WordMap,
    // items
    ANNUAL_ITEMS: WordList,
    QUARTERLY_ITEMS: WordList,
    CURRENT_ITEMS: WordList,
    FOREIGN_ITEMS: WordList,
    OWNER_ITEMS: WordList,
    PASSIVE_OWNER_ITEMS: WordList,
    FUND_REPORT_ITEMS: WordList,
    // languages
    LATIN_WORDS: WordMap,
    POINT_LANGUAGES: WordList,
    FUNCTION_WORDS_OF_LANGUAGES: WordList,
    // marks
    FULL_STOPS: WordList,
    SENTENCE_ENDS: WordList,
    PAUSES: WordList,
    // numbers
    PERCENT_WORDS: WordList,
    NUMBER_LABELS: WordList,
    NUMBER_SCALES: WordMap,
    SCALE_PREPOSITIONS: WordList,
    SCALE_GENITIVES: WordList,
    UNIT_NAMES: WordList,
    CURRENCIES: WordMap,
    SPOKEN_SCALES: WordList,
    POINT_WORDS: WordList,
    BASIS_POINTS: WordList,
    ORDINAL_ENDS: WordList,
    PLURAL_NOUNS: WordList,
    COMPARING_WORDS: WordList,
    // periods
    FISCAL_PREFIXES: WordList,
    FISCAL_FILLERS: WordList,
    END_MARKS: WordList,
    NEWEST_WORDS: WordList,
    LAST_WORDS: WordList,
    HEAD_WORDS: WordList,
    COLUMN_PERIODS: WordList,
    PERIOD_WORDS: WordList,
    ORDINALS: WordMap,
    YEAR_END_WORDS: WordList,
    YEAR_FILLERS: WordList,
    YEAR_VERBS: WordList,
    QUARTER_WORDS: WordList,
    BEFORE_PERIOD: WordList,
    PERIOD_HEADS: WordList,
    QUARTER_CAPTIONS: WordList,
    YEAR_CAPTIONS: WordList,
    HEADLINE_PERIODS: WordMap,
    PERIOD_UNITS: WordList,
    AMBIGUOUS_MONTHS: WordList,
    SPAN_OPENINGS: WordList,
    PERIOD_LETTERS: WordMap,
    PERIOD_NAMES: WordMap,
    COUNTED_PERIODS: WordList,
    PERIOD_ADJECTIVES: WordList,
    BEFORE_YEARS: WordList,
    ENDS_OF_YEARS: WordList,
    NEWEST_PHRASES: WordList,
    LENGTH_NAMES: WordMap,
    MONTH_WORDS: WordList,
    MONTH_NUMBERS: WordMap,
    AFTER_LENGTHS: WordList,
    STATED_LENGTHS: WordMap,
    PERIOD_MARKS: WordList,
    YEAR_SIGNS: WordList,
    QUARTER_SIGNS: WordList,
    TO_DATE_LENGTHS: WordMap,
    FISCAL_NAMES: WordList,
    // questions
    BEFORE_NAMES: WordList,
    FORM_VERBS: WordList,
    FORM_OBJECTS: WordList,
    FORM_FILLERS: WordList,
    VERDICTS: WordList,
    FORM_ENDS: WordList,
    INSTRUCTIONS: WordList,
    SOURCE_CLAUSES: WordList,
    QUESTION_WORDS: WordList,
    COMPARISON_WORDS: WordList,
    ITEM_NAMES: WordMap,
    NUMBER_SIGNS: WordList,
    QUESTION_STARTS: WordList,
    CONDITIONAL_ANSWERS: WordList,
    ANSWER_STARTS: WordList,
    FORM_PREPOSITIONS: WordList,
    CONDITIONS: WordList,
    // references
    NUMBERED_WORDS: WordMap,
    MENTION_WORDS: WordMap,
    NUMBERED_PARTS: WordList,
    REFERENCE_PARTS: WordList,
    FRONTS: WordList,
    FRONT_MATTER: WordList,
    DOCUMENT_NAMES: WordList,
    PART_WORDS: WordList,
    REFERRING_PHRASES: WordList,
    OTHER_DOCUMENTS: WordMap,
    STATED_PLACES: WordList,
    THIS_DOCUMENT: WordList,
    ADDRESSED_DOCUMENTS: WordList,
    EMPTY_ANSWERS: WordList,
    EMPTY_OPENINGS: WordMap,
    LIST_JOINTS: WordList,
    OWNER_PREPOSITIONS: WordList,
    FOREIGN_WORDS: WordList,
    OWN_WORDS: WordList,
    PAGE_WORDS: WordList,
    RANGE_WORDS: WordList,
    NUMBERED_NAMES: WordList,
    REFERENCE_ENDS: WordList,
    STATED_SUBJECTS: WordList,
    NEGATIVES: WordList,
    HEADING_WORDS: WordMap,
    PART_SPELLINGS: WordMap,
    PAGE_NAMES: WordList,
    LAST_PAGE_WORDS: WordList,
    COVER_NAMES: WordList,
    FRONT_QUESTIONS: WordList,
    CONTENTS_PHRASES: WordList,
    BEFORE_DOCUMENTS: WordList,
    NUMBER_NAMES: WordList,
    ITEM_JOINTS: WordList,
    NOTE_NAMES: WordList,
    PLACE_WORDS: WordList,
    POINTING_PHRASES: WordList,
    ANNUAL_REPORTS: WordList,
    FOLLOWING_WORDS: WordList,
    ANSWER_ENDS: WordMap,
    DOCUMENTS_ELSEWHERE: WordList,
    LOCAL_MARKS: WordList,
    // sections
    PROSPECTUS_SECTIONS: WordList,
    PROXY_SECTIONS: WordList,
    FUND_SECTIONS: WordList,
    CANADIAN_SECTIONS: WordList,
    PLAN_SECTIONS: WordList,
    PROSPECTUS_FORMS: WordList,
    FUND_FORMS: WordList,
    COMPLETE_FORMS: WordList,
    SUMMARY_SECTIONS: WordMap,
    SELF_CONTAINED_SECTIONS: WordList,
    SECTION_LABELS: WordList,
    LABEL_NUMBERS: WordList,
    // sentences
    ABBREVIATIONS: WordList,
    BOILERPLATE: WordList,
    DEPENDENT_OPENINGS: WordList,
    OPEN_ENDS: WordList,
    AUXILIARIES: WordList,
    // exchanges
    EXCHANGE_PREFIXES: WordList,
    EXCHANGE_NAMES: WordList,
    TICKER_MARKS: WordList,
    EXCHANGE_ENDS: WordList,
    SECURITY_WORDS: WordList,
    SYMBOL_TABLE_ENDS: WordList,
    // statements
    BALANCE_TITLES: WordList,
    BALANCE_ROWS: WordList,
    BALANCE_TOTALS: WordList,
    INCOME_TITLES: WordList,
    INCOME_ROWS: WordList,
    INCOME_TOTALS: WordList,
    CASH_FLOW_TITLES: WordList,
    CASH_FLOW_ROWS: WordList,
    CASH_FLOW_TOTALS: WordList,
    EQUITY_TITLES: WordList,
    EQUITY_ROWS: WordList,
    EQUITY_TOTALS: WordList,
    LOOK_ALIKES: WordList,
    STATEMENT_KEYS: WordList,
    STATEMENT_INDEXES: WordList,
    INDEXED_TITLES: WordList,
    REPORT_OWNERS: WordList,
    STATEMENT_NAMES: WordMap,
    STATEMENT_ADJECTIVES: WordList,
    // tables
    STATED_SCALES: WordList,
    COLUMN_HEAD_WORDS: WordList,
    CONTINUATION_MARKS: WordList,
    EMPTY_CELLS: WordList,
    COUNTED_THINGS: WordList,
    EXCEPTED_COUNTS: WordList,
    EXCEPT_WORDS: WordList,
    PER_WORDS: WordList,
    // titles
    FRONT_MENTIONS: WordList,
    EXHIBIT_INDEXES: WordList,
    LIGHT_WORDS: WordList,
    INSTRUMENTS: WordList,
    CONTRACTS: WordList,
    FRONT_MATTER_TITLES: WordList,
    UNNUMBERED_CHAPTERS: WordList,
    CONTENTS_COLUMNS: WordList,
    LIST_TITLES: WordList,
    OPEN_TITLE_WORDS: WordList,
    NOTE_VERBS: WordList,
    DATE_WORDS: WordList,
    UNFINISHED_ENDS: WordList,
    SMALL_TITLE_WORDS: WordList,
    PROPOSALS: WordList,
    COMMON_TITLES: WordList,
    FILE_ENDINGS: WordList,
    SIGNAL_WORDS: WordList,
    BOILERPLATE_STARTS: WordList,
    BOILERPLATE_ENDS: WordList,
    BOILERPLATE_OPENINGS: WordList,
    BOILERPLATE_MARKS: WordList,
    CLOSING_TITLES: WordList,
    CONTENTS_TITLES: WordList,
    PROGRAM_TITLES: WordList,
    INDEX_COLUMNS: WordList,
    INDEX_TITLES: WordList,
    OPEN_TITLE_ENDS: WordList,
    RELEASE_TITLES: WordList,
    CONTENTS_LINKS: WordList,
    REFERENCE_LISTS: WordList,
    EXHIBIT_COLUMNS: WordList,
    SIGNATURE_TITLES: WordList,
    NAMED_STATEMENTS: WordList,
    AMENDED_INSTRUMENTS: WordList,
    FURNITURE_WORDS: WordList,
    EXHIBIT_ENTRIES: WordList,
    PROGRAM_NAMES: WordList,
    CAUTIONS: WordList,
    // web_pages
    SERVER_MESSAGES: WordList,
    STATUS_WORDS: WordList,
    LOGIN_PHRASES: WordList,
    CONSENT_PHRASES: WordList,
    LISTING_OPENINGS: WordList,
    // words
    STOP_WORDS: WordList,
    COMPOUNDS: WordMap,
    IRREGULAR_PLURALS: WordMap,
    TELLING_STOP_WORDS: WordList,
    MEMBER_WORDS: WordList,
    DEFINITE_ARTICLES: WordList,
    GENITIVES: WordList,
    CONJUNCTIONS: WordList,
    INDEFINITE_ARTICLES: WordList,
    WORD_PREFIXES: WordList,
    WORD_SUFFIXES: WordList,
    ELIDED_WORDS: WordList,
    // xml_documents
    XML_KINDS: WordMap,
    XML_TITLES: WordMap,
    XML_FACTS: WordMap,
    XML_WRAPPERS: WordList,
    XML_VALUES: WordList,
    XML_ROWS: WordList,
    XML_LABELS: WordMap,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_is_read_and_has_no_word_twice() {
        let lengths: HashMap<String, usize> = lengths()
            .into_iter()
            .map(|(name, length)| (name.to_lowercase(), length))
            .collect();
        for (name, length) in &lengths {
            let lines = LINES.get(name.as_str()).map(Vec::len);
            assert_eq!(lines, Some(*length), "{name}");
        }
        for file in FILES {
            for (name, lines) in lines(&[*file]) {
                assert!(lengths.contains_key(name), "{name}");
                let words: HashSet<&str> = lines
                    .iter()
                    .map(|line| line.split(" = ").next().unwrap_or(line))
                    .collect();
                assert_eq!(words.len(), lines.len(), "{name}");
            }
        }
    }
}
