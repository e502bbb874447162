//! Random lines from a seed: no spelling of a denied command passes, and no line of shell text
//! causes a panic.

use policy::{Mode, Policy};

use crate::random_lines::{DENIED, Random, jumble, placed, respelled, unfinished};
use crate::setting::*;

fn denying() -> Policy {
    let allowed = r#"["git", "npm", "rm", "ls", "cat", "env", "sudo", "timeout", "xargs"]"#;
    let denied = r#"["git rm", "npm publish", "rm -rf *"]"#;
    let json = format!(
        r#"{{"allowed_exec_command": {allowed}, "deny_exec_command": {denied}, "undoable": "table"}}"#
    );
    normal(&json, Mode::FullAuto)
}

#[test]
fn no_spelling_of_a_denied_command_passes() {
    let policy = denying();
    let mut random = Random(0x5eed_0001);
    let mut denied = 0;
    let rounds = 1_500;
    for _ in 0..rounds {
        let words = DENIED[random.below(DENIED.len())];
        let command: Vec<String> = words.iter().map(|word| respelled(word, &mut random)).collect();
        let line = placed(&command.join(" "), &mut random);
        let answer = answer(&policy, &line);
        assert!(!answer.starts_with("pass"), "{line:?} passes");
        denied += usize::from(answer == "deny 1");
    }
    // Positive control: nearly all are recognised, not only doubted.
    assert!(denied > rounds * 9 / 10, "only {denied} of {rounds} are denied");
}

#[test]
fn a_jumble_of_shell_text_gets_an_answer_and_a_denied_one_at_its_end_never_passes() {
    let policy = denying();
    let mut random = Random(0x5eed_0002);
    for _ in 0..3_000 {
        let line = if random.below(2) == 0 { jumble(&mut random) } else { unfinished(&mut random) };
        let alone = answer(&policy, &line);
        assert!(!alone.is_empty());
        let with = answer(&policy, &format!("{line}\ngit rm x"));
        assert!(!with.starts_with("pass") || is_text(&line), "{line:?} hides a denied command");
    }
}

/// Returns true if text after the line may not be a command: the line ends in an open comment,
/// quote or here-document.
fn is_text(line: &str) -> bool {
    line.ends_with('\\') || line.contains("<<EOF") || line.contains(['\'', '"', '`'])
}
