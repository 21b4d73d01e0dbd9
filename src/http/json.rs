//! JSON bodies: read whole and strictly. A field that is unknown, of another type or given twice is refused by name;
//! absent and null are the same.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::limits::{JSON_VALUES, WORD_CHARS};

use super::names::nearest;
use super::problem::{Code, Problem};

/// A JSON object whose fields are taken out one by one.
#[derive(Debug)]
pub(super) struct Object {
    fields: Map<String, Value>,
    within: String,
}

impl Object {
    /// Reads the body of a request.
    pub(super) fn read(body: &[u8]) -> Result<Self, Problem> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(unreadable("the body is empty; send a JSON object"));
        }
        let value =
            strict(body).map_err(|error| unreadable(format!("the body is not valid JSON: {error}")))?;
        fields_of(value)
            .map(|fields| Self { fields, within: String::new() })
            .map_err(|found| unreadable(format!("the body is {found}; send a JSON object")))
    }

    /// An object inside another, at the place that messages name.
    pub(super) fn within(value: Value, place: &str) -> Result<Self, Problem> {
        fields_of(value)
            .map(|fields| Self { fields, within: format!("{place}.") })
            .map_err(|found| invalid(place, &format!("it is {found}; send an object")))
    }

    /// Refuses every field but these.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Problem> {
        let Some(name) = self.fields.keys().find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let name = shown(name);
        let advice = match nearest(&name, known.iter().copied()) {
            Some(other) => format!("did you mean {other:?}?"),
            None => format!("the fields are {}", known.join(", ")),
        };
        Err(invalid(&self.name(&name), &format!("there is no such field; {advice}")))
    }

    /// A field's full name, as messages have it.
    pub(super) fn name(&self, field: &str) -> String {
        format!("{}{field}", self.within)
    }

    /// A refusal of one field.
    pub(super) fn refuse(&self, field: &str, reason: &str) -> Problem {
        invalid(&self.name(field), reason)
    }

    /// Whether a field is given.
    pub(super) fn has(&self, field: &str) -> bool {
        self.fields.get(field).is_some_and(|value| !value.is_null())
    }

    /// A text.
    pub(super) fn text(&mut self, field: &str) -> Result<Option<String>, Problem> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Number(number)) => {
                Err(self
                    .refuse(field, &format!("it is the number {number}; give it as a string: \"{number}\"")))
            }
            Some(other) => Err(self.refuse(field, &format!("it is {}; give a string", kind(&other)))),
        }
    }

    /// A whole number.
    pub(super) fn number(&mut self, field: &str) -> Result<Option<u64>, Problem> {
        let found = match self.take(field) {
            None => return Ok(None),
            Some(Value::Number(number)) => whole(&number).ok_or_else(|| number.to_string()),
            Some(other) => Err(kind(&other).to_owned()),
        };
        match found {
            Ok(number) => Ok(Some(number)),
            Err(found) => Err(self.refuse(
                field,
                &format!("it is {found}; give a whole number, not negative and without quotes"),
            )),
        }
    }

    /// True or false, where the field is there.
    pub(super) fn flag(&mut self, field: &str) -> Result<Option<bool>, Problem> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.refuse(field, &format!("it is {}; give true or false", kind(&other)))),
        }
    }

    /// A list.
    pub(super) fn list(&mut self, field: &str) -> Result<Option<Vec<Value>>, Problem> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(self.refuse(field, &format!("it is {}; give a list", kind(&other)))),
        }
    }

    fn take(&mut self, field: &str) -> Option<Value> {
        self.fields.remove(field).filter(|value| !value.is_null())
    }
}

/// A field that is not as it must be.
pub(super) fn invalid(field: &str, reason: &str) -> Problem {
    Problem::new(Code::InvalidField, format!("{field}: {reason}"))
}

/// A text that a caller made up, as far as it is worth repeating: one name may be as long as the whole body, and comparing
/// it with every field and writing it into the answer would cost as much as many requests.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(WORD_CHARS) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
    }
}

/// A body that cannot be read.
pub(super) fn unreadable(detail: impl Into<String>) -> Problem {
    Problem::new(Code::InvalidBody, detail)
}

/// The fields of an object, or what it is instead.
fn fields_of(value: Value) -> Result<Map<String, Value>, &'static str> {
    if let Value::Object(fields) = value { Ok(fields) } else { Err(kind(&value)) }
}

/// `30000.0` is a whole number in JSON too.
fn whole(number: &Number) -> Option<u64> {
    number.as_u64().or_else(|| number.to_string().strip_suffix(".0")?.parse().ok())
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Any JSON value in which no field stands twice: of two, a reader could take either.
fn strict(body: &[u8]) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let left = Cell::new(JSON_VALUES);
    let value = Strict { left: &left }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads one value, as long as any are left.
#[derive(Clone, Copy)]
struct Strict<'a> {
    left: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => return Err(D::Error::custom(format_args!("it has more than {JSON_VALUES} values"))),
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the field {:?} stands twice", shown(&name))));
            }
            let value = access.next_value_seed(self)?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<T: fmt::Debug>(answer: Result<T, Problem>) -> (Code, String) {
        let problem = answer.unwrap_err();
        (problem.code(), problem.detail().to_owned())
    }

    #[test]
    fn malformed_json_is_told_where() {
        let (code, detail) = refusal(Object::read(b"{\"a\":1,}"));
        assert_eq!(code, Code::InvalidBody);
        assert!(detail.contains("line 1 column 8"), "{detail}");
        for body in [&b""[..], b" \n", b"[]", b"\"a\"", b"{\"a\":1} x", b"\xff", b"{\"a\":"] {
            assert_eq!(refusal(Object::read(body)).0, Code::InvalidBody, "{body:?}");
        }
        let deep = format!("{}1{}", "[".repeat(400), "]".repeat(400));
        assert_eq!(refusal(Object::read(deep.as_bytes())).0, Code::InvalidBody);
    }

    #[test]
    fn a_field_that_stands_twice_is_refused_at_any_depth() {
        for body in ["{\"a\":1,\"a\":1}", "{\"b\":[{\"a\":1,\"a\":null}]}"] {
            let (code, detail) = refusal(Object::read(body.as_bytes()));
            assert_eq!(code, Code::InvalidBody);
            assert!(detail.contains("\"a\" stands twice"), "{detail}");
        }
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let many = format!("{{\"a\":[0{}]}}", ",0".repeat(JSON_VALUES));
        assert!(refusal(Object::read(many.as_bytes())).1.contains("more than"));
    }

    #[test]
    fn an_unknown_field_names_its_neighbour() {
        let object = Object::read(b"{\"resourc\":\"s/a\"}").unwrap();
        let (code, detail) = refusal(object.only(&["resource", "holder"]));
        assert_eq!(code, Code::InvalidField);
        assert_eq!(detail, "resourc: there is no such field; did you mean \"resource\"?");
    }

    #[test]
    fn a_name_as_long_as_the_body_is_not_repeated() {
        // Broken: a field of a megabyte is compared with every known one and written into the answer, six times as long where
        // its characters are escaped twice. Must hold: a refusal is short, whatever the name.
        let name = "\\u0001".repeat(1_000_000);
        let unknown = Object::read(format!("{{\"{name}\":1}}").as_bytes()).unwrap();
        let twice = format!("{{\"{name}\":1,\"{name}\":1}}");
        let (code, detail) = refusal(unknown.only(&["resource", "holder"]));
        assert!(code == Code::InvalidField && detail.len() < 1_000, "{} bytes", detail.len());
        let (code, detail) = refusal(Object::read(twice.as_bytes()));
        assert!(code == Code::InvalidBody && detail.len() < 1_000, "{} bytes", detail.len());
    }

    #[test]
    fn types_are_held_to() {
        let read = || Object::read(b"{\"n\":4,\"s\":\"4\",\"f\":4.5,\"w\":4.0,\"m\":-1,\"z\":null}").unwrap();
        assert_eq!(refusal(read().text("n")).1, "n: it is the number 4; give it as a string: \"4\"");
        assert!(refusal(read().number("s")).1.starts_with("s: it is a string"));
        assert!(refusal(read().number("f")).1.starts_with("f: it is 4.5"));
        assert!(refusal(read().number("m")).1.starts_with("m: it is -1"));
        assert_eq!(read().number("w").unwrap(), Some(4));
        assert_eq!(read().text("z").unwrap(), None);
        assert_eq!(read().text("absent").unwrap(), None);
        assert!(refusal(read().list("s")).1.contains("a string; give a list"));
    }
}
