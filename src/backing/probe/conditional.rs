//! The probe of `conditional`: conditions are obeyed, also by many at once, and validators are unique per write.

use futures_util::future::join_all;

use super::{ProbeReport, is_refusal, is_success, name, order, told};
use crate::backing::cells::object_of;
use crate::backing::{CellRead, Order, Sent, Upstream};
use crate::deliberate::{self, Bug};
use crate::domain::resource::ResourceName;
use crate::domain::store::StampPlace;
use crate::domain::upstream::{Base, CellSeen, Validator};
use crate::limits;

/// A cell under trial: the writes are numbered, and what was uploaded for them is remembered.
struct Trial<'a> {
    upstream: &'a Upstream,
    resource: ResourceName,
    number: u64,
    objects: Vec<String>,
}

impl Trial<'_> {
    fn order(&mut self, content: &str, base: &Base) -> Result<Order, String> {
        self.number = self.number.saturating_add(1);
        let order = order(&self.resource, self.number, content, base.clone())?;
        if matches!(self.upstream.store.stamp, Some(StampPlace::Pointer)) {
            self.objects.push(object_of(&order));
        }
        Ok(order)
    }

    /// Writes, and gives back the validator of what was written.
    async fn write(&mut self, content: &str, base: &Base) -> Result<(Order, Validator), String> {
        let order = self.order(content, base)?;
        let sent = self.upstream.send(&order).await;
        match &sent {
            Sent::Answered(answer) if answer.relayed.is_success() => match answer.relayed.validator() {
                Some(validator) => Ok((order, validator)),
                None => Err("the store gives no strong validator".to_owned()),
            },
            Sent::Answered(_) | Sent::NotSent(_) | Sent::Doubt(_) => Err(told(&sent)),
        }
    }

    /// The cell must show what this order wrote.
    async fn shows(&self, order: &Order, validator: &Validator) -> Result<(), String> {
        match self.upstream.read_cell(&order.address.resource).await {
            CellRead::Seen(CellSeen::Stamped(seen, stamp))
                if Some(&stamp) == order.stamp.as_ref() && seen == *validator =>
            {
                Ok(())
            }
            CellRead::Seen(CellSeen::Unstamped(_)) => {
                Err("the store does not give the stamp back".to_owned())
            }
            CellRead::Seen(seen) => Err(format!("the cell shows {seen:?}")),
            CellRead::Unreadable(why) => Err(format!("the cell cannot be read: {why}")),
        }
    }

    /// A write that must be refused, and change nothing.
    async fn refused(&mut self, base: &Base, held: &(Order, Validator)) -> Result<String, String> {
        let sent = self.upstream.send(&self.order("refused", base)?).await;
        if !is_refusal(&sent) {
            return Err(format!("it was not refused: {}", told(&sent)));
        }
        self.shows(&held.0, &held.1).await?;
        Ok("refused, and nothing changed".to_owned())
    }

    /// Many at once on one validator. Gives back the winner's.
    async fn race(&mut self, base: &Base, round: usize) -> Result<Validator, String> {
        let orders = (0..limits::PROBE_RACERS)
            .map(|racer| self.order(&format!("round {round} racer {racer}"), base))
            .collect::<Result<Vec<Order>, String>>()?;
        let sent = join_all(orders.iter().map(|order| self.upstream.send(order))).await;
        let won: Vec<(&Order, &Sent)> =
            orders.iter().zip(&sent).filter(|(_, sent)| is_success(sent)).collect();
        let odd = sent.iter().find(|sent| !is_success(sent) && !is_refusal(sent));
        if let Some(odd) = odd {
            return Err(format!("round {round}: {}", told(odd)));
        }
        match won.as_slice() {
            [(order, Sent::Answered(answer))] => {
                let validator = answer.relayed.validator().ok_or("the winner has no strong validator")?;
                self.shows(order, &validator).await?;
                Ok(validator)
            }
            won => {
                Err(format!("round {round}: {} of {} won; exactly one must", won.len(), limits::PROBE_RACERS))
            }
        }
    }
}

impl Upstream {
    pub(super) async fn probe_conditional(&self, scratch: &str, report: &mut ProbeReport) {
        let resource = match name(scratch, "cell") {
            Ok(resource) => resource,
            Err(why) => {
                report.note("scratch name", Err(why));
                return;
            }
        };
        let mut trial = Trial { upstream: self, resource, number: 0, objects: Vec::new() };
        trial.all(report).await;
        self.sweep(&trial.resource, &trial.objects).await;
    }
}

impl Trial<'_> {
    async fn all(&mut self, report: &mut ProbeReport) {
        let held = match self.write("X", &Base::Absent).await {
            Ok(held) => held,
            Err(why) => {
                report.note("a cell is created with a strong validator", Err(why));
                return;
            }
        };
        report.note("a cell is created with a strong validator", Ok(format!("{:?}", held.1)));
        let back = self.shows(&held.0, &held.1).await;
        if !report.note("the stamp is given back", back.map(|()| "as it was written".to_owned())) {
            return;
        }
        let wrong = Validator::parse("\"fencegate-probe-wrong\"").map_or(Base::Unread, Base::Recorded);
        let found = self.refused(&wrong, &held).await;
        let obeys = report.note("a wrong If-Match is refused", found);
        let found = self.refused(&Base::Absent, &held).await;
        // Without conditions nothing further can be told apart.
        if !report.note("If-None-Match: * is refused on what exists", found) || !obeys {
            return;
        }
        let Some(base) = self.unique(held.1, report).await else { return };
        let found = self.races(base).await;
        report.note("of 16 compare-and-sets at once exactly one wins", found);
    }

    /// X is there; Y and X again must bring validators that were never seen.
    async fn unique(&mut self, first: Validator, report: &mut ProbeReport) -> Option<Validator> {
        const NAME: &str = "old bytes bring a new validator";
        let second = match self.write("Y", &Base::Recorded(first.clone())).await {
            Ok((_, validator)) => validator,
            Err(why) => {
                report.note(NAME, Err(why));
                return None;
            }
        };
        let third = match self.write("X", &Base::Recorded(second.clone())).await {
            Ok((_, validator)) => validator,
            Err(why) => {
                report.note(NAME, Err(why));
                return None;
            }
        };
        let found = if first == third && !deliberate::on(Bug::ContentHashAccepted) {
            Err(format!(
                "X, Y, X gave {first:?}, {second:?}, {third:?}: the validator is a hash of the content, so a late write \
                 can pass when old bytes are back; use stamp = \"pointer\""
            ))
        } else if first == second || second == third {
            Err(format!(
                "X, Y, X gave {first:?}, {second:?}, {third:?}: a write does not change the validator"
            ))
        } else {
            Ok(format!("X, Y, X gave {first:?}, {second:?}, {third:?}"))
        };
        report.note(NAME, found);
        Some(third)
    }

    async fn races(&mut self, mut base: Validator) -> Result<String, String> {
        for round in 1..=limits::PROBE_ROUNDS {
            base = self.race(&Base::Recorded(base), round).await?;
        }
        Ok(format!("in each of {} rounds", limits::PROBE_ROUNDS))
    }
}
