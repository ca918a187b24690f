//! Tables for people: as wide as their content, and never wider than the terminal.

use super::screen::{Paint, Style};

pub(super) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    styles: Vec<(usize, Choice)>,
}

/// How a cell is painted, by its text.
type Choice = fn(&str) -> Option<Style>;

/// Below this a column says nothing.
const NARROWEST: usize = 8;

impl Table {
    pub(super) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self { head: head.map(str::to_owned).to_vec(), rows: Vec::new(), styles: Vec::new() }
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.head.len(), "a row has the columns of its table");
        self.rows.push(Vec::from(cells));
    }

    /// Paints the cells of a column.
    pub(super) fn paint(&mut self, column: usize, choice: Choice) {
        self.styles.push((column, choice));
    }

    /// The table without a last line end. When it is wider than `width`, the column `elastic`
    /// is cut.
    pub(super) fn render(&self, paint: Paint, width: Option<usize>, elastic: usize) -> String {
        let widths = self.widths(width, elastic);
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        lines.push(line(&self.head, &widths, |_, text| paint.on(Style::Bold, text)));
        for row in &self.rows {
            lines.push(line(row, &widths, |column, text| {
                let choice = self.styles.iter().find(|(styled, _)| *styled == column);
                match choice.and_then(|(_, choice)| choice(text)) {
                    Some(style) => paint.on(style, text),
                    None => text.to_owned(),
                }
            }));
        }
        lines.join("\n")
    }

    fn widths(&self, width: Option<usize>, elastic: usize) -> Vec<usize> {
        let longest = |column: usize| {
            let cells = self.rows.iter().chain([&self.head]).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut widths: Vec<_> = (0..self.head.len()).map(longest).collect();
        let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        if let (Some(width), Some(cut)) = (width, widths.get_mut(elastic)) {
            *cut = cut.saturating_sub(total.saturating_sub(width)).max(NARROWEST.min(*cut));
        }
        widths
    }
}

fn line(cells: &[String], widths: &[usize], paint: impl Fn(usize, &str) -> String) -> String {
    let mut text = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let shown = cut(cell, *width);
        let last = column + 1 == cells.len();
        let room = if last { 0 } else { width - shown.chars().count() + 2 };
        // Blanks are not painted, so that an underline or background never shows them.
        if shown.is_empty() {
            text.push_str(&" ".repeat(room));
        } else {
            text.push_str(&paint(column, &shown));
            text.push_str(&" ".repeat(room));
        }
    }
    text.truncate(text.trim_end_matches(' ').len());
    text
}

/// The end of an image's name tells more than its beginning, so that is what stays.
fn cut(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let tail: String = text.chars().skip(length - width.saturating_sub(1)).collect();
    format!("…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["NAME", "IMAGE", "CPU"]);
        table.row(["plants".to_owned(), "ghcr.io/grycap/plants:latest".to_owned(), "1".to_owned()]);
        table.row(["ü".to_owned(), String::new(), "0.2".to_owned()]);
        table
    }

    #[test]
    fn columns_line_up_and_lines_end_without_blanks() {
        let text = table().render(Paint(false), None, 1);
        let expected = "NAME    IMAGE                         CPU\n\
                        plants  ghcr.io/grycap/plants:latest  1\n\
                        ü                                     0.2";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_narrow_terminal_cuts_the_elastic_column_only() {
        let text = table().render(Paint(false), Some(30), 1);
        assert_eq!(
            text,
            "NAME    IMAGE              CPU\nplants  …ap/plants:latest  1\nü                          0.2"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 30));
        let tiny = table().render(Paint(false), Some(5), 1);
        assert!(tiny.contains("plants  …:latest  1"), "{tiny}");
    }

    #[test]
    fn paint_does_not_change_the_widths() {
        let mut table = table();
        table.paint(0, |_| Some(Style::Green));
        let text = table.render(Paint(true), None, 1);
        assert!(text.contains("\x1b[32mplants\x1b[0m  ghcr"), "{text}");
    }
}
