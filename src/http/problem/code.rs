//! The one list of public error codes, each with its answers: everything that is public about a code is read from here,
//! and the router, the pages in `docs/errors` and `openapi.yaml` are held against it by tests.

use axum::http::StatusCode;

use crate::domain::operation::Effect;

/// Makes the enum and one exhaustive match per answer from the rows below: a code without an answer does not compile.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident: $word:literal, $status:ident, $effect:ident, $retry:literal, $title:literal;)*) => {
        /// A public error code. Two variants share a word where one word has two statuses or two effects.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code, in the order of `docs/errors/README.md`.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The stable word that programs look at.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// The status of the answer.
            #[must_use]
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// What the refused delivery did to the store.
            #[must_use]
            pub const fn effect(self) -> Effect {
                match self { $(Self::$name => Effect::$effect,)* }
            }

            /// Whether sending the same request again can help.
            #[must_use]
            pub const fn retryable(self) -> bool {
                match self { $(Self::$name => $retry,)* }
            }

            /// The code in a few words, the same for every problem of it.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

codes! {
    /// The request cannot be understood as a whole.
    InvalidRequest: "invalid_request", BAD_REQUEST, None, false, "The request is malformed";
    /// A name breaks the grammar.
    InvalidResource: "invalid_resource", BAD_REQUEST, None, false, "The name is not a resource name";
    /// A token breaks the grammar.
    InvalidToken: "invalid_token", BAD_REQUEST, None, false, "The fencing token is not well formed";
    /// An operation id breaks the grammar.
    InvalidOperationId: "invalid_operation_id", BAD_REQUEST, None, false,
        "The operation id is not well formed";
    /// A sequence breaks the grammar, or the policy takes none.
    InvalidSequence: "invalid_sequence", BAD_REQUEST, None, false,
        "The sequence is not well formed, or not wanted";
    /// A body is not what it must be.
    InvalidBody: "invalid_body", BAD_REQUEST, None, false, "The body cannot be read";
    /// No credentials, or none that are known here.
    Unauthenticated: "unauthenticated", UNAUTHORIZED, None, false, "The caller is not known";
    /// No rule of the caller allows it.
    Forbidden: "forbidden", FORBIDDEN, None, false, "The caller may not do this";
    /// Row 8 of the decision table.
    TokenNotYours: "token_not_yours", FORBIDDEN, None, false, "The token was not issued for this resource";
    /// Row 11, under a registered issuer.
    AdvanceForbidden: "advance_forbidden", FORBIDDEN, None, false, "Writing does not raise the floor here";
    /// Nothing stands under this address.
    NotFound: "not_found", NOT_FOUND, None, false, "There is no such thing";
    /// No such namespace here.
    UnknownNamespace: "unknown_namespace", NOT_FOUND, None, false, "The namespace is not configured";
    /// Another method than those of the path.
    MethodNotAllowed: "method_not_allowed", METHOD_NOT_ALLOWED, None, false,
        "The path does not take this method";
    /// The body stopped arriving.
    RequestTimeout: "request_timeout", REQUEST_TIMEOUT, None, true, "The request did not arrive in time";
    /// Somebody else owns the resource.
    LeaseHeld: "lease_held", CONFLICT, None, true, "Somebody holds the lease";
    /// A lease has expired so shortly ago that nobody may acquire yet.
    LockDelay: "lock_delay", CONFLICT, None, true, "A lease has just expired";
    /// The caller's budget for waiting is over.
    WaitTimeout: "wait_timeout", CONFLICT, None, true, "The lease did not become free in time";
    /// Row 3 of the decision table.
    OperationInProgress: "operation_in_progress", CONFLICT, Unknown, true,
        "The operation is being carried out";
    /// Row 18 of the decision table.
    LaneBusy: "lane_busy", CONFLICT, None, true, "Another effect is under way";
    /// A verdict on what has another one.
    AlreadyResolved: "already_resolved", CONFLICT, None, false, "The operation has another outcome already";
    /// Row 15, gapless and too far.
    SequenceGap: "sequence_gap", CONFLICT, None, true, "The sequence is ahead of the next one";
    /// Row 7, cancelled.
    Cancelled: "cancelled", CONFLICT, None, false, "The resource is cancelled";
    /// Row 10 of the decision table.
    EpochAhead: "epoch_ahead", CONFLICT, None, false, "The epoch is above the namespace's";
    /// Row 11, under a trusted issuer.
    TokenJump: "token_jump", CONFLICT, None, false, "The token jumps further than allowed";
    /// The counter is at its end.
    TokenExhausted: "token_exhausted", CONFLICT, None, false, "The tokens of the resource are used up";
    /// Another counter is at its end.
    CounterExhausted: "counter_exhausted", CONFLICT, None, false, "A counter is used up";
    /// An act on a whole namespace meets effects that are under way.
    OperationsOpen: "operations_open", CONFLICT, None, true, "Operations are undecided";
    /// The caller has looked at another version of the definition.
    VersionDiffers: "version_differs", CONFLICT, None, false, "Another version of the definition is recorded";
    /// A definition that what is there does not fit.
    ChangeUnsafe: "change_unsafe", CONFLICT, None, false, "The definition cannot be changed so";
    /// Row 7, deleted.
    Deleted: "deleted", GONE, None, false, "The resource is deleted";
    /// Row 6 of the decision table.
    IncarnationGone: "incarnation_gone", GONE, None, false, "Another incarnation is current";
    /// Row 12, where a record may have been pruned.
    OperationExpired: "operation_expired", GONE, Unknown, false, "The operation's record may be gone";
    /// A renewal, or a repeated acquire, came after the expiry.
    LeaseExpired: "lease_expired", GONE, None, false, "The lease has expired";
    /// A newer position exists.
    LeaseSuperseded: "lease_superseded", GONE, None, false, "The lease was superseded";
    /// The owner gave it back.
    LeaseReleased: "lease_released", GONE, None, false, "The lease was released";
    /// Row 13: the same word as on a renewal, and settled.
    LeaseExpiredOnWrite: "lease_expired", PRECONDITION_FAILED, None, false, "The lease has expired";
    /// Row 12 of the decision table.
    StaleToken: "stale_token", PRECONDITION_FAILED, None, false, "A newer generation exists";
    /// Row 14 of the decision table.
    GenerationSpent: "generation_spent", PRECONDITION_FAILED, None, false,
        "The generation has published already";
    /// Row 15, not above the last.
    SequenceRegressed: "sequence_regressed", PRECONDITION_FAILED, None, false,
        "A higher sequence was accepted already";
    /// Row 17 of the decision table.
    PreconditionFailed: "precondition_failed", PRECONDITION_FAILED, None, false,
        "The precondition does not hold";
    /// Row 2, of an operation that a person said was not applied.
    OperationNotApplied: "operation_not_applied", PRECONDITION_FAILED, None, false,
        "The operation was resolved as not applied";
    /// Above the limit of the namespace or of the call.
    BodyTooLarge: "body_too_large", PAYLOAD_TOO_LARGE, None, false, "The body is too large";
    /// Not JSON where JSON is due, or an encoded body.
    UnsupportedMediaType: "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, None, false,
        "The type of the body is not taken";
    /// Row 1 of the decision table.
    OperationMismatch: "operation_mismatch", UNPROCESSABLE_ENTITY, None, false,
        "The operation id stands for another request";
    /// A request id with other parameters.
    RequestMismatch: "request_mismatch", UNPROCESSABLE_ENTITY, None, false,
        "The request id stands for another acquire";
    /// A batch over stores that cannot take one.
    BatchUnsupported: "batch_unsupported", UNPROCESSABLE_ENTITY, None, false,
        "The store takes no batches";
    /// Positions come from outside here.
    IssuerExternal: "issuer_external", UNPROCESSABLE_ENTITY, None, false,
        "The namespace does not issue leases";
    /// A field of a JSON body is unknown, missing or wrong.
    InvalidField: "invalid_field", UNPROCESSABLE_ENTITY, None, false, "A field is not as it must be";
    /// No reason was given.
    ReasonRequired: "reason_required", UNPROCESSABLE_ENTITY, None, false, "A reason is required";
    /// No position was presented.
    TokenRequired: "token_required", PRECONDITION_REQUIRED, None, false, "A fencing token is required";
    /// No operation id was given.
    OperationIdRequired: "operation_id_required", PRECONDITION_REQUIRED, None, false,
        "An operation id is required";
    /// The policy `ordered` asks for one.
    SequenceRequired: "sequence_required", PRECONDITION_REQUIRED, None, false, "A sequence is required";
    /// Row 16 of the decision table.
    PreconditionRequired: "precondition_required", PRECONDITION_REQUIRED, None, false,
        "A precondition is required";
    /// The caller's rate is used up.
    RateLimited: "rate_limited", TOO_MANY_REQUESTS, None, true, "The caller asks too often";
    /// The namespace has as much as it may have.
    QuotaExceeded: "quota_exceeded", TOO_MANY_REQUESTS, None, true, "The namespace's quota is used up";
    /// Too many header fields or bytes.
    HeadersTooLarge: "headers_too_large", REQUEST_HEADER_FIELDS_TOO_LARGE, None, false,
        "The headers are too large";
    /// A fault that may have come after the commit.
    Internal: "internal", INTERNAL_SERVER_ERROR, Unknown, false, "The gateway failed";
    /// A fault that certainly changed nothing.
    InternalUnchanged: "internal", INTERNAL_SERVER_ERROR, None, false, "The gateway failed";
    /// Row 9 of the decision table.
    IssuerBehind: "issuer_behind", SERVICE_UNAVAILABLE, None, true, "The database is behind its own tokens";
    /// The configuration is not the recorded one.
    DefinitionDiffers: "definition_differs", SERVICE_UNAVAILABLE, None, true,
        "The namespace is configured differently than recorded";
    /// Row 5 of the decision table.
    Quarantined: "quarantined", SERVICE_UNAVAILABLE, None, true, "The resource or its namespace is quarantined";
    /// Not one byte reached the upstream, or it was a read.
    UpstreamUnreachable: "upstream_unreachable", SERVICE_UNAVAILABLE, None, true,
        "The upstream cannot be reached";
    /// The keys of the tokens' issuer are not there.
    CredentialsUnavailable: "credentials_unavailable", SERVICE_UNAVAILABLE, None, true,
        "The credentials cannot be checked";
    /// Nothing reached the commit, or it was a read.
    DatabaseUnavailable: "database_unavailable", SERVICE_UNAVAILABLE, None, true,
        "The database cannot be used";
    /// The outcome of a commit is not known.
    CommitUnknown: "database_unavailable", SERVICE_UNAVAILABLE, Unknown, true, "The database cannot be used";
    /// A bound of the gateway is reached.
    Overloaded: "overloaded", SERVICE_UNAVAILABLE, None, true, "The gateway is overloaded";
    /// Nothing new is taken in.
    Draining: "draining", SERVICE_UNAVAILABLE, None, true, "The gateway is shutting down";
    /// Row 4 of the decision table.
    OutcomeUncertain: "outcome_uncertain", GATEWAY_TIMEOUT, Unknown, false, "The outcome is uncertain";
}

impl Code {
    /// Whether it is a verdict on the request, and not a state of the gateway or a doubt.
    #[must_use]
    pub fn is_verdict(self) -> bool {
        let others =
            [Self::DatabaseUnavailable, Self::CommitUnknown, Self::Internal, Self::InternalUnchanged];
        let states = [
            Self::Overloaded,
            Self::Draining,
            Self::OutcomeUncertain,
            Self::RateLimited,
            Self::QuotaExceeded,
            Self::CredentialsUnavailable,
        ];
        !others.contains(&self) && !states.contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_said_only_where_the_outcome_can_be_unknown() {
        let unknown: Vec<&str> = Code::ALL
            .iter()
            .filter(|code| code.effect() == Effect::Unknown)
            .map(|code| code.word())
            .collect();
        let may = [
            "operation_in_progress",
            "operation_expired",
            "internal",
            "database_unavailable",
            "outcome_uncertain",
        ];
        assert_eq!(unknown, may);
    }

    #[test]
    fn settled_and_gone_are_never_retried() {
        for code in Code::ALL {
            assert!(!(matches!(code.status().as_u16(), 410 | 412 | 422) && code.retryable()), "{code:?}");
        }
    }

    #[test]
    fn a_word_has_one_title() {
        for code in Code::ALL {
            let twins = Code::ALL.iter().filter(|other| other.word() == code.word());
            assert!(twins.into_iter().all(|other| other.title() == code.title()), "{code:?}");
        }
    }
}
