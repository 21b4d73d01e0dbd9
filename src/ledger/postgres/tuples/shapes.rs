//! What the shapes are called inside one server.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo};
use sqlx::{AssertSqlSafe, Encode, PgConnection, Postgres, Row, Type};

use super::super::fault::Fault;
use super::{Argument, Shape, Tuples};

/// What the shapes are called inside one server.
#[derive(Debug, Clone)]
pub(in super::super) struct Shapes(Vec<(Shape, Oid)>);

const SHAPES: &str = "SELECT to_regtype(k.name)::oid \
                      FROM unnest($1::text[]) WITH ORDINALITY AS k (name, place) ORDER BY k.place";

impl Shapes {
    pub(in super::super) async fn ask(connection: &mut PgConnection) -> Result<Self, Fault> {
        let names: Vec<&str> = Shape::ALL.iter().map(|shape| shape.name()).collect();
        let rows = sqlx::query(SHAPES).bind(names).persistent(false).fetch_all(connection).await?;
        let mut found = Vec::with_capacity(rows.len());
        for (shape, row) in Shape::ALL.into_iter().zip(&rows) {
            let Some(element) = row.try_get(0)? else {
                return Err(Fault::Unusable(format!(
                    "the schema has no type {}; run fencegate migrate",
                    shape.name()
                )));
            };
            found.push((shape, element));
        }
        Ok(Self(found))
    }

    /// Lets the connection look the shapes up by name before a statement needs them. It would do so between the
    /// preparation and the use of that statement, with simple queries, and these end a statement that has no name.
    pub(in super::super) async fn introduce(connection: &mut PgConnection) -> Result<(), Fault> {
        let numbers: Vec<String> = (1..=Shape::ALL.len()).map(|number| format!("${number}")).collect();
        let mut query =
            sqlx::query(AssertSqlSafe(format!("SELECT {}", numbers.join(", ")))).persistent(false);
        for shape in Shape::ALL {
            query = query.bind(Absent(shape));
        }
        query.fetch_one(connection).await?;
        Ok(())
    }

    /// The rows as an argument of a statement.
    pub(in super::super) fn argument<'t>(&self, tuples: &'t Tuples) -> Result<Argument<'t>, Fault> {
        if let Some(reason) = tuples.refusal() {
            return Err(Fault::unreadable(reason));
        }
        let shape = self.0.iter().find(|(shape, _)| *shape == tuples.shape);
        let Some((_, element)) = shape.copied() else {
            return Err(Fault::unreadable(format!("no type {}", tuples.shape.name())));
        };
        Ok(Argument { element, tuples })
    }
}

/// No rows of a shape, which is named and not numbered.
struct Absent(Shape);

impl Type<Postgres> for Absent {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("record")
    }
}

impl Encode<'_, Postgres> for Absent {
    fn encode_by_ref(&self, _: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Ok(IsNull::Yes)
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::array_of(self.0.name()))
    }
}
