//! Minimal `multipart/form-data` (RFC 7578) parser for one document and a few fields, in memory.

use axum::http::{HeaderMap, header};
use bytes::Bytes;

const MAX_FIELDS: usize = 64;
const MAX_HEAD_BYTES: usize = 8 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormField {
    pub name: String,
    /// Only for files.
    pub file_name: Option<String>,
    pub bytes: Bytes,
}

impl FormField {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Parses the fields of a form. `None` if it is malformed, truncated or has too many fields.
pub fn parse_form(headers: &HeaderMap, body: &Bytes) -> Option<Vec<FormField>> {
    let boundary = boundary(headers.get(header::CONTENT_TYPE)?.to_str().ok()?)?;
    let mark = format!("--{boundary}").into_bytes();
    let first = &mark[..];
    let between = [b"\r\n".as_slice(), &mark].concat();
    let mut at = find_bytes(body, first, 0)? + first.len();
    let mut fields = Vec::new();
    loop {
        if body[at..].starts_with(b"--") {
            return Some(fields);
        }
        let begin = at + body[at..].starts_with(b"\r\n").then_some(2)?;
        let head_end = find_bytes(body, b"\r\n\r\n", begin.saturating_sub(2))?;
        let end = find_bytes(body, &between, head_end + 2)?;
        if fields.len() == MAX_FIELDS || head_end.saturating_sub(begin) > MAX_HEAD_BYTES {
            return None;
        }
        let head = String::from_utf8_lossy(body.get(begin..head_end.max(begin))?).into_owned();
        let disposition = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.trim()
                .eq_ignore_ascii_case("content-disposition")
                .then(|| value.to_owned())
        })?;
        let content = body.slice((head_end + 4).min(end)..end);
        let name = parameter(&disposition, "name")?;
        fields.push(FormField {
            name,
            file_name: parameter(&disposition, "filename"),
            bytes: content,
        });
        at = end + between.len();
    }
}

fn boundary(kind: &str) -> Option<String> {
    let (kind, parameters) = kind.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameter(&format!(";{parameters}"), "boundary")?;
    (1..=70).contains(&boundary.len()).then_some(boundary)
}

// `; name="value"` or `; name=value`. Clients escape quotes as `%22` (browsers) or with a backslash (RFC 2183).
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    while let Some((_, next)) = rest.split_once(';') {
        rest = next;
        let (key, value) = rest.split_once('=')?;
        if !key.trim().eq_ignore_ascii_case(name) {
            continue;
        }
        let Some(quoted) = value.trim_start().strip_prefix('"') else {
            return Some(
                value
                    .split(';')
                    .next()
                    .unwrap_or_default()
                    .trim()
                    .to_owned(),
            );
        };
        let mut unescaped = String::new();
        let mut escaped = false;
        for c in quoted.chars() {
            match c {
                '"' if !escaped => return Some(unescaped.replace("%22", "\"")),
                '\\' if !escaped => escaped = true,
                c => {
                    unescaped.push(c);
                    escaped = false;
                }
            }
        }
        return None;
    }
    None
}

fn find_bytes(body: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    let first = *needle.first()?;
    let rest = body.get(from..)?;
    let mut at = 0;
    while let Some(next) = rest.get(at..)?.iter().position(|byte| *byte == first) {
        at += next;
        if rest[at..].starts_with(needle) {
            return Some(from + at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(kind: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
        headers
    }

    fn form(parts: &[(&str, &[u8])]) -> Bytes {
        let mut body = Vec::new();
        for (disposition, content) in parts {
            body.extend(
                format!("--b-1\r\nContent-Disposition: form-data; {disposition}\r\n").bytes(),
            );
            body.extend(b"Content-Type: application/pdf\r\n\r\n");
            body.extend_from_slice(content);
            body.extend(b"\r\n");
        }
        body.extend(b"--b-1--\r\n");
        body.into()
    }

    #[test]
    fn fields_and_files_keep_their_bytes() {
        let file = b"%PDF\r\n--b-\r\n\0\xff--b-1".as_slice();
        let body = form(&[
            ("name=\"file\"; filename=\"a; \\\"b\\\".pdf\"", file),
            ("name=mode", b"mcp"),
            ("name=\"x\"", b""),
        ]);
        let fields = parse_form(&headers("multipart/form-data; boundary=b-1"), &body).unwrap();
        assert_eq!(fields[0].file_name.as_deref(), Some("a; \"b\".pdf"));
        assert_eq!(
            (
                &fields[0].bytes[..],
                fields[1].text(),
                fields[2].bytes.len()
            ),
            (file, "mcp".into(), 0)
        );
    }

    #[test]
    fn invalid_forms_are_refused() {
        let body = form(&[("name=\"file\"", b"x")]);
        for kind in [
            "application/json",
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary=c",
        ] {
            assert_eq!(parse_form(&headers(kind), &body), None, "{kind}");
        }
        let kind = headers("multipart/form-data; boundary=\"b-1\"");
        assert!(parse_form(&kind, &body).is_some());
        for cut in 0..body.len() - 4 {
            assert_eq!(parse_form(&kind, &body.slice(..cut)), None, "{cut}");
        }
    }

    proptest! {
        #[test]
        fn any_content_comes_through(content in proptest::collection::vec(any::<u8>(), 0..200), noise in "\\PC{0,200}") {
            let kind = headers("multipart/form-data; boundary=b-1");
            prop_assume!(find_bytes(&content, b"\r\n--b-1", 0).is_none());
            let read = parse_form(&kind, &form(&[("name=\"f\"", &content)]));
            prop_assert_eq!(&read.unwrap()[0].bytes[..], &content[..]);
            let _ = parse_form(&kind, &Bytes::from(noise.replace('|', "\r\n--b-1")));
        }
    }
}
