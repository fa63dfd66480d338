//! Opaque pagination cursors, bound to the filters of their listing.

use crate::problem::Problem;

/// Encodes a position. The cursor is valid only with the same filters (`under`).
pub fn encode(under: &str, place: &str) -> String {
    let text = format!("{}\n{place}", digest(under));
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes a position. An invalid cursor is an error, never the first page.
pub fn decode(text: &str, under: &str) -> Result<String, Problem> {
    decode_position(text, under).ok_or_else(invalid)
}

/// The number of hits to skip; 0 without a cursor.
pub fn decode_offset(cursor: Option<String>, under: &str) -> Result<usize, Problem> {
    cursor.map_or(Ok(0), |text| {
        decode(&text, under)?.parse().map_err(|_| invalid())
    })
}

/// The problem for a cursor that is malformed, from another listing, or whose position no longer exists.
pub fn invalid() -> Problem {
    let detail =
        "the cursor is not one of this listing: what is asked must stay the same from page to page";
    Problem::new(400, "cursor.invalid", detail).with_next("ask again without a cursor")
}

fn decode_position(text: &str, under: &str) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? * 16 + digit(*low)?),
        _ => None,
    });
    let text = String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()?;
    let (expected_digest, place) = text.split_once('\n')?;
    (expected_digest == digest(under)).then(|| place.to_owned())
}

fn digest(under: &str) -> String {
    blake3::hash(under.as_bytes())
        .to_hex()
        .chars()
        .take(16)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_bound_to_their_filters() {
        let text = encode("form=10-K", "10-K/a\nb ä.pdf");
        assert_eq!(decode(&text, "form=10-K").unwrap(), "10-K/a\nb ä.pdf");
        assert!(decode(&text, "form=8-K").is_err());
        for wrong in [
            "",
            "0",
            "zz",
            "é",
            "00",
            &text[2..],
            &text.to_uppercase()[..10],
        ] {
            assert_eq!(
                decode(wrong, "form=10-K").unwrap_err().code(),
                "cursor.invalid",
                "{wrong}"
            );
        }
    }
}
