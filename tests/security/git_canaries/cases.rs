//! The places in which canaries are planted.

/// One step of a plant. Each step is its own call.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Writes these files, scripts as executable.
    Files(&'static [(&'static str, &'static str)]),
    /// Runs this line.
    Line(&'static str),
}

use Step::{Files, Line};

pub(super) struct Case {
    pub(super) name: &'static str,
    /// The user's preparation, as a shell line in the workspace.
    pub(super) setup: &'static str,
    pub(super) plant: &'static [Step],
    /// The user's next command, which may fire the canary.
    pub(super) trigger: &'static str,
}

/// Placeholder of the canary in texts. The canary is a command that leaves a file behind.
pub(super) const CANARY: &str = "@CANARY@";

pub(super) const REPOSITORY: &str = "git init -q . && echo one > file && git add file && git commit -qm one";
const MIDST_OF_REBASE: &str = "git init -q . && for n in 1 2 3; do echo $n > f$n && git add . && git commit -qm $n; done && \
     GIT_SEQUENCE_EDITOR=\"sed -i '1s/^pick/edit/'\" git rebase -q -i HEAD~2";
const SUBMODULE: &str = "git init -q ../lib && git -C ../lib commit -q --allow-empty -m one && git init -q . && \
     git submodule --quiet add ../lib sub && git commit -qm one";
const WORKTREE: &str =
    "git init -q . && echo one > file && git add file && git commit -qm one && git worktree add -q wt";
const HOOK: &str = "#!/bin/sh\n@CANARY@\n";
const MONITOR: &str = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"@CANARY@;:\"\n";
/// Configuration of a folder that would be a repository on its own, and that names its worktree.
const STANDALONE: &str =
    "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = \"@CANARY@;:\"\n";
/// Configuration that also applies in a repository without a worktree.
const CREDENTIALS: &str = "[core]\n\trepositoryformatversion = 0\n[credential]\n\thelper = \"!@CANARY@;:\"\n";
const ASK_FOR_CREDENTIALS: &str =
    "cd x; printf 'protocol=https\nhost=h\n\n' | GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=true git credential fill";
const HEAD: &str = "ref: refs/heads/main\n";

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a hook",
        setup: REPOSITORY,
        plant: &[Files(&[(".git/hooks/post-index-change", HOOK)])],
        trigger: "echo 2 > file; git add file",
    },
    Case {
        name: "configuration in the place of configuration",
        setup: REPOSITORY,
        plant: &[Files(&[(".git/config", MONITOR)])],
        trigger: "git status",
    },
    Case {
        name: "the configuration of one worktree",
        setup: "git init -q . && git config extensions.worktreeConfig true",
        plant: &[Files(&[(".git/config.worktree", MONITOR)])],
        trigger: "git status",
    },
    Case {
        name: "a worktree that becomes a repository of its own",
        setup: WORKTREE,
        plant: &[
            Files(&[(".git/worktrees/wt/config", MONITOR)]),
            Files(&[(".git/worktrees/wt/objects/x", ""), (".git/worktrees/wt/refs/x", "")]),
            Files(&[(".git/worktrees/wt/commondir", ".\n")]),
        ],
        trigger: "git -C wt status",
    },
    Case {
        name: "hooks of a worktree that has no common folder any more",
        setup: WORKTREE,
        plant: &[
            Files(&[(".git/worktrees/wt/hooks/post-index-change", HOOK)]),
            Line("cp -r .git/objects .git/refs .git/worktrees/wt && rm .git/worktrees/wt/commondir"),
        ],
        trigger: "cd wt; echo 2 > file; git add file",
    },
    Case {
        name: "the worktree of a user leads to another common folder",
        setup: WORKTREE,
        plant: &[
            Files(&[("far/config", MONITOR), ("far/objects/x", ""), ("far/refs/x", "")]),
            Files(&[(".git/worktrees/wt/commondir", "../../../far\n")]),
        ],
        trigger: "git -C wt status",
    },
    Case {
        name: "the common folder is the workspace",
        setup: REPOSITORY,
        plant: &[
            Files(&[("config", MONITOR)]),
            Line("mkdir -p objects refs"),
            Files(&[(".git/commondir", "..\n")]),
        ],
        trigger: "git status",
    },
    Case {
        name: "a pointer to what looks like a submodule",
        setup: REPOSITORY,
        plant: &[
            Files(&[(".git/modules/m/config", MONITOR)]),
            Line("mkdir -p .git/modules/m/objects .git/modules/m/refs"),
            Files(&[(".git/modules/m/HEAD", HEAD)]),
            Files(&[("sub/.git", "gitdir: ../.git/modules/m\n")]),
        ],
        trigger: "git -C sub status",
    },
    Case {
        name: "a pointer to a repository in the workspace",
        setup: "true",
        plant: &[
            Files(&[("b/config", MONITOR), ("b/objects/x", ""), ("b/refs/x", "")]),
            Files(&[("b/HEAD", HEAD)]),
            Files(&[("sub/.git", "gitdir: ../b\n")]),
        ],
        trigger: "git -C sub status",
    },
    Case {
        name: "a folder becomes a repository by several calls",
        setup: "true",
        plant: &[
            Files(&[("x/config", STANDALONE)]),
            Files(&[("x/refs/heads/empty", "")]),
            Files(&[("x/objects/info/empty", "")]),
            Files(&[("x/HEAD", HEAD)]),
        ],
        trigger: "git -C x status",
    },
    Case {
        name: "the same in another order",
        setup: "true",
        plant: &[
            Files(&[("x/HEAD", HEAD)]),
            Files(&[("x/config", STANDALONE)]),
            Files(&[("x/objects/info/empty", "")]),
            Files(&[("x/refs/heads/empty", "")]),
        ],
        trigger: "git -C x status",
    },
    Case {
        name: "a folder is moved to where it is a repository",
        setup: "true",
        plant: &[
            Line("mkdir -p y/objects y/refs"),
            Files(&[("y/config", STANDALONE)]),
            Files(&[("head", HEAD)]),
            Line("mv y x; mv head x/HEAD"),
        ],
        trigger: "git -C x status",
    },
    Case {
        name: "HEAD and objects in different folders",
        setup: "true",
        plant: &[
            Files(&[("x/HEAD", HEAD)]),
            Files(&[("y/config", CREDENTIALS), ("y/objects/info/empty", ""), ("y/refs/heads/empty", "")]),
            Files(&[("x/commondir", "../y\n")]),
        ],
        trigger: ASK_FOR_CREDENTIALS,
    },
    Case {
        name: "configuration where a user's own pointers lead",
        setup: "git init -q y && cp y/.git/HEAD . && mkdir x && mv HEAD x && mv y/.git/* y && rmdir y/.git && echo ../y > x/commondir && rm y/HEAD",
        plant: &[Files(&[("y/config", CREDENTIALS)])],
        trigger: ASK_FOR_CREDENTIALS,
    },
    Case {
        name: "HEAD is a link",
        setup: "true",
        plant: &[
            Files(&[("x/config", STANDALONE), ("x/objects/info/empty", ""), ("x/refs/heads/empty", "")]),
            Line("ln -s refs/heads/main x/HEAD"),
        ],
        trigger: "git -C x status",
    },
    Case {
        name: "the configuration of a bare repository of the user",
        setup: "git init -q --bare bare",
        plant: &[Files(&[("bare/config", STANDALONE)])],
        trigger: "git -C bare status",
    },
    Case {
        name: "a hook of a bare repository of the user",
        setup: "git init -q --bare bare && git init -q . && git commit -q --allow-empty -m one",
        plant: &[Files(&[("bare/hooks/update", HOOK)])],
        trigger: "git push bare HEAD:refs/heads/x",
    },
    Case {
        name: "the layout with a bare repository beside a pointer",
        setup: "git init -q --bare .bare && echo 'gitdir: ./.bare' > .git && git config core.bare false",
        plant: &[Files(&[(".bare/hooks/post-index-change", HOOK)])],
        trigger: "echo 1 > new; git add new",
    },
    Case {
        name: "what a rebase still has to do",
        setup: MIDST_OF_REBASE,
        plant: &[Files(&[(".git/rebase-merge/git-rebase-todo", "exec @CANARY@\n")])],
        trigger: "git rebase --continue",
    },
    Case {
        name: "what a rebase still has to do, in a short form among others",
        setup: MIDST_OF_REBASE,
        plant: &[Line("printf ' \\tx @CANARY@\\n' >> .git/rebase-merge/git-rebase-todo")],
        trigger: "git rebase --continue",
    },
    Case {
        name: "what a rebase in a worktree still has to do",
        setup: "git init -q . && for n in 1 2 3; do echo $n > f$n && git add . && git commit -qm $n; done && git worktree add -q wt && \
                cd wt && GIT_SEQUENCE_EDITOR=\"sed -i '1s/^pick/edit/'\" git rebase -q -i HEAD~2",
        plant: &[Files(&[(".git/worktrees/wt/rebase-merge/git-rebase-todo", "x @CANARY@\n")])],
        trigger: "cd wt; git rebase --continue",
    },
    Case {
        name: "configuration that a user's own includes",
        setup: "git init -q . && git config include.path ../team.inc",
        plant: &[Files(&[("team.inc", MONITOR)])],
        trigger: "git status",
    },
    Case {
        name: "configuration that a user's own includes on a condition, two steps on",
        setup: "git init -q . && git config 'includeIf.gitdir:**.path' ../a.inc && printf '[include]\\npath = conf/b.inc\\n' > a.inc",
        plant: &[Files(&[("conf/b.inc", MONITOR)])],
        trigger: "git status",
    },
    Case {
        name: "configuration that the user's own includes for all repositories",
        setup: "git init -q . && git config --global include.path \"$PWD/team/x.inc\"",
        plant: &[Files(&[("team/x.inc", MONITOR)])],
        trigger: "git status",
    },
    Case {
        name: "the folder of hooks is a link",
        setup: "git init -q . && mkdir shared && rm -r .git/hooks && ln -s ../shared .git/hooks",
        plant: &[Files(&[("shared/post-index-change", HOOK)])],
        trigger: "echo 1 > new; git add new",
    },
    Case {
        name: "the user's own folder of hooks",
        setup: "git init -q . && git config core.hooksPath tools/on-commit",
        plant: &[Files(&[("tools/on-commit/post-index-change", HOOK)])],
        trigger: "echo 1 > new; git add new",
    },
    Case {
        name: "the user's own folder of hooks, named in the user's own configuration",
        setup: "git init -q . && git config --global core.hooksPath tools/on-commit",
        plant: &[Files(&[("tools/on-commit/post-index-change", HOOK)])],
        trigger: "echo 1 > new; git add new",
    },
    Case {
        name: "a hook that is a link",
        setup: "git init -q . && mkdir scripts && echo '#!/bin/sh' > scripts/hook && chmod +x scripts/hook && \
                ln -s ../../scripts/hook .git/hooks/post-index-change",
        plant: &[Files(&[("scripts/hook", HOOK)])],
        trigger: "echo 1 > new; git add new",
    },
    Case {
        name: "a link on the way from a hook",
        setup: "git init -q . && mkdir -p old && echo '#!/bin/sh' > old/hook && chmod +x old/hook && ln -s old scripts && \
                ln -s ../../scripts/hook .git/hooks/post-index-change",
        plant: &[Files(&[("new/hook", HOOK)]), Line("ln -sfn new scripts")],
        trigger: "echo 1 > new-file; git add new-file",
    },
    Case {
        name: "a script that a hook runs",
        setup: "git init -q . && mkdir scripts && echo ':' > scripts/check.sh && \
                printf '#!/bin/sh\\n. ./scripts/check.sh\\n' > .git/hooks/post-index-change && chmod +x .git/hooks/post-index-change",
        plant: &[Files(&[("scripts/check.sh", HOOK)])],
        trigger: "echo 1 > new; git add new",
    },
    Case {
        name: "a script that a hook runs, by the top of the working tree",
        setup: "git init -q . && mkdir scripts && echo ':' > scripts/check.sh && \
                printf '#!/bin/sh\\nsh \"$(git rev-parse --show-toplevel)/scripts/check.sh\"\\n' > .git/hooks/post-index-change && \
                chmod +x .git/hooks/post-index-change",
        plant: &[Files(&[("scripts/check.sh", HOOK)])],
        trigger: "echo 1 > new; git add new",
    },
    Case {
        name: "a program that the user's configuration names",
        setup: "git init -q . && mkdir tools && echo '#!/bin/sh' > tools/watch && chmod +x tools/watch && \
                git config core.fsmonitor ./tools/watch",
        plant: &[Files(&[("tools/watch", HOOK)])],
        trigger: "git status",
    },
    Case {
        name: "attributes that name a filter of the user",
        setup: "git init -q . && git config filter.f.clean 'sh %f'",
        plant: &[Files(&[(".gitattributes", "*.x filter=f\n"), ("new.x", HOOK)])],
        trigger: "git add new.x",
    },
    Case {
        name: "attributes beside the repository's own files",
        setup: "git init -q . && git config filter.f.clean 'sh %f'",
        plant: &[Files(&[(".git/info/attributes", "*.x filter=f\n"), ("new.x", HOOK)])],
        trigger: "git add new.x",
    },
    Case {
        name: "attributes that name a conversion of the user",
        setup: "git init -q . && echo 1 > new.x && git add . && git commit -qm one && git config diff.d.textconv sh",
        plant: &[Files(&[("deep/.gitattributes", "*.x diff=d\n"), ("deep/new.x", HOOK)])],
        trigger: "git add . && git diff --cached --textconv",
    },
    Case {
        name: "the configuration of a submodule",
        setup: SUBMODULE,
        plant: &[Files(&[(
            ".git/modules/sub/config",
            "[core]\n\trepositoryformatversion = 0\n\tworktree = ../../../sub\n\tfsmonitor = \"@CANARY@;:\"\n",
        )])],
        trigger: "git status",
    },
    Case {
        name: "a submodule leads to another repository",
        setup: SUBMODULE,
        plant: &[
            Files(&[("evil/config", MONITOR), ("evil/objects/x", ""), ("evil/refs/x", "")]),
            Files(&[("evil/HEAD", HEAD)]),
            Files(&[("sub/.git", "gitdir: ../evil\n")]),
        ],
        trigger: "git status; git -C sub status",
    },
    Case {
        name: "scripts of a package that a hook runs",
        setup: "git init -q . && printf '{\"scripts\": {\"precommit\": \"true\"}}' > package.json && git add . && \
                printf '#!/bin/sh\\nnpm run --silent precommit\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
        plant: &[Files(&[("package.json", "{\"scripts\": {\"precommit\": \"@CANARY@\"}}")])],
        trigger: "git commit -qm one",
    },
];
