//! The elements of HTML that change how text is read.

/// The name of an element. Elements that change nothing are `Other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    A,
    B,
    Big,
    Block,
    Body,
    Br,
    Center,
    Dd,
    Div,
    Dt,
    Em,
    Font,
    Head,
    /// Its level, from 1 to 6.
    Heading(u8),
    Hidden,
    Hr,
    Html,
    I,
    Img,
    IxContinuation,
    IxFact,
    /// `ix:header` and `ix:hidden` in it, which hold what is not displayed.
    IxHeader,
    IxText,
    Li,
    Link,
    List,
    Other,
    P,
    /// `<PAGE>` of old text filings.
    Page,
    Pre,
    Script,
    Small,
    Span,
    /// What is displayed in place of something else, or later.
    Spare,
    Strong,
    Style,
    Sub,
    Sup,
    Table,
    Td,
    Textarea,
    Th,
    Title,
    Tr,
    U,
    Void,
}

impl Name {
    /// The element with this name, in any case.
    pub(super) fn from_bytes(name: &[u8]) -> Self {
        let mut lower = [0_u8; 16];
        let Some(lower) = lower.get_mut(..name.len()) else {
            return Self::Other;
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        match &*lower {
            b"a" => Self::A,
            b"b" => Self::B,
            b"big" => Self::Big,
            b"body" => Self::Body,
            b"br" => Self::Br,
            b"center" => Self::Center,
            b"dd" => Self::Dd,
            b"div" => Self::Div,
            b"dt" => Self::Dt,
            b"em" | b"cite" | b"var" => Self::Em,
            b"font" => Self::Font,
            b"head" => Self::Head,
            b"h1" => Self::Heading(1),
            b"h2" => Self::Heading(2),
            b"h3" => Self::Heading(3),
            b"h4" => Self::Heading(4),
            b"h5" => Self::Heading(5),
            b"h6" => Self::Heading(6),
            b"hr" => Self::Hr,
            b"html" => Self::Html,
            b"i" => Self::I,
            b"img" => Self::Img,
            b"ix:continuation" => Self::IxContinuation,
            b"ix:header" | b"ix:hidden" => Self::IxHeader,
            b"ix:nonnumeric" => Self::IxText,
            b"li" => Self::Li,
            b"link" => Self::Link,
            b"p" => Self::P,
            b"page" => Self::Page,
            b"pre" | b"listing" | b"plaintext" | b"xmp" => Self::Pre,
            b"script" => Self::Script,
            b"small" => Self::Small,
            b"span" => Self::Span,
            b"strong" => Self::Strong,
            b"style" => Self::Style,
            b"sub" => Self::Sub,
            b"sup" => Self::Sup,
            b"table" => Self::Table,
            b"td" => Self::Td,
            b"textarea" => Self::Textarea,
            b"th" => Self::Th,
            b"title" => Self::Title,
            b"tr" => Self::Tr,
            b"u" => Self::U,
            b"ul" | b"ol" | b"dir" | b"menu" | b"dl" | b"blockquote" => Self::List,
            b"noscript" | b"template" => Self::Spare,
            b"iframe" | b"object" | b"select" | b"svg" | b"math" | b"audio" | b"video"
            | b"canvas" => Self::Hidden,
            b"address" | b"article" | b"aside" | b"caption" | b"details" | b"fieldset"
            | b"figcaption" | b"figure" | b"footer" | b"form" | b"header" | b"legend" | b"main"
            | b"nav" | b"section" | b"summary" => Self::Block,
            b"area" | b"base" | b"col" | b"embed" | b"input" | b"meta" | b"param" | b"source"
            | b"track" | b"wbr" => Self::Void,
            name if name.starts_with(b"ix:") => Self::IxFact,
            _ => Self::Other,
        }
    }

    /// Starts and ends a line.
    pub(super) fn is_block(self) -> bool {
        matches!(
            self,
            Self::Block
                | Self::Body
                | Self::Center
                | Self::Dd
                | Self::Div
                | Self::Dt
                | Self::Heading(_)
                | Self::Html
                | Self::Li
                | Self::List
                | Self::P
                | Self::Pre
        )
    }

    /// Changes the look of text only, and may overlap with other such elements.
    pub(super) fn is_formatting(self) -> bool {
        matches!(
            self,
            Self::A
                | Self::B
                | Self::Big
                | Self::Em
                | Self::Font
                | Self::I
                | Self::Small
                | Self::Strong
                | Self::U
        )
    }

    /// Has no content and no end tag.
    pub(super) fn is_void(self) -> bool {
        matches!(
            self,
            Self::Br | Self::Hr | Self::Img | Self::Link | Self::Page | Self::Void
        )
    }

    /// Its content is not markup, and not displayed.
    pub(super) fn is_raw_text(self) -> bool {
        matches!(
            self,
            Self::Script | Self::Style | Self::Textarea | Self::Title
        )
    }

    /// Its content is for machines, or is not text.
    pub(super) fn is_data(self) -> bool {
        self.is_raw_text() || matches!(self, Self::Head | Self::Hidden | Self::IxHeader)
    }

    /// A cell of a table. What is open outside of it is not closed from inside.
    pub(super) fn is_cell(self) -> bool {
        matches!(self, Self::Td | Self::Th)
    }

    /// Whether the start of `next` ends this element, as the end tags of paragraphs, list entries and cells are optional.
    pub(super) fn is_ended_by(self, next: Self) -> bool {
        match self {
            Self::P => next.is_block() || matches!(next, Self::Hr | Self::Table | Self::Page),
            Self::Li => next == Self::Li,
            Self::Dd | Self::Dt => matches!(next, Self::Dd | Self::Dt),
            Self::Td | Self::Th => next.is_cell() || next == Self::Tr,
            Self::Tr => next == Self::Tr,
            // The end tag of the head is optional, too.
            Self::Head => {
                !(next.is_raw_text()
                    || matches!(
                        next,
                        Self::Hidden
                            | Self::Img
                            | Self::Link
                            | Self::Other
                            | Self::Spare
                            | Self::Void
                    ))
            }
            // Only one heading can be open.
            Self::Heading(_) => matches!(next, Self::Heading(_)),
            _ => false,
        }
    }
}
