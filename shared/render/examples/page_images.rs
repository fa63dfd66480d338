//! Measures images of pages, for `tests/bench/page-images`.
//!
//! `compare` reads lines `FILE<tab>PAGE<tab>REFERENCE` and prints CPU milliseconds, bytes of PNG, and the likeness (SSIM) to the
//! reference, a gray image as PGM of the same width. `hostile FILE…` draws the first page of each file in a child process and
//! prints how that ended. `child` is that process.
#![expect(clippy::unwrap_used, reason = "a program for measurements")]

use std::ffi::OsString;
use std::io::BufRead;
use std::time::{Duration, Instant};

use stemma_document::PageNo;
use stemma_extract::{
    ExtractError, ExtractJob, ImageColor, ImageRequest, Limits, Pool, PoolSettings, Task,
    extract_and_encode, serve,
};
use stemma_render::{Bitmap, Pixels, draw, draw_png};

const WIDTH: u32 = 1_000;
// Differences of anti-aliasing average out in squares of so many pixels.
const SQUARE: usize = 4;
// Windows in which structure is compared (Wang et al. 2004).
const WINDOW: usize = 8;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("compare") => compare(),
        Some("hostile") => hostile(&arguments[1..]),
        Some("child") => serve(run).unwrap(),
        _ => eprintln!("usage: page_images compare | hostile FILE..."),
    }
}

fn run(job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
    match job.task {
        Task::Image(request) => draw_png(&job, &request),
        _ => extract_and_encode(job),
    }
}

fn compare() {
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let [file, page, reference] = line.split('\t').collect::<Vec<_>>()[..] else {
            continue;
        };
        let bytes = std::fs::read(file).unwrap();
        let page = PageNo::new(page.parse().unwrap()).unwrap();
        let request = ImageRequest::of_page(page, WIDTH);
        let job = ExtractJob::new(file.into(), bytes, None, Limits::default());
        let before = cpu_time();
        let drawn = draw_png(&job, &request);
        let milliseconds = (cpu_time() - before).as_secs_f64() * 1e3;
        let likeness = drawn.and_then(|png| {
            let gray = ImageRequest {
                color: ImageColor::Gray,
                ..request
            };
            let bitmap = draw(&job.bytes, None, &job.limits, &gray)?;
            let Pixels::Gray(ours) = &bitmap.pixels else {
                return Ok((png.len(), 0.0));
            };
            Ok((
                png.len(),
                likeness(&bitmap, ours, &std::fs::read(reference).unwrap()),
            ))
        });
        match likeness {
            Ok((bytes, likeness)) => {
                println!("{file}\t{page}\t{milliseconds:.1}\t{bytes}\t{likeness:.4}");
            }
            Err(error) => println!("{file}\t{page}\t{milliseconds:.1}\t0\t0 {}", error.code),
        }
    }
}

fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

// The mean structural similarity of two images after averaging squares of pixels.
fn likeness(bitmap: &Bitmap, ours: &[u8], pgm: &[u8]) -> f64 {
    let mut fields = pgm.splitn(4, |byte| byte.is_ascii_whitespace());
    let mut number = || -> Option<usize> { std::str::from_utf8(fields.next()?).ok()?.parse().ok() };
    // The first field is the name of the format.
    number();
    let width = number().unwrap();
    let height = number().unwrap();
    let theirs = &pgm[pgm.len() - width * height..];
    // Renderers round the height differently.
    let size = |one: usize, other: u16| one.min(other.into()) / SQUARE;
    let columns = size(width, bitmap.width);
    let rows = size(height, bitmap.height);
    let ours = averaged(ours, bitmap.width.into(), columns, rows);
    let theirs = averaged(theirs, width, columns, rows);
    let mut total = (0.0, 0);
    for top in (0..rows.saturating_sub(WINDOW)).step_by(WINDOW / 2) {
        for left in (0..columns.saturating_sub(WINDOW)).step_by(WINDOW / 2) {
            let places = (top..top + WINDOW)
                .flat_map(|row| (left..left + WINDOW).map(move |column| row * columns + column));
            total.0 += similarity(places.map(|at| (ours[at], theirs[at])));
            total.1 += 1;
        }
    }
    total.0 / f64::from(total.1)
}

fn averaged(pixels: &[u8], width: usize, columns: usize, rows: usize) -> Vec<f64> {
    let square = |row: usize, column: usize| {
        let lines = (row * SQUARE..(row + 1) * SQUARE).map(|line| line * width + column * SQUARE);
        let sum: u32 = lines
            .flat_map(|start| &pixels[start..start + SQUARE])
            .map(|pixel| u32::from(*pixel))
            .sum();
        f64::from(sum) / (SQUARE * SQUARE) as f64
    };
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| square(row, column)))
        .collect()
}

fn similarity(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let count = (WINDOW * WINDOW) as f64;
    let sums = pairs
        .clone()
        .fold((0.0, 0.0), |(x, y), (a, b)| (x + a, y + b));
    let x = sums.0 / count;
    let y = sums.1 / count;
    let [xx, yy, xy] = pairs.fold([0.0; 3], |[xx, yy, xy], (a, b)| {
        [
            xx + (a - x) * (a - x),
            yy + (b - y) * (b - y),
            xy + (a - x) * (b - y),
        ]
    });
    let [xx, yy, xy] = [xx, yy, xy].map(|sum| sum / (count - 1.0));
    // (0.01 · 255)² and (0.03 · 255)².
    let c1 = 6.5025;
    let c2 = 58.5225;
    (2.0 * x * y + c1) * (2.0 * xy + c2) / ((x * x + y * y + c1) * (xx + yy + c2))
}

fn hostile(files: &[String]) {
    let program = std::env::current_exe().unwrap().into_os_string();
    let pool = Pool::new(PoolSettings {
        size: 1,
        ..PoolSettings::new(vec![program, OsString::from("child")])
    });
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    for file in files {
        let limits = Limits {
            max_seconds: 10,
            ..Limits::default()
        };
        let job = ExtractJob {
            task: Task::Image(ImageRequest::of_page(PageNo::FIRST, WIDTH)),
            ..ExtractJob::new(file.clone(), std::fs::read(file).unwrap(), None, limits)
        };
        let began = Instant::now();
        let ended = match runtime.block_on(pool.run(job)) {
            Ok(png) => format!("{} bytes", png.len()),
            Err(error) => format!("{}: {}", error.code, error.message),
        };
        println!("{file}\t{:.2}\t{ended}", began.elapsed().as_secs_f64());
    }
}
