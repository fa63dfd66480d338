//! Where a listing goes on: after a document, under the same filters.

use stemma_document::DocId;

use super::problem::Problem;

/// The place after which a listing goes on, in order of (path, id).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Path of the last document listed.
    pub(super) path: String,
    /// Its id.
    pub(super) doc: DocId,
}

impl Cursor {
    /// The cursor as text; it goes on under the same `filters` only.
    pub(super) fn show(&self, filters: &str) -> String {
        let text = format!("{}\n{}\n{}", digest(filters), self.doc, self.path);
        text.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads a cursor; a wrong one is never page one.
    pub(super) fn parse(text: &str, filters: &str) -> Result<Self, Problem> {
        read(text, filters).ok_or_else(|| {
            let detail = "the cursor is not one of this listing: filters must stay the same from page to page";
            Problem::new(400, "cursor.invalid", detail).next("ask again without a cursor")
        })
    }
}

fn read(text: &str, filters: &str) -> Option<Cursor> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? * 16 + digit(*low)?),
        _ => None,
    });
    let text = String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()?;
    let mut parts = text.splitn(3, '\n');
    let (under, doc, path) = (parts.next()?, parts.next()?, parts.next()?);
    (under == digest(filters)).then_some(Cursor { path: path.into(), doc: doc.parse().ok()? })
}

fn digest(filters: &str) -> String {
    blake3::hash(filters.as_bytes()).to_hex().chars().take(16).collect()
}

#[cfg(test)]
mod tests {
    use stemma_document::Collection;

    use super::*;

    #[test]
    fn a_cursor_goes_on_under_its_own_filters_only() {
        let cursor = Cursor { path: "10-K/a\nb ä.pdf".into(), doc: DocId::of(&Collection::default(), "file:///a") };
        let text = cursor.show("form=10-K");
        assert_eq!(Cursor::parse(&text, "form=10-K").unwrap(), cursor);
        assert!(Cursor::parse(&text, "form=8-K").is_err());
        for wrong in ["", "0", "zz", "é", "00", &text[2..], &text.to_uppercase()[..10]] {
            assert_eq!(Cursor::parse(wrong, "form=10-K").unwrap_err().code(), "cursor.invalid", "{wrong}");
        }
    }
}
