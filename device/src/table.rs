//! One table of both files of times, ours and `PyTorch`'s.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use crate::arguments::Arguments;
use crate::error::RunError;
use crate::say;
use crate::timing::{Header, TimeLine};

/// A line of `PyTorch`'s file; its first one says what ran.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum PeerLine {
    Header {
        torch: String,
        cuda: Option<String>,
        #[serde(default)]
        triton: Option<String>,
        #[serde(default)]
        cudnn: Option<String>,
    },
    Time {
        id: String,
        peer: String,
        #[serde(default)]
        ms: Option<f64>,
        #[serde(default)]
        skipped: Option<String>,
    },
}

/// `PyTorch`'s functions, as its file and as the table name them.
const PEERS: [(&str, &str); 3] = [
    ("sdpa-flash", "flash"),
    ("sdpa-cudnn", "cuDNN"),
    ("flex", "Flex"),
];

/// `table OURS PEERS`.
pub(crate) fn run(arguments: &mut Arguments) -> Result<(), RunError> {
    let ours = arguments.place("OURS")?;
    let peers = arguments.place("PEERS")?;
    let machine = arguments.flag("--machine");
    arguments.finish()?;
    let ours_text = read(&ours)?;
    // Where PyTorch's part failed, ours is still worth a table.
    let peers_text = read(&peers).unwrap_or_default();
    let table = table(&ours_text, &peers_text, machine.as_deref());
    say(&table.map_err(|source| RunError::Json {
        path: ours.into(),
        source,
    })?);
    Ok(())
}

fn read(path: &str) -> Result<String, RunError> {
    std::fs::read_to_string(Path::new(path)).map_err(|source| RunError::File {
        path: path.into(),
        source,
    })
}

/// The table in Markdown. Lines that cannot be read are those that a stopped run left half written, or what a peer
/// printed beside its times; they are left out.
pub(crate) fn table(
    ours: &str,
    peers: &str,
    machine: Option<&str>,
) -> Result<String, serde_json::Error> {
    let mut lines = ours.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap_or_default())?;
    let ours: Vec<TimeLine> = lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let mut versions = String::from("PyTorch was not timed");
    let mut times: BTreeMap<(String, String), Result<f64, String>> = BTreeMap::new();
    for line in peers
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
    {
        match line {
            PeerLine::Header {
                torch,
                cuda,
                triton,
                cudnn,
            } => {
                versions = format!("PyTorch {torch}");
                for (name, version) in [("CUDA", cuda), ("Triton", triton), ("cuDNN", cudnn)] {
                    if let Some(version) = version {
                        let _ = write!(versions, ", {name} {version}");
                    }
                }
            }
            PeerLine::Time {
                id,
                peer,
                ms,
                skipped,
            } => {
                let time = ms.ok_or_else(|| skipped.unwrap_or_default());
                times.insert((id, peer), time);
            }
        }
    }
    let heads = ours
        .first()
        .map(|line| (line.case.q_heads, line.case.kv_heads));
    let mut table = top(&header, &versions, machine, heads.unwrap_or_default());
    table.push_str(
        "| rule | D | length | tiles: full, partial, skipped | mask ms | ms | TFLOP/s | flash ms | cuDNN ms | Flex ms |\n\
         |---|--:|--:|---|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut ours = ours;
    ours.sort_by_key(|line| (line.case.dim, line.case.len));
    let mut kernels: BTreeMap<&str, usize> = BTreeMap::new();
    let mut notes: BTreeMap<String, usize> = BTreeMap::new();
    for line in &ours {
        let case = &line.case;
        let (rule, dim, len) = (case.rule.title(), case.dim, case.len);
        let _ = write!(table, "| {rule} | {dim} | {len} |");
        let ms = line.times.as_ref().map(|times| times.ms);
        if let Some(times) = &line.times {
            let [full, partial, skipped] = times.tiles;
            let mask = times
                .mask_ms
                .map_or_else(String::new, |ms| format!("{ms:.2}"));
            let rate = case.operations() / (times.ms * 1e-3) / 1e12;
            let _ = write!(
                table,
                " {full}, {partial}, {skipped} | {mask} | {:.3} | {rate:.0} |",
                times.ms
            );
            *kernels.entry(&times.kernel).or_default() += 1;
        } else {
            let reason = line.skipped.clone().unwrap_or_default();
            *notes.entry(format!("ours: {reason}")).or_default() += 1;
            table.push_str(" | | | |");
        }
        for (peer, name) in PEERS {
            table.push(' ');
            match times.get(&(case.id.clone(), peer.to_owned())) {
                Some(Ok(peer_ms)) => {
                    let _ = write!(table, "{peer_ms:.3}");
                    if let Some(ms) = ms {
                        let _ = write!(table, " ({:.2}×)", peer_ms / ms);
                    }
                    table.push(' ');
                }
                Some(Err(reason)) => *notes.entry(format!("{name}: {reason}")).or_default() += 1,
                None => {}
            }
            table.push('|');
        }
        table.push('\n');
    }
    table.push_str("\nCases by kernel:\n");
    for (kernel, cases) in kernels {
        let _ = writeln!(table, "- {kernel}: {cases}");
    }
    if !notes.is_empty() {
        table.push_str("\nNot timed, by reason:\n");
        for (note, cases) in notes {
            let _ = writeln!(table, "- {note}: {cases}");
        }
    }
    Ok(table)
}

fn top(
    header: &Header,
    versions: &str,
    machine: Option<&str>,
    (q_heads, kv_heads): (usize, usize),
) -> String {
    let Header {
        device,
        cuda,
        clock,
        prepared,
    } = header;
    let mut top = format!("- Device: {device}");
    if let Some(machine) = machine {
        let _ = write!(top, "; {machine}");
    }
    if let Some(cuda) = cuda {
        let _ = write!(top, "; the driver knows CUDA {cuda}");
    }
    let _ = write!(
        top,
        "\n- Ours: Maskwright {}, {}; {clock}",
        prepared.maskwright, prepared.compiler
    );
    if let Some(commit) = &prepared.commit {
        let _ = write!(top, "; commit {commit}");
    }
    let _ = write!(
        top,
        "\n- Beside it: {versions}\n- bf16, one batch entry, {q_heads} query heads to {kv_heads} key heads; operations of attended \
         pairs only; in brackets their time over ours\n\n"
    );
    top
}

#[cfg(test)]
mod tests {
    use super::table;

    const OURS: &str = r#"{"device":"NVIDIA H200 (cuda:0, sm_90)","cuda":"13.0","clock":"events","prepared":{"maskwright":"0.1.0","commit":"abc","compiler":"NVRTC 13.0","targets":["sm_90a"],"list":"full","kernels":2}}
{"case":{"id":"causal-d128-8192","rule":{"name":"causal"},"q_heads":32,"kv_heads":8,"dim":128,"len":8192,"cells":33558528,"longest":8192},"times":{"ms":2.0,"spread":[1.9,2.2],"launches":15,"mask_ms":0.25,"upload_ms":0.1,"kernel":"forward_causal 128x64 bf16 d128 sm_90a","tiles":[8064,128,8192]}}
{"case":{"id":"window-7-d128-8192","rule":{"name":"window","window":7},"q_heads":32,"kv_heads":8,"dim":128,"len":8192,"cells":57323,"longest":8192},"skipped":"no room"}
{"case":{"id":"dense-d64-4096","rule":{"name":"dense"},"q_heads":32,"kv_heads":8,"dim":64,"len":4096,"cells":16777216,"longest":8192},"times":{"ms":1.0,"spread":[1.0,1.0],"launches":30,"mask_ms":null,"upload_ms":null,"kernel":"forward 128x64 bf16 d64 sm_90a","tiles":[65536,0,0]}}
{"case":{"id":"half wri"#;

    const PEERS: &str = r#"{"torch": "2.11.0", "cuda": "13.0", "device": "NVIDIA H200"}
{"id": "causal-d128-8192", "peer": "sdpa-flash", "ms": 1.5}
{"id": "causal-d128-8192", "peer": "sdpa-cudnn", "skipped": "no time left"}
{"id": "causal-d128-8192", "peer": "flex", "ms": 3.0}
a warning that is no JSON
{"id": "window-7-d128-8192", "peer": "flex", "ms": 0.5}
"#;

    #[test]
    fn both_files_become_one_table() {
        let found = table(OURS, PEERS, Some("driver 580.1")).unwrap();
        let expected = "\
- Device: NVIDIA H200 (cuda:0, sm_90); driver 580.1; the driver knows CUDA 13.0
- Ours: Maskwright 0.1.0, NVRTC 13.0; events; commit abc
- Beside it: PyTorch 2.11.0, CUDA 13.0
- bf16, one batch entry, 32 query heads to 8 key heads; operations of attended pairs only; in brackets their time over ours

| rule | D | length | tiles: full, partial, skipped | mask ms | ms | TFLOP/s | flash ms | cuDNN ms | Flex ms |
|---|--:|--:|---|--:|--:|--:|--:|--:|--:|
| dense | 64 | 4096 | 65536, 0, 0 |  | 1.000 | 137 | | | |
| causal | 128 | 8192 | 8064, 128, 8192 | 0.25 | 2.000 | 275 | 1.500 (0.75×) | | 3.000 (1.50×) |
| window 7 | 128 | 8192 | | | | | | | 0.500 |

Cases by kernel:
- forward 128x64 bf16 d64 sm_90a: 1
- forward_causal 128x64 bf16 d128 sm_90a: 1

Not timed, by reason:
- cuDNN: no time left: 1
- ours: no room: 1
";
        assert_eq!(found, expected);
    }

    #[test]
    fn without_peers_ours_is_a_table_and_without_ours_there_is_none() {
        let found = table(OURS, "", None).unwrap();
        assert!(found.contains("PyTorch was not timed") && found.contains("| 2.000 | 275 | | | |"));
        assert!(table("", PEERS, None).is_err());
    }
}
