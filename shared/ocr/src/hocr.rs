//! Reads hOCR, the markup in which tesseract says what it read (<https://kba.github.io/hocr-spec/1.2/>).
//!
//! Unlike its table of values (TSV), it has baselines and the heights of letters.

/// A word on the image. Lengths are pixels from the top left.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReadWord {
    pub(crate) text: String,
    pub(crate) x0: f32,
    pub(crate) x1: f32,
    /// Top of its highest letter.
    pub(crate) top: f32,
    /// From the top to the bottom of its letters.
    pub(crate) height: f32,
    pub(crate) baseline: f32,
    /// From the top of the highest to the bottom of the lowest letter that a line of its font may have.
    pub(crate) line_height: f32,
    /// In percent.
    pub(crate) confidence: u8,
    /// Whether its line runs up or down the image.
    pub(crate) is_sideways: bool,
    /// What a second reader read, if it is another figure.
    pub(crate) other: Option<String>,
}

// Baselines of words of a line differ by less of its height.
const SAME_LINE: f32 = 0.3;

impl ReadWord {
    /// Whether both are on one line.
    pub(crate) fn is_on_line_of(&self, other: &Self) -> bool {
        (self.baseline - other.baseline).abs() < SAME_LINE * self.line_height
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let columns = self.x0 < other.x1 && other.x0 < self.x1;
        let is_above = |upper: &Self, lower: &Self| upper.top + upper.height <= lower.top;
        columns && !is_above(self, other) && !is_above(other, self)
    }
}

#[derive(Debug, Clone, Copy)]
struct LineShape {
    slope: f32,
    left: f32,
    // Height of the baseline at the left end.
    y: f32,
    height: f32,
    is_sideways: bool,
}

/// The words in the order of reading. What is not understood is left out.
pub(crate) fn parse(hocr: &str) -> Vec<ReadWord> {
    let mut line = None;
    let mut words = Vec::new();
    for part in hocr.split("<span ").skip(1) {
        let Some((tag, rest)) = part.split_once('>') else {
            continue;
        };
        let title = title(tag);
        if let Some(shape) = line_shape(title) {
            line = Some(shape);
        } else if tag.contains("ocrx_word") {
            let content = rest.split_once("</span>").map_or(rest, |(text, _)| text);
            let word = line.and_then(|line| read_word(title, content, line));
            words.extend(word);
        }
    }
    words
}

fn title(tag: &str) -> &str {
    let start = tag.find("title=").map_or(tag.len(), |at| at + 6);
    let value = &tag[start..];
    let Some(quote) = value.chars().next() else {
        return "";
    };
    // Other attributes may follow, such as the language of a word.
    let inside = value[quote.len_utf8()..].split(quote);
    inside.into_iter().next().unwrap_or_default().trim()
}

// `bbox 36 92 580 122; baseline 0.001 -6; x_size 27`: numbers after a name.
fn numbers<const N: usize>(title: &str, name: &str) -> Option<[f32; N]> {
    let property = title.split(';').map(str::trim);
    let values = property
        .filter_map(|property| property.strip_prefix(name))
        .find(|values| values.starts_with(' '))?;
    let mut found = [0.0_f32; N];
    let mut given = values.split_ascii_whitespace();
    for value in &mut found {
        *value = given.next()?.parse().ok()?;
    }
    found
        .iter()
        .all(|value: &f32| value.is_finite())
        .then_some(found)
}

fn line_shape(title: &str) -> Option<LineShape> {
    let [left, _, _, bottom] = numbers(title, "bbox")?;
    let [height] = numbers(title, "x_size")?;
    // Only lines across the image have one.
    let baseline = numbers(title, "baseline");
    let [slope, offset] = baseline.unwrap_or([0.0, 0.0]);
    Some(LineShape {
        slope,
        left,
        y: bottom + offset,
        height,
        is_sideways: baseline.is_none(),
    })
}

fn read_word(title: &str, content: &str, line: LineShape) -> Option<ReadWord> {
    let [x0, y0, x1, y1] = numbers(title, "bbox")?;
    let [confidence] = numbers(title, "x_wconf")?;
    let text = plain_text(content);
    let baseline = line.y + line.slope * (f32::midpoint(x0, x1) - line.left);
    (!text.is_empty() && x1 > x0).then_some(ReadWord {
        text,
        x0,
        x1,
        top: y0,
        height: y1 - y0,
        baseline,
        line_height: line.height,
        confidence: confidence.clamp(0.0, 100.0) as u8,
        is_sideways: line.is_sideways,
        other: None,
    })
}

fn plain_text(content: &str) -> String {
    let mut text = String::new();
    let mut parts = content.split('<');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        text.push_str(part.split_once('>').map_or("", |(_, after)| after));
    }
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    for (entity, character) in entities {
        text = text.replace(entity, character);
    }
    text.retain(|c| !c.is_whitespace() && !c.is_control());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_text_place_and_confidence() {
        let words = parse(
            "<span class='ocr_line' title=\"bbox 100 50 900 93; baseline 0.01 -10; x_size 43; x_descenders 10\">\n\
             <span class='ocrx_word' id='w1' title='bbox 100 50 200 93; x_wconf 96'><strong>AT&amp;T</strong></span>\n\
             <span class='ocrx_word' id='w2' title='bbox 300 50 400 93; x_wconf 41'> </span>\n\
             <span class='ocrx_word' id='w3' title='bbox 500 50 700 93; x_wconf 12' lang='deu'>1,234</span></span>",
        );
        let found: Vec<_> = words
            .iter()
            .map(|word| (word.text.as_str(), word.baseline, word.confidence))
            .collect();
        assert_eq!(found, [("AT&T", 83.5, 96), ("1,234", 88.0, 12)]);
    }

    #[test]
    fn lines_without_a_baseline_run_up_or_down() {
        let words = parse(
            "<span class='ocr_line' title=\"bbox 3189 102 3212 333; x_size 28.3\">\n\
             <span class='ocrx_word' title='bbox 3189 102 3211 174; x_wconf 96'>Table</span></span>",
        );
        let found: Vec<bool> = words.iter().map(|word| word.is_sideways).collect();
        assert_eq!(found, [true]);
    }

    #[test]
    fn damaged_markup_has_fewer_words() {
        for hocr in [
            "",
            "<span ",
            "<span class='ocrx_word' title='bbox 1 2 3 4; x_wconf 9'>no line</span>",
            "<span title='bbox 1 1 9 9; x_size 8'><span class='ocrx_word' title='bbox 1 2 nan 4; x_wconf 9'>a",
            "<span title='bbox 1 1 9 9; x_size 8'><span class='ocrx_word' title='bbox 9 2 1 4; x_wconf 9'>a",
        ] {
            assert_eq!(parse(hocr), [], "{hocr}");
        }
    }
}
