//! What the demo says: lines for people, or one JSON object for each for machines.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};

use serde_json::{Value, json};

use super::picture;

pub(super) struct Story {
    json: bool,
    colours: bool,
    steps: Cell<usize>,
}

impl Story {
    pub(super) fn new(json: bool) -> Self {
        let colours = !json
            && std::io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { json, colours, steps: Cell::new(0) }
    }

    /// What happens now.
    pub(super) fn step(&self, text: &str) {
        self.steps.set(self.steps.get() + 1);
        let number = self.steps.get();
        let shown =
            if self.colours { format!("\n\x1b[1m{number}. {text}\x1b[0m") } else { format!("\n{number}. {text}") };
        self.line(&shown, &json!({"step": number, "text": text}));
    }

    pub(super) fn detail(&self, text: &str) {
        self.line(&format!("   {text}"), &json!({"detail": text}));
    }

    /// What it means.
    pub(super) fn say(&self, text: &str) {
        self.line(&format!("   {text}"), &json!({"says": text}));
    }

    /// What somebody would type.
    pub(super) fn code(&self, text: &str) {
        let shown = if self.colours { format!("   \x1b[36m$ {text}\x1b[0m") } else { format!("   $ {text}") };
        self.line(&shown, &json!({"code": text}));
    }

    pub(super) fn picture(&self, graph: &Value) {
        let drawn: String = picture::draw(graph, self.colours).lines().map(|line| format!("   {line}\n")).collect();
        self.line(drawn.trim_end_matches('\n'), &json!({"graph": graph}));
    }

    pub(super) fn trouble(&self, text: &str) {
        if self.json {
            self.line("", &json!({"error": text}));
        } else {
            eprintln!("error: {text}\nhint: `oscar doctor` looks for what is wrong on this machine");
        }
    }

    fn line(&self, text: &str, machine: &Value) {
        let mut out = std::io::stdout().lock();
        // Whoever closed the pipe has seen enough.
        let _ = if self.json { writeln!(out, "{machine}") } else { writeln!(out, "{text}") };
        let _ = out.flush();
    }
}
