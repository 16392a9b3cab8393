//! Logs as NVRTC wrote them.

use super::PtxasStats;

fn parse(log: &str) -> Vec<PtxasStats> {
    PtxasStats::parse(log)
}

#[test]
fn kernels_with_spills_shared_memory_and_warnings_of_the_front_end() {
    let stats = parse(include_str!("tests/three_kernels_sm_80.log"));
    let names: Vec<&str> = stats.iter().map(|kernel| kernel.entry.as_str()).collect();
    assert_eq!(names, ["_Z2tkILi5EEvPf", "spill", "add"]);
    assert_eq!(
        stats[0],
        PtxasStats {
            entry: "_Z2tkILi5EEvPf".to_owned(),
            target: "sm_80".to_owned(),
            registers: 14,
            stack_frame: 256,
            constant_bytes: 360,
            ..PtxasStats::default()
        }
    );
    assert_eq!(
        stats[1],
        PtxasStats {
            entry: "spill".to_owned(),
            target: "sm_80".to_owned(),
            registers: 32,
            stack_frame: 1048,
            spill_stores: 1996,
            spill_loads: 1960,
            constant_bytes: 372,
            ..PtxasStats::default()
        }
    );
    assert_eq!(
        stats[2],
        PtxasStats {
            entry: "add".to_owned(),
            target: "sm_80".to_owned(),
            registers: 9,
            shared_bytes: 512,
            barriers: 1,
            constant_bytes: 372,
            ..PtxasStats::default()
        }
    );
}

#[test]
fn remarks_belong_to_the_kernel_that_they_name() {
    let stats = parse(include_str!("tests/wgmma_sm_90a.log"));
    let names: Vec<&str> = stats.iter().map(|kernel| kernel.entry.as_str()).collect();
    assert_eq!(names, ["calls", "fine", "serial"]);
    assert!(stats[0].notes.is_empty() && stats[1].notes.is_empty());
    let codes: Vec<&str> = stats[2].notes.iter().map(|note| &note[..7]).collect();
    assert_eq!(codes, ["(C7519)", "(C7517)", "(C7511)"]);
    assert!(stats[2].notes[2].contains("Potential Performance Loss"));
    assert_eq!(
        (stats[2].registers, stats[2].target.as_str()),
        (58, "sm_90a")
    );
}

#[test]
fn properties_of_a_device_function_are_not_those_of_the_kernel_before_it() {
    let log = "\
ptxas info    : Compiling entry function 'calls' for 'sm_90a'
ptxas info    : Function properties for calls
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : Function properties for _Z6helperf
ptxas         .     48 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads";
    assert_eq!(parse(log)[0].stack_frame, 0);
}

#[test]
fn the_form_of_cuda_12_has_no_prefix_before_the_stack_frame() {
    let log = "\
ptxas info    : 0 bytes gmem, 16 bytes cmem[4]
ptxas info    : Compiling entry function 'k' for 'sm_86'
ptxas info    : Function properties for k
    24 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 24 bytes cumulative stack size, 4096 bytes smem, 380 bytes cmem[0], 8 bytes cmem[2]";
    assert_eq!(
        parse(log),
        [PtxasStats {
            entry: "k".to_owned(),
            target: "sm_86".to_owned(),
            registers: 255,
            spill_stores: 8,
            spill_loads: 16,
            stack_frame: 24,
            shared_bytes: 4096,
            barriers: 2,
            constant_bytes: 388,
            notes: Vec::new(),
        }]
    );
}

#[test]
fn remarks_on_the_whole_module_stand_at_every_kernel() {
    let log = "\
ptxas warning : something about all of it
ptxas info    : Compiling entry function 'a' for 'sm_80'
ptxas info    : Compiling entry function 'b' for 'sm_80'";
    let stats = parse(log);
    assert_eq!(stats[0].notes, ["something about all of it"]);
    assert_eq!(stats[1].notes, stats[0].notes);
}

#[test]
fn any_text_is_taken() {
    for log in [
        "",
        "ptxas",
        "ptxas info",
        "ptxas info : Used registers",
        "ptxas info : Compiling entry function ",
        "ptxas info : Compiling entry function 'é",
        "ptxas info : Used 99999999999 registers\nptxas . -1 bytes stack frame, ,",
    ] {
        let _ = parse(log);
    }
}
