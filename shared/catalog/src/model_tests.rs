//! Compares stored catalogs with a model that walks all documents.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use proptest::prelude::*;
use stemma_document::{Change, ChangeKind, DocId, Fact};

use crate::catalog::{Catalog, CatalogDocument};
use crate::display_names::{escape, id_digits, label_with_id, split_name};
use crate::document_changes::DocumentChanges;
use crate::document_order::DocumentOrder;
use crate::document_set::WholeSets;
use crate::facets::{FacetSelector, Scope, path_below};
use crate::filter::Filter;
use crate::fixtures::{self, entry, failure};
use crate::property::Property;
use crate::store::{CatalogStore, StoreBatch};

// What a catalog is, without any index.
#[derive(Default)]
struct Model {
    changes: BTreeMap<DocId, DocumentChanges>,
}

impl Model {
    fn apply(&mut self, change: Change) {
        let (doc, _) = change.kind.version();
        self.changes.entry(doc).or_default().apply(change);
    }

    // By path, then id.
    fn documents(&self) -> Vec<CatalogDocument> {
        let documents = self.changes.values();
        let documents = documents.filter_map(|it| CatalogDocument::from_changes(it, false));
        let mut documents: Vec<CatalogDocument> = documents.collect();
        documents.sort_by_key(|one| (one.version().path.clone(), one.doc()));
        assign_labels(&mut documents);
        documents
    }
}

// Labels every document with its `stem` or `name.ext`, or with the first digits of its id: `stem~3f2a.ext`.
fn assign_labels(documents: &mut [CatalogDocument]) {
    let mut answers: HashMap<String, usize> = HashMap::new();
    for document in documents.iter() {
        let name = document.version().name.as_str();
        let (stem, ending) = split_name(name);
        *answers.entry(name.into()).or_default() += 1;
        if !ending.is_empty() {
            *answers.entry(stem.into()).or_default() += 1;
        }
    }
    let labels: Vec<String> = documents
        .iter()
        .map(|it| unique_label(it, &answers))
        .collect();
    let mut uses: HashMap<&str, u32> = HashMap::new();
    for label in &labels {
        *uses.entry(label).or_default() += 1;
    }
    for (document, label) in documents.iter_mut().zip(&labels) {
        // Two documents with equal names and equal id prefixes get their full ids.
        document.label = match uses.get(label.as_str()) {
            Some(1) => label.clone(),
            _ => document.doc().to_string(),
        };
    }
}

fn unique_label(document: &CatalogDocument, answers: &HashMap<String, usize>) -> String {
    let name = document.version().name.as_str();
    let (stem, ending) = split_name(name);
    let is_unique = |label: &&str| !label.is_empty() && answers.get(*label) == Some(&1);
    if let Some(label) = [stem, name].into_iter().find(is_unique) {
        return escape(label);
    }
    let id = document.doc().to_string();
    let others = answers.get(name).copied().unwrap_or(1);
    let unique = id_digits(others)
        .into_iter()
        .map(|digits| label_with_id(stem, ending, &id, digits))
        .find(|label| !answers.contains_key(label));
    escape(&unique.unwrap_or(id))
}

// Ids that share their first digits, as a few of many random ones do.
fn doc_id(n: u8) -> DocId {
    let prefix = ["aaaabbbb", "aaaacccc", "aaaabbbb", "ddddeeee"][usize::from(n % 4)];
    format!("{prefix}{n:024x}").parse().unwrap()
}

const NAMES: [&str; 10] = [
    "a.pdf",
    "a.txt",
    "a",
    "b.pdf",
    "a.b.pdf",
    "a~aaaa.pdf",
    "a~aaaabbbb.pdf",
    "a~aaaa",
    "",
    ".b",
];
const FOLDERS: [&str; 6] = ["", "x/", "x/y/", "x-1/", "x/y z/", "w/"];
const COMPANIES: [&str; 6] = ["", "3M COMPANY", "3M Co.", "Acme, Inc.", "acme", "Beta"];
const FORMS: [&str; 4] = ["", "10-K", "10-k", "8-K"];
const FILED: [&str; 5] = ["", "2022-02-01", "2022-11-30", "2023-02-01", "unknown"];
const FILTERS: [&str; 14] = [
    "",
    "form = 10-K",
    "form != 10-K",
    "company = \"3M\" and filed >= 2022-03-01",
    "company in (3m, acme) or form = 8-K",
    "fiscal_year < 2003",
    "fiscal_year >= 2003 and pages <= 3",
    "pages in (2, 3)",
    "doubt > 0.3",
    "status = failed",
    "status != failed",
    "name < a.txt",
    "name = A.PDF",
    "cik = 0000000005",
];
const DESCRIPTIONS: [&str; 4] = [
    "",
    "Annual report of Beta, on form 10-K.",
    "ΟΔΥΣΣΕΥΣ\u{a0}a.b",
    "Acme's a.pdf",
];
const WORDS: [&str; 14] = [
    " ",
    "a",
    "A.PDF",
    "10-k",
    "10 k",
    "beta, 10-K",
    "x/y",
    "y z/",
    "οδυσσευς",
    "3m a.",
    "x/ acme",
    "~aaaa b",
    "inc",
    "absent",
];
const PATHS: [&str; 8] = [
    "/",
    "/x",
    "/x/y",
    "/@form/10-K",
    "/@filed/2022",
    "/x/@company/3m",
    "/@company/3..b",
    "/@status/failed",
];

#[derive(Debug, Clone)]
struct Step {
    n: u8,
    name: usize,
    folder: usize,
    values: usize,
    kind: u8,
}

fn change(step: &Step, seq: u64) -> Change {
    let mut entry = entry(NAMES[step.name]);
    entry.version.doc = doc_id(step.n);
    entry.version.seq = seq;
    entry.version.path = format!("{}{}", FOLDERS[step.folder], NAMES[step.name]);
    entry.version.uri = format!("file:///{}", step.n);
    let fact = |values: &[&str], at: usize| {
        let value = values[at % values.len()];
        (!value.is_empty()).then(|| Fact::from_text(value, None))
    };
    entry.facts.issuer = fact(&COMPANIES, step.values);
    if step.values.is_multiple_of(4) {
        let name = Fact::from_text(COMPANIES[step.values / 4 % 5 + 1], None);
        let registrant = serde_json::to_value(name).unwrap();
        entry.facts.co_registrants = vec![serde_json::from_value(registrant).unwrap()];
    }
    entry.facts.form = fact(&FORMS, step.values / 2);
    entry.facts.filed = fact(&FILED, step.values / 3);
    entry.facts.fiscal_year = Some(Fact::from_text((2000 + step.values % 7).to_string(), None));
    entry.facts.cik = Some(Fact::from_text(
        format!("000000000{}", step.values % 10),
        None,
    ));
    let description = DESCRIPTIONS[step.values / 5 % DESCRIPTIONS.len()];
    entry.description = (!description.is_empty()).then(|| description.to_owned());
    entry.doubt = Some(step.values as f32 / 40.0);
    entry.extent = stemma_document::Extent::Pages(u32::from(step.n % 5));
    let kind = match step.kind {
        0 => ChangeKind::Removed {
            doc: doc_id(step.n),
            seq,
        },
        1 => failure(entry.version),
        2 => ChangeKind::Claimed(Box::new(entry.version)),
        _ => ChangeKind::Published(Box::new(entry)),
    };
    let at_ms = seq * 20_000;
    Change { at_ms, kind }
}

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step = (
        0..40_u8,
        0..NAMES.len(),
        0..FOLDERS.len(),
        0..40_usize,
        0..8_u8,
    );
    let step = step.prop_map(|(n, name, folder, values, kind)| Step {
        n,
        name,
        folder,
        values,
        kind,
    });
    prop::collection::vec(prop::collection::vec(step, 1..16), 1..8)
}

fn docs(documents: &[Arc<CatalogDocument>]) -> Vec<DocId> {
    documents.iter().map(|document| document.doc()).collect()
}

fn has_words(document: &CatalogDocument, words: &[String]) -> bool {
    let description = document
        .entry()
        .and_then(|entry| entry.description.as_deref());
    let facts = [Property::Company, Property::Form, Property::Ticker].into_iter();
    let facts = facts.flat_map(|facet| facet.values(document));
    let texts = facts
        .chain(description)
        .chain([document.version().path.as_str()]);
    let text = texts.collect::<Vec<_>>().join("\n").to_lowercase();
    words.iter().all(|word| text.contains(word.as_str()))
}

fn assert_equal(catalog: &Catalog, model: &Model) {
    let expected = model.documents();
    let listed = fixtures::documents(catalog);
    let listed: Vec<CatalogDocument> = listed
        .iter()
        .map(|one| CatalogDocument::clone(one))
        .collect();
    assert_eq!(listed, expected);
    assert_eq!(catalog.len(), expected.len());
    for document in &expected {
        assert_eq!(
            catalog.get(document.doc()).unwrap().as_deref(),
            Some(document)
        );
        let resolved = catalog.resolve(&document.label).map(|found| found.doc());
        assert_eq!(resolved, Ok(document.doc()), "{}", document.label);
        let seq = document.entry().map(|entry| entry.version.seq);
        assert_eq!(catalog.tree_version(document.doc()).unwrap(), seq);
    }
    let matching = |keep: &dyn Fn(&CatalogDocument) -> bool| -> Vec<DocId> {
        expected
            .iter()
            .filter(|one| keep(one))
            .map(CatalogDocument::doc)
            .collect()
    };
    let all = |set| docs(&catalog.list(&set).collect::<Result<Vec<_>, _>>().unwrap());
    for text in FILTERS {
        let filter = Filter::parse(text).unwrap();
        let fitting = matching(&|document| filter.matches(document));
        assert_eq!(all(catalog.matching(&filter).unwrap()), fitting, "{text}");
    }
    for text in PATHS {
        // No document has the folder or the value.
        let Ok(scope) = Scope::parse(text, catalog) else {
            continue;
        };
        let inside = catalog.in_scope(&scope).unwrap();
        assert_eq!(
            all(inside.clone()),
            matching(&|it| scope.contains(it)),
            "{text}"
        );
        for facet in Property::facets() {
            let counts = catalog.facet_counts(&inside, facet).unwrap();
            let mut values: BTreeMap<String, BTreeSet<DocId>> = BTreeMap::new();
            let mut without = 0;
            for document in expected.iter().filter(|document| scope.contains(document)) {
                let own = facet.values(document);
                without += usize::from(own.is_empty());
                for value in own {
                    let value = facet.canonical(value);
                    values.entry(value).or_default().insert(document.doc());
                }
            }
            let counted: Vec<(String, usize)> = counts
                .values
                .iter()
                .map(|value| (value.normalized.clone(), value.documents))
                .collect();
            let expected: Vec<(String, usize)> = values
                .iter()
                .map(|(value, docs)| (value.clone(), docs.len()))
                .collect();
            assert_eq!(counted, expected, "{text} {facet:?}");
            assert_eq!(counts.without, without, "{text} {facet:?}");
            if scope.filters.is_empty() {
                assert_eq!(scope.value_count(facet, catalog).unwrap(), values.len());
            }
            for value in &counts.values {
                assert_eq!(facet.canonical(&value.value), value.normalized);
                let exact = FacetSelector::Exact(value.normalized.clone());
                let with_value = catalog.with_value(facet, &exact).unwrap().and(&inside);
                assert_eq!(with_value.len(), value.documents);
            }
        }
    }
    for folder in ["", "x", "x/y"] {
        let level = catalog.folder_level(folder).unwrap();
        let mut folders: BTreeMap<String, usize> = BTreeMap::new();
        let mut direct = Vec::new();
        for document in &expected {
            match path_below(folder, &document.version().path).map(|rest| rest.split_once('/')) {
                Some(Some((inner, _))) => *folders.entry(inner.into()).or_default() += 1,
                Some(None) => direct.push(document.doc()),
                None => {}
            }
        }
        assert_eq!(
            level.folders,
            folders.into_iter().collect::<Vec<_>>(),
            "{folder}"
        );
        assert_eq!(docs(&level.documents), direct, "{folder}");
    }
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for document in &expected {
        for (at, _) in document.version().path.match_indices('/') {
            *folders
                .entry(document.version().path[..at].into())
                .or_default() += 1;
        }
    }
    assert_eq!(
        catalog.folders().unwrap(),
        folders.into_iter().collect::<Vec<_>>()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_stored_catalog_equals_a_walk_over_its_documents(batches in steps(), equal in 0..30_u8) {
        let mut model = Model::default();
        let store = CatalogStore::in_memory().unwrap();
        let same = (0..equal).map(|n| change(&Step { n: 100 + n, name: 0, folder: 0, values: 0, kind: 9 }, 1));
        let changes: Vec<Change> = same.collect();
        changes.iter().cloned().for_each(|change| model.apply(change));
        store.apply(StoreBatch { changes, ..StoreBatch::default() }).unwrap();
        let mut seq = 1;
        for batch in batches {
            let before = Catalog::from_store(&store).unwrap();
            let unchanged = fixtures::documents(&before);
            let mut changes = Vec::new();
            for step in &batch {
                seq += 1;
                changes.push(change(step, seq));
            }
            changes.iter().cloned().for_each(|change| model.apply(change));
            let changed = store.apply(StoreBatch { changes, ..StoreBatch::default() }).unwrap();
            let after = Catalog::from_store(&store).unwrap();
            let since = after.changed_since(&before.state()).unwrap().unwrap();
            prop_assert_eq!(since, changed.into_iter().collect::<BTreeSet<_>>());
            prop_assert_eq!(fixtures::documents(&before), unchanged);
        }
        assert_equal(&Catalog::from_store(&store).unwrap(), &model);
    }

    #[test]
    fn pages_of_a_list_are_the_documents_in_its_order(
        batches in steps(), limit in 3..9_usize, folder in prop::sample::select(vec!["", "x"]),
        is_descending in any::<bool>(), is_read in any::<bool>(), is_sorted in any::<bool>(),
    ) {
        let store = CatalogStore::in_memory().unwrap();
        let changes = batches.iter().flatten().zip(1..).map(|(step, seq)| change(step, seq));
        store.apply(StoreBatch { changes: changes.collect(), ..StoreBatch::default() }).unwrap();
        let catalog = Catalog::from_store(&store).unwrap();
        let scope = Scope { folder: folder.into(), ..Scope::default() };
        let inside = catalog.in_scope(&scope).unwrap();
        // Sets are read as a whole, or not at all.
        let limit_of = |is_whole| if is_whole { 1_000 } else { 0 };
        let whole = WholeSets { max_read: limit_of(is_read), max_sorted: limit_of(is_sorted) };
        for field in Property::orders() {
            let order = DocumentOrder { field, is_descending };
            let mut expected = fixtures::documents(&catalog);
            expected.retain(|it| scope.contains(it));
            expected.sort_by(|one, other| order.compare(&order.position(one), &order.position(other)));
            let mut pages: Vec<Arc<CatalogDocument>> = Vec::new();
            loop {
                let after = pages.last().map(|last| order.position(last));
                let page = catalog.list_ordered_by(&inside, order, after, whole).take(limit);
                let page = page.collect::<Result<Vec<_>, _>>().unwrap();
                if page.is_empty() {
                    break;
                }
                pages.extend(page);
            }
            prop_assert_eq!(docs(&pages), docs(&expected), "{} in {}", order, folder);
        }
    }

    #[test]
    fn words_occur_in_the_documents_that_a_walk_finds(batches in steps()) {
        let store = CatalogStore::in_memory().unwrap();
        let mut seq = 0;
        for batch in &batches {
            let changes = batch.iter().map(|step| {
                seq += 1;
                change(step, seq)
            });
            store.apply(StoreBatch { changes: changes.collect(), ..StoreBatch::default() }).unwrap();
        }
        let catalog = Catalog::from_store(&store).unwrap();
        let listed = fixtures::documents(&catalog);
        for folder in ["", "x"] {
            let scope = Scope { folder: folder.into(), ..Scope::default() };
            let inside = catalog.in_scope(&scope).unwrap();
            for text in WORDS {
                let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
                let walked = listed.iter().filter(|it| scope.contains(it) && has_words(it, &words));
                let walked: BTreeSet<DocId> = walked.map(|document| document.doc()).collect();
                let found = catalog.containing_words(&inside, text).unwrap();
                let found: BTreeSet<DocId> = catalog.ids(&found).unwrap().into_iter().collect();
                prop_assert_eq!(found, walked, "{} in {}", text, folder);
            }
        }
    }
}
