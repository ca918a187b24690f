//! Times as the wire prints them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since the epoch.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// `2026-06-12T09:05:29Z`
pub(crate) fn rfc3339_seconds(time: SystemTime) -> String {
    let Moment { date, clock, .. } = Moment::of(time);
    format!("{date}T{clock}Z")
}

/// `2026-06-12T09:05:29.123Z`, of milliseconds since 1970.
pub(crate) fn rfc3339_millis(millis: u64) -> String {
    let Moment { date, clock, nanos } = Moment::of(at_millis(millis));
    format!("{date}T{clock}.{:03}Z", nanos / 1_000_000)
}

/// So many milliseconds after the beginning of 1970.
pub(crate) fn at_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}

/// `2026-06-12T09:05:29.12Z`: as many digits as are needed, as Go has it.
pub(crate) fn rfc3339_nanos(time: SystemTime) -> String {
    let moment = Moment::of(time);
    format!("{}T{}{}Z", moment.date, moment.clock, moment.fraction())
}

/// `2026-06-12 09:05:29.12 +0000 UTC`: what Go prints when nobody says how.
pub(crate) fn go_text(time: SystemTime) -> String {
    let moment = Moment::of(time);
    format!("{} {}{} +0000 UTC", moment.date, moment.clock, moment.fraction())
}

/// Milliseconds since 1970 of a time in RFC 3339; none when it is no such time.
pub(crate) fn parse_rfc3339(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>, most: u64| {
        let digits = text.get(range).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<u64>().ok().filter(|number| *number <= most)
    };
    let is = |at: usize, allowed: &[u8]| text.as_bytes().get(at).is_some_and(|byte| allowed.contains(byte));
    let separated = is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":");
    let (year, month, day) = (number(0..4, 9999)?, number(5..7, 12)?, number(8..10, 31)?);
    let (hour, minute, second) = (number(11..13, 23)?, number(14..16, 59)?, number(17..19, 60)?);
    let rest = text.get(19..)?;
    let digits = rest.strip_prefix('.').map_or("", |rest| &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()]);
    let (zone, millis) = if rest.starts_with('.') {
        let padded = format!("{digits:0<3}");
        (rest.get(1 + digits.len()..)?, padded.get(..3)?.parse::<u64>().ok().filter(|_| !digits.is_empty())?)
    } else {
        (rest, 0)
    };
    let days = days_of(year, month, day)?;
    let seconds = (days * 86_400 + hour * 3600 + minute * 60 + second).checked_add_signed(-offset(zone)?)?;
    separated.then_some(seconds * 1000 + millis)
}

/// Seconds that a zone is ahead.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) = match (zone.strip_prefix('+'), zone.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (None, Some(rest)) => (-1, rest),
        (None, None) => return None,
    };
    let (hours, minutes) = rest.split_once(':').filter(|(hours, minutes)| hours.len() == 2 && minutes.len() == 2)?;
    let number = |text: &str, most: u32| text.parse::<u32>().ok().filter(|number| *number <= most);
    Some(sign * i64::from(number(hours, 23)? * 3600 + number(minutes, 59)? * 60))
}

/// Days from 1970 to a date; none for a date that is not, or is before.
fn days_of(year: u64, month: u64, day: u64) -> Option<u64> {
    if year < 1970 || month == 0 || day == 0 {
        return None;
    }
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
    (civil(days) == (year, month, day)).then_some(days)
}

/// A time in the parts that every form is made of.
struct Moment {
    date: String,
    clock: String,
    nanos: u32,
}

impl Moment {
    fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = civil(days);
        Self {
            date: format!("{year:04}-{month:02}-{day:02}"),
            clock: format!("{:02}:{:02}:{:02}", rest / 3600, rest % 3600 / 60, rest % 60),
            nanos: since.subsec_nanos(),
        }
    }

    /// With its point; blank when it is nothing.
    fn fraction(&self) -> String {
        let digits = format!(".{:09}", self.nanos);
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Days since 1970 as a date, by the usual count of 400-year eras.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * index + 2) / 5 + 1;
    let month = if index < 10 { index + 3 } else { index - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_printed_right() {
        let at = |seconds| rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(at(1_781_255_129), "2026-06-12T09:05:29Z");
    }

    #[test]
    fn every_form_has_the_digits_that_it_should() {
        let time = UNIX_EPOCH + Duration::from_millis(1_781_255_129_120);
        assert_eq!(rfc3339_millis(1_781_255_129_120), "2026-06-12T09:05:29.120Z");
        assert_eq!(rfc3339_nanos(time), "2026-06-12T09:05:29.12Z");
        assert_eq!(rfc3339_nanos(UNIX_EPOCH), "1970-01-01T00:00:00Z");
        assert_eq!(go_text(time), "2026-06-12 09:05:29.12 +0000 UTC");
    }

    #[test]
    fn times_are_read_as_they_are_printed() {
        for millis in [0, 951_827_696_000, 1_781_255_129_123] {
            assert_eq!(parse_rfc3339(&rfc3339_millis(millis)), Some(millis));
        }
        assert_eq!(parse_rfc3339("2026-06-12T11:05:29.5+02:00"), Some(1_781_255_129_500));
        assert_eq!(parse_rfc3339("2026-06-12T09:05:29.123456789Z"), Some(1_781_255_129_123));
        let wrong =
            ["", "yesterday", "2026-06-12", "2026-02-30T00:00:00Z", "2026-06-12T09:05:29", "1969-12-31T23:59:59Z"];
        let wrong = wrong.iter().chain(&[
            "2026-06-12T24:05:29Z",
            "2026-06-12T09:05:29.Z",
            "2026-06-12T09:05:29+2:00",
            "+026-06-12T09:05:29Z",
        ]);
        for text in wrong {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
