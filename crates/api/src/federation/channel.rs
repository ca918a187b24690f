//! What managers of our kind tell each other about a federation.
//!
//! Whoever holds the key of a member may send these: every bound is checked here, before
//! anything is merged, because what is merged once goes to every member.

use std::collections::{BTreeMap, BTreeSet};

use oscar_model::federation::membership::{Attributes, Duty, Membership, Place, Presence, Record, Stamp, Written};
use oscar_model::federation::topology::MemberId;
use oscar_model::name::{ServiceName, is_cluster_id};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// More members than this are refused, removed ones included.
pub const MOST_RECORDS: usize = 4096;

/// Times above this are refused: nobody gets there by counting, JSON readers lose them, and the
/// greatest number would leave no later one.
pub const GREATEST_TIME: u64 = 1 << 53;

const LONGEST_TEXT: usize = 2048;
const MOST_HEADERS: usize = 64;

/// Why a body cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelFault {
    #[error("{0} records were sent, and at most {MOST_RECORDS} are taken")]
    TooMany(usize),
    #[error("the time {0} is above {GREATEST_TIME}")]
    TooLate(u64),
    #[error("{0} is there twice")]
    Twice(MemberId),
    #[error("a name of a member cannot be read")]
    Name,
    #[error("{field} has a word that is not known")]
    Word { field: &'static str },
    #[error("{field} is too long")]
    TooLong { field: &'static str },
}

/// Which service on which cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MemberId)]
pub struct MemberIdBody {
    #[schema(max_length = 63)]
    pub cluster_id: String,
    #[schema(max_length = 39)]
    pub service_name: String,
}

/// Everything that is known of who is in a federation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Membership)]
pub struct MembershipBody {
    /// The greatest time that was seen.
    #[schema(maximum = 9_007_199_254_740_992_u64)]
    pub time: u64,
    #[serde(default)]
    #[schema(max_items = 4096)]
    pub records: Vec<RecordBody>,
}

/// One member, removed ones too. Each part says when and by whom it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MemberRecord)]
pub struct RecordBody {
    #[serde(flatten)]
    pub member: MemberIdBody,
    /// `present` or `removed`.
    pub presence: WrittenBody<String>,
    pub attributes: WrittenBody<AttributesBody>,
    /// `active`, `paused` or `draining`.
    pub duty: WrittenBody<String>,
    pub endpoint: WrittenBody<PlaceBody>,
    /// The instances that have seen the removal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acknowledged: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WrittenBody<T> {
    pub value: T,
    #[schema(maximum = 9_007_199_254_740_992_u64)]
    pub time: u64,
    pub instance: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MemberAttributes)]
pub struct AttributesBody {
    pub priority: u32,
    pub ssl_verify: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MemberPlace)]
pub struct PlaceBody {
    pub url: String,
    pub verify: bool,
}

/// `POST /system/federation/{service}/sync`, and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Exchange)]
pub struct ExchangeBody {
    pub federation_id: String,
    /// Who is speaking: the instance id of its manager.
    pub instance: String,
    pub membership: MembershipBody,
    /// How the coordinator sees each member; none from a worker.
    #[serde(default)]
    #[schema(max_items = 4096)]
    pub states: Vec<MemberStateBody>,
}

/// How a member is, as its coordinator knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MemberState)]
pub struct MemberStateBody {
    #[serde(flatten)]
    pub member: MemberIdBody,
    /// `in-sync`, `pending`, `drifted`, `unreachable`, `refused` or `blocked`.
    pub condition: String,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trouble: String,
    /// When it answered last, in seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
    /// The instance id of its manager, when it is of our kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance: String,
}

/// `POST /system/federation/{service}/join`: what a new member is told. It has no `Debug`: the
/// key must not be printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Join)]
pub struct JoinBody {
    pub federation_id: String,
    /// The member as the federation names it.
    pub member: MemberIdBody,
    pub coordinator: MemberIdBody,
    /// The address of the coordinator's manager.
    pub endpoint: String,
    /// Of the channel between the two.
    pub key: String,
    pub exchange: ExchangeBody,
}

/// `POST /system/federation/{service}/withdraw`: delete what that federation created, give back
/// what it adopted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Withdraw)]
pub struct WithdrawBody {
    pub federation_id: String,
    pub operation: String,
    /// How much the coordinator knew: what it sent with less knowledge is not taken any more.
    #[serde(default)]
    pub time: u64,
    /// Without it, what was created stays as a plain service.
    #[serde(default)]
    pub delete: bool,
}

/// What tells a deploy of a coordinator from a PUT of somebody who sends back what he has read:
/// `<operation>; t=<how much the coordinator knew>`.
pub const OPERATION_HEADER: &str = "oscar-operation";

/// `POST /system/federation/{service}/undo`: take back what that operation did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Undo)]
pub struct UndoBody {
    pub operation: String,
}

impl From<&MemberId> for MemberIdBody {
    fn from(id: &MemberId) -> Self {
        let MemberId { cluster_id, service_name } = id;
        Self { cluster_id: cluster_id.clone(), service_name: service_name.to_string() }
    }
}

impl TryFrom<MemberIdBody> for MemberId {
    type Error = ChannelFault;

    fn try_from(body: MemberIdBody) -> Result<Self, ChannelFault> {
        let MemberIdBody { cluster_id, service_name } = body;
        // The cluster of a coordinator need not have an id.
        if !cluster_id.is_empty() && !is_cluster_id(&cluster_id) {
            return Err(ChannelFault::Name);
        }
        let service_name = ServiceName::parse(&service_name).ok_or(ChannelFault::Name)?;
        Ok(Self { cluster_id, service_name })
    }
}

impl From<&Membership> for MembershipBody {
    fn from(membership: &Membership) -> Self {
        Self { time: membership.time(), records: membership.records().map(record_body).collect() }
    }
}

impl TryFrom<MembershipBody> for Membership {
    type Error = ChannelFault;

    fn try_from(body: MembershipBody) -> Result<Self, ChannelFault> {
        let MembershipBody { time, records } = body;
        if records.len() > MOST_RECORDS {
            return Err(ChannelFault::TooMany(records.len()));
        }
        check_time(time)?;
        let mut read = BTreeMap::new();
        for body in records {
            let (id, record) = record(body)?;
            if read.contains_key(&id) {
                return Err(ChannelFault::Twice(id));
            }
            read.insert(id, record);
        }
        Ok(Self::from_records(read, time))
    }
}

fn record_body((id, record): (&MemberId, &Record)) -> RecordBody {
    let Record { presence, attributes, duty, endpoint, acknowledged } = record;
    RecordBody {
        member: id.into(),
        presence: written_body(presence, |presence| presence_word(*presence).to_owned()),
        attributes: written_body(attributes, |attributes| {
            let Attributes { priority, ssl_verify, headers, parent } = attributes.clone();
            AttributesBody { priority, ssl_verify, headers, parent }
        }),
        duty: written_body(duty, |duty| duty_word(*duty).to_owned()),
        endpoint: written_body(endpoint, |place| {
            let Place { url, verify } = place.clone();
            PlaceBody { url, verify }
        }),
        acknowledged: acknowledged.iter().cloned().collect(),
    }
}

fn record(body: RecordBody) -> Result<(MemberId, Record), ChannelFault> {
    let RecordBody { member, presence, attributes, duty, endpoint, acknowledged } = body;
    if acknowledged.len() > MOST_RECORDS {
        return Err(ChannelFault::TooMany(acknowledged.len()));
    }
    for instance in &acknowledged {
        check_length("acknowledged", instance)?;
    }
    let record = Record {
        presence: written(presence, |word| parse_presence(&word).ok_or(ChannelFault::Word { field: "presence" }))?,
        attributes: written(attributes, parse_attributes)?,
        duty: written(duty, |word| parse_duty(&word).ok_or(ChannelFault::Word { field: "duty" }))?,
        endpoint: written(endpoint, |PlaceBody { url, verify }| {
            check_length("endpoint", &url)?;
            Ok(Place { url, verify })
        })?,
        acknowledged: BTreeSet::from_iter(acknowledged),
    };
    Ok((member.try_into()?, record))
}

fn parse_attributes(body: AttributesBody) -> Result<Attributes, ChannelFault> {
    let AttributesBody { priority, ssl_verify, headers, parent } = body;
    if headers.len() > MOST_HEADERS {
        return Err(ChannelFault::TooLong { field: "headers" });
    }
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        check_length("headers", text)?;
    }
    check_length("parent", parent.as_deref().unwrap_or_default())?;
    Ok(Attributes { priority, ssl_verify, headers, parent })
}

fn written_body<T, B>(written: &Written<T>, body: impl FnOnce(&T) -> B) -> WrittenBody<B> {
    let Written { value, at: Stamp { time, instance } } = written;
    WrittenBody { value: body(value), time: *time, instance: instance.clone() }
}

fn written<T, B>(
    body: WrittenBody<B>,
    parse: impl FnOnce(B) -> Result<T, ChannelFault>,
) -> Result<Written<T>, ChannelFault> {
    let WrittenBody { value, time, instance } = body;
    check_time(time)?;
    check_length("instance", &instance)?;
    Ok(Written { value: parse(value)?, at: Stamp { time, instance } })
}

fn check_time(time: u64) -> Result<(), ChannelFault> {
    if time > GREATEST_TIME { Err(ChannelFault::TooLate(time)) } else { Ok(()) }
}

/// Whether a text is as short as every text of these bodies must be.
pub fn check_length(field: &'static str, text: &str) -> Result<(), ChannelFault> {
    if text.len() > LONGEST_TEXT { Err(ChannelFault::TooLong { field }) } else { Ok(()) }
}

fn presence_word(presence: Presence) -> &'static str {
    match presence {
        Presence::Present => "present",
        Presence::Removed => "removed",
        Presence::Discarded => "discarded",
    }
}

fn parse_presence(word: &str) -> Option<Presence> {
    [Presence::Present, Presence::Removed, Presence::Discarded]
        .into_iter()
        .find(|presence| presence_word(*presence) == word)
}

fn duty_word(duty: Duty) -> &'static str {
    match duty {
        Duty::Active => "active",
        Duty::Paused => "paused",
        Duty::Draining => "draining",
    }
}

fn parse_duty(word: &str) -> Option<Duty> {
    [Duty::Active, Duty::Paused, Duty::Draining].into_iter().find(|duty| duty_word(*duty) == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn id(index: usize) -> MemberId {
        let service_name = ServiceName::parse(&format!("s{index}")).expect("valid");
        MemberId { cluster_id: format!("c{index}"), service_name }
    }

    fn mk_membership() -> Membership {
        let mut membership = Membership::default();
        let attributes = Attributes {
            priority: 3,
            ssl_verify: true,
            headers: BTreeMap::from([("X-Zone".to_owned(), "one".to_owned())]),
            parent: Some("c1".to_owned()),
        };
        membership.add(id(0), attributes, Place::new("https://a.example", true), "a");
        membership.add(id(1), Attributes::default(), Place::new("https://b.example", false), "a");
        membership.set_duty(&id(0), Duty::Draining, "b");
        membership.remove(&id(1), true, "b");
        membership.acknowledge("a");
        membership
    }

    fn mk_json() -> Value {
        serde_json::to_value(MembershipBody::from(&mk_membership())).expect("JSON")
    }

    fn read(json: Value) -> Result<Membership, ChannelFault> {
        serde_json::from_value::<MembershipBody>(json).expect("a body").try_into()
    }

    #[test]
    fn a_membership_arrives_as_it_was_sent() {
        assert_eq!(read(mk_json()), Ok(mk_membership()));
        assert_eq!(read(json!({"time": 7})).map(|membership| membership.time()), Ok(7));
    }

    #[test]
    fn times_that_nobody_counts_to_are_refused_wherever_they_stand() {
        let beyond = GREATEST_TIME + 1;
        for place in ["/time", "/records/0/presence/time", "/records/1/duty/time", "/records/0/endpoint/time"] {
            let mut json = mk_json();
            *json.pointer_mut(place).expect("it is there") = json!(beyond);
            assert_eq!(read(json), Err(ChannelFault::TooLate(beyond)), "{place}");
            let mut json = mk_json();
            *json.pointer_mut(place).expect("it is there") = json!(GREATEST_TIME);
            assert!(read(json).is_ok(), "{place}");
        }
    }

    #[test]
    fn what_is_too_much_or_makes_no_sense_is_refused() {
        let record = mk_json()["records"][0].clone();
        let records: Vec<_> = (0..=MOST_RECORDS)
            .map(|index| {
                let mut record = record.clone();
                record["service_name"] = json!(format!("s{index}"));
                record
            })
            .collect();
        assert!(read(json!({"time": 1, "records": records[1..]})).is_ok());
        assert_eq!(read(json!({"time": 1, "records": records})), Err(ChannelFault::TooMany(MOST_RECORDS + 1)));
        assert_eq!(read(json!({"time": 1, "records": [record, record]})), Err(ChannelFault::Twice(id(0))));
        let wrong = [
            ("/records/0/service_name", json!("Not-A-Name"), ChannelFault::Name),
            ("/records/0/cluster_id", json!("a/b"), ChannelFault::Name),
            ("/records/0/presence/value", json!("maybe"), ChannelFault::Word { field: "presence" }),
            ("/records/0/duty/value", json!("idle"), ChannelFault::Word { field: "duty" }),
            ("/records/0/endpoint/value/url", json!("x".repeat(3000)), ChannelFault::TooLong { field: "endpoint" }),
            ("/records/0/duty/instance", json!("x".repeat(3000)), ChannelFault::TooLong { field: "instance" }),
        ];
        for (place, value, fault) in wrong {
            let mut json = mk_json();
            *json.pointer_mut(place).expect("it is there") = value;
            assert_eq!(read(json), Err(fault), "{place}");
        }
    }
}
