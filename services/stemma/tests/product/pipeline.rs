//! Ingests documents of every kind and compares sections and pages with the truth.

use std::collections::BTreeMap;

use stemma_document::{Extent, Method, PublishedTree, SectionTree};
use stemma_filings::{
    Block, ContentsMode, CoverFacts, Encryption, Family, Filing, FilingKind, GeneratedTextTruth,
    Manuscript, PageFooter, Spec, TextKind, Typography, generate, markdown, plain_text, typeset,
};

use crate::support::{TestEnv, codes, files, objects, start_position, trees};

/// Share of titles of the truth's first two levels that must be found within a page of their place.
const TITLES: f64 = 0.95;
/// The same of papers in two columns, where bold numbered headings of the text's own size are the weakest of signs.
const PAPER_TITLES: f64 = 0.75;
/// The same of Items of annual and quarterly reports.
const ITEMS: f64 = 0.95;
/// Most objects that a document may leave in the store: its version, three artifacts, its tree, and the change records of
/// its claim and its publication.
const OBJECTS_PER_DOCUMENT: usize = 7;

/// Letters and digits alone.
fn letters(title: &str) -> String {
    title
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// The titles (with the number before them) and places of a tree.
fn titles_and_places(tree: &SectionTree) -> Vec<(String, u32)> {
    let titles = |section: &stemma_document::Section| {
        let numbered = format!(
            "{} {}",
            section.number.as_deref().unwrap_or_default(),
            section.title
        );
        [letters(&section.title), letters(&numbered)].map(|title| (title, start_position(section)))
    };
    tree.walk()
        .flat_map(|(_, section)| titles(section))
        .collect()
}

/// The expected titles that are not in the tree within `tolerance` pages (or lines).
fn missing(tree: &SectionTree, expected: &[(String, u32)], tolerance: u32) -> Vec<(String, u32)> {
    let actual = titles_and_places(tree);
    expected
        .iter()
        .filter(|(title, at): &&(String, u32)| {
            !actual
                .iter()
                .any(|(name, place)| *name == letters(title) && place.abs_diff(*at) <= tolerance)
        })
        .cloned()
        .collect()
}

fn titles(filing: &Filing, is_expected: impl Fn(&str) -> bool) -> Vec<(String, u32)> {
    let nodes = filing
        .truth
        .nodes
        .iter()
        .filter(|node| node.level <= 2 && is_expected(&node.title));
    nodes.map(|node| (node.title.clone(), node.page)).collect()
}

/// Every page lies in a top section, and every section inside its parent.
fn assert_whole(path: &str, tree: &SectionTree) {
    let mut next = 1;
    for section in &tree.sections {
        let (start, end) = ends(section);
        assert!(start <= next, "{path}: nothing covers {next}");
        next = next.max(end + 1);
    }
    let (Extent::Pages(extent) | Extent::Lines(extent)) = tree.extent;
    assert_eq!(next, extent + 1, "{path}: not covered to its end");
    for (_, parent) in tree.walk() {
        for child in &parent.children {
            let (a, b) = ends(parent);
            let (c, d) = ends(child);
            assert!(
                a <= c && d <= b,
                "{path}: {} lies outside {}",
                child.title,
                parent.title
            );
        }
    }
    let ids: Vec<u32> = tree.walk().map(|(_, section)| section.id.0).collect();
    assert_eq!(
        ids,
        (0..ids.len() as u32).collect::<Vec<_>>(),
        "{path}: ids are not pre-order"
    );
}

fn ends(section: &stemma_document::Section) -> (u32, u32) {
    match section.span {
        stemma_document::SectionSpan::Pages { pages, .. } => {
            (pages.start().get(), pages.end().get())
        }
        stemma_document::SectionSpan::Lines { start, end } => (start, end),
    }
}

/// Found and wanted titles by kind.
#[derive(Default)]
struct TitleScore(BTreeMap<&'static str, (usize, usize, Vec<String>)>);

impl TitleScore {
    fn add(
        &mut self,
        kind: &'static str,
        path: &str,
        tree: &SectionTree,
        expected: &[(String, u32)],
    ) {
        let missing = missing(tree, expected, 1);
        let row = self.0.entry(kind).or_default();
        row.0 += expected.len() - missing.len();
        row.1 += expected.len();
        row.2.extend(
            missing
                .into_iter()
                .map(|(title, page)| format!("{path}: {title} p {page}")),
        );
    }

    fn assert(&self, least: impl Fn(&str) -> f64) {
        for (kind, (matched, expected, missing)) in &self.0 {
            println!("{kind}: {matched} of {expected}; not {missing:#?}");
        }
        for (kind, (matched, expected, _)) in &self.0 {
            assert!(*expected > 0, "{kind}: nothing was wanted");
            assert!(
                *matched as f64 >= least(kind) * *expected as f64,
                "{kind}: {matched} of {expected} titles"
            );
        }
    }
}

#[test]
fn every_filing_kind_yields_titles_on_their_pages() {
    let lab = TestEnv::new();
    let modes = [
        ContentsMode::Outline,
        ContentsMode::Links,
        ContentsMode::PrintedOnly,
        ContentsMode::Nothing,
    ];
    let mut filings = BTreeMap::new();
    for (n, (kind, contents)) in FilingKind::ALL
        .into_iter()
        .flat_map(|kind| modes.map(|mode| (kind, mode)))
        .enumerate()
    {
        let path = format!("{}/{}.pdf", kind.name(), contents.name());
        let filing = generate(&Spec {
            pages: 16,
            contents,
            ..Spec::new(kind, 100 + n as u64)
        });
        lab.put(&path, &filing.pdf);
        filings.insert(path, (kind, filing));
    }
    let summary = lab.ingest("store", &[]);
    assert_eq!(summary["counts"]["failed"], 0, "{summary:#}");
    assert_eq!(summary["counts"]["total"], 36);

    let trees = trees(&lab.path("store"));
    let mut all = TitleScore::default();
    let mut items = TitleScore::default();
    for (path, (kind, filing)) in &filings {
        let tree = &trees[path].tree;
        assert_eq!(tree.extent, Extent::Pages(filing.truth.pages), "{path}");
        assert_whole(path, tree);
        all.add(kind.name(), path, tree, &titles(filing, |_| true));
        if matches!(kind, FilingKind::TenK | FilingKind::TenQ) {
            items.add(
                kind.name(),
                path,
                tree,
                &titles(filing, |title| title.to_lowercase().starts_with("item ")),
            );
        }
        assert!(
            tree.provenance.model == "offline" && tree.provenance.method != Method::Windows,
            "{path}"
        );
    }
    all.assert(|kind| {
        if kind == FilingKind::TwoColumnPaper.name() {
            PAPER_TITLES
        } else {
            TITLES
        }
    });
    items.assert(|_| ITEMS);
}

#[test]
fn document_writes_at_most_seven_objects() {
    let lab = TestEnv::new();
    lab.put_twelve();
    lab.ingest("store", &[]);
    let objects = objects(&lab.path("store"));
    let of_documents = objects
        .keys()
        .filter(|key| key.contains("/d/") || key.contains("/changes/"))
        .count();
    assert!(
        of_documents <= 12 * OBJECTS_PER_DOCUMENT,
        "{of_documents} objects: {:#?}",
        objects.keys()
    );
}

#[test]
fn scanned_page_is_recorded_as_a_gap() {
    let lab = TestEnv::new();
    let filing = generate(&Spec {
        scanned_page: Some(4),
        ..Spec::new(FilingKind::TenQ, 1)
    });
    lab.put("scanned.pdf", &filing.pdf);
    let summary = lab.ingest("store", &[]);
    assert_eq!(summary["counts"]["done_with_gaps"], 1);
    let trees = trees(&lab.path("store"));
    let tree = &trees["scanned.pdf"].tree;
    assert!(
        codes(&tree.gaps).contains(&("pdf.no_text", Some(4))),
        "{:?}",
        tree.gaps
    );
    assert_whole("scanned.pdf", tree);
    let expected = titles(&filing, |_| true);
    let others: Vec<_> = expected
        .into_iter()
        .filter(|(_, page)| *page != 4)
        .collect();
    assert_eq!(missing(tree, &others, 1), []);
}

#[test]
fn document_without_headings_is_split_into_windows() {
    let lab = TestEnv::new();
    lab.put("prose.pdf", headless());
    lab.ingest("store", &[]);
    let trees = trees(&lab.path("store"));
    let tree = &trees["prose.pdf"].tree;
    assert_eq!(tree.provenance.method, Method::Windows);
    assert!(
        codes(&tree.gaps)
            .iter()
            .any(|(code, _)| *code == "structure.windows"),
        "{:?}",
        tree.gaps
    );
    assert_whole("prose.pdf", tree);
}

/// Pages of prose and nothing else.
fn headless() -> Vec<u8> {
    let look = Typography {
        family: Family::Times,
        size: 10.0,
        leading: 1.2,
        page: (612.0, 792.0),
        margin: 72.0,
        columns: 1,
        back_link: false,
        running_head: false,
        foot: PageFooter::Centered,
        contents_title: None,
        contents_levels: 1,
        bare_parts: false,
        roman_front: false,
    };
    let body = (0..90)
        .map(|n: usize| {
            let sentence = |k: usize| {
                format!(
                    "the {} of lot {} was moved to the {} store",
                    WORDS[(n + k) % 5],
                    n * 7 + k,
                    WORDS[k % 5]
                )
            };
            Block::Prose(
                format!(
                    "In the end {}.",
                    (0..9).map(sentence).collect::<Vec<_>>().join(", and ")
                )
                .into(),
            )
        })
        .collect();
    let manuscript = Manuscript {
        typography: look,
        title: String::new(),
        facts: CoverFacts::default(),
        cover: Vec::new(),
        body,
    };
    typeset(
        &manuscript,
        &Spec {
            contents: ContentsMode::Nothing,
            ..Spec::new(FilingKind::Manual, 1)
        },
    )
    .pdf
}

const WORDS: [&str; 5] = ["timber", "copper", "barley", "linen", "amber"];

#[test]
fn encrypted_documents_open_or_request_a_password() {
    const PASSWORD: &str = "correct-horse-battery";
    let lab = TestEnv::new();
    let of = |encryption, seed| {
        generate(&Spec {
            pages: 8,
            encryption: Some(encryption),
            ..Spec::new(FilingKind::TenK, seed)
        })
    };
    lab.put("rc4.pdf", of(Encryption::EmptyUserRc4, 1).pdf);
    lab.put("aes.pdf", of(Encryption::EmptyUserAes256, 2).pdf);
    lab.put(
        "secret.pdf",
        of(Encryption::Password(PASSWORD.into()), 3).pdf,
    );

    let first = lab.stemma("store", ["--json", "ingest", "filings"]).run();
    assert_eq!(first.code, Some(3));
    let failures = first.json()["failures"].clone();
    assert_eq!(failures[0]["path"], "secret.pdf");
    assert_eq!(failures[0]["code"], "pdf.encrypted_password");
    assert!(
        failures[0]["next"].as_str().unwrap().contains("--password"),
        "{failures}"
    );
    assert_eq!(failures.as_array().unwrap().len(), 1);

    let wrong = lab.ingest("store", &["--password", "wrong-horse"]);
    assert_eq!(wrong["counts"]["failed"], 1);
    assert_eq!(wrong["counts"]["unchanged"], 2);

    let right = lab.ingest("store", &["--password", PASSWORD]);
    assert_eq!(right["counts"]["failed"], 0, "{right:#}");
    assert_eq!(trees(&lab.path("store")).len(), 3);
    for (name, path) in files(&lab.path("store")) {
        let bytes = std::fs::read(path).unwrap();
        for secret in [PASSWORD, "wrong-horse"] {
            assert!(
                !bytes
                    .windows(secret.len())
                    .any(|part| part == secret.as_bytes()),
                "{name} holds the password"
            );
        }
    }
}

/// The truth's titles with the lines they are on.
fn lines(truth: &GeneratedTextTruth) -> Vec<(String, u32)> {
    truth
        .nodes
        .iter()
        .map(|node| (node.title.clone(), node.line))
        .collect()
}

#[test]
fn text_files_become_trees_by_line() {
    let lab = TestEnv::new();
    let mut expected = BTreeMap::new();
    for seed in 0..3 {
        let (text, truth) = markdown(seed, 12);
        lab.put(&format!("{seed}.md"), text);
        expected.insert(format!("{seed}.md"), (truth, 1.0));
    }
    for (kind, name) in TextKind::ALL {
        let (text, truth) = plain_text(7, kind, 12);
        lab.put(&format!("{name}.txt"), text);
        expected.insert(format!("{name}.txt"), (truth, 0.9));
    }
    let summary = lab.ingest("store", &[]);
    assert_eq!(summary["counts"]["failed"], 0, "{summary:#}");
    let trees: BTreeMap<String, PublishedTree> = trees(&lab.path("store"));
    for (path, (truth, least)) in &expected {
        let tree = &trees[path].tree;
        let expected = lines(truth);
        let missing = missing(tree, &expected, 0);
        let share = 1.0 - missing.len() as f64 / expected.len() as f64;
        assert!(
            share >= *least,
            "{path}: {share} of titles; not {missing:?}"
        );
        assert_eq!(tree.extent, Extent::Lines(truth.lines), "{path}");
        assert_whole(path, tree);
    }
}
