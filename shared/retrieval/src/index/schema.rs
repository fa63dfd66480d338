//! The fields of the corpus index.
//!
//! A document with pages becomes one entry for each page and one for each section; a text one for each section; both
//! one for the document. What ranking looks for first are *passages*: pages, and the sections of texts. All entries
//! carry the facets of their document, so that a filter needs no join.

use tantivy::Term;
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, STORED, Schema, SchemaBuilder, TextFieldIndexing,
    TextOptions,
};
use tantivy::tokenizer::TokenizerManager;

use super::doc_mapper::DocMapper;
use crate::synonyms::Synonyms;

/// Counts up when entries or tokens change and the vocabulary does not.
const REVISION: u32 = 3;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexEntryKind {
    /// The document.
    Document,
    /// A section with its own text.
    Section,
    /// What is ranked first: a page, or a section of a text.
    Passage,
}

impl IndexEntryKind {
    /// The word for it in the index.
    pub fn as_str(self) -> &'static str {
        match self {
            IndexEntryKind::Document => "document",
            IndexEntryKind::Section => "section",
            IndexEntryKind::Passage => "passage",
        }
    }
}

/// What sort of document it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// None of the others.
    Other = 0,
    /// About a fiscal year: 10-K, 20-F, 40-F, an annual report.
    Annual = 1,
    /// About a quarter: 10-Q.
    Quarterly = 2,
    /// About an event: 8-K, 6-K.
    Current = 3,
    /// A release of results.
    Release = 4,
}

impl DocumentKind {
    /// The sort of documents on this form.
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
        /// The fields.
        #[derive(Debug, Clone, Copy)]
        pub struct Fields {
            $($(#[$doc])* pub $name: Field,)*
        }

        impl Fields {
            fn build(builder: &mut SchemaBuilder) -> Self {
                Self { $($name: $options(builder, stringify!($name)),)* }
            }
        }
    };
}

fields! {
    /// What the entry is: [`IndexEntryKind`]s, as terms.
    kind: term;
    /// The document's id, as written.
    doc: stored_term;
    /// The first eight bytes of the id, to tell documents apart without reading them.
    doc_key: number;
    /// Version of the document.
    seq: stored_number;
    /// Physical page of a page entry.
    page: stored_number;
    /// Section of a section entry.
    section: stored_number;
    /// Numbers on the page.
    numbers: number;
    /// Words on the page.
    length: number;
    /// 1 for a table of contents.
    contents: number;
    /// Text, running heads left out.
    body: counted;
    /// The first lines of the page.
    head: counted;
    /// Titles of the sections that begin here, and lines that look like headings.
    headings: counted;
    /// Titles from the top down to the sections that are here.
    path: counted;
    /// Labels of rows: the words before the numbers of a line.
    labels: counted;
    /// Summaries of the sections that are here.
    summary: counted;
    /// The lines elsewhere in the document that refer to a section that begins here.
    anchors: counted;
    /// Title of a section entry.
    title: counted;
    /// Its summary; of a document entry, the description.
    about: counted;
    /// Its own text.
    own: counted;
    /// Titles above it.
    above: counted;
    /// Phrases of the vocabulary, in the text.
    phrases: present;
    /// Phrases of the vocabulary, in labels of rows.
    row_phrases: present;
    /// Landmarks (statements, kinds of sections) this surely is.
    places: present;
    /// Places this may be.
    like: present;
    /// Years that head columns.
    years: term;
    /// Items this lies in: `1A`, and with their Parts, `II.1A`.
    items: term;
    /// Names the issuer goes by (document entries only).
    aliases: term;
    /// The issuer, folded.
    company: stored_term;
    /// What names an issuer whatever it is called: its keys and numbers (document entries only).
    identity: stored_term;
    /// Stands for the issuer, to tell issuers apart; 0 where it is not known.
    company_key: number;
    /// Trading symbols, lower case.
    ticker: term;
    /// Central Index Key.
    cik: term;
    /// Form type, lower case, with amendment mark.
    form: term;
    /// 1 for amendments.
    amended: number;
    /// What sort of document it is: [`DocumentKind`].
    sort: number;
    /// Quarter of the fiscal year, 1 to 4; 0 for a whole year, or where it is not known.
    quarter: number;
    /// `done`, `done_with_gaps`.
    status: term;
    /// The fiscal year.
    fiscal_year: stored_number;
    /// Years in the document's name and dates, which help to tell documents of an issuer apart.
    near_years: term;
    /// `fy`, `q1` ….
    fiscal_period: term;
    /// End of the period, as a number: 20221231.
    period_end: number;
    /// The day of filing, as a number.
    filed: number;
    /// ISO 639-1 code.
    language: term;
    /// File name, lower case.
    name: term;
    /// `verified` ….
    quality: term;
    /// Share of titles verified, in thousandths.
    accuracy: number;
    /// Pages of the document.
    pages: number;
    /// What is shown of the entry, as JSON: [`crate::index::entry::Shown`].
    shown: stored;
    /// The text that `body` was made of.
    text: stored;
}

fn text_options(record: IndexRecordOption, norms: bool) -> TextOptions {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("raw")
        .set_index_option(record)
        .set_fieldnorms(norms);
    TextOptions::default().set_indexing_options(indexing)
}

fn term(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_text_field(name, text_options(IndexRecordOption::Basic, false))
}

fn stored_term(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_text_field(name, text_options(IndexRecordOption::Basic, false) | STORED)
}

/// Frequencies and lengths: what BM25 needs. Entries come with their words already cut.
fn counted(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_text_field(name, text_options(IndexRecordOption::WithFreqs, true))
}

/// Frequencies, and no lengths: that a page says many things does not make one of them weaker.
fn present(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_text_field(name, text_options(IndexRecordOption::WithFreqs, false))
}

fn number(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_u64_field(name, INDEXED | FAST)
}

fn stored_number(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_u64_field(name, INDEXED | FAST | STORED)
}

fn stored(builder: &mut SchemaBuilder, name: &str) -> Field {
    builder.add_text_field(name, TextOptions::default() | STORED)
}

impl Fields {
    /// The schema and its fields.
    pub fn schema() -> (Schema, Self) {
        let mut builder = Schema::builder();
        let fields = Self::build(&mut builder);
        (builder.build(), fields)
    }

    /// The fields of this program's schema.
    pub fn get() -> Self {
        Self::schema().1
    }

    /// The term that all entries of a kind have.
    pub fn kind_term(&self, kind: IndexEntryKind) -> Term {
        Term::from_field_text(self.kind, kind.as_str())
    }
}

/// The index of this program.
pub fn doc_mapper() -> DocMapper {
    let (schema, fields) = Fields::schema();
    DocMapper {
        revision: Synonyms::revision() ^ REVISION,
        schema,
        doc: fields.doc,
        seq: fields.seq,
        tokenizers: TokenizerManager::default(),
        map: super::entry::map_document,
    }
}
