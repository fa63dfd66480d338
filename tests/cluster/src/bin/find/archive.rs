//! An archive of generated filings, written as published trees. Nothing is extracted, so a million sections take minutes.
//!
//! Words are built from syllables and drawn by Zipf's law from a lexicon of 20,000, mixed with finance phrases, so that
//! posting lists have realistic lengths. The same number gives the same document.

use anyhow::{Context, Result, anyhow};
use futures::stream::{self, StreamExt, TryStreamExt};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use stemma_document::{
    CatalogEntry, Change, ChangeKind, Collection, Digest, DocId, DocumentVersion, DraftEntry,
    EntryVerdict, EvidenceSource, Extent, Fact, FilingFacts, Line, LocatedEntry, Method, Page,
    PageNo, Position, Pt, PublishedTree, Rect, SectionStart, SectionTree, Source, SourceBody,
    SourceFormat, StyleRun, TreeObject, VerifiedOutline, blob_keys,
};
use stemma_store::TaskKey;
use stemma_store::artifact::Artifact;
use stemma_store::blobs::Blobs;

/// Sections per document.
pub const SECTIONS: usize = 100;
/// Pages per document.
const PAGES: usize = 40;
/// Lines per section, and words per line.
const LINES: usize = 8;
const WORDS: usize = 11;
/// Size of the lexicon.
const LEXICON: usize = 20_000;
/// Years of filings per issuer.
const YEARS: usize = 5;
/// Publication time of the archive, in milliseconds since 1970-01-01 UTC.
const PUBLISHED_MS: u64 = 1_750_000_000_000;
/// Documents written concurrently.
const CONCURRENT_WRITES: usize = 4;

const SYLLABLES: [&str; 40] = [
    "ba", "cor", "del", "en", "fi", "gar", "hol", "in", "jo", "ker", "lam", "mer", "nu", "or",
    "pra", "quin", "ro", "sel", "tan", "ul", "ver", "wes", "yor", "zen", "bri", "cla", "dro",
    "fen", "gro", "hal", "lin", "mos", "nar", "pel", "ras", "sto", "tri", "van", "wil", "ston",
];
const PHRASES: [&str; 16] = [
    "net sales",
    "operating income",
    "capital expenditures",
    "accounts receivable",
    "inventories",
    "long-term debt",
    "foreign currency",
    "income taxes",
    "goodwill",
    "research and development",
    "dividends paid",
    "lease liabilities",
    "segment results",
    "legal proceedings",
    "share repurchases",
    "gross profit",
];
const TITLES: [&str; 20] = [
    "Business",
    "Risk Factors",
    "Properties",
    "Legal Proceedings",
    "Market for Common Equity",
    "Selected Data",
    "Management's Discussion and Analysis",
    "Market Risk",
    "Financial Statements",
    "Controls and Procedures",
    "Directors",
    "Executive Compensation",
    "Security Ownership",
    "Exhibits",
    "Revenue",
    "Income Taxes",
    "Debt",
    "Leases",
    "Segments",
    "Commitments",
];

/// Generates documents.
pub struct SyntheticArchive {
    lexicon: Vec<String>,
    /// Cumulative weights of the words, by Zipf's law.
    weights: Vec<f64>,
}

impl SyntheticArchive {
    /// Builds the lexicon.
    pub fn new() -> Self {
        let mut random = SmallRng::seed_from_u64(1);
        let lexicon = (0..LEXICON)
            .map(|_| {
                (0..random.random_range(2..4))
                    .map(|_| pick(&mut random, &SYLLABLES))
                    .collect()
            })
            .collect();
        let weights = (1..=LEXICON).scan(0.0, |sum, rank| {
            *sum += 1.0 / rank as f64;
            Some(*sum)
        });
        Self {
            lexicon,
            weights: weights.collect(),
        }
    }

    fn word(&self, random: &mut SmallRng) -> &str {
        let at = random.random_range(0.0..self.weights.last().copied().unwrap_or(1.0));
        let rank = self.weights.partition_point(|sum| *sum < at);
        &self.lexicon[rank.min(LEXICON - 1)]
    }

    /// The issuer of a document.
    fn issuer(&self, number: usize) -> String {
        let issuer = number / YEARS;
        let mut random = SmallRng::seed_from_u64(issuer as u64);
        let first = self.rare(&mut random);
        let second = self.rare(&mut random);
        format!("{} {} Inc.", capital(first), capital(second))
    }

    fn rare(&self, random: &mut SmallRng) -> &str {
        &self.lexicon[random.random_range(2_000..LEXICON)]
    }

    fn year(number: usize) -> usize {
        2018 + number % YEARS
    }

    /// A query, different for every `number`: an issuer and a year, words, or both.
    pub fn question(&self, number: usize, documents: usize) -> String {
        let mut random = SmallRng::seed_from_u64(number as u64 ^ 0x5eed);
        let document = random.random_range(0..documents);
        let rare = self.rare(&mut random).to_string();
        let word = self.word(&mut random).to_string();
        let phrase = pick(&mut random, &PHRASES);
        let year = Self::year(document);
        let issuer = self.issuer(document);
        match number % 4 {
            0 => format!("What were the {phrase} of {issuer} in fiscal {year}?"),
            1 => format!("{phrase} {rare} {word}"),
            2 => format!(
                "{rare} {} in the discussion of {phrase}",
                self.rare(&mut random)
            ),
            _ => format!("{issuer} {year} {phrase} {word}"),
        }
    }

    /// A question of 25 words or more, as people ask it, different for every `number`. Every second one names an issuer.
    pub fn natural_question(&self, number: usize, documents: usize) -> String {
        let mut random = SmallRng::seed_from_u64(number as u64 ^ 0x25ed);
        let document = random.random_range(0..documents);
        let year = Self::year(document);
        let issuer = match number % 2 {
            0 => self.issuer(document),
            _ => "the company".to_owned(),
        };
        let first = pick(&mut random, &PHRASES);
        let second = pick(&mut random, &PHRASES);
        let word = self.word(&mut random);
        let rare = self.rare(&mut random);
        format!(
            "Based on the annual report of {issuer} for fiscal {year}, how did {first} and {second} change compared with the \
             prior year, and what does management say about {word} {rare}?"
        )
    }

    /// Writes documents `from..to`, newest last, with change records.
    pub async fn write(&self, blobs: &dyn Blobs, from: usize, to: usize) -> Result<()> {
        let written = stream::iter(from..to)
            .map(|number| self.publish(blobs, number, PUBLISHED_MS + number as u64, ""));
        written
            .buffer_unordered(CONCURRENT_WRITES)
            .try_collect()
            .await
    }

    /// Publishes a document as the assembler does: text, tree, change record. Its text contains `word`.
    pub async fn publish(
        &self,
        blobs: &dyn Blobs,
        number: usize,
        at_ms: u64,
        word: &str,
    ) -> Result<()> {
        let (body, outline) = self.pages(number, word)?;
        let collection = Collection::default();
        let version = self.version(number, &collection);
        let scope = blob_keys::document_scope(&collection, version.doc);
        let key = TaskKey::builder("paginate", 1).text(&version.name).finish();
        let source = Source {
            format: SourceFormat::Pdf,
            body,
            outline: Vec::new(),
            links: Vec::new(),
            metadata: Default::default(),
            defects: Vec::new(),
            hidden: Vec::new(),
            encrypted: false,
        };
        let packed = stemma_extract::encode_source(&source)?;
        let artifact = Artifact::new(b"{}", &[("source", packed.into())])
            .map_err(|error| anyhow!("{}", error.code))?;
        artifact.store(blobs, &scope, &key).await?;
        let mut tree = SectionTree::build(&outline, Method::Layout, Vec::new());
        tree.facts = self.facts(number);
        let published = PublishedTree {
            version,
            text_artifact: key.to_string(),
            tree,
        };
        let doc = published.version.doc;
        let entry = CatalogEntry::from_tree(&published);
        let json = serde_json::to_vec(&TreeObject::Published(Box::new(published)))?;
        blobs
            .put(&blob_keys::tree_key(&collection, doc, 1), json.into())
            .await?;
        let change = Change {
            at_ms,
            kind: ChangeKind::Published(Box::new(entry)),
        };
        let key = blob_keys::change_key(&collection, at_ms, number as u64);
        blobs.put(&key, serde_json::to_vec(&change)?.into()).await?;
        Ok(())
    }

    fn version(&self, number: usize, collection: &Collection) -> DocumentVersion {
        let name = format!(
            "{}_{}_10K_{number}.pdf",
            self.issuer(number).replace(' ', "_"),
            Self::year(number)
        );
        let uri = format!("file:///generated/{name}");
        DocumentVersion {
            doc: DocId::new(collection, &uri),
            seq: 1,
            uri,
            path: format!("{}/{name}", number / 1_000),
            source: Digest::from_content(name.as_bytes()),
            name,
            origin: Default::default(),
            size_bytes: 100_000,
            settings: Digest::from_content(b"generated").to_string().into(),
            sidecar_facts: Default::default(),
            filing_facts: Default::default(),
            correction: None,
            labels: None,
        }
    }

    fn facts(&self, number: usize) -> FilingFacts {
        let fact = |value: String| Some(Fact::from_text(value, PageNo::new(1)));
        let year = Self::year(number);
        FilingFacts {
            issuer: fact(self.issuer(number)),
            form: fact("10-K".into()),
            fiscal_year: fact(year.to_string()),
            fiscal_period: fact("FY".into()),
            period_end: fact(format!("{year}-12-31")),
            ..FilingFacts::default()
        }
    }

    fn pages(&self, number: usize, word: &str) -> Result<(SourceBody, VerifiedOutline)> {
        let mut random = SmallRng::seed_from_u64(number as u64 ^ 0xd0c);
        let mut pages: Vec<Vec<Line>> = vec![Vec::new(); PAGES];
        let mut judged = Vec::with_capacity(SECTIONS);
        for section in 0..SECTIONS {
            let at = section * PAGES / SECTIONS;
            let title = self.title(section, &mut random);
            let position = Position {
                page: PageNo::from_index(at),
                line: pages[at].len() as u32,
                y: Pt(0),
            };
            let entry = DraftEntry {
                number: None,
                title: title.clone(),
                label: None,
                target: None,
                level: if section % 10 == 0 { 1 } else { 2 },
                evidence: EvidenceSource::Layout,
            };
            let verdict = EntryVerdict::Confirmed {
                starts_page: position.line == 0,
            };
            judged.push((
                LocatedEntry {
                    entry,
                    place: SectionStart::Page(position),
                },
                verdict,
            ));
            pages[at].push(line(title));
            pages[at].extend((0..LINES).map(|_| line(self.text(&mut random))));
            if section == SECTIONS / 2 && !word.is_empty() {
                pages[at].push(line(format!("The matter of {word} was settled.")));
            }
        }
        let outline =
            VerifiedOutline::new(Extent::Pages(PAGES as u32), judged).context("an outline")?;
        Ok((
            SourceBody::Pages(
                pages
                    .into_iter()
                    .map(|lines: Vec<Line>| Page {
                        width: Pt::new(612.0),
                        height: Pt::new(792.0),
                        lines,
                        ..Page::default()
                    })
                    .collect(),
            ),
            outline,
        ))
    }

    fn title(&self, section: usize, random: &mut SmallRng) -> String {
        match section % 10 {
            0 => format!("Item {}. {}", section / 10 + 1, TITLES[section / 10]),
            _ => format!("{} {}", pick(random, &TITLES), self.word(random)),
        }
    }

    /// A line of text; every fourth is a row of a table.
    fn text(&self, random: &mut SmallRng) -> String {
        let mut words: Vec<String> = Vec::with_capacity(WORDS);
        if random.random_range(0..4) == 0 {
            words.push(capital(pick(random, &PHRASES)));
            words.push(self.word(random).into());
            words.extend((0..3).map(|_| {
                format!(
                    "{},{:03}",
                    random.random_range(1..99),
                    random.random_range(0..999)
                )
            }));
            return words.join(" ");
        }
        words.extend((0..WORDS - 2).map(|_| self.word(random).to_string()));
        words.push(pick(random, &PHRASES).into());
        words.join(" ")
    }
}

fn line(text: String) -> Line {
    let runs = vec![StyleRun {
        end: text.len() as u32,
        ..StyleRun::default()
    }];
    let tokens = text.split(' ').count() as u32;
    Line {
        text,
        rect: Rect::default(),
        runs,
        words: Vec::new(),
        tokens,
        ..Line::default()
    }
}

fn pick<'a>(random: &mut SmallRng, from: &[&'a str]) -> &'a str {
    from[random.random_range(0..from.len())]
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
        .unwrap_or_default()
}
