//! A log line as one JSON object, written in one pass.
//!
//! The formatter that comes with the subscriber reads the fields of a span again for every event in it and puts them
//! together anew; with one line per decision that was a fifth of what a write costs. Here they are kept as they will be
//! written.

use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes fields as members of an object, each with a comma before it.
pub(super) struct Members;

impl<'w> FormatFields<'w> for Members {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = Visitor { out: &mut writer, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }

    fn add_fields(&self, current: &'w mut FormattedFields<Self>, fields: &Record<'_>) -> fmt::Result {
        self.format_fields(current.as_writer(), fields)
    }
}

/// Writes an event: time, level, its fields, where it is from, and the request that it belongs to.
pub(super) struct Line;

impl<S> FormatEvent<S, Members> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, Members>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str("{\"timestamp\":\"")?;
        SystemTime.format_time(&mut writer)?;
        write!(writer, "\",\"level\":\"{}\"", event.metadata().level())?;
        context.format_fields(writer.by_ref(), event)?;
        write!(writer, ",\"target\":\"{}\"", event.metadata().target())?;
        if let Some(span) =
            event.parent().and_then(|id| context.span(id)).or_else(|| context.lookup_current())
        {
            write!(writer, ",\"span\":{{\"name\":\"{}\"", span.name())?;
            let mut trace = None;
            if let Some(fields) = span.extensions().get::<FormattedFields<Members>>() {
                writer.write_str(fields)?;
                trace = member(fields, TRACE_ID).map(str::to_owned);
            }
            writer.write_char('}')?;
            // At the top too, where whoever comes from a trace looks for it.
            if let Some(trace) = trace {
                write!(writer, "{TRACE_ID}{trace}\"")?;
            }
        }
        writer.write_str("}\n")
    }
}

/// The beginning of the member that holds the name of a trace.
const TRACE_ID: &str = ",\"trace_id\":\"";

/// A text among the members of a span. No other text can look like its beginning, since quotes within one are escaped.
fn member<'f>(fields: &'f str, begins: &str) -> Option<&'f str> {
    let (_, after) = fields.split_once(begins)?;
    after.split_once('"').map(|(value, _)| value)
}

struct Visitor<'v, 'w> {
    out: &'v mut Writer<'w>,
    result: fmt::Result,
}

impl Visitor<'_, '_> {
    /// The name, and the beginning of a text.
    fn begin(&mut self, field: &Field) -> fmt::Result {
        self.out.write_str(",\"")?;
        self.out.write_str(field.name())?;
        self.out.write_str("\":\"")
    }

    fn plain(&mut self, field: &Field, value: impl fmt::Display) {
        if self.result.is_ok() {
            self.result = write!(self.out, ",\"{}\":{value}", field.name());
        }
    }

    fn text(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if self.result.is_ok() {
            self.result = self
                .begin(field)
                .and_then(|()| Escaped(self.out).write_fmt(value))
                .and_then(|()| self.out.write_char('"'));
        }
    }
}

impl Visit for Visitor<'_, '_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        if value.is_finite() { self.plain(field, value) } else { self.plain(field, "null") }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if self.result.is_ok() {
            self.result = self
                .begin(field)
                .and_then(|()| Escaped(self.out).write_str(value))
                .and_then(|()| self.out.write_char('"'));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, format_args!("{value:?}"));
    }
}

/// Writes text as the inside of a JSON string (RFC 8259 section 7).
struct Escaped<'e, 'w>(&'e mut Writer<'w>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // All of them are single bytes, and no byte of a longer character looks like one.
        let needs_care = |found: u8| found == b'"' || found == b'\\' || found < 0x20;
        let mut rest = text;
        while let Some(at) = rest.bytes().position(needs_care) {
            let (plain, after) = rest.split_at(at);
            self.0.write_str(plain)?;
            let mut left = after.chars();
            match left.next() {
                Some(found @ ('"' | '\\')) => write!(self.0, "\\{found}")?,
                Some(found) => write!(self.0, "\\u{:04x}", u32::from(found))?,
                None => {}
            }
            rest = left.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Page {
        type Writer = Self;
        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    fn lines(tell: impl FnOnce()) -> Vec<serde_json::Value> {
        let page = Page::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(page.clone())
            .fmt_fields(Members)
            .event_format(Line)
            .finish();
        tracing::subscriber::with_default(subscriber, tell);
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_line_is_one_object_whatever_stands_in_it() {
        let odd = "a \"quote\" a \\ a\nline\u{1} and é";
        let told = lines(|| {
            let span = tracing::info_span!("request", method = "PUT", path = tracing::field::Empty);
            let _inside = span.enter();
            span.record("path", odd);
            tracing::info!(
                odd,
                number = 7,
                minus = -7,
                half = 0.5,
                none = None::<&str>,
                yes = true,
                "decided"
            );
            tracing::warn!(reason = ?odd, endless = f64::INFINITY, "told {}", odd);
        });
        assert_eq!(told[0]["message"], "decided");
        assert_eq!(told[0]["odd"], odd);
        assert_eq!((told[0]["number"].as_i64(), told[0]["minus"].as_i64()), (Some(7), Some(-7)));
        assert_eq!((told[0]["half"].as_f64(), told[0]["yes"].as_bool()), (Some(0.5), Some(true)));
        assert!(told[0].get("none").is_none());
        assert_eq!(told[0]["span"], serde_json::json!({"name": "request", "method": "PUT", "path": odd}));
        assert_eq!(told[1]["level"], "WARN");
        assert_eq!(told[1]["message"], format!("told {odd}"));
        assert_eq!(told[1]["reason"], format!("{odd:?}"));
        assert!(told[1]["endless"].is_null());
    }

    #[test]
    fn an_event_outside_a_request_has_no_span() {
        let told = lines(|| tracing::info!("listening"));
        assert_eq!((told.len(), told[0]["message"].as_str()), (1, Some("listening")));
        assert!(told[0].get("span").is_none());
        assert!(told[0]["target"].as_str().is_some_and(|target| target.contains("line::tests")));
    }
}
