//! The fields of the index.
//!
//! A document has one entry for itself and one for each *passage*: its pages, or the sections of a document without pages.
//! All entries carry the facets of their document, so that filters need no join.

use std::sync::OnceLock;

use tantivy::Term;
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, STORED, Schema, SchemaBuilder, TextFieldIndexing,
    TextOptions,
};

use stemma_catalog::property::{Property, PropertyType};

// Increase this when entries or tokens change; a changed lexicon or property changes the index revision by itself.
pub(super) const REVISION: u32 = 17;

// Name of the tokenizer that splits tokenized texts.
pub(super) const WORDS: &str = "words";

/// The kind of an index entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexEntryKind {
    Document,
    /// A page, or a section of a document without pages.
    Passage,
}

impl IndexEntryKind {
    /// The kind as an index term.
    pub fn as_str(self) -> &'static str {
        match self {
            IndexEntryKind::Document => "document",
            IndexEntryKind::Passage => "passage",
        }
    }
}

/// The kind of a filing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    Other = 0,
    /// For a fiscal year: 10-K, 20-F, 40-F, annual report.
    Annual = 1,
    /// For a quarter: 10-Q.
    Quarterly = 2,
    /// For an event: 8-K, 6-K.
    Current = 3,
    /// Earnings release.
    Release = 4,
}

impl DocumentKind {
    /// The kind of documents with this form type.
    pub fn from_form(form: &str) -> Self {
        match form.trim().to_lowercase().trim_end_matches("/a") {
            "10-k" | "10-kt" | "10-k405" | "20-f" | "40-f" | "annual_report" => {
                DocumentKind::Annual
            }
            "10-q" | "10-qt" | "interim_report" => DocumentKind::Quarterly,
            "8-k" | "6-k" => DocumentKind::Current,
            "earnings_release" => DocumentKind::Release,
            _ => DocumentKind::Other,
        }
    }
}

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $options:expr;)*) => {
        /// Fields of the schema.
        #[derive(Debug, Clone, Copy)]
        pub struct Fields {
            $($(#[$doc])* pub $name: Field,)*
            // By property. `None` for those that nothing is filtered by.
            properties: [Option<Field>; Property::COUNT],
        }

        impl Fields {
            fn build(builder: &mut SchemaBuilder) -> Self {
                $(let $name = $options(builder, stringify!($name));)*
                let named = [$((stringify!($name), $name)),*];
                let properties = Property::ALL.map(|one| {
                    let named = named.iter().find(|(name, _)| *name == one.name());
                    one.is_filter()
                        .then(|| named.map_or_else(|| property(builder, one.name()), |(_, field)| *field))
                });
                Self { $($name,)* properties }
            }
        }
    };
}

// A property has its place here, or without one behind all others.
fields! {
    /// [`IndexEntryKind`], as a term.
    kind: term;
    /// Document id.
    doc: stored_term;
    /// First eight bytes of the id: a fast field that identifies documents.
    doc_key: number;
    seq: stored_number;
    /// Physical page, for page entries.
    page: stored_number;
    /// Count of sections, for document entries.
    sections: column;
    /// Count of words on the page.
    length: column;
    /// 1 for a table of contents.
    contents: column;
    /// Text without running heads.
    body: positioned;
    /// Titles of sections that start here, and lines that look like headings.
    headings: counted;
    /// Parts that start on the page: `table 3`, `section 4.2`.
    captions: term;
    /// Printed page number.
    label: term;
    /// Titles from the root to the sections on the page.
    path: counted;
    /// Row labels of tables.
    labels: counted;
    /// Running heads that first appear on the page.
    running: counted;
    /// Summaries of the sections on the page.
    summary: counted;
    /// Phrases of the lexicon in the text.
    phrases: present;
    /// Phrases of the lexicon in row labels.
    row_phrases: present;
    /// Entries of the declared figures that it displays, with their periods ([`figures`](stemma_reading::figures)), by section.
    figures: positioned;
    /// Statements on the page.
    statements: present;
    /// What only resembles a statement.
    look_alikes: present;
    /// Column years of tables.
    years: term;
    /// Items that contain the entry: `1A`, and with the part, `II.1A`.
    items: term;
    /// Aliases of the issuer, for document entries.
    aliases: term;
    /// Words of the aliases that people write, for document entries.
    alias_words: term;
    /// Normalized company name.
    company: stored_term;
    /// CIK and numbers of the issuer, which survive a change of name, for document entries.
    identity: stored_term;
    /// Hash of the company name; 0 if unknown.
    company_key: column;
    ticker: property;
    cik: property;
    /// Form type, lower case, with `/a` for amendments.
    form: property;
    /// 1 for amendments.
    amended: number;
    /// [`DocumentKind`].
    sort: column;
    /// Fiscal quarter, 1 to 4; 0 for a whole year, or if unknown.
    quarter: column;
    /// `done`, `done_with_gaps`.
    status: property;
    fiscal_year: stored_number;
    /// Years in the document's name and dates.
    near_years: term;
    /// `fy`, or `q1` to `q4`.
    fiscal_period: property;
    /// As a number: 20221231.
    period_end: property;
    /// As a number: 20230208.
    filed: property;
    language: property;
    /// File name, lower case.
    name: property;
    /// `good`, `uncertain` or `doubtful`.
    quality: property;
    /// Score of the doubt about its tree, in thousandths.
    doubt: property;
    pages: property;
    /// Display data as JSON: [`StoredEntry`](super::entry::StoredEntry).
    shown: stored;
    /// The text of `body`, for snippets.
    text: stored;
}

fn text_options(tokenizer: &str, record: IndexRecordOption, norms: bool) -> TextOptions {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(tokenizer)
        .set_index_option(record)
        .set_fieldnorms(norms);
    TextOptions::default().set_indexing_options(indexing)
}

// By the type of the property of this name.
fn property(builder: &mut SchemaBuilder, name: &str) -> Field {
    match Property::from_filter_name(name).map(Property::value_type) {
        Some(PropertyType::Text) | None => term(builder, name),
        Some(PropertyType::Date | PropertyType::Number | PropertyType::Score) => {
            number(builder, name)
        }
    }
}

fn term(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_text_field(name, text_options("raw", IndexRecordOption::Basic, false))
}

fn stored_term(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_text_field(
        name,
        text_options("raw", IndexRecordOption::Basic, false) | STORED,
    )
}

// Words with frequencies and lengths, for BM25.
fn counted(builder: &mut SchemaBuilder, name: &str) -> Field {
    let options = text_options(WORDS, IndexRecordOption::WithFreqs, true);
    builder.add_text_field(name, options)
}

// With positions as well, for pairs of neighboring words and quoted phrases.
fn positioned(builder: &mut SchemaBuilder, name: &str) -> Field {
    let options = text_options(WORDS, IndexRecordOption::WithFreqsAndPositions, true);
    builder.add_text_field(name, options)
}

// Without lengths: a phrase is worth as much on a long page as on a short one.
fn present(builder: &mut SchemaBuilder, name: &str) -> Field {
    let options = text_options(WORDS, IndexRecordOption::WithFreqs, false);
    builder.add_text_field(name, options)
}

fn number(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_u64_field(name, INDEXED | FAST)
}

// Read by document, never searched for.
fn column(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_u64_field(name, FAST)
}

fn stored_number(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_u64_field(name, INDEXED | FAST | STORED)
}

fn stored(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_text_field(name, TextOptions::default() | STORED)
}

impl Fields {
    /// Builds the schema.
    pub fn schema() -> (Schema, Self) {
        let mut builder = Schema::builder();
        let fields = Self::build(&mut builder);
        (builder.build(), fields)
    }

    /// The fields of the schema, which is built once.
    pub fn get() -> Self {
        static FIELDS: OnceLock<Fields> = OnceLock::new();
        *FIELDS.get_or_init(|| Self::schema().1)
    }

    /// The field of a property; `None` if nothing is filtered by it.
    pub fn property(&self, property: Property) -> Option<Field> {
        self.properties[property as usize]
    }

    /// The term shared by all entries of a kind.
    pub fn kind_term(&self, kind: IndexEntryKind) -> Term {
        Term::from_field_text(self.kind, kind.as_str())
    }
}
