//! A page of families, one written after the other.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::super::OTHER;
use super::super::parts::{Histogram, Tally};

pub(super) fn words<'t>(
    tally: &'t Tally<&'static str>,
) -> impl Iterator<Item = (&'static str, u64)> + use<'t> {
    let rest = Some((OTHER, tally.rest())).filter(|(_, count)| *count > 0);
    tally.each().chain(rest)
}

pub(super) fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn ms(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default())
}

/// Writes one family after the other.
pub(super) struct Sheet<'s, 'e>(&'s mut DescriptorEncoder<'e>);

impl<'s, 'e> Sheet<'s, 'e> {
    /// On a page that is being written.
    pub(super) const fn on(encoder: &'s mut DescriptorEncoder<'e>) -> Self {
        Self(encoder)
    }

    pub(super) fn counters<'l, const N: usize>(
        &mut self,
        name: &'static str,
        help: &str,
        each: impl IntoIterator<Item = ([(&'l str, &'l str); N], u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        each.into_iter().try_for_each(|(labels, count)| {
            labelled(&mut family, &labels, |one| one.encode_counter::<NoLabelSet, _, f64>(&count, None))
        })
    }

    pub(super) fn gauges<'l, const N: usize>(
        &mut self,
        name: &'static str,
        help: &str,
        each: impl IntoIterator<Item = ([(&'l str, &'l str); N], i64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        each.into_iter()
            .try_for_each(|(labels, level)| labelled(&mut family, &labels, |one| one.encode_gauge(&level)))
    }

    pub(super) fn seconds(&mut self, name: &'static str, help: &str, length: Duration) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        family.encode_gauge(&length.as_secs_f64())
    }

    pub(super) fn histograms<'l, const N: usize>(
        &mut self,
        name: &'static str,
        help: &str,
        each: impl IntoIterator<Item = ([(&'l str, &'l str); N], &'l Histogram)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        each.into_iter().try_for_each(|(labels, histogram)| {
            let (sum, count, buckets) = histogram.read();
            labelled(&mut family, &labels, |one| {
                one.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
            })
        })
    }
}

fn labelled<const N: usize>(
    family: &mut MetricEncoder<'_>,
    labels: &[(&str, &str); N],
    encode: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if N == 0 { encode(family) } else { encode(&mut family.encode_family(labels)?) }
}
