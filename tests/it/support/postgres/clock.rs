//! A database whose clock a test moves by hand: a function of the same name stands before PostgreSQL's own in the search
//! path of that database. The engine under test is the shipped one; it asks for the time as it always does.

use fencegate::domain::time::Timestamp;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::Fresh;

const HANDS: &str = "
CREATE SCHEMA hands;
CREATE TABLE hands.clock (wall_ms bigint NOT NULL);
CREATE FUNCTION hands.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
  $$ SELECT timestamptz 'epoch' + wall_ms * interval '1 millisecond' FROM hands.clock $$;
GRANT USAGE ON SCHEMA hands TO gateway;
GRANT SELECT ON hands.clock TO gateway;
";

impl Fresh {
    /// From now on time stands still in this database, and is moved by [`Self::set_the_clock`] alone.
    pub(crate) async fn take_the_clock(&self, now: Timestamp) {
        let mut connection = PgConnection::connect(&self.admin).await.unwrap();
        sqlx::raw_sql(HANDS).execute(&mut connection).await.unwrap();
        let path = format!("ALTER DATABASE {} SET search_path = public, hands, pg_catalog", self.name);
        connection.execute(AssertSqlSafe(path)).await.unwrap();
        let begin = sqlx::query("INSERT INTO hands.clock VALUES ($1)").bind(now.ms());
        begin.execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Moves it.
    pub(crate) async fn set_the_clock(&self, now: Timestamp) {
        let mut connection = PgConnection::connect(&self.admin).await.unwrap();
        let set = sqlx::query("UPDATE hands.clock SET wall_ms = $1").bind(now.ms());
        set.execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}
