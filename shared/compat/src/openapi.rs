//! OpenAPI of the compatibility routes.

use utoipa::OpenApi;

use crate::{openai, pageindex};

#[derive(OpenApi)]
#[openapi(
    paths(
        openai::models::list,
        openai::models::one,
        openai::chat::completions,
        openai::responses::create,
        pageindex::uploads::submit,
        pageindex::uploads::remove,
        pageindex::documents::document,
        pageindex::documents::metadata,
        pageindex::documents::list,
        pageindex::folders::list,
        pageindex::no_blocks,
        pageindex::no_images,
        pageindex::no_page_images,
        pageindex::no_folders,
        pageindex::chat::completions,
        pageindex::retrieval::submit,
        pageindex::retrieval::result,
    ),
    tags(
        (name = "openai", description = "The shape of OpenAI, for its clients: a model is a collection or a part of it"),
        (name = "pageindex", description = "The dialect of PageIndex Cloud, for programs written for its SDK. Each route is there without the slash at its end, too; parameters that are not known are passed over"),
    )
)]
struct Api;

/// OpenAPI of the compatibility routes, without the common parts.
pub fn describe() -> utoipa::openapi::OpenApi {
    Api::openapi()
}
