//! Fuzzing: what anybody may send is either understood or refused, and nothing else happens.
//!
//! A check is a plain function over bytes that panics when a property does not hold. The
//! suite feeds it the kept seeds and mutations from a fixed seed of the random numbers (see
//! `tests/suite.rs`); `cargo fuzz` feeds it for as long as one likes (see `README.md`).

pub mod checks;
pub mod mutate;
mod random;

pub use random::Random;

/// One thing to fuzz.
pub struct Target {
    /// Also the name of its folder below `seeds/`.
    pub name: &'static str,
    /// Panics when a property does not hold.
    pub check: fn(&[u8]),
    /// Makes another input from the seeds.
    pub mutate: fn(&mut Random, &[Vec<u8>]) -> Vec<u8>,
}

pub const TARGETS: &[Target] = &[
    Target { name: "fdl", check: checks::fdl, mutate: mutate::yaml },
    Target { name: "quantity", check: checks::quantity, mutate: mutate::quantity },
    Target { name: "record", check: checks::record, mutate: mutate::json_or_yaml },
    #[cfg(feature = "request")]
    Target { name: "request", check: checks::request, mutate: mutate::request },
    Target { name: "service", check: checks::service, mutate: mutate::json },
];

impl Target {
    /// The target of that name; names are constants, so an unknown one is a mistake.
    pub fn named(name: &str) -> &'static Target {
        TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("there is no target {name}"))
    }
}
