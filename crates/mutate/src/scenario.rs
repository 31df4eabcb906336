//! A scenario: the files in a folder, a command, an environment, and standard input.

use crate::random::Random;
use crate::seeds::{self, SeedFile, SeedModel, SeedModelKind, Seeds};
use crate::{bytes, flags, json, limits};
use std::fs;
use std::path::Path;
use std::process::Command;

pub(crate) struct Scenario {
    pub(crate) kind: &'static str,
    pub(crate) args: Vec<String>,
    pub(crate) environment: Vec<(&'static str, String)>,
    pub(crate) stdin: Vec<u8>,
    /// User files that the run must not change.
    pub(crate) user_files: Vec<(String, Vec<u8>)>,
    /// True if a failpoint kills the run, which is not a failure.
    pub(crate) is_killed: bool,
}

impl Scenario {
    /// Builds a random scenario and writes its files to `place`.
    pub(crate) fn random(random: &mut Random, seeds: &Seeds, place: &Path) -> Scenario {
        let mut scenario = Scenario {
            kind: "",
            args: Vec::new(),
            environment: Vec::new(),
            stdin: Vec::new(),
            user_files: Vec::new(),
            is_killed: false,
        };
        write_file(place, "notes.txt", b"mine\n");
        scenario.user_files.push(("notes.txt".into(), b"mine\n".to_vec()));
        match random.below(20) {
            0..6 => scenario.data(random, seeds, place),
            6..11 => scenario.model(random, seeds, place),
            11..13 => scenario.worked_example(random, seeds, place),
            13..15 => scenario.tensors(random, seeds, place),
            15..19 => scenario.flags(random, seeds, place),
            _ => scenario.folder(random, seeds, place),
        }
        if scenario.environment.is_empty() && random.once_in(3) {
            scenario.set_environment(random);
        }
        // Files that a flag names as output may be overwritten.
        let named: Vec<&str> = scenario.args.iter().map(|arg| arg.trim_start_matches("./")).collect();
        scenario.user_files.retain(|(name, _)| !named.contains(&name.as_str()));
        scenario
    }

    fn set_args(&mut self, args: &[&str]) {
        self.args = args.iter().map(|&arg| arg.into()).collect();
    }

    fn add_user_file(&mut self, place: &Path, file: &SeedFile) {
        write_file(place, &file.name, &file.bytes);
        self.user_files.push((file.name.clone(), file.bytes.clone()));
    }

    /// A damaged data file.
    fn data(&mut self, random: &mut Random, seeds: &Seeds, place: &Path) {
        self.kind = "data";
        let damaged = |random: &mut Random, file: &SeedFile| {
            let mut file = file.clone();
            match file.name.ends_with(".jsonl") && random.once_in(2) {
                true => {
                    let mut lines: Vec<Vec<u8>> = file.bytes.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
                    let at = random.below(lines.len());
                    json::mutate(random, &mut lines[at]);
                    file.bytes = lines.join(&b'\n');
                }
                // Damage compressed files inside as often as outside.
                false if file.name.ends_with(".gz") && random.once_in(2) => {
                    let inner = file.name.trim_end_matches(".gz");
                    let sound = seeds.labelled.iter().chain(&seeds.plain).find(|sound| sound.name == inner);
                    let mut inside = sound.map_or_else(Vec::new, |sound| sound.bytes.clone());
                    damage_data(random, inner, &mut inside);
                    file.bytes = seeds::gzip(&inside);
                }
                false => damage_data(random, &file.name, &mut file.bytes),
            }
            // The file extension may not match the format.
            if random.once_in(10) {
                let ending = random.choose_ref(&[
                    ".csv", ".tsv", ".json", ".jsonl", ".parquet", ".xlsx", ".txt", ".gz", "", ".csv.gz",
                ]);
                file.name = format!("b{ending}");
            }
            file
        };
        match random.below(10) {
            0 => {
                let sides = [&seeds.parallel[0], &seeds.parallel[1]].map(|file| damaged(random, file));
                sides.iter().for_each(|file| self.add_user_file(place, file));
                let both = format!("{},{}", sides[0].name, sides[1].name);
                write_model(place, "model", model_of_kind(seeds, SeedModelKind::Translator));
                match random.once_in(3) {
                    true => self.set_args(&["train", &both, "--epochs", "1", "--out", "new"]),
                    false => self.set_args(&["eval", "model", &both]),
                }
            }
            n @ 1..4 => {
                // The task that learns from the file, and the command that answers its rows.
                let (files, kind, task, command) = match n {
                    1 => (&seeds.pairs, SeedModelKind::Translator, "translate", Some("translate")),
                    2 => (&seeds.plain, SeedModelKind::LanguageModel, "lm", None),
                    _ => (&seeds.spans, SeedModelKind::Tagger, "tag", Some("predict")),
                };
                let sound = random.choose(files);
                let file = damaged(random, sound);
                self.add_user_file(place, &file);
                write_model(place, "model", model_of_kind(seeds, kind));
                match (random.below(3), command) {
                    (0, _) => self.set_args(&["train", &file.name, "--task", task, "--epochs", "1", "--out", "new"]),
                    (2, Some(command)) => self.set_args(&[command, "model", "--input", &file.name]),
                    _ => self.set_args(&["eval", "model", &file.name]),
                }
            }
            _ => {
                let sound = random.choose(&seeds.labelled);
                let file = damaged(random, sound);
                self.add_user_file(place, &file);
                let kind = if random.once_in(4) { SeedModelKind::Recurrent } else { SeedModelKind::Classifier };
                write_model(place, "model", model_of_kind(seeds, kind));
                match random.below(9) {
                    0 => self.set_args(&["train", &file.name, "--epochs", "1", "--out", "new"]),
                    1 | 2 => self.set_args(&["eval", "model", &file.name]),
                    3 => self.set_args(&["explain", "model", "--input", &file.name, "--svg", "pictures"]),
                    5 => self.set_args(&["doctor", &file.name]),
                    4 => {
                        self.stdin.clone_from(&file.bytes);
                        self.set_args(&["predict", "model", "--input", "-"]);
                    }
                    _ => self.set_args(&["predict", "model", "--input", &file.name]),
                }
            }
        }
        if self.args.iter().any(|arg| arg == "shift_jis.csv") && !random.once_in(8) {
            self.args.extend(["--encoding".into(), "shift_jis".into()]);
        }
        if random.once_in(3) {
            self.args.push("--skip-bad-rows".into());
        }
        if random.once_in(3) {
            let command = self.args[0].clone();
            flags::add_random_flags(random, &command, &mut self.args, 2);
        }
    }

    /// A damaged model folder.
    fn model(&mut self, random: &mut Random, seeds: &Seeds, place: &Path) {
        self.kind = "model";
        let seed = random.choose(&seeds.models);
        write_model(place, "model", seed);
        damage_folder(random, seeds, seed, &place.join("model"));
        self.add_user_file(place, &seeds.labelled[0]);
        self.use_model(random, seed.kind);
        if random.once_in(3) {
            let command = self.args[0].clone();
            flags::add_random_flags(random, &command, &mut self.args, 2);
        }
    }

    /// Sets a command that uses the folder `model`.
    fn use_model(&mut self, random: &mut Random, kind: SeedModelKind) {
        let text = match random.once_in(3) {
            true => flags::random_text(random),
            false => "A fine day, 3 and 4.".into(),
        };
        match (kind, random.below(6)) {
            (SeedModelKind::PublishedEncoder, 0) => {
                self.set_args(&["nearest", "model", "--corpus", "model/vocab.txt", &text])
            }
            (SeedModelKind::PublishedEncoder, 1) => {
                let other = flags::random_text(random);
                self.set_args(&["explain", "model", &text, "--target", &other]);
            }
            (SeedModelKind::PublishedEncoder, 2) => self.set_args(&["trace", "--model", "model", "--text", &text]),
            (SeedModelKind::PublishedEncoder, 3) => {
                self.set_args(&["train", "a.csv", "--from", "model", "--epochs", "1", "--out", "new"])
            }
            (SeedModelKind::PublishedEncoder, _) => self.set_args(&["embed", "model", &text]),
            (_, 0) => self.set_args(&["explain", "model", &text, "--html", "page.html"]),
            (_, 1) => self.set_args(&["trace", "--model", "model", "--text", &text]),
            (_, 2) => self.set_args(&["position", "--model", "model", "--json", "-"]),
            (SeedModelKind::Classifier, 3) => self.set_args(&["film", "model"]),
            (SeedModelKind::Classifier | SeedModelKind::Recurrent, 4) => self.set_args(&["export", "model"]),
            (SeedModelKind::Translator | SeedModelKind::PublishedTranslator, _) => {
                self.set_args(&["translate", "model", &text])
            }
            (SeedModelKind::LanguageModel | SeedModelKind::PublishedLanguageModel, _) => {
                self.set_args(&["generate", "model", &text, "--max-tokens", "20"])
            }
            _ => self.set_args(&["predict", "model", &text]),
        }
    }

    /// A damaged worked example.
    fn worked_example(&mut self, random: &mut Random, seeds: &Seeds, place: &Path) {
        self.kind = "worked example";
        let mut file = random.choose(&seeds.worked_examples).clone();
        json::mutate(random, &mut file.bytes);
        self.add_user_file(place, &file);
        match random.once_in(2) {
            true => self.set_args(&["check", &file.name]),
            false => {
                let format = random.choose_ref(&["text", "md", "html", "latex", "json", "xlsx"]);
                self.set_args(&["trace", "--input", &file.name, "--format", format]);
            }
        }
        if random.once_in(3) {
            let command = self.args[0].clone();
            flags::add_random_flags(random, &command, &mut self.args, 2);
        }
    }

    /// Damaged tensors.
    fn tensors(&mut self, random: &mut Random, seeds: &Seeds, place: &Path) {
        self.kind = "tensors";
        let mut file = random.choose(&seeds.tensors).clone();
        match file.name.ends_with(".npz") {
            true => bytes::mutate(random, &mut file.bytes),
            false => json::mutate_tensors(random, &mut file.bytes),
        }
        self.add_user_file(place, &file);
        self.set_args(&["attend", &file.name]);
        flags::add_random_flags(random, "attend", &mut self.args, 4);
    }

    /// Valid files with any flags.
    fn flags(&mut self, random: &mut Random, seeds: &Seeds, place: &Path) {
        self.kind = "flags";
        let seed = random.choose(&seeds.models);
        write_model(place, "model", seed);
        write_model(place, "other", random.choose(&seeds.models));
        let data = random.choose(&seeds.labelled).clone();
        self.add_user_file(place, &data);
        match random.below(12) {
            0..4 => self.use_model(random, seed.kind),
            4 => self.set_args(&["train", &data.name, "--epochs", "1", "--out", "new"]),
            5 => self.set_args(&["count"]),
            6 => self.set_args(&["position"]),
            7 => {
                let example = random.choose_ref(&["school", "two-tokens", "heads", "causal", "missing"]);
                self.set_args(&["trace", "--example", example]);
            }
            8 => {
                let file = random.choose(&seeds.tensors).clone();
                self.add_user_file(place, &file);
                self.set_args(&["attend", &file.name]);
            }
            9 => {
                let command =
                    random.choose_ref(&["info", "bench", "", "help", "predict", "--version", "compare", "film", "no"]);
                self.set_args(&[command]);
                if command == "compare" {
                    self.args.push("missing.csv".into());
                }
            }
            10 if random.once_in(2) => self.set_args(&["doctor", &data.name]),
            10 => self.set_args(&["eval", "model", &data.name]),
            _ => self.set_args(&["explain", "model", "A fine day, 3 and 4."]),
        }
        if random.once_in(4) {
            self.stdin = b"A fine day\n".to_vec();
            bytes::mutate(random, &mut self.stdin);
        }
        let command = self.args[0].clone();
        flags::add_random_flags(random, &command, &mut self.args, 4);
        if random.once_in(20) {
            let (a, b) = (random.below(self.args.len()), random.below(self.args.len()));
            self.args.swap(a, b);
        }
    }

    /// A run into a folder with existing files, possibly killed.
    fn folder(&mut self, random: &mut Random, seeds: &Seeds, place: &Path) {
        self.kind = "folder";
        let data = seeds.labelled[0].clone();
        self.add_user_file(place, &data);
        let out = random.choose_ref(&["out", ".", "out", "notes.txt", "out/deep"]);
        if random.once_in(2) {
            let seed = random.choose(&seeds.models);
            write_model(place, "out", seed);
            if random.once_in(3) {
                damage_folder(random, seeds, seed, &place.join("out"));
            }
        }
        for _ in 0..random.below(3) {
            let name = random.choose_ref(&[
                "out/thesis.tex",
                "out/a.csv",
                "out/README.md",
                "out/log.jsonl",
                "out/metrics.json",
                "out.new/notes.txt",
                "out.old/notes.txt",
                "out/checkpoints/notes.txt",
                "out/.chumoku-next/notes.txt",
                "out/.chumoku-ready/notes.txt",
                "out/.chumoku-lock",
                "out/.chumoku-x.tmp",
            ]);
            if !place.join(name).exists() {
                let bytes = b"{\"step\":\"mine\"}\n";
                write_file(place, name, bytes);
                // A lock file belongs to no user.
                if !name.ends_with("lock") {
                    self.user_files.push((name.into(), bytes.to_vec()));
                }
            }
        }
        self.set_args(&["train", &data.name, "--epochs", "1", "--out", out]);
        let more = [&["--force"][..], &["--resume"], &["--force", "--resume"], &[]];
        self.args.extend(random.choose(&more).iter().map(|&flag| flag.into()));
        if random.once_in(3) {
            // Such a short training passes a few dozen failpoints.
            self.is_killed = true;
            self.environment.push(("CHUMOKU_FAILPOINT", format!("any:{}=abort", 1 + random.below(60))));
        }
    }

    fn set_environment(&mut self, random: &mut Random) {
        const VARIABLES: [(&str, &[&str]); 13] = [
            ("CHUMOKU_ISA", &["scalar", "avx2", "avx512", "avx512bf16", "amx", "", "AVX2", "mmx", "\u{1b}[2J"]),
            ("LANG", &["ja_JP.UTF-8", "C", "", "en_US.UTF-8", "ja", "xx", "_", "ja_JP.SJIS"]),
            ("LC_ALL", &["", "C", "ja", "日本語"]),
            ("COLUMNS", &["0", "1", "10", "80", "-5", "99999999999", "x", ""]),
            ("NO_COLOR", &["1", ""]),
            ("CLICOLOR_FORCE", &["1", "0"]),
            ("TERM", &["dumb", "xterm-256color", "", "no-such-terminal"]),
            ("COLORTERM", &["truecolor", ""]),
            ("TMPDIR", &["missing", "notes.txt", "", ".", "/dev/full"]),
            ("HOME", &["", "missing", "/dev/null"]),
            ("RAYON_NUM_THREADS", &["0", "1", "3", "x", "99999999999"]),
            ("RUST_BACKTRACE", &["1", "full"]),
            ("XDG_CONFIG_HOME", &["", "notes.txt"]),
        ];
        for _ in 0..1 + random.below(3) {
            let (name, values) = random.choose(&VARIABLES);
            self.environment.push((name, random.choose_ref(values).into()));
        }
    }

    /// Returns the arguments quoted for a shell.
    pub(crate) fn shell_words(&self) -> String {
        self.args.iter().map(|arg| limits::shell_quote(arg)).collect::<Vec<_>>().join(" ")
    }

    /// Returns the command for a line of the report, with long words truncated.
    pub(crate) fn display_command(&self) -> String {
        let environment = self.environment.iter().map(|(name, value)| format!("{name}={value:?} "));
        let args = self.args.iter().map(|arg| {
            let start: String = arg.chars().take(60).collect();
            if start.len() < arg.len() { format!("{start:?}…") } else { format!("{start:?}") }
        });
        format!("{}chumoku {}", environment.collect::<String>(), args.collect::<Vec<_>>().join(" "))
    }
}

/// Damages a data file. Text files mostly stay valid text, because invalid bytes are an immediate error.
fn damage_data(random: &mut Random, name: &str, bytes: &mut Vec<u8>) {
    let is_text = [".csv", ".tsv", ".json", ".jsonl", ".txt", ".en", ".ja"].iter().any(|ending| name.ends_with(ending));
    match std::str::from_utf8(bytes) {
        Ok(text) if is_text && !random.once_in(5) => {
            let mut text = text.to_owned();
            (0..1 + random.below(3)).for_each(|_| bytes::mutate_text(random, &mut text));
            *bytes = text.into_bytes();
        }
        _ => bytes::mutate(random, bytes),
    }
}

fn model_of_kind(seeds: &Seeds, kind: SeedModelKind) -> &SeedModel {
    seeds.models.iter().find(|model| model.kind == kind).expect("seeds hold a model of every kind")
}

fn write_file(place: &Path, name: &str, bytes: &[u8]) {
    let path = place.join(name);
    if let Some(folder) = path.parent() {
        let _ = fs::create_dir_all(folder);
    }
    let _ = fs::write(path, bytes);
}

/// Writes a model folder.
fn write_model(place: &Path, name: &str, model: &SeedModel) {
    for file in &model.files {
        write_file(place, &format!("{name}/{}", file.name), &file.bytes);
    }
}

/// Damages files of a model folder, or replaces them by something else.
fn damage_folder(random: &mut Random, seeds: &Seeds, model: &SeedModel, folder: &Path) {
    for _ in 0..1 + random.below(2) {
        let needed: Vec<&SeedFile> =
            model.files.iter().filter(|file| file.name != "README.md" && file.name != "metrics.json").collect();
        let file = *random.choose(&needed);
        let path = folder.join(&file.name);
        let mut bytes = file.bytes.clone();
        if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
            // Skip what is no longer a file: a write would follow a link or wait for a pipe.
            continue;
        }
        match random.below(16) {
            0 => drop(fs::remove_file(&path)),
            1 => {
                // Replace the file by a folder, pipe or link.
                let _ = fs::remove_file(&path);
                let shown = path.display().to_string();
                let command: &[&str] = match random.below(6) {
                    0 => &["mkdir", &shown],
                    1 => &["mkfifo", &shown],
                    2 => &["ln", "-s", "/dev/zero", &shown],
                    3 => &["ln", "-s", &file.name, &shown],
                    4 => &["ln", "-s", "../notes.txt", &shown],
                    _ => &["ln", "-s", "missing", &shown],
                };
                let _ = Command::new(command[0]).args(&command[1..]).status();
            }
            2 => {
                // Replace it by the file of another model.
                let other = random.choose(&seeds.models);
                if let Some(other) = other.files.iter().find(|other| other.name == file.name) {
                    let _ = fs::write(&path, &other.bytes);
                }
            }
            3 => write_file(
                folder,
                random.choose_ref(&["more.txt", ".chumoku-ready/config.json", ".chumoku-next/x"]),
                &bytes,
            ),
            4 | 5 => {
                bytes::mutate(random, &mut bytes);
                let _ = fs::write(&path, bytes);
            }
            _ => {
                match file.name.as_str() {
                    "model.safetensors" => json::mutate_tensors(random, &mut bytes),
                    "log.jsonl" => {
                        let mut lines: Vec<Vec<u8>> = bytes.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
                        let at = random.below(lines.len());
                        json::mutate(random, &mut lines[at]);
                        bytes = lines.join(&b'\n');
                    }
                    _ => json::mutate(random, &mut bytes),
                }
                let _ = fs::write(&path, bytes);
            }
        }
    }
}
