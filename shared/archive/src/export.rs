//! Export: one file per document.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use stemma_catalog::catalog::CatalogDocument;
use stemma_document::{PageNo, PublishedTree, SourceBody, pageindex};

use crate::archive::{reserve_tree, spawn_cpu};
use crate::{ApiError, Archive};

/// Bytes of a path segment that is written.
const MAX_SEGMENT_BYTES: usize = 200;

/// Content of exported files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// The tree as PageIndex-compatible JSON.
    PageIndex {
        /// Include the own text of each node.
        text: bool,
    },
    /// Lines of JSON, one per page: `{"doc", "page", "text"}`; a text without pages is one page.
    Pages,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFile {
    /// Relative path with folders; never leaves the folder it is joined to.
    pub path: String,
    pub content: String,
}

impl Archive {
    /// File paths for documents, without endings: folders as ingested and the stem of the name; where two would be the
    /// same (also without regard to case), `stem~3f2a`.
    pub fn export_paths(&self, documents: &[Arc<CatalogDocument>]) -> Vec<String> {
        let mut used_paths: HashSet<String> = HashSet::new();
        documents
            .iter()
            .map(|listed| {
                let plain = safe_path(&listed.version().path);
                let id = listed.doc().to_string();
                let choices = [
                    plain.clone(),
                    format!("{plain}~{}", &id[..4]),
                    format!("{plain}~{id}"),
                ];
                let free = choices
                    .iter()
                    .find(|choice| used_paths.insert(choice.to_lowercase()));
                free.cloned().unwrap_or(id)
            })
            .collect()
    }

    /// Exports one document; `path` is from [`Archive::export_paths`].
    pub async fn export(
        &self,
        listed: &CatalogDocument,
        path: &str,
        format: ExportFormat,
    ) -> Result<ExportedFile, ApiError> {
        let published = self.require_tree(listed).await?;
        match format {
            ExportFormat::PageIndex { text } => {
                let body = if text {
                    self.load_body(&published).await?
                } else {
                    None
                };
                reserve_tree(&published).await?;
                let content = spawn_cpu(move || pageindex_json(&published, body.as_ref())).await?;
                Ok(ExportedFile {
                    path: format!("{path}.json"),
                    content,
                })
            }
            ExportFormat::Pages => {
                let body = self.require_body(listed, &published).await?;
                let stem = path.rsplit('/').next().unwrap_or(path).to_owned();
                Ok(ExportedFile {
                    path: format!("{path}.jsonl"),
                    content: spawn_cpu(move || page_lines(&stem, &body)).await?,
                })
            }
        }
    }
}

fn pageindex_json(published: &PublishedTree, body: Option<&SourceBody>) -> String {
    let own = body.map(|body| move |section: &_| stemma_document::text::own_text(section, body));
    let own = own.as_ref().map(|own| own as &dyn Fn(&_) -> String);
    let options = pageindex::ExportOptions {
        text: own,
        ..pageindex::ExportOptions::default()
    };
    let mut content = format!("{:#}", pageindex::export(published, options));
    content.push('\n');
    content
}

fn page_lines(stem: &str, body: &SourceBody) -> String {
    let mut content = String::new();
    let mut line = |page: u32, text: String| {
        let _ = writeln!(
            content,
            "{}",
            serde_json::json!({ "doc": stem, "page": page, "text": text })
        );
    };
    match body {
        SourceBody::Pages(pages) => {
            for (index, page) in pages.iter().enumerate() {
                line(PageNo::from_index(index).get(), page.text());
            }
        }
        SourceBody::Lines(text) => line(1, text.lines.join("\n")),
    }
    content
}

/// A path as ingested without its ending, made of segments every file system takes.
fn safe_path(path: &str) -> String {
    let mut segments: Vec<String> = path
        .split(['/', '\\'])
        .map(safe_segment)
        .filter(|segment| !segment.is_empty())
        .collect();
    if let Some(last) = segments.last_mut()
        && let Some(at) = last
            .rfind('.')
            .filter(|at| *at > 0 && last.len() - at <= 16)
    {
        last.truncate(at);
    }
    if segments.is_empty() {
        "document".into()
    } else {
        segments.join("/")
    }
}

fn safe_segment(segment: &str) -> String {
    if segment == "." || segment == ".." {
        return String::new();
    }
    let safe = segment.replace(|c: char| c.is_control() || "<>:\"|?*".contains(c), "_");
    if safe.len() <= MAX_SEGMENT_BYTES {
        return safe;
    }
    // The extension stays.
    let (stem, ending) = safe
        .rfind('.')
        .filter(|at| safe.len() - at <= 16)
        .map_or((&*safe, ""), |at| safe.split_at(at));
    format!(
        "{}{ending}",
        &stem[..stem.floor_char_boundary(MAX_SEGMENT_BYTES - 20)]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn export_paths_stay_inside_the_folder() {
        for (path, safe) in [
            ("10-K/2022/a.pdf", "10-K/2022/a"),
            ("../../etc/passwd", "etc/passwd"),
            ("/abs/./x.md", "abs/x"),
            ("..\\..\\x.pdf", "x"),
            ("a\u{0}b:c.pdf", "a_b_c"),
            ("", "document"),
            (".hidden", ".hidden"),
        ] {
            assert_eq!(safe_path(path), safe);
        }
        assert!(safe_path(&"x".repeat(1_000)).len() <= MAX_SEGMENT_BYTES);
    }
}
