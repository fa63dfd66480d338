//! Pictures of pages, for models that see.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use stemma_archive::{ImageRequest, PageRegion};
use stemma_catalog::catalog::CatalogDocument;
use stemma_document::PageNo;

use crate::error::ToolError;
use crate::tool_context::ToolContext;

pub(crate) const MIME_TYPE: &str = "image/png";
// Models reduce larger pictures; small print is still legible.
const WIDTH: u32 = 1_000;

/// The picture of a page, or of a region of it, as base64.
pub(crate) async fn page_picture(
    context: &ToolContext,
    listed: &CatalogDocument,
    page: PageNo,
    region: PageRegion,
) -> Result<String, ToolError> {
    let Some(images) = &context.services.page_images else {
        let message = "this server draws no pages";
        return Err(ToolError::unavailable("image.not_available", message)
            .with_option("get_page_content() without `image` has the text"));
    };
    let request = ImageRequest {
        region,
        ..ImageRequest::for_page(page, WIDTH)
    };
    let png = images.image(&context.archive, listed, &request).await?;
    Ok(STANDARD.encode(png))
}

/// A region as models write it: `page` for the whole page, or left edge, upper edge, width and height in fractions of it:
/// `0,0.5,1,0.5`.
pub(crate) fn parse_region(text: &str) -> Result<PageRegion, ToolError> {
    if text.trim() == "page" {
        return Ok(PageRegion::WHOLE);
    }
    PageRegion::from_text(text).ok_or_else(|| {
        ToolError::invalid(format!("`{text}` is not a part of a page")).with_option(
            "image is \"page\", or left, top, width and height in fractions of it: \"0,0.5,1,0.5\" is the lower half",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_the_page_or_four_fractions() {
        assert_eq!(parse_region("page").unwrap(), PageRegion::WHOLE);
        assert_eq!(
            parse_region("0, 0.5, 1, 0.5").unwrap(),
            PageRegion::new(0.0, 0.5, 1.0, 0.5).unwrap()
        );
        for text in ["", "0,0,1", "0,0,1,1,1", "a,0,1,1", "0,0,0,0", "2,2,1,1"] {
            assert!(parse_region(text).is_err(), "{text}");
        }
    }
}
