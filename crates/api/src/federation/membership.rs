//! The membership of a federation on the wire.

use std::collections::{BTreeMap, BTreeSet};

use oscar_model::federation::membership::{Attributes, Duty, Membership, Place, Presence, Record, Stamp, Written};
use oscar_model::federation::topology::MemberId;
use oscar_model::name::ServiceName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The greatest time that is accepted: what every reader of JSON holds exactly, and so far from
/// the end that nobody can use the times up.
pub const MOST_TIME: u64 = 1 << 53;

/// More members than this, removed ones too, are a mistake or an attack.
pub const MOST_RECORDS: usize = 4096;

/// Everything that a member knows of who is in the federation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Membership)]
pub struct MembershipBody {
    /// The greatest Lamport time that was seen.
    #[schema(maximum = 9_007_199_254_740_992_u64)]
    pub time: u64,
    #[schema(max_items = 4096)]
    pub records: Vec<RecordBody>,
}

/// One member; each part is as its last writer left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MembershipRecord)]
pub struct RecordBody {
    pub cluster_id: String,
    pub service_name: String,
    pub presence: WrittenBody<PresenceBody>,
    pub attributes: WrittenBody<AttributesBody>,
    pub duty: WrittenBody<DutyBody>,
    pub endpoint: WrittenBody<PlaceBody>,
    /// The instances that have seen the removal.
    #[serde(default)]
    #[schema(max_items = 4096)]
    pub acknowledged: Vec<String>,
}

/// A value, and when and by whom it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WrittenBody<T> {
    pub value: T,
    pub at: StampBody,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Stamp)]
pub struct StampBody {
    #[schema(maximum = 9_007_199_254_740_992_u64)]
    pub time: u64,
    pub instance: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Presence)]
pub enum PresenceBody {
    Present,
    Removed,
    /// Removed, and its service with it where the federation created it.
    Discarded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Duty)]
pub enum DutyBody {
    Active,
    Paused,
    Draining,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MemberAttributes)]
pub struct AttributesBody {
    #[serde(default)]
    pub priority: u32,
    /// True when absent: leaving a field away must not switch a check off.
    #[serde(default = "yes")]
    pub ssl_verify: bool,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Place)]
pub struct PlaceBody {
    pub url: String,
    /// True when absent.
    #[serde(default = "yes")]
    pub verify: bool,
}

fn yes() -> bool {
    true
}

impl MembershipBody {
    pub fn from_membership(membership: &Membership) -> Self {
        let records = membership.records().map(|(id, record)| RecordBody::from_record(id, record)).collect();
        Self { time: membership.time(), records }
    }

    /// What another manager sent. The cause of a refusal names the member that is at fault.
    pub fn to_membership(&self) -> Result<Membership, String> {
        if self.records.len() > MOST_RECORDS {
            return Err(format!("{} members are more than {MOST_RECORDS}", self.records.len()));
        }
        let times = self.records.iter().flat_map(RecordBody::times).chain([self.time]);
        if times.max().is_some_and(|time| time > MOST_TIME) {
            return Err(format!("a time is later than {MOST_TIME}"));
        }
        if self.records.iter().any(|record| record.acknowledged.len() > MOST_RECORDS) {
            return Err(format!("a removal was acknowledged by more than {MOST_RECORDS} instances"));
        }
        self.to_stored()
    }

    /// What this manager stored: it is read back whatever its size.
    pub(super) fn to_stored(&self) -> Result<Membership, String> {
        let mut records = BTreeMap::new();
        for body in &self.records {
            let id = body.id()?;
            if records.insert(id.clone(), body.to_record()).is_some() {
                return Err(format!("the member '{id}' is there twice"));
            }
        }
        Ok(Membership::from_records(records, self.time))
    }
}

impl RecordBody {
    fn from_record(id: &MemberId, record: &Record) -> Self {
        let MemberId { cluster_id, service_name } = id.clone();
        let Record { presence, attributes, duty, endpoint, acknowledged } = record.clone();
        Self {
            cluster_id,
            service_name: service_name.to_string(),
            presence: WrittenBody::from_written(presence, |presence| match presence {
                Presence::Present => PresenceBody::Present,
                Presence::Removed => PresenceBody::Removed,
                Presence::Discarded => PresenceBody::Discarded,
            }),
            attributes: WrittenBody::from_written(attributes, |attributes| {
                let Attributes { priority, ssl_verify, headers, parent } = attributes;
                AttributesBody { priority, ssl_verify, headers, parent }
            }),
            duty: WrittenBody::from_written(duty, |duty| match duty {
                Duty::Active => DutyBody::Active,
                Duty::Paused => DutyBody::Paused,
                Duty::Draining => DutyBody::Draining,
            }),
            endpoint: WrittenBody::from_written(endpoint, |place| {
                let Place { url, verify } = place;
                PlaceBody { url, verify }
            }),
            acknowledged: acknowledged.into_iter().collect(),
        }
    }

    fn id(&self) -> Result<MemberId, String> {
        let service_name = ServiceName::parse(&self.service_name)
            .ok_or_else(|| format!("a member of the cluster '{}' has no valid service name", self.cluster_id))?;
        Ok(MemberId { cluster_id: self.cluster_id.clone(), service_name })
    }

    fn times(&self) -> [u64; 4] {
        [self.presence.at.time, self.attributes.at.time, self.duty.at.time, self.endpoint.at.time]
    }

    fn to_record(&self) -> Record {
        Record {
            presence: self.presence.to_written(|presence| match presence {
                PresenceBody::Present => Presence::Present,
                PresenceBody::Removed => Presence::Removed,
                PresenceBody::Discarded => Presence::Discarded,
            }),
            attributes: self.attributes.to_written(|attributes| {
                let AttributesBody { priority, ssl_verify, headers, parent } = attributes.clone();
                Attributes { priority, ssl_verify, headers, parent }
            }),
            duty: self.duty.to_written(|duty| match duty {
                DutyBody::Active => Duty::Active,
                DutyBody::Paused => Duty::Paused,
                DutyBody::Draining => Duty::Draining,
            }),
            endpoint: self.endpoint.to_written(|place| Place::new(place.url.clone(), place.verify)),
            acknowledged: self.acknowledged.iter().cloned().collect::<BTreeSet<_>>(),
        }
    }
}

impl<B> WrittenBody<B> {
    fn from_written<T>(written: Written<T>, value: impl FnOnce(T) -> B) -> Self {
        let Stamp { time, instance } = written.at;
        Self { value: value(written.value), at: StampBody { time, instance } }
    }

    fn to_written<T>(&self, value: impl FnOnce(&B) -> T) -> Written<T> {
        let StampBody { time, instance } = self.at.clone();
        Written { value: value(&self.value), at: Stamp { time, instance } }
    }
}
