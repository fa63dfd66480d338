//! The file of the second reader's model: what it is, and that it is the one that was asked for.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use stemma_extract::{ExtractError, ModelFile};

use crate::second_reader::LineReader;

// Models for recognition take 2 to 90 MB. A process with 1 GiB has room for it and for the page.
const MAX_BYTES: u64 = 200_000_000;

/// A model file with its digest.
///
/// # Errors
///
/// The file cannot be read, or is larger than any model for recognition.
pub fn model_file(path: PathBuf) -> io::Result<ModelFile> {
    let bytes = content(&path)?;
    Ok(ModelFile {
        sha256: digest(&bytes),
        path,
    })
}

/// The reader with a model, which is loaded once for a process.
///
/// # Errors
///
/// `ocr.no_model` if the file cannot be read or has another digest, and without the feature `second-reader`;
/// `ocr.model_invalid` if it is not a model for the recognition of lines.
pub(crate) fn reader(model: &ModelFile) -> Result<Arc<dyn LineReader>, ExtractError> {
    type Loaded = Option<(ModelFile, Arc<dyn LineReader>)>;
    static LOADED: Mutex<Loaded> = Mutex::new(None);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, reader)) = loaded.as_ref().filter(|(same, _)| same == model) {
        return Ok(Arc::clone(reader));
    }
    let name = model.path.display();
    let bytes = content(&model.path)
        .map_err(|error| no_model(format!("the model {name} cannot be read: {error}")))?;
    let found = digest(&bytes);
    if found != model.sha256 {
        let sha256 = &model.sha256;
        return Err(no_model(format!(
            "the model {name} has the SHA-256 digest {found}, not {sha256}"
        )));
    }
    let reader = load(bytes)?;
    *loaded = Some((model.clone(), Arc::clone(&reader)));
    Ok(reader)
}

#[cfg(feature = "second-reader")]
fn load(bytes: Vec<u8>) -> Result<Arc<dyn LineReader>, ExtractError> {
    Ok(Arc::new(crate::pp_ocr::PpOcr::load(bytes)?))
}

#[cfg(not(feature = "second-reader"))]
fn load(_: Vec<u8>) -> Result<Arc<dyn LineReader>, ExtractError> {
    let message = "this program was built without the feature second-reader";
    Err(no_model(message.to_owned()))
}

fn no_model(message: String) -> ExtractError {
    ExtractError::new(
        "ocr.no_model",
        message,
        "see what `stemma doctor` says about ocr.second_reader, or leave that setting empty",
    )
}

fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("it has more than {MAX_BYTES} bytes");
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_what_their_digests_say() {
        let path = std::env::temp_dir().join(format!("stemma-model-{}", std::process::id()));
        fs::write(&path, "no model").unwrap();
        let model = model_file(path.clone()).unwrap();
        let other = ModelFile {
            sha256: "0".repeat(model.sha256.len()),
            ..model.clone()
        };
        let refused = |model| reader(model).err().unwrap();
        let error = refused(&other);
        assert_eq!(error.code, "ocr.no_model");
        assert!(error.message.contains(&model.sha256), "{}", error.message);
        let expected = match cfg!(feature = "second-reader") {
            true => "ocr.model_invalid",
            false => "ocr.no_model",
        };
        assert_eq!(refused(&model).code, expected);
        fs::remove_file(&path).unwrap();
        assert_eq!(refused(&model).code, "ocr.no_model");
        assert!(model_file(path).is_err());
    }
}
