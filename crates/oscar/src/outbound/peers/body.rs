//! Between the words of the port and the bodies of the channel.

use std::collections::BTreeMap;

use oscar_api::federation::channel::{
    ChannelFault, ExchangeBody, JoinBody, MOST_RECORDS, MemberStateBody, check_length,
};
use oscar_engine::ports::peers::{Condition, Exchange, Invitation, MemberState};
use oscar_model::federation::topology::MemberId;
use oscar_model::secret::Secret;

pub fn to_exchange(exchange: &Exchange) -> ExchangeBody {
    let Exchange { federation_id, instance, membership, states } = exchange;
    ExchangeBody {
        federation_id: federation_id.clone(),
        instance: instance.clone(),
        membership: membership.into(),
        states: states.iter().map(|(member, state)| to_state(member, state)).collect(),
    }
}

pub fn from_exchange(body: ExchangeBody) -> Result<Exchange, ChannelFault> {
    let ExchangeBody { federation_id, instance, membership, states } = body;
    check_length("federation_id", &federation_id)?;
    check_length("instance", &instance)?;
    if states.len() > MOST_RECORDS {
        return Err(ChannelFault::TooMany(states.len()));
    }
    let mut read = BTreeMap::new();
    for body in states {
        let (member, state) = from_state(body)?;
        if read.contains_key(&member) {
            return Err(ChannelFault::Twice(member));
        }
        read.insert(member, state);
    }
    Ok(Exchange { federation_id, instance, membership: membership.try_into()?, states: read })
}

pub fn to_invitation(invitation: &Invitation) -> JoinBody {
    let Invitation { federation_id, member, coordinator, endpoint, key, exchange } = invitation;
    JoinBody {
        federation_id: federation_id.clone(),
        member: member.into(),
        coordinator: coordinator.into(),
        endpoint: endpoint.clone(),
        key: key.expose().to_owned(),
        exchange: to_exchange(exchange),
    }
}

pub fn from_invitation(body: JoinBody) -> Result<Invitation, ChannelFault> {
    let JoinBody { federation_id, member, coordinator, endpoint, key, exchange } = body;
    check_length("federation_id", &federation_id)?;
    check_length("endpoint", &endpoint)?;
    check_length("key", &key)?;
    Ok(Invitation {
        federation_id,
        member: member.try_into()?,
        coordinator: coordinator.try_into()?,
        endpoint,
        key: Secret::new(key),
        exchange: from_exchange(exchange)?,
    })
}

fn to_state(member: &MemberId, state: &MemberState) -> MemberStateBody {
    let MemberState { condition, trouble, seen, instance } = state;
    MemberStateBody {
        member: member.into(),
        condition: condition.as_str().to_owned(),
        trouble: trouble.clone(),
        seen: *seen,
        instance: instance.clone(),
    }
}

fn from_state(body: MemberStateBody) -> Result<(MemberId, MemberState), ChannelFault> {
    let MemberStateBody { member, condition, trouble, seen, instance } = body;
    check_length("trouble", &trouble)?;
    check_length("instance", &instance)?;
    let condition = Condition::parse(&condition).ok_or(ChannelFault::Word { field: "condition" })?;
    Ok((member.try_into()?, MemberState { condition, trouble, seen, instance }))
}
