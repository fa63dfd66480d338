//! Cross-references of generated filings: each mention resolves to the section that it names.

use stemma_document::{ReferenceTarget, Section, SectionTree};
use stemma_extract::{Limits, pdf};
use stemma_filings::{ContentsMode, Filing, FilingKind, ReferenceTruth, Spec, generate};
use stemma_outline::enrich::{SectionSettings, finish};
use stemma_outline::structure::{StructureSettings, outline};
use stemma_reading::document_reading::DocumentReading;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

// Share of mentions that must resolve to the named section.
const MIN_RESOLVED_SHARE: f64 = 0.90;

// Kinds whose documents mention their own sections.
const KINDS: [FilingKind; 6] = [
    FilingKind::TenK,
    FilingKind::TenQ,
    FilingKind::EightKWithAgreement,
    FilingKind::Manual,
    FilingKind::Agreements,
    FilingKind::Integrated,
];

fn tree(filing: &Filing) -> Result<SectionTree> {
    let source = pdf::read(&filing.pdf, None, &Limits::default(), 1)?;
    let draft = outline(&source, &StructureSettings::default())?;
    let tree = SectionTree::build(&draft.outline, draft.method, Vec::new());
    Ok(finish(
        tree,
        &source,
        &DocumentReading::new(&source.body).lines,
        &SectionSettings::default(),
        &draft.labels,
    ))
}

fn first_page(section: &Section) -> Option<u32> {
    section.span.pages().map(|pages| pages.start().get())
}

// The targets of all mentions with this wording on its page, as titles and pages.
fn resolved_targets(tree: &SectionTree, truth: &ReferenceTruth) -> Vec<Option<(String, u32)>> {
    let wording = truth.text.to_lowercase();
    let same = tree.references.iter().filter(|reference| {
        let text = reference.text.to_lowercase();
        (wording == text || wording.starts_with(&format!("{text} ")))
            && tree
                .section(reference.from)
                .is_some_and(|section: &Section| {
                    section.span.pages().is_some_and(|span| {
                        (span.start().get()..=span.end().get()).contains(&truth.page)
                    })
                })
    });
    same.map(|reference| match reference.to {
        ReferenceTarget::Section(id) => tree
            .section(id)
            .and_then(|section| Some((section.title.clone(), first_page(section)?))),
        ReferenceTarget::Unresolved => None,
    })
    .collect()
}

#[test]
fn generated_references_resolve() -> Result<()> {
    let mut all = 0;
    let mut right = 0;
    let mut wrong = Vec::new();
    for seed in 0..20 {
        let kind = KINDS[seed as usize % KINDS.len()];
        let contents = ContentsMode::ALL[seed as usize % ContentsMode::ALL.len()];
        let filing = generate(&Spec {
            contents,
            pages: 12,
            ..Spec::new(kind, seed)
        });
        let tree = tree(&filing)?;
        for truth in &filing.truth.references {
            let Some(target) = truth.target.and_then(|at| filing.truth.nodes.get(at)) else {
                continue;
            };
            let targets = resolved_targets(&tree, truth);
            all += 1;
            if targets
                .iter()
                .flatten()
                .any(|(_, page)| *page == target.page)
            {
                right += 1;
            } else {
                let text = &truth.text;
                let title = &target.title;
                let page = target.page;
                wrong.push(format!(
                    "{kind:?} {seed} {contents:?} {text}: {title} p {page}, got {targets:?}"
                ));
            }
        }
    }
    assert!(all >= 40, "only {all} mentions");
    assert!(
        f64::from(right) >= MIN_RESOLVED_SHARE * f64::from(all),
        "{right}/{all}\n{}",
        wrong.join("\n")
    );
    Ok(())
}
