//! `stemma describe` and `stemma ask --see`, with a simulated model that knows what is on a page.

use stemma_document::PageNo;
use stemma_extract::{ExtractJob, ImageRequest, ImageScale, Limits};
use stemma_filings::{FilingKind, Spec, generate};
use stemma_sim::{Behavior, Provider};
use tokio::runtime::Runtime;

use crate::support::{CommandOutput, TestEnv};

const CHART: &str = "Sales by region\nAsia: 45%\nEurope: ~30%";
// As large as models read it.
const LONG_SIDE: u32 = 1_568;

struct VisionEnv {
    lab: TestEnv,
    provider: Provider,
    /// Runs the provider.
    _runtime: Runtime,
}

impl VisionEnv {
    /// A filing with a chart on page 3, as far as the model is concerned.
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let provider = runtime.block_on(Provider::start(Behavior::default()));
        let provider = provider.unwrap();
        let filing = generate(&Spec {
            pages: 4,
            ..Spec::new(FilingKind::TenQ, 7)
        });
        let request = ImageRequest {
            scale: ImageScale::LongSide(LONG_SIDE),
            ..ImageRequest::for_page(PageNo::new(3).unwrap(), LONG_SIDE)
        };
        let job = ExtractJob::new("f.pdf".into(), filing.pdf.clone(), None, Limits::default());
        let page = stemma_render::draw_png(&job, &request).unwrap();
        provider.add_image(&page, CHART);
        let lab = TestEnv::new();
        lab.put("filing.pdf", &filing.pdf);
        lab.ingest("store", &[]);
        Self {
            lab,
            provider,
            _runtime: runtime,
        }
    }

    fn run(&self, arguments: &[&str], vision: &str) -> CommandOutput {
        self.lab
            .stemma("store", arguments.iter().copied())
            .env("STEMMA_MODEL__NAME", "sim")
            .env("STEMMA_MODEL__BASE_URL", &self.provider.base_url("cli"))
            .env("STEMMA_VISION__MODEL", vision)
            .run()
    }
}

#[test]
fn pages_are_described_once_and_marked_as_unchecked() {
    let vision = VisionEnv::new();
    let page = "filing.pdf#p=3";
    let described = vision.run(&["describe", page], "sim");
    assert_eq!(described.code, Some(0), "{described:?}");
    for line in [
        "Sales by region · chart",
        "from the image: Asia = 45%",
        "from the image: Europe = ~30%",
    ] {
        assert!(described.out.contains(line), "{described:?}");
    }
    let unmarked =
        |line: &&str| !line.contains("from the image") && !line.contains("Sales by region");
    assert_eq!(described.out.lines().find(unmarked), None);
    assert!(described.err.contains("1 call"), "{described:?}");
    let again = vision.run(&["describe", page], "sim");
    assert!(again.err.contains("described before, 0 calls"), "{again:?}");
    assert_eq!(again.out, described.out);
    assert_eq!(vision.provider.report().calls, 1);
    let without_figures = vision.run(&["describe", "filing.pdf#p=2"], "sim");
    assert_eq!(without_figures.code, Some(1), "{without_figures:?}");
}

#[test]
fn vision_needs_its_setting() {
    let vision = VisionEnv::new();
    let describe = ["describe", "filing.pdf#p=3"];
    let ask = ["ask", "What were net sales?", "--see"];
    for arguments in [&describe[..], &ask] {
        let refused = vision.run(arguments, "");
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("vision.model"), "{refused:?}");
    }
    assert_eq!(vision.provider.report().calls, 0);
    let arguments = [
        "--json",
        "ask",
        "What were net sales?",
        "--see",
        "--mode",
        "search",
    ];
    let seen = vision.run(&arguments, "sim").json();
    let pictures = seen["pictures"].as_array().map_or(0, Vec::len);
    assert!((1..=3).contains(&pictures), "{seen:#}");
}
