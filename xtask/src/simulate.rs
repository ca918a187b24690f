//! `cargo xtask simulate`: many stories of federations, each from a seed of its own.

use crate::command;

const SEEDS: u64 = 100_000;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    seeds: u64,
    from: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { seeds: SEEDS, from: 0 }
    }
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let place = match *word {
                "--seeds" => &mut options.seeds,
                "--from" => &mut options.from,
                unknown => return Err(unknown.to_owned()),
            };
            let value = words.next().and_then(|text| text.parse().ok());
            *place = value.ok_or_else(|| format!("{word} without a number"))?;
        }
        Ok(options)
    }
}

/// Tells them with optimisation; progress and figures come from the test itself.
pub(crate) fn run(options: &Options) -> bool {
    let mut tests = command::cargo(&["test", "--release", "--package", "oscar-engine", "--test", "simulation"]);
    tests.args(["--", "--nocapture", "every_story_ends_well"]);
    tests.env("OSCAR_SEEDS", options.seeds.to_string()).env("OSCAR_FROM", options.from.to_string());
    tests.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_nothing_else() {
        assert_eq!(Options::parse(&[]), Ok(Options { seeds: SEEDS, from: 0 }));
        assert_eq!(Options::parse(&["--from", "7", "--seeds", "5"]), Ok(Options { seeds: 5, from: 7 }));
        assert!(Options::parse(&["--seeds"]).is_err() && Options::parse(&["7"]).is_err());
    }
}
