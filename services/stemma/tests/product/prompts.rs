//! `stemma prompts`, and folders with custom prompts.

use std::fs;

use serde_json::Value;

use crate::support::{CommandOutput, TestEnv};

fn prompts(lab: &TestEnv, arguments: &[&str]) -> CommandOutput {
    lab.stemma("store", ["--json", "prompts"])
        .env("STEMMA_PROMPTS", "own")
        .args(arguments)
        .run()
}

fn overridden(answer: &CommandOutput) -> Vec<String> {
    let json = answer.json();
    let all = json["prompts"].as_array().unwrap();
    all.iter()
        .filter(|prompt| prompt["overridden"] == true)
        .map(|prompt: &Value| prompt["stage"].as_str().unwrap().to_string())
        .collect()
}

#[test]
fn exported_prompts_can_be_overridden() {
    let lab = TestEnv::new();
    let exported = lab
        .stemma("store", ["--json", "prompts", "export", "own"])
        .run();
    assert_eq!(exported.code, Some(0), "{exported:?}");
    let written = exported.json()["written"].as_array().unwrap().len();
    assert_eq!(overridden(&prompts(&lab, &[])), Vec::<String>::new());
    assert_eq!(
        prompts(&lab, &[]).json()["prompts"]
            .as_array()
            .unwrap()
            .len(),
        written
    );

    fs::write(lab.path("own/summarize.md"), "Summarize it in verse.\n").unwrap();
    assert_eq!(overridden(&prompts(&lab, &[])), ["summarize"]);
    let one = prompts(&lab, &["summarize"]).json();
    assert_eq!(one["prompts"][0]["text"], "Summarize it in verse.");
    let output = lab
        .stemma("store", ["prompts", "summarize"])
        .env("STEMMA_PROMPTS", "own")
        .run();
    assert!(
        output.out.contains("own/summarize.md") && output.out.contains("  Summarize it in verse."),
        "{output:?}"
    );

    let again = lab
        .stemma("store", ["--json", "prompts", "export", "own"])
        .run()
        .json();
    assert_eq!(
        (
            again["written"].as_array().unwrap().len(),
            again["kept"].as_array().unwrap().len()
        ),
        (0, written)
    );
    assert_eq!(
        fs::read_to_string(lab.path("own/summarize.md")).unwrap(),
        "Summarize it in verse.\n"
    );
}

#[test]
fn relative_paths_start_at_the_configuration_file() {
    let lab = TestEnv::new();
    let exported = lab
        .stemma("store", ["prompts", "export", "setup/own"])
        .run();
    assert_eq!(exported.code, Some(0), "{exported:?}");
    fs::write(
        lab.path("setup/own/summarize.md"),
        "Summarize it in verse.\n",
    )
    .unwrap();
    fs::write(lab.path("setup/stemma.toml"), "prompts = \"own\"\n").unwrap();
    let named = || {
        lab.stemma(
            "store",
            ["--json", "prompts", "--config", "setup/stemma.toml"],
        )
    };
    assert_eq!(overridden(&named().run()), ["summarize"]);
    let from_variable = named().env("STEMMA_PROMPTS", "setup/own").run();
    assert_eq!(overridden(&from_variable), ["summarize"]);
}

#[test]
fn prompts_of_unknown_stages_are_rejected() {
    let lab = TestEnv::new();
    let refused = |name: &str, text: &str| {
        fs::create_dir_all(lab.path("own")).unwrap();
        fs::write(lab.path("own").join(name), text).unwrap();
        let answer = prompts(&lab, &[]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        fs::remove_dir_all(lab.path("own")).unwrap();
        answer.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_string()
    };
    assert!(refused("summarise.md", "x").ends_with("did you mean `summarize.md`?"));
    assert!(refused("summarize.md", &"word ".repeat(4_000)).contains("more than 2000"));
    assert!(refused("summarize.md", " \n").contains("are empty"));
    assert!(
        prompts(&lab, &[]).json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("cannot read prompts from")
    );
    fs::create_dir_all(lab.path("own")).unwrap();
    let no_stage = prompts(&lab, &["sumarize"]).json();
    assert!(
        no_stage["error"]["message"]
            .as_str()
            .unwrap()
            .ends_with("did you mean `summarize`?"),
        "{no_stage}"
    );
}
