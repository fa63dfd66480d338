//! The style sheet, the script and the icon, in the binary. Their addresses change with their content.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use stemma_gateway::problem::Problem;

struct Asset {
    name: &'static str,
    content_type: &'static str,
    content: &'static str,
}

const ASSETS: [Asset; 3] = [
    Asset {
        name: "style.css",
        content_type: "text/css; charset=utf-8",
        content: include_str!("../assets/style.css"),
    },
    Asset {
        name: "page.js",
        content_type: "text/javascript; charset=utf-8",
        content: include_str!("../assets/page.js"),
    },
    Asset {
        name: "icon.svg",
        content_type: "image/svg+xml",
        content: include_str!("../assets/icon.svg"),
    },
];

static DIGEST: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = blake3::Hasher::new();
    for asset in &ASSETS {
        hasher.update(asset.content.as_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
});

/// The address of an asset.
pub(crate) fn asset_url(name: &str) -> String {
    format!("/assets/{}/{name}", *DIGEST)
}

/// `GET /assets/{digest}/{name}`. A page of an older server may name an older digest; it gets the current asset.
pub(crate) async fn asset(
    Path((digest, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    let asset =
        asset.ok_or_else(|| Problem::new(404, "route.unknown", "this path does not exist"))?;
    let cache = if digest == *DIGEST {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let headers = [
        (header::CONTENT_TYPE, asset.content_type),
        (header::CACHE_CONTROL, cache),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, asset.content).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_are_small_and_load_nothing_from_elsewhere() {
        let size_bytes: usize = ASSETS.iter().map(|asset| asset.content.len()).sum();
        assert!(size_bytes < 100 << 10, "{size_bytes}");
        for asset in &ASSETS {
            let content = asset.content.replace("http://www.w3.org/2000/svg", "");
            assert!(!content.contains("http"), "{}", asset.name);
            assert!(!content.contains("innerHTML"), "{}", asset.name);
        }
    }
}
