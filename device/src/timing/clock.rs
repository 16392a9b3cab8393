//! How launches are timed: by events on a GPU, by the clock of the host in an emulator.

use std::sync::Arc;
use std::time::Instant;

use maskwright::cuda::Machine;
use maskwright::device::{Event, Stream};

use crate::error::RunError;

/// Repetitions, of which the median counts.
const REPETITIONS: usize = 7;

/// A repetition has as many launches as fill so many milliseconds, so that the gap before the first one is nothing.
const REPETITION_MS: f64 = 30.0;

/// At most so many launches in a repetition.
const MOST_LAUNCHES: f64 = 100.0;

/// How launches are timed.
#[derive(Debug)]
pub(super) enum Clock {
    /// Two marks on a stream, around the launches.
    Events {
        stream: Arc<Stream>,
        begin: Box<Event>,
        end: Box<Event>,
    },
    /// The host's own: an emulator has run a kernel when its launch returns.
    Host,
}

/// What was measured.
#[derive(Debug)]
pub(super) struct Measured {
    /// Milliseconds of one launch, by repetition.
    pub(super) each: Vec<f64>,
    /// Launches in a repetition.
    pub(super) launches: usize,
}

impl Clock {
    pub(super) fn new(machine: &Machine) -> Result<Self, RunError> {
        let Some(device) = machine.gpu() else {
            return Ok(Self::Host);
        };
        Ok(Self::Events {
            stream: Arc::new(Stream::new(device)?),
            begin: Box::new(Event::new(device)?),
            end: Box::new(Event::new(device)?),
        })
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Events { .. } => "events around many launches, median of 7",
            Self::Host => "the host's clock around one launch",
        }
    }

    /// Where launches go.
    pub(super) fn stream(&self) -> Option<Arc<Stream>> {
        match self {
            Self::Events { stream, .. } => Some(Arc::clone(stream)),
            Self::Host => None,
        }
    }

    /// Times a launch, after one that loads the code and one that tells how many fill a repetition.
    pub(super) fn measure(
        &mut self,
        mut launch: impl FnMut() -> Result<(), RunError>,
    ) -> Result<Measured, RunError> {
        let first = self.repeat(1, &mut launch)?;
        if let Self::Host = self {
            return Ok(Measured {
                each: vec![first],
                launches: 1,
            });
        }
        let once = self.repeat(1, &mut launch)?;
        let launches = (REPETITION_MS / once.max(1e-3)).clamp(1.0, MOST_LAUNCHES) as usize;
        let mut each = Vec::with_capacity(REPETITIONS);
        for _ in 0..REPETITIONS {
            each.push(self.repeat(launches, &mut launch)? / launches as f64);
        }
        Ok(Measured { each, launches })
    }

    /// Milliseconds of some launches.
    fn repeat(
        &mut self,
        launches: usize,
        launch: &mut impl FnMut() -> Result<(), RunError>,
    ) -> Result<f64, RunError> {
        let started = Instant::now();
        if let Self::Events { stream, begin, .. } = self {
            begin.record(stream)?;
        }
        for _ in 0..launches {
            launch()?;
        }
        match self {
            Self::Events { stream, begin, end } => {
                end.record(stream)?;
                Ok(f64::from(end.milliseconds_since(begin)?))
            }
            Self::Host => Ok(started.elapsed().as_secs_f64() * 1e3),
        }
    }
}
