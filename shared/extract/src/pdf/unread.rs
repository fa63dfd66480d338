//! What a file has other than the text of its pages, and is not read: attached files, dynamic forms.

use std::collections::BTreeSet;

use hayro_syntax::Pdf;
use hayro_syntax::object::{Array, Dict, Name, Stream, String as PdfString};
use stemma_document::Defect;

use super::destinations::tree_nodes;
use super::strings::decode_text_string;

// Of all pages together.
const MAX_ANNOTATIONS: usize = 200_000;
const MAX_FILES: usize = 10_000;
const LISTED: usize = 10;

/// Returns a defect for each kind of content that is not read.
pub(super) fn find_unread(pdf: &Pdf, root: &Dict<'_>) -> Vec<Defect> {
    let mut files = embedded_files(root);
    attached_to_pages(pdf, &mut files);
    let defect = |code: &str, detail: String| Defect {
        code: code.into(),
        page: None,
        detail,
    };
    let mut defects = Vec::new();
    if has_dynamic_form(root) {
        let detail = "the document is a dynamic form (XFA), whose content is not read";
        defects.push(defect("pdf.xfa_form", detail.into()));
    }
    if let Some(detail) = describe_files(&files) {
        defects.push(defect("pdf.attachments", detail));
    }
    defects
}

fn describe_files(files: &BTreeSet<String>) -> Option<String> {
    let count = files.len();
    let mut names: Vec<&str> = files.iter().take(LISTED).map(String::as_str).collect();
    if count > LISTED {
        names.push("…");
    }
    let names = names.join(", ");
    match count {
        0 => None,
        1 => Some(format!("1 attached file is not read: {names}")),
        _ => Some(format!("{count} attached files are not read: {names}")),
    }
}

// The name tree of attachments, which a portfolio shows instead of its page.
fn embedded_files(root: &Dict<'_>) -> BTreeSet<String> {
    let names = root.get::<Dict<'_>>("Names").unwrap_or_default();
    let mut files = BTreeSet::new();
    for node in tree_nodes(names.get::<Dict<'_>>("EmbeddedFiles"), MAX_FILES) {
        let mut entries = node
            .get::<Array<'_>>("Names")
            .unwrap_or_default()
            .flex_iter();
        while let (Some(name), Some(file)) =
            (entries.next::<PdfString<'_>>(), entries.next::<Dict<'_>>())
            && files.len() < MAX_FILES
        {
            files.insert(file_name(&file).unwrap_or_else(|| decode_text_string(name.as_bytes())));
        }
    }
    files
}

fn file_name(file: &Dict<'_>) -> Option<String> {
    [b"UF".as_slice(), b"F"]
        .iter()
        .filter_map(|key| file.get::<PdfString<'_>>(key))
        .map(|name| decode_text_string(name.as_bytes()))
        .find(|name| !name.is_empty())
}

// A form that also works as a plain one states its fields.
fn has_dynamic_form(root: &Dict<'_>) -> bool {
    let form = root.get::<Dict<'_>>("AcroForm").unwrap_or_default();
    let has_form =
        form.get::<Stream<'_>>("XFA").is_some() || form.get::<Array<'_>>("XFA").is_some();
    let fields = form.get::<Array<'_>>("Fields").unwrap_or_default();
    has_form && (fields.raw_iter().next().is_none() || needs_rendering(root))
}

fn needs_rendering(root: &Dict<'_>) -> bool {
    root.get::<bool>("NeedsRendering").unwrap_or(false)
}

// Files that pages show as icons.
fn attached_to_pages(pdf: &Pdf, files: &mut BTreeSet<String>) {
    let mut room = MAX_ANNOTATIONS;
    for page in pdf.pages().iter() {
        let list = page.raw().get::<Array<'_>>("Annots").unwrap_or_default();
        for annotation in list.iter::<Dict<'_>>().take(room) {
            room -= 1;
            let kind = annotation.get::<Name<'_>>("Subtype");
            if kind.as_deref() == Some(b"FileAttachment") && files.len() < MAX_FILES {
                let file = annotation.get::<Dict<'_>>("FS").unwrap_or_default();
                files.insert(file_name(&file).unwrap_or_else(|| "unnamed".into()));
            }
        }
    }
}
