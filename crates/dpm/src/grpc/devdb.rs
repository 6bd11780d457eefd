//! Facts about devices for clients: `services.devdb.DevDB`.

use std::sync::{Arc, PoisonError, RwLock};

use tonic::{Request, Response};

use super::alarms;
use super::generated::services::devdb::dev_db_server::DevDb;
use super::generated::services::devdb::{
    AlarmInfoReply, AlarmTextIdList, DeviceAlarmTextList, DeviceInfo, DeviceInfoReply, DeviceList, DigitalControl,
    DigitalControlItem, DigitalExtStatusItem, DigitalStatus, DigitalStatusItem, InfoEntry, PlotConfig,
    PlotConfigResult, PlotConfigResults, PlotConfigSpecification, PlotSelector, Property, info_entry,
    plot_config_result,
};
use super::plots::PlotStore;
use crate::blocks::{Attribute, AttributeWords};
use crate::database::{self, Database, DeviceRecord};
use crate::drf;

/// The current database, for look-ups on another thread.
#[derive(Debug, Clone)]
pub struct DeviceDatabase(Arc<RwLock<Arc<Database>>>);

impl DeviceDatabase {
    /// Returns a handle on a database.
    pub fn new(database: Arc<Database>) -> Self {
        Self(Arc::new(RwLock::new(database)))
    }

    /// Replaces the database, for look-ups from now on.
    pub fn replace(&self, database: Arc<Database>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = database;
    }

    pub(crate) fn now(&self) -> Arc<Database> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The methods of `services.devdb.DevDB` for one caller.
#[derive(Debug, Clone)]
pub struct DeviceInformation {
    /// The devices.
    pub devices: DeviceDatabase,
    /// The configurations of plots, if they are kept.
    pub plots: Option<PlotStore>,
    /// The caller's principal, or why there is none.
    pub caller: Result<String, String>,
}

impl DeviceInformation {
    /// Does something with the configurations of plots, on a thread that may wait for the disk.
    async fn plot<T: Send + 'static>(
        &self,
        what: impl FnOnce(&PlotStore) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let plots = self.plots.clone().ok_or("configurations of plots are not kept here")?;
        let done = tokio::task::spawn_blocking(move || what(&plots)).await;
        done.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Returns the caller's principal.
    fn owner(&self) -> Result<String, String> {
        self.caller.clone()
    }
}

/// Returns a result about plots, in which the interface also reports failures.
fn plot_result(done: Result<plot_config_result::Result, String>) -> Result<Response<PlotConfigResult>, tonic::Status> {
    let result = done.unwrap_or_else(plot_config_result::Result::ErrMsg);
    Ok(Response::new(PlotConfigResult { result: Some(result) }))
}

fn plots(data: Vec<PlotConfigSpecification>) -> plot_config_result::Result {
    plot_config_result::Result::Config(PlotConfigResults { data })
}

#[tonic::async_trait]
impl DevDb for DeviceInformation {
    async fn get_device_info(&self, asked: Request<DeviceList>) -> Result<Response<DeviceInfoReply>, tonic::Status> {
        let names = asked.into_inner().device;
        if names.len() > MOST {
            return Err(tonic::Status::resource_exhausted("there are too many devices"));
        }
        let database = self.devices.now();
        let entry = |name: String| {
            let result = match find(&database, &name) {
                Some(device) => info_entry::Result::Device(info(device)),
                None => info_entry::Result::ErrMsg("there is no such device".to_owned()),
            };
            InfoEntry { name, result: Some(result) }
        };
        Ok(Response::new(DeviceInfoReply { set: names.into_iter().map(entry).collect() }))
    }

    async fn get_all_alarm_info(&self, asked: Request<DeviceList>) -> Result<Response<AlarmInfoReply>, tonic::Status> {
        let names = asked.into_inner().device;
        if names.len() > MOST {
            return Err(tonic::Status::resource_exhausted("there are too many devices"));
        }
        let database = self.devices.now();
        let devices = names.iter().filter_map(|name| find(&database, name));
        Ok(Response::new(AlarmInfoReply { alarm_info: devices.flat_map(|device| alarms::infos(device)).collect() }))
    }

    async fn get_alarm_text(
        &self,
        asked: Request<AlarmTextIdList>,
    ) -> Result<Response<DeviceAlarmTextList>, tonic::Status> {
        let ids = asked.into_inner().alarm_text_id;
        if ids.len() > MOST {
            return Err(tonic::Status::resource_exhausted("there are too many texts"));
        }
        Ok(Response::new(DeviceAlarmTextList { device_alarm_text: alarms::texts(&self.devices.now(), &ids) }))
    }

    async fn get_plot_configuration(
        &self,
        asked: Request<PlotSelector>,
    ) -> Result<Response<PlotConfigResult>, tonic::Status> {
        let id = asked.into_inner().id;
        plot_result(self.plot(move |store| store.find(id)).await.map(plots))
    }

    async fn get_user_plot_configuration(&self, _: Request<()>) -> Result<Response<PlotConfigResult>, tonic::Status> {
        let found = async {
            let owner = self.owner()?;
            self.plot(move |store| store.find_own(&owner)).await
        };
        let own = |config| plot_config_result::Result::UserConfig(PlotConfig { config });
        plot_result(found.await.map(own))
    }

    async fn delete_plot_configuration(
        &self,
        asked: Request<PlotSelector>,
    ) -> Result<Response<PlotConfigResult>, tonic::Status> {
        let gone = async {
            let (owner, id) = (self.owner()?, asked.into_inner().id.ok_or("the number is missing")?);
            self.plot(move |store| store.delete(&owner, id)).await
        };
        plot_result(gone.await.map(|plot| plots(vec![plot])))
    }

    async fn save_plot_configuration(
        &self,
        asked: Request<PlotConfigSpecification>,
    ) -> Result<Response<PlotConfigResult>, tonic::Status> {
        let saved = async {
            let (owner, plot) = (self.owner()?, asked.into_inner());
            self.plot(move |store| store.save(&owner, plot)).await
        };
        plot_result(saved.await.map(|plot| plots(vec![plot])))
    }

    async fn save_user_plot_configuration(
        &self,
        asked: Request<PlotConfig>,
    ) -> Result<Response<PlotConfigResult>, tonic::Status> {
        let saved = async {
            let (owner, own) = (self.owner()?, asked.into_inner());
            self.plot(move |store| store.save_own(&owner, &own.config).map(|()| own)).await
        };
        plot_result(saved.await.map(plot_config_result::Result::UserConfig))
    }
}

/// Finds the device in a request or by a name.
fn find<'a>(database: &'a Database, name: &str) -> Option<&'a Arc<DeviceRecord>> {
    match drf::Request::parse(name).ok()?.device {
        drf::Device::Name(name) => database.by_name(&name),
        drf::Device::Index(index) => database.by_number(index),
    }
}

fn info(device: &Arc<DeviceRecord>) -> DeviceInfo {
    let control = device.control.as_ref().map(|control| DigitalControl {
        cmds: control
            .commands
            .iter()
            .map(|command| DigitalControlItem {
                value: command.value,
                short_name: command.short.clone(),
                long_name: command.long.clone(),
            })
            .collect(),
    });
    let status = device.status.as_ref().map(|status| DigitalStatus {
        bits: status.bits.attributes().into_iter().map(|(words, attribute)| status_item(words, attribute)).collect(),
        ext_bits: status
            .names
            .iter()
            .map(|bit| DigitalExtStatusItem {
                bit_no: u32::from(bit.number),
                name0: bit.zero.clone(),
                name1: bit.one.clone(),
                description: bit.name.clone(),
                ..DigitalExtStatusItem::default()
            })
            .collect(),
    });
    DeviceInfo {
        device_index: device.index,
        description: device.description.clone(),
        reading: device.reading.as_ref().map(|value| property(value, false)),
        setting: device.setting.as_ref().map(|value| property(value, true)),
        control,
        status,
    }
}

fn status_item(words: AttributeWords, attribute: Attribute) -> DigitalStatusItem {
    let letter = |letter: Option<char>| letter.map(String::from).unwrap_or_default();
    DigitalStatusItem {
        mask_val: attribute.mask,
        match_val: attribute.matching,
        invert: attribute.invert,
        short_name: words.name.to_owned(),
        long_name: words.name.to_owned(),
        true_str: words.yes.to_owned(),
        true_char: letter(attribute.yes),
        false_str: words.no.to_owned(),
        false_char: letter(attribute.no),
        ..DigitalStatusItem::default()
    }
}

fn property(value: &database::DeviceValue, is_setting: bool) -> Property {
    let units = |units: &str| (!units.is_empty()).then(|| units.to_owned());
    Property {
        primary_units: units(&value.primary_units),
        common_units: units(&value.units),
        min_val: value.limits.min.unwrap_or_default(),
        max_val: value.limits.max.unwrap_or_default(),
        p_index: u32::from(value.scaling.primary),
        c_index: u32::from(value.scaling.common.index),
        coeff: value.scaling.common.constants.clone(),
        is_knobbable: is_setting,
        ..Property::default()
    }
}

/// The most devices, or texts, of a look-up.
const MOST: usize = 10_000;

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn look_ups_have_a_bound() {
        let devices = DeviceDatabase::new(Arc::default());
        let devices = DeviceInformation { devices, plots: None, caller: Err(String::new()) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let codes = |count: usize| {
            let names = || Request::new(DeviceList { device: vec![String::new(); count] });
            let ids = Request::new(AlarmTextIdList { alarm_text_id: vec![1; count] });
            runtime.block_on(async {
                [
                    devices.get_device_info(names()).await.map_or_else(|status| status.code(), |_| Code::Ok),
                    devices.get_all_alarm_info(names()).await.map_or_else(|status| status.code(), |_| Code::Ok),
                    devices.get_alarm_text(ids).await.map_or_else(|status| status.code(), |_| Code::Ok),
                ]
            })
        };
        assert_eq!(codes(MOST), [Code::Ok; 3]);
        assert_eq!(codes(MOST + 1), [Code::ResourceExhausted; 3]);
    }
}
