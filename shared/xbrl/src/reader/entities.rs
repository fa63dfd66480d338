//! Character references. Entities that a file declares itself are not expanded.

use quick_xml::escape::resolve_predefined_entity;

/// Appends the character of a reference, given without `&` and `;`. An unknown one stays as written.
pub(crate) fn push_entity(text: &mut String, entity: &str) {
    let number = match entity.strip_prefix('#') {
        Some(hex) if hex.starts_with(['x', 'X']) => u32::from_str_radix(&hex[1..], 16).ok(),
        Some(decimal) => decimal.parse().ok(),
        None => None,
    };
    if let Some(character) = number.and_then(char::from_u32) {
        text.push(character);
    } else if let Some(known) = resolve_predefined_entity(entity).or_else(|| html_entity(entity)) {
        text.push_str(known);
    } else {
        text.push('&');
        text.push_str(entity);
        text.push(';');
    }
}

pub(crate) fn unescape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('&') {
        text.push_str(before);
        match after
            .split_once(';')
            .filter(|(entity, _)| is_entity(entity))
        {
            Some((entity, behind)) => {
                push_entity(&mut text, entity);
                rest = behind;
            }
            None => {
                text.push('&');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

fn is_entity(entity: &str) -> bool {
    // The longest name of HTML has 31 letters.
    (1..=31).contains(&entity.len())
        && entity
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'#')
}

// Entities of HTML that filings use although XML does not have them.
fn html_entity(entity: &str) -> Option<&'static str> {
    Some(match entity {
        "nbsp" => "\u{A0}",
        "ndash" => "\u{2013}",
        "mdash" => "\u{2014}",
        "lsquo" => "\u{2018}",
        "rsquo" => "\u{2019}",
        "ldquo" => "\u{201C}",
        "rdquo" => "\u{201D}",
        "bull" => "\u{2022}",
        "sect" => "\u{A7}",
        "reg" => "\u{AE}",
        "copy" => "\u{A9}",
        "trade" => "\u{2122}",
        "minus" => "\u{2212}",
        _ => return None,
    })
}
