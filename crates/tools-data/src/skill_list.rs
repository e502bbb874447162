//! `skill_list`: the list of available skills.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Context, Example, Place, Plan, Spec, Tool, ToolError};

use crate::skills::{Skill, SkillFolders, all};

/// The `skill_list` tool.
pub struct SkillList(pub(crate) SkillFolders);

/// Arguments of `skill_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// Result of `skill_list`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Skills of the workspace, then of the user, then built in.
    skills: Vec<SkillEntry>,
    /// Number of skills.
    count: usize,
}

/// A skill.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct SkillEntry {
    /// Name for `skill_read`.
    name: String,
    /// Purpose in the author's words; for a broken skill the reason why it cannot be used.
    description: String,
    /// Words that suggest this skill.
    triggers: Vec<String>,
    /// Path of its SKILL.md.
    location: String,
    /// `workspace`, `user` or `built_in`.
    source: String,
    /// True if the skill cannot be used.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    broken: bool,
}

impl From<Skill> for SkillEntry {
    fn from(skill: Skill) -> Self {
        let Skill { name, source, location, front, .. } = skill;
        let source = source.as_str().to_owned();
        match front {
            Ok(front) => Self {
                name,
                triggers: front.triggers.words(),
                description: front.description,
                location,
                source,
                broken: false,
            },
            Err(problem) => Self {
                name,
                description: format!("cannot be used: {problem}"),
                triggers: Vec::new(),
                location,
                source,
                broken: true,
            },
        }
    }
}

impl Tool for SkillList {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "List skills",
        example: Example {
            files: &[(
                "skills/release/SKILL.md",
                "---\nname: release\ndescription: How releases are made here.\ntriggers: [release, tag]\n---\nSteps.\n",
            )],
            arguments: "{}",
            result: r#"{"skills": [
                {"name": "release", "description": "How releases are made here.", "triggers": ["release", "tag"], "location": "skills/release/SKILL.md", "source": "workspace"},
                {"name": "handfast", "source": "built_in"}
            ], "count": 2}"#,
        },
        ..Spec::reading("skill_list", "List the skills: texts on how to do a task well.")
    };

    fn plan(&self, _args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![]))
    }

    async fn run(&self, context: &Context, _args: Args) -> Result<Output, ToolError> {
        let skills: Vec<SkillEntry> = all(context, &self.0)?.into_iter().map(SkillEntry::from).collect();
        Ok(Output { count: skills.len(), skills })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use testkit::{DenyNames, Workspace};
    use tool::ErasedTool;

    use super::*;

    fn listed(workspace: &Workspace, folders: SkillFolders) -> Vec<Value> {
        let tool = ErasedTool::tool(SkillList(folders));
        let listed = testkit::run_tool(tool.as_ref(), workspace, json!({})).unwrap();
        assert_eq!(listed["count"], listed["skills"].as_array().unwrap().len());
        listed["skills"].as_array().unwrap().clone()
    }

    const GOOD: &str = "---\ndescription: d\ntriggers: a, b\nlicense: MIT\n---\n";

    #[test]
    fn a_broken_skill_is_listed_with_the_reason() {
        let workspace = Workspace::new();
        for (name, text, reason) in [
            ("a", "no front matter", "does not begin"),
            ("b", "---\nname: b\n", "no end"),
            ("c", "---\nname: c\n---\n", "no `description`"),
            ("d", "---\ndescription: [1\n---\n", "is invalid"),
            ("e", "---\nname: other\ndescription: d\n---\n", "names it `other`"),
            ("handfast", GOOD, ""),
        ] {
            workspace.write(&format!("skills/{name}/SKILL.md"), text);
            let found = listed(&workspace, SkillFolders::default());
            let skill = found.iter().find(|skill| skill["name"] == name).unwrap();
            assert_eq!(skill["broken"] == true, !reason.is_empty(), "{skill}");
            assert!(skill["description"].as_str().unwrap().contains(reason), "{skill}");
        }
        workspace.folder("skills/empty");
        workspace.write("skills/README.md", "no skill");
        workspace.write("skills/binary/SKILL.md", [0xff, 0xfe]);
        let found = listed(&workspace, SkillFolders::default());
        let broken = |name: &str| found.iter().any(|skill| skill["name"] == name && skill["broken"] == true);
        assert!(broken("empty") && broken("binary") && !broken("README.md"), "{found:?}");
        // The workspace's skill precedes the built-in one of the same name, which reports the
        // conflict.
        let own: Vec<&Value> = found.iter().filter(|skill| skill["name"] == "handfast").collect();
        assert_eq!((&own[0]["triggers"], &own[1]["broken"]), (&json!(["a", "b"]), &json!(true)));
    }

    #[test]
    fn skills_of_the_user_are_listed_and_denied_ones_are_not() {
        let user = tempfile::tempdir().unwrap();
        std::fs::create_dir(user.path().join("mine")).unwrap();
        std::fs::write(user.path().join("mine/SKILL.md"), GOOD).unwrap();
        let workspace = Workspace::new()
            .guarded(DenyNames { read: &["secret"], write: &[] })
            .with_files(&[("skills/secret/SKILL.md", GOOD), ("skills/plain/SKILL.md", GOOD)]);
        let found = listed(
            &workspace,
            SkillFolders { user: Some(user.path().to_owned()), ..SkillFolders::default() },
        );
        let names: Vec<&str> = found.iter().map(|skill| skill["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["plain", "mine", "handfast"]);
        // A missing folder has no skills.
        let gone = SkillFolders { user: Some(user.path().join("gone")), ..SkillFolders::default() };
        assert_eq!(listed(&Workspace::new(), gone).len(), 1);
    }
}
