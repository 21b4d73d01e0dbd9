//! Entity tags and the conditional headers of RFC 9110 section 13.

use std::fmt;

use super::counter::{CommitNo, Incarnation};

/// Most entity tags in one precondition.
pub const MAX_TAGS: usize = 32;

/// The gateway's own validator: `"incarnation.commit"` of the commit that last changed a target. Always strong: each
/// commit number stands for one content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntityTag {
    /// Of the resource at that commit.
    pub incarnation: Incarnation,
    /// The commit that last changed the target.
    pub commit: CommitNo,
}

impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}.{}\"", self.incarnation, self.commit)
    }
}

/// A tag that a caller declared; it may be one that the gateway never made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeclaredTag {
    /// `W/` stood in front of it.
    pub weak: bool,
    /// What stands between the quotes.
    pub opaque: String,
}

impl fmt::Display for DeclaredTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weak = if self.weak { "W/" } else { "" };
        write!(f, "{weak}\"{}\"", self.opaque)
    }
}

/// `*`, or a list of tags.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TagList {
    /// Any content at all.
    Any,
    /// One of these.
    Tags(Vec<DeclaredTag>),
}

/// Why a text is not a precondition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TagListError {
    /// No tag in it.
    #[error("no entity tag is given; write * or quoted tags, for example \"1.2\"")]
    Empty,
    /// A tag without quotes, or something between the tags.
    #[error(
        "at position {at} stands {found:?} where a quoted tag such as \"1.2\" must begin; keep the quotes of the ETag"
    )]
    Unquoted {
        /// The character.
        found: char,
        /// Its place, from 1.
        at: usize,
    },
    /// A quote without its partner.
    #[error("the tag that begins at position {at} has no closing quote")]
    Unclosed {
        /// Its place, from 1.
        at: usize,
    },
    /// A character that no tag holds.
    #[error("character {found:?} is not allowed inside an entity tag")]
    Character {
        /// The character.
        found: char,
    },
    /// More than 32.
    #[error("more than {MAX_TAGS} entity tags are given")]
    TooMany,
}

impl TagList {
    /// Reads the value of `If-Match` or `If-None-Match`.
    ///
    /// # Errors
    /// [`TagListError`] names the place and the reason.
    pub fn parse(text: &str) -> Result<Self, TagListError> {
        let all = text.trim_matches([' ', '\t']);
        if all == "*" {
            return Ok(Self::Any);
        }
        let mut tags = Vec::new();
        let mut rest = all;
        while !rest.is_empty() {
            let at = all.len().saturating_sub(rest.len()).saturating_add(1);
            let (tag, after) = one_tag(rest, at)?;
            if tags.len() == MAX_TAGS {
                return Err(TagListError::TooMany);
            }
            tags.push(tag);
            rest = after_comma(after, all.len())?;
        }
        if tags.is_empty() { Err(TagListError::Empty) } else { Ok(Self::Tags(tags)) }
    }

    /// Strong comparison, as `If-Match` asks for.
    #[must_use]
    pub fn matches_strongly(&self, current: Option<EntityTag>) -> bool {
        let Some(current) = current else { return false };
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|tag| !tag.weak && tag.names(current)),
        }
    }

    /// Weak comparison, as `If-None-Match` asks for.
    #[must_use]
    pub fn matches_weakly(&self, current: Option<EntityTag>) -> bool {
        let Some(current) = current else { return false };
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|tag| tag.names(current)),
        }
    }

    /// Weak comparison with a tag that has not the form of a document's.
    #[must_use]
    pub fn has(&self, opaque: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|tag| tag.opaque == opaque),
        }
    }

    /// Whether a strong tag is declared: what the policy `session` asks for, and `*` is not.
    #[must_use]
    pub fn has_strong_tag(&self) -> bool {
        match self {
            Self::Any => false,
            Self::Tags(tags) => tags.iter().any(|tag| !tag.weak),
        }
    }
}

impl DeclaredTag {
    fn names(&self, current: EntityTag) -> bool {
        self.opaque == format!("{}.{}", current.incarnation, current.commit)
    }
}

impl fmt::Display for TagList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Tags(tags) => {
                for (index, tag) in tags.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    tag.fmt(f)?;
                }
                Ok(())
            }
        }
    }
}

fn one_tag(text: &str, at: usize) -> Result<(DeclaredTag, &str), TagListError> {
    let (weak, quoted) = match text.strip_prefix("W/") {
        Some(after) => (true, after),
        None => (false, text),
    };
    let Some(inner) = quoted.strip_prefix('"') else {
        return Err(TagListError::Unquoted { found: text.chars().next().unwrap_or(' '), at });
    };
    let Some((opaque, after)) = inner.split_once('"') else {
        return Err(TagListError::Unclosed { at });
    };
    match opaque.chars().find(|found| !found.is_ascii_graphic()) {
        Some(found) => Err(TagListError::Character { found }),
        None => Ok((DeclaredTag { weak, opaque: opaque.to_owned() }, after)),
    }
}

fn after_comma(after: &str, whole: usize) -> Result<&str, TagListError> {
    let rest = after.trim_start_matches([' ', '\t']);
    if rest.is_empty() {
        return Ok(rest);
    }
    let at = whole.saturating_sub(rest.len()).saturating_add(1);
    match rest.strip_prefix(',') {
        None => Err(TagListError::Unquoted { found: rest.chars().next().unwrap_or(' '), at }),
        Some(next) => {
            let next = next.trim_start_matches([' ', '\t']);
            if next.is_empty() { Err(TagListError::Unquoted { found: ',', at }) } else { Ok(next) }
        }
    }
}

/// The preconditions that a request declares.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Preconditions {
    /// `If-Match`.
    pub if_match: Option<TagList>,
    /// `If-None-Match`.
    pub if_none_match: Option<TagList>,
}

impl Preconditions {
    /// Whether the declared conditions hold against the target's current tag (`None`: there is no content).
    #[must_use]
    pub fn hold(&self, current: Option<EntityTag>) -> bool {
        let matched = self.if_match.as_ref().is_none_or(|tags| tags.matches_strongly(current));
        let absent = self.if_none_match.as_ref().is_none_or(|tags| !tags.matches_weakly(current));
        matched && absent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current() -> EntityTag {
        EntityTag { incarnation: Incarnation::ONE, commit: CommitNo::new(2).unwrap() }
    }

    #[test]
    fn a_weak_tag_never_satisfies_if_match() {
        let weak = TagList::parse("W/\"1.2\"").unwrap();
        assert!(!weak.matches_strongly(Some(current())));
        assert!(weak.matches_weakly(Some(current())));
        assert!(!weak.has_strong_tag());
    }

    #[test]
    fn a_star_means_that_there_is_content() {
        assert!(TagList::Any.matches_strongly(Some(current())));
        assert!(!TagList::Any.matches_strongly(None));
        assert!(!TagList::Any.has_strong_tag());
    }

    #[test]
    fn a_tag_of_any_form_is_found_by_what_stands_between_its_quotes() {
        let tags = TagList::parse("\"a\", W/\"b\"").unwrap();
        assert!(tags.has("a") && tags.has("b") && !tags.has("c") && TagList::Any.has("c"));
    }

    #[test]
    fn lists_are_read_whole_or_refused() {
        assert!(TagList::parse("\"a\" , \"1.2\"").unwrap().matches_strongly(Some(current())));
        assert_eq!(TagList::parse(""), Err(TagListError::Empty));
        assert_eq!(TagList::parse("1.2"), Err(TagListError::Unquoted { found: '1', at: 1 }));
        assert_eq!(TagList::parse("\"1.2"), Err(TagListError::Unclosed { at: 1 }));
        assert_eq!(TagList::parse("\"1\" \"2\""), Err(TagListError::Unquoted { found: '"', at: 5 }));
        assert_eq!(TagList::parse("\"1\","), Err(TagListError::Unquoted { found: ',', at: 4 }));
        assert_eq!(TagList::parse("\"1 2\""), Err(TagListError::Character { found: ' ' }));
    }
}
