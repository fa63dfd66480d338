//! Resolves destinations: pages by reference, number or name.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use hayro_syntax::Pdf;
use hayro_syntax::object::{
    Array, Dict, MaybeRef, Name, Object, ObjectIdentifier, String as PdfString,
};
use hayro_syntax::page::Page as PdfPage;
use stemma_document::{Destination, Page, PageNo, Pt, Turn};

use super::matrix::Matrix;
use crate::Limits;

// A name may resolve to a dictionary, which resolves to an array.
const MAX_HOPS: usize = 4;

pub(super) struct Destinations<'a> {
    pdf: &'a Pdf,
    pages: &'a [Page],
    root: Dict<'a>,
    // PDF 1.1 names: a plain dictionary in the catalog.
    legacy_names: OnceCell<Dict<'a>>,
    indices: HashMap<ObjectIdentifier, usize>,
    names: OnceCell<HashMap<Vec<u8>, Object<'a>>>,
    max_names: usize,
}

impl<'a> Destinations<'a> {
    pub(super) fn new(pdf: &'a Pdf, pages: &'a [Page], root: Dict<'a>, limits: &Limits) -> Self {
        let ids = pdf
            .pages()
            .iter()
            .enumerate()
            .filter_map(|(index, page)| Some((page.raw().obj_id()?, index)));
        let mut indices = HashMap::new();
        for (id, index) in ids {
            indices.entry(id).or_insert(index);
        }
        Self {
            pdf,
            pages,
            root,
            legacy_names: OnceCell::new(),
            indices,
            names: OnceCell::new(),
            max_names: limits.max_destinations as usize,
        }
    }

    /// Resolves `/Dest` or a GoTo action of an outline item or link. Other actions are ignored.
    pub(super) fn resolve(&self, item: &Dict<'a>) -> Option<Destination> {
        if let Some(dest) = item.get::<Object<'a>>("Dest") {
            return self.resolve_target(dest);
        }
        let action = item.get::<Dict<'a>>("A")?;
        let kind = action.get::<Name<'_>>("S")?;
        if kind.as_ref() != b"GoTo" {
            return None;
        }
        self.resolve_target(action.get::<Object<'a>>("D")?)
    }

    fn resolve_target(&self, destination: Object<'a>) -> Option<Destination> {
        let mut current = destination;
        for _ in 0..MAX_HOPS {
            current = match current {
                Object::Array(array) => return self.resolve_explicit(&array),
                Object::Dict(dict) => dict.get::<Object<'a>>("D")?,
                Object::Name(name) => self.lookup_name(name.as_ref())?,
                Object::String(name) => self.lookup_name(name.as_bytes())?,
                _ => return None,
            };
        }
        None
    }

    fn resolve_explicit(&self, array: &Array<'a>) -> Option<Destination> {
        let index = match array.raw_iter().next()? {
            MaybeRef::Ref(id) => *self.indices.get(&id.into())?,
            MaybeRef::NotRef(Object::Number(number)) => usize::try_from(number.as_i64()).ok()?,
            MaybeRef::NotRef(_) => return None,
        };
        let page = self.pdf.pages().get(index)?;
        // A destination is the top left corner of what is displayed, which is not a distance from the top of a turned page.
        let is_upright = self.pages.get(index)?.turn == Turn::None;
        let y = scroll_point(array).map(|(x, y)| distance_from_top(page, x, y));
        Some(Destination {
            page: PageNo::from_index(index),
            y: y.filter(|_| is_upright),
        })
    }

    fn lookup_name(&self, name: &[u8]) -> Option<Object<'a>> {
        let old = self
            .legacy_names
            .get_or_init(|| self.root.get::<Dict<'a>>("Dests").unwrap_or_default());
        old.get::<Object<'a>>(name).or_else(|| {
            self.names
                .get_or_init(|| self.read_names())
                .get(name)
                .cloned()
        })
    }

    // Reads the whole name tree. Trees are often unsorted in practice, so a search by limits would miss entries.
    fn read_names(&self) -> HashMap<Vec<u8>, Object<'a>> {
        let mut names = HashMap::new();
        let top = self
            .root
            .get::<Dict<'a>>("Names")
            .and_then(|names| names.get::<Dict<'a>>("Dests"));
        for leaf in tree_nodes(top, self.max_names) {
            let mut entries = leaf
                .get::<Array<'a>>("Names")
                .unwrap_or_default()
                .flex_iter();
            while let (Some(name), Some(value)) = (
                entries.next::<PdfString<'a>>(),
                entries.next::<Object<'a>>(),
            ) {
                if names.len() >= self.max_names {
                    return names;
                }
                names.entry(name.as_bytes().to_vec()).or_insert(value);
            }
        }
        names
    }
}

/// Returns the nodes of a name or number tree in order, without repetitions, at most `limit`.
pub(super) fn tree_nodes<'a>(top: Option<Dict<'a>>, limit: usize) -> Vec<Dict<'a>> {
    let mut nodes = Vec::new();
    let mut visited: HashSet<usize> = HashSet::new();
    let mut stack: Vec<Dict<'a>> = top.into_iter().collect();
    while let Some(node) = stack.pop() {
        // Kids may be direct objects without ids, so nodes are identified by their address.
        if nodes.len() >= limit || !visited.insert(node.data().as_ptr() as usize) {
            continue;
        }
        let kids: Vec<Dict<'a>> = node
            .get::<Array<'a>>("Kids")
            .unwrap_or_default()
            .iter()
            .take(limit)
            .collect();
        stack.extend(kids.into_iter().rev());
        nodes.push(node);
    }
    nodes
}

// In page coordinates (ISO 32000-2, table 149).
fn scroll_point(array: &Array<'_>) -> Option<(f64, f64)> {
    let mut items = array.iter::<Object<'_>>().skip(1);
    let Some(Object::Name(kind)) = items.next() else {
        return None;
    };
    let mut numbers = items.map(|item| item.into_number().map(|number| number.as_f64()));
    match kind.as_ref() {
        b"XYZ" => {
            let left = numbers.next()?;
            Some((left.unwrap_or(0.0), numbers.next()??))
        }
        b"FitH" | b"FitBH" => Some((0.0, numbers.next()??)),
        b"FitR" => {
            let left = numbers.next()??;
            Some((left, numbers.nth(2)??))
        }
        _ => None,
    }
}

fn distance_from_top(page: &PdfPage<'_>, x: f64, y: f64) -> Pt {
    let (_, height) = page.render_dimensions();
    let (_, y) = Matrix(page.initial_transform(true).as_coeffs()).apply(x, y);
    Pt::new((y as f32).clamp(0.0, height.max(0.0)))
}
