//! The driver where there is none, and that the error says what was tried.

use super::probe::start;
use super::{Device, DeviceBuffer, DeviceError, Driver, Event, NoDriver, Stream};

#[test]
fn a_missing_driver_is_an_error_that_says_what_was_tried() {
    let names = ["libno-such-driver.so", "/nowhere/libcuda.so.1"].map(str::to_owned);
    let error = start(&names).unwrap_err();
    assert_eq!(
        error,
        NoDriver::Missing {
            tried: names.to_vec()
        }
    );
    assert_eq!(
        error.to_string(),
        "no CUDA driver was found (tried libno-such-driver.so and 1 more)"
    );
}

#[test]
fn a_library_that_is_no_driver_is_too_old_to_be_one() {
    // The mathematical library of the C runtime, which is there wherever a test can run on Linux.
    let names = ["libm.so.6".to_owned()];
    match start(&names).unwrap_err() {
        NoDriver::TooOld { library, function } => {
            assert_eq!((library.as_str(), function), ("libm.so.6", "cuInit"));
        }
        // Another system has no library of that name.
        NoDriver::Missing { .. } => {}
        error @ NoDriver::Start { .. } => panic!("{error}"),
    }
}

#[test]
fn the_probe_never_panics() {
    match Driver::get() {
        Ok(driver) => {
            assert!(!driver.library().is_empty());
            assert_eq!(
                Device::list().map(|devices| devices.len()),
                Ok(driver.n_devices())
            );
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert_eq!(Device::list(), Err(DeviceError::NoDriver(error.clone())));
            assert_eq!(Device::open(0).unwrap_err(), DeviceError::NoDriver(error));
        }
    }
}

#[test]
fn events_tell_the_time_between_them() {
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("skipped: {error}");
            return;
        }
    };
    let stream = Stream::new(&device).unwrap();
    let (mut begin, mut end) = (Event::new(&device).unwrap(), Event::new(&device).unwrap());
    assert!(
        end.milliseconds_since(&begin).is_err(),
        "neither was recorded"
    );
    begin.record(&stream).unwrap();
    let buffer = DeviceBuffer::from_bytes(&stream, &vec![7; 1 << 20]).unwrap();
    end.record(&stream).unwrap();
    assert!(0.0 < end.milliseconds_since(&begin).unwrap());
    drop(buffer);
}
