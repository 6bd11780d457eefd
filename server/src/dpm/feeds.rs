//! Readings for clients of the HTTP API: the thread that serves devices answers the web front-end's
//! requests.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use rookery_dpm::driver;
use rookery_web::readings::{Feed, Readings, Told};

/// Opens feeds of the thread that serves devices.
#[derive(Debug)]
pub struct Feeds(pub driver::DeviceFeeds);

#[derive(Debug)]
struct Fed(driver::DeviceFeed);

#[derive(Debug)]
struct OverviewFed(driver::OverviewFeed);

impl Readings for Feeds {
    fn read(&self, requests: &[String], is_once: bool, from: IpAddr) -> io::Result<Box<dyn Feed>> {
        let feed = self.0.open(requests, is_once, from)?;
        Ok(Box::new(Fed(feed)))
    }

    fn overview(&self, from: IpAddr) -> io::Result<Box<dyn Feed>> {
        Ok(Box::new(OverviewFed(self.0.overview(from)?)))
    }

    fn figures(&self) -> Pin<Box<dyn Future<Output = io::Result<String>> + Send>> {
        let feeds = self.0.clone();
        Box::pin(async move { feeds.figures().await })
    }
}

impl Feed for OverviewFed {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Told>>> {
        self.0.poll(context).map(|seen| seen.map(|seen| seen.map(Told::Reading)))
    }
}

impl Feed for Fed {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Told>>> {
        self.0.poll(context).map(|told| {
            told.map(|told| {
                told.map(|told| match told {
                    driver::FeedNews::Reading(reading) => Told::Reading(reading),
                    driver::FeedNews::Alive => Told::Alive,
                })
            })
        })
    }
}
