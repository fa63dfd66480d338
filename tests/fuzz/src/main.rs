//! Everything that reads outside bytes, under a fuzzer: `tests/fuzz/run` builds and starts it.
//!
//! The variable `STEMMA_FUZZ` names the target (see [`targets`]). With `STEMMA_FUZZ_SEEDS` set the program writes the
//! target's first inputs into that folder and ends; they are generated, so that no document lies in the repository.
//! A target fails by a panic in code of ours, by breaking a rule of trees, and by taking too long or too much memory.

#![no_main]

mod paper;
mod rules;
mod seeds;
mod targets;

use std::panic;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

use crate::targets::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(init: begin(), |bytes: &[u8]| {
    if let Some(target) = TARGET.get() {
        (target.run)(bytes);
    }
});

fn begin() {
    let name = std::env::var("STEMMA_FUZZ").unwrap_or_default();
    let Some(target) = targets::named(&name) else {
        eprintln!("STEMMA_FUZZ names one of: {}", targets::names().join(" "));
        std::process::exit(2);
    };
    if let Some(folder) = std::env::var_os("STEMMA_FUZZ_SEEDS").map(PathBuf::from) {
        let written = seeds::write(&folder, &(target.seeds)());
        std::process::exit(if written.is_ok() { 0 } else { 1 });
    }
    let _ = TARGET.set(target);
    end_at_panics_of_ours();
}

/// Panics inside the PDF parsers are caught where they are called, and are the file's fault; one of ours is a finding
/// even where it would be caught.
fn end_at_panics_of_ours() {
    let show = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let outside = info.location().is_some_and(|at| at.file().contains("/registry/src/"));
        if !outside {
            show(info);
            std::process::abort();
        }
    }));
}
