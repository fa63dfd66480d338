//! Jobs on the command line: submit, status, why, cancel and retry, in one process.
//! tests/cluster tests the same commands on a cluster.

use rustix::process::Signal;
use serde_json::Value;
use stemma_filings::{Encryption, FilingKind, Spec, generate, markdown};

use crate::gate::Gate;
use crate::support::{CommandOutput, TestEnv, has_object};

fn lab() -> TestEnv {
    let lab = TestEnv::new();
    lab.put(
        "annual.pdf",
        generate(&Spec {
            pages: 8,
            ..Spec::new(FilingKind::TenK, 21)
        })
        .pdf,
    );
    lab.put("guide.md", markdown(1, 8).0);
    let encryption = Some(Encryption::Password("sesame".into()));
    lab.put(
        "locked.pdf",
        generate(&Spec {
            pages: 6,
            encryption,
            ..Spec::new(FilingKind::TenQ, 23)
        })
        .pdf,
    );
    lab
}

fn ask(lab: &TestEnv, question: &str) -> CommandOutput {
    lab.stemma("store", ["--json"].into_iter().chain(question.split(' ')))
        .run()
}

#[test]
fn named_jobs_are_submitted_once_and_inspectable() {
    let lab = lab();
    let first = ask(
        &lab,
        "submit filings --wait --job nightly-1 --max-failed 50%",
    );
    assert_eq!(first.code, Some(3), "{first:?}");
    let view = first.json();
    assert_eq!(
        (
            &view["state"],
            &view["counts"]["done"],
            &view["counts"]["failed"]
        ),
        (&"finished".into(), &2.into(), &1.into()),
        "{view}"
    );
    let again = ask(&lab, "submit filings --job nightly-1");
    assert_eq!(
        (again.code, &again.json()["job"]),
        (Some(3), &view["job"]),
        "{again:?}"
    );

    let status = ask(&lab, "status nightly-1").json();
    assert_eq!(
        (&status["live"], &status["jobs"][0]["name"]),
        (&false.into(), &"nightly-1".into()),
        "{status}"
    );
    assert_eq!(
        status["jobs"][0]["reasons"]
            .as_object()
            .unwrap()
            .values()
            .filter_map(Value::as_u64)
            .sum::<u64>(),
        1,
        "{status}"
    );
    assert_eq!(
        ask(&lab, "status").json()["jobs"].as_array().unwrap().len(),
        1
    );
    let watched = ask(&lab, "watch nightly-1");
    assert_eq!(
        (watched.code, &watched.json()["state"]),
        (Some(3), &"finished".into())
    );

    let failures = ask(&lab, "failures nightly-1 --by reason").json();
    assert_eq!(
        (&failures["complete"], &failures["total"]),
        (&true.into(), &1.into()),
        "{failures}"
    );
    assert!(
        failures["failures"][0]["run"]
            .as_str()
            .unwrap()
            .ends_with("-1"),
        "{failures}"
    );
    // Finding 9 of the operator review: a failure named its run only.
    assert_eq!(failures["failures"][0]["path"], "locked.pdf", "{failures}");
    let why = ask(&lab, "why nightly-1").json();
    assert_eq!(why["diagnosis"]["cause"], "done", "{why}");
    let why_output = lab.stemma("store", ["why", "nightly-1"]).run();
    assert!(
        why_output.out.contains("1 documents failed") && why_output.out.contains("stemma failures"),
        "{why_output:?}"
    );
}

/// F8 of the operator review: one unreadable manifest hid all jobs.
#[test]
fn an_unreadable_job_hides_no_other_job() {
    let lab = lab();
    let job = ask(&lab, "submit filings").json()["job"].clone();
    let damaged = lab.path("store/objects/jobs/j-00000000001damaged");
    std::fs::create_dir(&damaged).unwrap();
    std::fs::write(damaged.join("manifest.json"), b"\x00\x01").unwrap();
    let status = ask(&lab, "status");
    let jobs = status.json()["jobs"].clone();
    assert_eq!(status.code, Some(0), "{status:?}");
    assert_eq!(
        (&jobs[0]["job"], &jobs[0]["state"]),
        (&job, &"finished".into())
    );
    assert_eq!(jobs[1]["state"], "unreadable", "{jobs}");
    let text = lab.stemma("store", ["status"]).run().out;
    assert!(
        text.contains("j-00000000001damaged: ") && text.contains("next: update stemma"),
        "{text}"
    );
    let one = ask(&lab, "status j-00000000001damaged").json();
    let next = one["error"]["next"].as_str().unwrap();
    assert!(next.contains("from a backup"), "{one}");
    for command in [
        "failures",
        "retry --dry-run",
        "cost",
        "gc --dry-run",
        "why annual",
    ] {
        let output = ask(&lab, command);
        assert_ne!(output.code, Some(2), "{command}: {output:?}");
    }
}

#[test]
fn retry_reruns_only_failed_documents() {
    let lab = lab();
    let job = ask(&lab, "submit filings").json()["job"]
        .as_str()
        .unwrap()
        .to_owned();
    let code = ask(&lab, &format!("failures {job}")).json()["failures"][0]["code"]
        .as_str()
        .unwrap()
        .to_owned();
    let dry = ask(&lab, &format!("retry --where code={code} --dry-run"));
    assert_eq!(
        (dry.code, &dry.json()["documents"]),
        (Some(0), &1.into()),
        "{dry:?}"
    );
    assert_eq!(
        ask(
            &lab,
            &format!("retry {job} --where stage=paginate --dry-run")
        )
        .json()["documents"],
        1
    );
    for nothing in ["code=other.code", "stage=outline", "doc=annual"] {
        assert_eq!(
            ask(&lab, &format!("retry --where {nothing} --dry-run")).code,
            Some(1),
            "{nothing}"
        );
    }
    let refused = ask(&lab, "retry");
    assert_eq!(
        (refused.code, &refused.json()["error"]["code"]),
        (Some(2), &"retry.not_confirmed".into())
    );
    let again = ask(&lab, "retry --where doc=locked --yes");
    assert_eq!(
        (again.code, &again.json()["counts"]["failed"]),
        (Some(3), &1.into()),
        "{again:?}"
    );
    let run = |job: &str| {
        ask(&lab, &format!("failures {job}")).json()["failures"][0]["run"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let old = run(&job);
    let new = run(again.json()["job"].as_str().unwrap());
    assert_eq!(
        old.replace("-1", "-2"),
        new,
        "the second try is another run"
    );
}

#[test]
fn jobs_stop_after_too_many_failures() {
    let lab = TestEnv::new();
    let encryption = || Some(Encryption::Password("sesame".into()));
    for n in 0..12 {
        lab.put(
            &format!("{n:02}.pdf"),
            generate(&Spec {
                pages: 3,
                encryption: encryption(),
                ..Spec::new(FilingKind::TenQ, n)
            })
            .pdf,
        );
    }
    let stopped = lab
        .stemma(
            "store",
            ["--json", "submit", "filings", "--max-failed", "2"],
        )
        .env("STEMMA_LOCAL__OPEN_DOCUMENTS", "2")
        .run();
    let view = stopped.json();
    assert_eq!(
        (stopped.code, &view["state"]),
        (Some(4), &"stopped".into()),
        "{view}"
    );
    let counts = &view["counts"];
    assert!(
        counts["failed"].as_u64().unwrap() >= 3 && counts["cancelled"].as_u64().unwrap() >= 1,
        "{counts}"
    );
    let why = ask(&lab, &format!("why {}", view["job"].as_str().unwrap())).json();
    assert!(
        why["diagnosis"]["says"]
            .as_str()
            .unwrap()
            .contains("more than it allows"),
        "{why}"
    );
}

/// A job of up to 500 documents saves its first counts at its end, and was said to have no failures until then.
#[test]
fn failures_of_a_running_job_are_not_denied() {
    let lab = lab();
    let gate = Gate::close(&lab);
    let writer = lab.stemma("store", ["ingest", "filings"]);
    let writer = gate.before(writer).env("STEMMA_LOCAL__OPEN_DOCUMENTS", "1");
    let mut writer = writer.start();
    writer.wait_until("a run has failed", || {
        has_object(&lab.path("store"), "runs/")
    });
    writer.suspend();
    let id = ask(&lab, "status").json()["jobs"][0]["job"].clone();
    let id = id.as_str().unwrap();
    let failures = ask(&lab, &format!("failures {id}")).json();
    assert_eq!(
        (&failures["complete"], &failures["uncounted"]),
        (&false.into(), &Value::Null),
        "{failures}"
    );
    let printed = lab.stemma("store", ["failures", id]).run();
    assert!(
        printed.err.contains("not counted yet") && !printed.err.contains("no failures"),
        "{printed:?}"
    );
    writer.signal(Signal::CONT);
    gate.open();
    assert_eq!(writer.end().code, Some(3));
    let failures = ask(&lab, &format!("failures {id}")).json();
    assert_eq!(
        (&failures["total"], &failures["uncounted"]),
        (&1.into(), &0.into()),
        "{failures}"
    );
}

#[test]
fn cancelled_ingest_resumes_from_finished_work() {
    let lab = TestEnv::new();
    lab.put_twelve();
    let gate = Gate::close(&lab); // the thirteenth document, so the job cannot end by itself
    let writer = lab.stemma("store", ["ingest", "filings"]);
    let writer = gate.before(writer).env("STEMMA_LOCAL__OPEN_DOCUMENTS", "1");
    let mut writer = writer.start();
    writer.wait_until("a document is published", || {
        has_object(&lab.path("store"), "/changes/")
    });
    writer.suspend();
    let job = ask(&lab, "status").json()["jobs"][0].clone();
    assert_eq!(job["state"], "running", "{job}");
    let id = job["job"].as_str().unwrap();
    assert_eq!(
        ask(&lab, &format!("cancel {id} --dry-run")).json()["cancelled"],
        false
    );
    assert_eq!(
        ask(&lab, &format!("job pause {id}")).json()["standing"]["paused"]["reason"],
        "person"
    );
    assert_eq!(
        ask(&lab, &format!("why {id}")).json()["diagnosis"]["cause"],
        "paused"
    );
    assert_eq!(ask(&lab, "status").json()["jobs"][0]["state"], "paused");
    assert_eq!(ask(&lab, &format!("cancel {id}")).code, Some(0));
    assert_eq!(ask(&lab, "status").json()["jobs"][0]["state"], "cancelling");
    writer.signal(Signal::CONT);
    let ended = writer.end();
    assert_eq!(ended.code, Some(4), "{ended:?}");
    let view = ask(&lab, &format!("status {id}")).json()["jobs"][0].clone();
    assert_eq!(view["state"], "cancelled");
    let counts = &view["counts"];
    let done = counts["done"].as_u64().unwrap() + counts["done_with_gaps"].as_u64().unwrap();
    let cancelled = counts["cancelled"].as_u64().unwrap();
    assert!(done <= 12 && cancelled > 0, "{view}");
    let over = ask(&lab, &format!("cancel {id}"));
    assert_eq!(
        (over.code, &over.json()["ended_before"]),
        (Some(1), &true.into())
    );
    assert_eq!(
        ask(&lab, &format!("job resume {id}")).json()["error"]["code"],
        "job.ended"
    );

    gate.open();
    let rest = lab.ingest("store", &[]);
    assert_eq!(rest["failed"].as_array().map_or(0, Vec::len), 0, "{rest}");
    let trees = crate::support::objects(&lab.path("store"))
        .into_keys()
        .filter(|key| key.contains("/trees/"))
        .count();
    assert_eq!(trees, 13);
}

#[test]
fn missing_jobs_are_reported() {
    let lab = lab();
    ask(&lab, "submit filings/guide.md");
    for (question, code) in [
        ("watch j-0", "job.unknown"),
        ("cancel ../../etc", "job.unknown"),
        ("job pause nobody", "job.unknown"),
        ("dead-letters show 00", "dead_letter.unknown"),
        ("submit nowhere", "input.not_found"),
    ] {
        let answer = ask(&lab, question);
        assert_eq!(answer.code, Some(2), "{question}: {answer:?}");
        let error = &answer.json()["error"];
        assert!(error["next"].is_string(), "{question}: {error}");
        assert_eq!(error["code"], code, "{question}");
    }
    assert_eq!(ask(&lab, "dead-letters list").code, Some(1));
    assert_eq!(ask(&lab, "dead-letters replay --all").code, Some(1));
    assert_eq!(ask(&lab, "retry --yes").code, Some(1));
    assert_eq!(ask(&lab, "gc --dry-run").code, Some(0));
    assert_eq!(
        lab.stemma("store", ["submit", "filings", "--job", "a/b"])
            .run()
            .code,
        Some(2)
    );
    let events = lab
        .stemma("store", ["--jsonl", "submit", "filings/guide.md", "--wait"])
        .run();
    let view: Value = serde_json::from_str(events.out.lines().last().unwrap()).unwrap();
    assert_eq!(
        (events.code, &view["counts"]["unchanged"]),
        (Some(0), &1.into()),
        "{events:?}"
    );
}
