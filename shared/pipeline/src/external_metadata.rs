//! Facts about a document that do not come from its text: from a sidecar file, and from a path in EDGAR's
//! layout.
//!
//! They belong to a submission, not to the bytes, so no stage before publication reads them. The same text in
//! two places shares one tree, and a changed sidecar repeats the publication only.

use stemma_document::{DocumentVersion, Fact, FactDefinition, FactSource, FilingFacts};

use crate::filing_facts;
use crate::sources::{file_path, parse_object_uri};

/// Adds the facts of path, index files and sidecar to the facts of the text. A sidecar overrides everything, because the owner
/// of the archive wrote it. A path counts less than the header of a submission.
pub(crate) fn apply(facts: &mut FilingFacts, version: &DocumentVersion) {
    let (cik, accession) = path_facts(&version.uri);
    if facts.accession.is_none() {
        facts.accession = accession.map(|value| Fact::from_source(value, FactSource::Path));
    }
    if facts.cik.is_none() {
        facts.cik = cik.map(|value| Fact::from_source(value, FactSource::Path));
    }
    filing_facts::apply(facts, &version.filing_facts);
    for (name, value) in &version.sidecar_facts {
        if let Some(definition) = FactDefinition::from_sidecar_name(name)
            && let Some(value) = definition.canonical(value)
        {
            definition.set(facts, Fact::from_source(value, FactSource::Sidecar));
        }
    }
}

// CIK and accession number from `…/CIK/ACCESSION/…` or `…/CIK/ACCESSION.txt`; `ACCESSION.pdf` alone gives
// the accession number. The first ten digits of an accession number name the filing agent, so they are never
// used as the CIK.
fn path_facts(uri: &str) -> (Option<String>, Option<String>) {
    let path = file_path(uri).or_else(|| parse_object_uri(uri).map(|(_, key)| key.into()));
    let Some(path) = path else {
        return (None, None);
    };
    let names: Vec<String> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    let last = names.len().saturating_sub(1);
    let accession = |at: usize| {
        let name = if at == last {
            names[at].split('.').next().unwrap_or_default()
        } else {
            names[at].as_str()
        };
        let name = name.strip_suffix("-index").unwrap_or(name);
        FilingFacts::parse_accession(name)
    };
    let Some((at, accession)) = (0..names.len())
        .rev()
        .find_map(|at| Some((at, accession(at)?)))
    else {
        return (None, None);
    };
    // Digits without hyphens are an EDGAR folder only if the folder above is a CIK.
    let above = at
        .checked_sub(1)
        .and_then(|above| FilingFacts::parse_cik(&names[above]));
    let hyphened = names[at].contains('-');
    (
        above.clone(),
        (hyphened || above.is_some()).then_some(accession),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edgar_paths_give_cik_and_accession() {
        for (uri, expected) in [
            (
                "file:///edgar/data/320193/000032019322000108/aapl.pdf",
                "320193 0000320193-22-000108",
            ),
            (
                "file:///a/320193/0000320193-22-000108.txt",
                "320193 0000320193-22-000108",
            ),
            (
                "file:///a/0000320193/0000320193-22-000108/10-K.pdf",
                "320193 0000320193-22-000108",
            ),
            (
                "file:///a/filings/0000320193-22-000108.pdf",
                " 0000320193-22-000108",
            ),
            ("file:///a/filings/000032019322000108.pdf", " "),
            ("file:///a/2022/AAPL_320193.pdf", " "),
            (
                "s3://bucket/320193/0000320193-22-000108.txt",
                "320193 0000320193-22-000108",
            ),
            ("https://host/320193/0000320193-22-000108.txt", " "),
        ] {
            let (cik, accession) = path_facts(uri);
            let facts = [cik.unwrap_or_default(), accession.unwrap_or_default()].join(" ");
            assert_eq!(facts, expected, "{uri}");
        }
    }
}
