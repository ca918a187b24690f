//! The example that newcomers meet first, with the commands that they are told.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::home::Home;

/// A job that has not ended by then never will.
const PATIENCE: Duration = Duration::from_mins(1);

#[test]
fn a_picture_becomes_grey_on_a_machine_without_programs_for_pictures() {
    let example = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/grayify");
        folder.join(name).to_string_lossy().into_owned()
    };
    let home = Home::new();
    let _server = home.serve();
    home.run(&["apply", &example("grayify.yaml"), "--yes"]).ends(0).says("created grayify");
    home.run(&["put", &example("flower.ppm"), "grayify/in/"]).ends(0);
    let begin = Instant::now();
    while !home.run(&["job", "list", "grayify"]).ends(0).good().contains("succeeded") {
        assert!(begin.elapsed() < PATIENCE, "the job does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    home.run(&["get", "grayify/out/flower.ppm", "grey.ppm"]).ends(0);
    home.run(&["run", "grayify", &example("flower.ppm"), "-o", "same.ppm"]).ends(0);
    let [grey, same] =
        ["grey.ppm", "same.ppm"].map(|name| std::fs::read_to_string(home.path().join(name)).expect("there"));
    assert_eq!(grey, same, "an upload and a call do the same");
    let points: Vec<Vec<&str>> = grey.lines().skip(3).map(|line| line.split(' ').collect()).collect();
    assert_eq!((points.len(), &points[0]), (16 * 16, &vec!["209"; 3]));
    assert!(points.iter().all(|point| point.len() == 3 && point.iter().all(|part| part == &point[0])), "{grey}");

    home.run(&["run", "grayify", &example("grayify.sh")]).ends(1).says("no picture in the format P3");
}
