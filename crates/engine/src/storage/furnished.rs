//! Services together with what they need of the object store: whoever stores, changes or removes
//! a definition also makes, changes or removes its buckets and what starts it.

use std::sync::Arc;

use async_trait::async_trait;
use oscar_model::identity::Subject;
use oscar_model::name::ServiceName;
use oscar_model::service::{Definition, Sensitive, Service, Visibility};

use super::wanted::Wanted;
use crate::jobs::Dispatcher;
use crate::ports::StoreError;
use crate::ports::buckets::{Bucket, Buckets};
use crate::ports::services::{Entry, Revision, Scope, Services, Stored};
use crate::turns::Turns;

/// The port `Services`, for a cluster that runs jobs.
#[derive(Clone)]
pub struct Furnished {
    services: Arc<dyn Services>,
    dispatcher: Arc<Dispatcher>,
    /// Told what could not be tidied up after a removal.
    complain: fn(&str),
    /// A successor of the same name is not made before everything of the former is gone: its
    /// jobs and buckets would go with it.
    turns: Arc<Turns>,
}

impl Furnished {
    pub fn new(services: Arc<dyn Services>, dispatcher: Arc<Dispatcher>, complain: fn(&str)) -> Self {
        Self { services, dispatcher, complain, turns: Arc::default() }
    }

    fn buckets(&self) -> &Arc<dyn Buckets> {
        self.dispatcher.buckets()
    }

    /// What a crash may have left undone: every service has its buckets and is started by what
    /// should start it.
    pub async fn tick_storage(&self) -> Result<(), StoreError> {
        let mut first = Ok(());
        for entry in self.services.list(&Scope::All).await? {
            // One that cannot be served keeps nobody else from it.
            if let Entry::Good(stored) = entry
                && let Err(error) = self.furnish(&stored.service, None).await
            {
                first = first.and(Err(error));
            }
        }
        first
    }

    /// Makes what is missing; the buckets that it made. Buckets that are there are opened or closed
    /// only when that changed since `former`: their owner may have decided otherwise meanwhile.
    async fn furnish(&self, service: &Service, former: Option<&Definition>) -> Result<Vec<String>, StoreError> {
        let wanted = Wanted::of(&service.definition);
        let doors = |definition: &Definition| {
            let Definition { visibility, allowed_users, isolation, .. } = definition;
            (*visibility, allowed_users.clone(), *isolation)
        };
        let set_doors = former.is_some_and(|former| doors(former) != doors(&service.definition));
        let mut made = Vec::new();
        for (name, folders) in &wanted.buckets {
            if self.ensure(service, name, wanted.of_users.get(name), set_doors).await? {
                made.push(name.clone());
            }
            for folder in folders {
                self.buckets().ensure_folder(name, folder).await?;
            }
        }
        for subscription in &wanted.subscriptions {
            self.buckets().subscribe(subscription).await?;
        }
        Ok(made)
    }

    /// Whether the bucket was not there. One of a user is for him and the owner alone.
    async fn ensure(
        &self,
        service: &Service,
        name: &str,
        user: Option<&Subject>,
        set_doors: bool,
    ) -> Result<bool, StoreError> {
        let there = self.buckets().get(name).await?;
        if let Some(bucket) = &there
            && bucket.owner != service.owner
        {
            return Err(StoreError::Forbidden(format!("the bucket {name} belongs to somebody else")));
        }
        let allowed = &service.definition.allowed_users;
        let (visibility, allowed_users) = match user {
            Some(user) => (Visibility::Restricted, vec![user.clone()]),
            None => (service.definition.visibility, allowed.iter().filter_map(|user| Subject::parse(user)).collect()),
        };
        let bucket = Bucket {
            name: name.to_owned(),
            owner: service.owner.clone(),
            visibility,
            allowed_users,
            from_service: Some(service.name().as_str().to_owned()),
        };
        match there {
            None => self.buckets().ensure(&bucket).await.map(|()| true),
            // Who may use a service may use the bucket that was made for it.
            Some(known)
                if set_doors
                    && known.from_service == bucket.from_service
                    && (known.visibility, &known.allowed_users) != (bucket.visibility, &bucket.allowed_users) =>
            {
                self.buckets().set_visibility(name, bucket.visibility, &bucket.allowed_users).await.map(|()| false)
            }
            Some(_) => Ok(false),
        }
    }

    async fn take_back(&self, service: &Service, made: &[String]) {
        for subscription in Wanted::of(&service.definition).subscriptions {
            self.tidy(self.buckets().unsubscribe(&subscription).await);
        }
        for bucket in made {
            self.tidy(self.buckets().remove(bucket).await);
        }
    }

    fn tidy(&self, result: Result<(), StoreError>) {
        match result {
            Ok(()) | Err(StoreError::NotFound) => {}
            Err(error) => (self.complain)(&error.to_string()),
        }
    }

    /// Removes what starts a service, and the buckets that were made for it and that no other one
    /// uses.
    async fn clear(&self, service: &Service) -> Result<(), StoreError> {
        let wanted = Wanted::of(&service.definition);
        for subscription in &wanted.subscriptions {
            settled(self.buckets().unsubscribe(subscription).await)?;
        }
        let mut others: Vec<_> = self.services.list(&Scope::All).await?;
        others.retain(|entry| entry.name() != service.name().as_str());
        let used = |bucket: &str| {
            others.iter().any(|entry| match entry {
                Entry::Good(stored) => Wanted::of(&stored.service.definition).buckets.contains_key(bucket),
                // What it needs is not known.
                Entry::Broken { .. } => true,
            })
        };
        // One that another service had made goes with the last that shared it.
        let is_gone = |maker: &str| !others.iter().any(|entry| entry.name() == maker);
        for name in wanted.buckets.keys().filter(|name| !used(name)) {
            let bucket = self.buckets().get(name).await?.filter(|bucket| bucket.owner == service.owner);
            if bucket.and_then(|bucket| bucket.from_service).is_some_and(|maker| is_gone(&maker)) {
                settled(self.buckets().remove(name).await)?;
            }
        }
        Ok(())
    }

    /// The definition goes after what was made for it: whoever is interrupted can repeat it, and
    /// until then nobody else can have the name. Jobs of a definition that is gone are ended at
    /// the next start, too.
    async fn remove_with_all(&self, name: &ServiceName, expected: Option<&Revision>) -> Result<(), StoreError> {
        let _turn = self.turns.take(name).await;
        // What cannot be read any more has to be removable.
        if let Ok(Some(former)) = self.services.get(name).await {
            if expected.is_some_and(|expected| former.revision != *expected) {
                return Err(StoreError::Conflict);
            }
            self.clear(&former.service).await?;
        }
        self.services.remove(name, expected).await?;
        if let Err(failure) = self.dispatcher.service_removed(name).await {
            (self.complain)(&failure.to_string());
        }
        Ok(())
    }
}

/// What is gone already was removed.
fn settled(result: Result<(), StoreError>) -> Result<(), StoreError> {
    match result {
        Err(StoreError::NotFound) => Ok(()),
        other => other,
    }
}

#[async_trait]
impl Services for Furnished {
    async fn create(&self, service: Service, sensitive: Sensitive) -> Result<Arc<Stored>, StoreError> {
        let _turn = self.turns.take(service.name()).await;
        match self.services.get(service.name()).await {
            Ok(None) => {}
            Ok(Some(_)) | Err(StoreError::Broken(_)) => return Err(StoreError::AlreadyExists),
            Err(error) => return Err(error),
        }
        let made = self.furnish(&service, None).await?;
        let created = self.services.create(service.clone(), sensitive).await;
        // When it is not known whether it was stored, nothing of it is taken away.
        if matches!(&created, Err(error) if !matches!(error, StoreError::Unavailable(_) | StoreError::AlreadyExists)) {
            self.take_back(&service, &made).await;
        }
        created
    }

    async fn replace(
        &self,
        service: Service,
        sensitive: Sensitive,
        expected: &Revision,
    ) -> Result<Arc<Stored>, StoreError> {
        let _turn = self.turns.take(service.name()).await;
        let former = self.services.get(service.name()).await.ok().flatten();
        if former.as_ref().is_some_and(|former| former.revision != *expected) {
            return Err(StoreError::Conflict);
        }
        let former = former.as_ref().map(|stored| &stored.service.definition);
        let before = former.map(Wanted::of).unwrap_or_default();
        let after = Wanted::of(&service.definition);
        self.furnish(&service, former).await?;
        let replaced = self.services.replace(service, sensitive, expected).await?;
        // Buckets that are used no longer stay: there may be data in them.
        for gone in before.subscriptions.iter().filter(|one| !after.subscriptions.contains(one)) {
            self.tidy(self.buckets().unsubscribe(gone).await);
        }
        // Who is no user any more does not get at what he left.
        for name in before.of_users.keys().filter(|name| !after.of_users.contains_key(*name)) {
            self.tidy(self.buckets().set_visibility(name, Visibility::Private, &[]).await);
        }
        Ok(replaced)
    }

    async fn remove(&self, name: &ServiceName, expected: Option<&Revision>) -> Result<(), StoreError> {
        let (all, name, expected) = (self.clone(), name.clone(), expected.cloned());
        // Its own task: thousands of jobs may have to be ended, and a caller who does not wait for
        // it must not leave them.
        let removed = tokio::spawn(async move { all.remove_with_all(&name, expected.as_ref()).await });
        removed.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }

    async fn get(&self, name: &ServiceName) -> Result<Option<Arc<Stored>>, StoreError> {
        self.services.get(name).await
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<Entry>, StoreError> {
        self.services.list(scope).await
    }

    async fn reveal(&self, name: &ServiceName) -> Result<Sensitive, StoreError> {
        self.services.reveal(name).await
    }
}
