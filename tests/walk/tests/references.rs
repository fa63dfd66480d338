//! References of generated filings: what they mention leads to the section it names, and to nothing else.

use stemma_document::{ReferenceTarget, Section, SectionTree};
use stemma_extract::{Limits, pdf};
use stemma_filings::{Contents, Filing, Kind, Spec, TruthReference, generate};
use stemma_outline::sections::{SectionSettings, finish};
use stemma_outline::structure::{StructureSettings, outline};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Share of mentions that must lead to the section they name.
const FLOOR: f64 = 0.90;

/// The kinds whose documents mention places of their own.
const KINDS: [Kind; 6] = [
    Kind::TenK,
    Kind::TenQ,
    Kind::EightKWithAgreement,
    Kind::Manual,
    Kind::Agreements,
    Kind::Integrated,
];

fn tree(filing: &Filing) -> Result<SectionTree> {
    let source = pdf::read(&filing.pdf, None, &Limits::default(), 1)?;
    let draft = outline(&source, &StructureSettings::default())?;
    let tree = SectionTree::build(&draft.outline, draft.method, Vec::new());
    Ok(finish(
        tree,
        &source,
        &SectionSettings::default(),
        &draft.labels,
    ))
}

fn first_page(section: &Section) -> Option<u32> {
    section.span.pages().map(|pages| pages.start().get())
}

/// Where the mentions of this wording on its page lead, as titles and pages.
fn found(tree: &SectionTree, wanted: &TruthReference) -> Vec<Option<(String, u32)>> {
    let named = wanted.text.to_lowercase();
    let same = tree.references.iter().filter(|reference| {
        let text = reference.text.to_lowercase();
        (named == text || named.starts_with(&format!("{text} ")))
            && tree
                .section(reference.from)
                .is_some_and(|section: &Section| {
                    section.span.pages().is_some_and(|span| {
                        (span.start().get()..=span.end().get()).contains(&wanted.page)
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
fn mentions_in_generated_filings_lead_to_the_sections_they_name() -> Result<()> {
    let mut all = 0;
    let mut right = 0;
    let mut wrong = Vec::new();
    for seed in 0..20 {
        let kind = KINDS[seed as usize % KINDS.len()];
        let contents = Contents::ALL[seed as usize % Contents::ALL.len()];
        let filing = generate(&Spec {
            contents,
            pages: 12,
            ..Spec::of(kind, seed)
        });
        let tree = tree(&filing)?;
        for wanted in &filing.truth.references {
            let Some(target) = wanted.target.and_then(|at| filing.truth.nodes.get(at)) else {
                continue;
            };
            let found = found(&tree, wanted);
            all += 1;
            if found.iter().flatten().any(|(_, page)| *page == target.page) {
                right += 1;
            } else {
                let text = &wanted.text;
                let title = &target.title;
                let page = target.page;
                wrong.push(format!(
                    "{kind:?} {seed} {contents:?} {text}: {title} p {page}, got {found:?}"
                ));
            }
        }
    }
    assert!(all >= 40, "only {all} mentions");
    assert!(
        f64::from(right) >= FLOOR * f64::from(all),
        "{right}/{all}\n{}",
        wrong.join("\n")
    );
    Ok(())
}
