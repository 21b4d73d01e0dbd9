//! Resources, one or a page of them, each with its namespace, its newest lease and its targets.

use sqlx::SqliteConnection;

use crate::domain::resource::ResourceName;
use crate::limits::TARGETS_SHOWN;
use crate::protocol::rows::Life;

use super::super::super::read::{ResourceFilter, ResourceRead};
use super::super::columns::Columns;
use super::super::fault::Fault;
use super::super::rows::{self, lease_columns, namespace_columns, resource_columns, target_columns};
use super::super::tuples::Statement;
use super::{SqliteReader, bucket_of, joined_namespace};

macro_rules! resources {
    ($condition:literal) => {
        concat!(
            "SELECT r.resource, ",
            resource_columns!(),
            ", ",
            namespace_columns!(),
            ", ",
            lease_columns!(),
            " FROM resources AS r \
             LEFT JOIN namespaces AS n ON n.bucket = r.bucket \
             AND n.namespace = substr(r.resource, 1, instr(r.resource, '/') - 1) \
             LEFT JOIN leases AS l ON l.bucket = r.bucket AND l.acquisition = r.lease WHERE ",
            $condition
        )
    };
}
const RESOURCE: &str = resources!("r.bucket = ?1 AND r.resource = ?2");
const PAGE: &str = resources!("r.resource >= ?1 AND r.resource < ?2 ORDER BY r.resource LIMIT ?3");
const PAGE_ACTIVE: &str =
    resources!("r.resource >= ?1 AND r.resource < ?2 AND r.life = 'active' ORDER BY r.resource LIMIT ?3");
/// Through the index of those few.
const PAGE_NOT_ACTIVE: &str = resources!(
    "r.resource >= ?1 AND r.resource < ?2 AND r.life <> 'active' AND r.life = ?4 ORDER BY r.resource LIMIT ?3"
);

// The text below says it as a literal, since a LIMIT cannot look at its row.
const _: () = assert!(TARGETS_SHOWN == 100);

/// The first targets of each resource. The inner selection keeps one resource with very many from being read whole.
const TARGETS: Statement = Statement {
    head: concat!("SELECT k.column1, ", target_columns!(), " FROM"),
    width: 3,
    tail: "AS k CROSS JOIN targets AS t ON t.bucket = k.column2 AND t.resource = k.column3 AND t.target IN (\
             SELECT s.target FROM targets AS s WHERE s.bucket = k.column2 AND s.resource = k.column3 \
             ORDER BY s.target LIMIT 100) \
           ORDER BY k.column1, t.target",
};

impl SqliteReader {
    pub(super) async fn read_resource(&self, resource: ResourceName) -> Result<Option<ResourceRead>, Fault> {
        let mut view = self.pool.begin().await?;
        let row = sqlx::query(RESOURCE)
            .bind(bucket_of(&resource))
            .bind(resource.as_str())
            .fetch_optional(&mut *view)
            .await?;
        let mut found = match row {
            Some(row) => vec![self.whole(&mut Columns::of(&row))?],
            None => Vec::new(),
        };
        add_targets(&mut view, &mut found).await?;
        view.commit().await?;
        Ok(found.pop())
    }

    pub(super) async fn read_resources(&self, filter: ResourceFilter) -> Result<Vec<ResourceRead>, Fault> {
        let text = match filter.life {
            None => PAGE,
            Some(Life::Active) => PAGE_ACTIVE,
            Some(Life::Deleted | Life::Cancelled) => PAGE_NOT_ACTIVE,
        };
        let range = Range::of(&filter);
        let mut view = self.pool.begin().await?;
        let query = sqlx::query(text).bind(range.from);
        let query = match range.before {
            Some(before) => query.bind(before),
            // Any blob is above any text: no upper end.
            None => query.bind(Vec::<u8>::new()),
        };
        let rows = query
            .bind(i64::from(filter.limit))
            .bind(filter.life.map(Life::word))
            .fetch_all(&mut *view)
            .await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            found.push(self.whole(&mut Columns::of(row))?);
        }
        add_targets(&mut view, &mut found).await?;
        view.commit().await?;
        Ok(found)
    }

    /// A resource without its targets.
    fn whole(&self, columns: &mut Columns<'_>) -> Result<ResourceRead, Fault> {
        let name = columns.parsed(ResourceName::parse)?;
        let resource = rows::resource(name.clone(), columns)?;
        let namespace = joined_namespace(name.namespace(), columns)?
            .ok_or_else(|| Fault::unreadable(format!("the namespace of {name:?} has no row")))?;
        let lease = match resource.lease {
            None => None,
            Some(_) if columns.is_null()? => {
                return Err(Fault::unreadable(format!("the newest lease of {name:?} has no row")));
            }
            Some(_) => Some(rows::lease(columns)?),
        };
        Ok(ResourceRead { resource, targets: Vec::new(), lease, namespace, now: self.time.now() })
    }
}

async fn add_targets(connection: &mut SqliteConnection, found: &mut [ResourceRead]) -> Result<(), Fault> {
    let keys: Vec<ResourceName> = found.iter().map(|read| read.resource.resource.clone()).collect();
    let targets = TARGETS
        .fetch(
            connection,
            &keys,
            |cells, resource| {
                cells.bucket(resource.bucket());
                cells.text(resource.as_str());
            },
            |resource, columns| Ok((resource.clone(), rows::target(columns)?)),
        )
        .await?;
    let mut rest = found.iter_mut().peekable();
    for (resource, target) in targets {
        // Both run in the same order.
        while rest.next_if(|read| read.resource.resource != resource).is_some() {}
        if let Some(read) = rest.peek_mut() {
            read.targets.push(target);
        }
    }
    Ok(())
}

/// Which names a filter lets through, compared byte by byte: at or after `from`, and before `before`.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    from: String,
    before: Option<String>,
}

impl Range {
    fn of(filter: &ResourceFilter) -> Self {
        let namespace = filter.namespace.as_ref().map(|namespace| format!("{namespace}/"));
        // No name holds a control character, so this is above `after` and not above any name that is.
        let after = filter.after.as_ref().map(|after| format!("{after}\u{1}"));
        let prefixes = [namespace.as_deref(), filter.prefix.as_deref()];
        let starts = prefixes.into_iter().chain([after.as_deref()]).flatten();
        Self {
            from: starts.max().unwrap_or_default().to_owned(),
            before: prefixes.into_iter().flatten().filter_map(successor).min(),
        }
    }
}

/// The first text after all those that begin with this one: its last character that can grow is one greater, and what
/// stood behind that is gone. None when there is no such text. The order of UTF-8 bytes is that of the characters.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
pub(super) fn texts() -> Vec<String> {
    let pages = [RESOURCE, PAGE, PAGE_ACTIVE, PAGE_NOT_ACTIVE].map(str::to_owned);
    pages.into_iter().chain(TARGETS.texts()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_no_name_begins_with_it_any_more() {
        assert_eq!(successor("jobs/"), Some("jobs0".to_owned()));
        assert_eq!(successor("a%"), Some("a&".to_owned()));
        assert_eq!(successor("a\u{D7FF}"), Some("a\u{E000}".to_owned()));
        assert_eq!(successor("a\u{10FFFF}"), Some("b".to_owned()));
        assert_eq!(successor("\u{10FFFF}\u{10FFFF}"), None);
        assert_eq!(successor(""), None);
        for prefix in ["z", "é", "a\u{7F}", "日本"] {
            let end = successor(prefix).unwrap();
            let inside = format!("{prefix}\u{10FFFF}\u{10FFFF}");
            assert!(prefix < end.as_str() && inside.as_str() < end.as_str(), "{prefix:?}");
        }
    }
}
