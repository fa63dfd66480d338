//! A filing with its file: a PDF that is written here, read by extraction and drawn by the renderer.

use std::fmt::Write;

use stemma_document::{
    Collection, Digest, DocumentVersion, FilingFacts, PageOrigin, Recognition, SourceBody,
    blob_keys,
};
use stemma_extract::{EncodedSource, ExtractJob, Extractor, InProcess, Limits};
use stemma_store::blobs::Blobs;

use crate::{publish_version, version};

// Top line of US letter, in points.
const TOP: usize = 720;
const LEADING: usize = 20;

/// Publishes a PDF whose pages have these lines.
pub async fn publish_pdf(blobs: &dyn Blobs, path: &str, pages: &[&str], facts: FilingFacts) {
    let file = pdf(pages);
    let body = read(path, &file).await;
    publish_file(blobs, path, file, body, facts).await;
}

/// Publishes such a PDF as if text recognition had read it, unsure of the last word of each page.
pub async fn publish_scan(blobs: &dyn Blobs, path: &str, pages: &[&str]) {
    let file = pdf(pages);
    let mut body = read(path, &file).await;
    if let SourceBody::Pages(pages) = &mut body {
        for page in pages {
            let words = page.lines.iter().map(|line| line.words.len()).sum();
            let mut confidences = vec![96; words];
            if let Some(last) = confidences.last_mut() {
                *last = 41;
            }
            page.origin = PageOrigin::Recognized(Box::new(Recognition {
                confidences,
                ..Recognition::default()
            }));
        }
    }
    publish_file(blobs, path, file, body, FilingFacts::default()).await;
}

async fn read(path: &str, file: &[u8]) -> SourceBody {
    let job = ExtractJob::new(path.into(), file.to_vec(), None, Limits::default());
    let source = InProcess.extract(job).await.unwrap();
    let mut body = EncodedSource::open(source).unwrap().decode().unwrap().body;
    // The pipeline counts them later; what has none is not read for an answer.
    if let SourceBody::Pages(pages) = &mut body {
        for line in pages.iter_mut().flat_map(|page| &mut page.lines) {
            line.tokens = line.words.len() as u32;
        }
    }
    body
}

/// Publishes a document with this text as read from `file`.
pub async fn publish_file(
    blobs: &dyn Blobs,
    path: &str,
    file: Vec<u8>,
    body: SourceBody,
    facts: FilingFacts,
) {
    let version = DocumentVersion {
        source: Digest::from_content(&file),
        size_bytes: file.len() as u64,
        ..version(path, 1)
    };
    let [original, _] = blob_keys::original_keys(&Collection::default(), version.source);
    blobs.put(&original, file.into()).await.unwrap();
    publish_version(blobs, version, body, facts, None).await;
}

/// A PDF with a line of Helvetica for each line of a page. Readers find its objects without a table of them.
pub fn pdf(pages: &[&str]) -> Vec<u8> {
    let kids = (0..pages.len()).map(|at| format!("{} 0 R ", 4 + 2 * at));
    let mut file = format!(
        "%PDF-1.7\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n\
         2 0 obj\n<</Type/Pages/Count {}/Kids[{}]/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>>>\nendobj\n\
         3 0 obj\n<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>\nendobj\n",
        pages.len(),
        kids.collect::<String>()
    );
    for (at, text) in pages.iter().enumerate() {
        let lines = text.lines().enumerate().map(|(at, line)| {
            let escaped = line
                .replace('\\', "\\\\")
                .replace('(', "\\(")
                .replace(')', "\\)");
            let y = TOP - at * LEADING;
            format!("BT /F1 12 Tf 72 {y} Td ({escaped}) Tj ET\n")
        });
        let content: String = lines.collect();
        let page = 4 + 2 * at;
        write!(
            file,
            "{page} 0 obj\n<</Type/Page/Parent 2 0 R/Contents {} 0 R>>\nendobj\n\
             {} 0 obj\n<</Length {}>>stream\n{content}\nendstream\nendobj\n",
            page + 1,
            page + 1,
            content.len()
        )
        .unwrap();
    }
    file.push_str("trailer\n<</Root 1 0 R>>\n%%EOF\n");
    file.into_bytes()
}
