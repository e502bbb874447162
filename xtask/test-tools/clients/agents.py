"""The agent clients: how each is started, how it is pointed at the scripted model, and its own tools."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable


@dataclass
class Place:
    """A home folder and a workspace for one run of a client."""

    home: Path
    workspace: Path
    # Address of the scripted model, without a path.
    model: str
    # The kind of attachment.
    kind: str


@dataclass
class Agent:
    """Facts about a client."""

    # Name of its program for `handfast attach`, and the file behind it within `node_modules`.
    program: str
    file: str
    # Writes its configuration, as its user has it before `attach`. Returns environment variables.
    prepare: Callable[[Place], dict]
    # Arguments of a run without a terminal.
    words: list
    # Its own shell and file tools, which `--only-handfast` switches off.
    own: set
    # Its own tools that stay with `--only-handfast`: they run nothing and change no file.
    harmless: set
    # Calls of its own tools that would create a file `escaped...`, as a model may make them although it is not offered
    # the tools. WORKSPACE stands for the path of the workspace.
    attempts: list
    # The kinds of attachment that it can have.
    kinds: tuple = ("stdio", "http", "project", "project-http", "only")
    # True if it ends at the first call of a tool that is switched off, without a further request.
    ends_when_refused: bool = False
    # Arguments with which its user permits the server of a project, if the client asks for that.
    approval: list = field(default_factory=list)


def write(path, text):
    """Writes a file and creates its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def claude(place):
    """Prepares Claude Code, which needs no configuration for a run with an API key."""
    write(place.home / ".claude/settings.json", '{\n  "cleanupPeriodDays": 30\n}\n')
    return {
        "ANTHROPIC_BASE_URL": place.model,
        "ANTHROPIC_API_KEY": "scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def codex(place):
    """Prepares Codex: a provider, and trust in the workspace, as its first question would write it.

    Codex offers the tools of servers in a way that depends on the model: the newest models call them from programs,
    earlier ones directly.
    """
    model = 'model = "gpt-5.5"' if "project" in place.kind else "# The default model."
    text = f"""# Of this user.
{model}
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{place.model}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[projects."{place.workspace}"]
trust_level = "trusted"
"""
    write(place.home / ".codex/config.toml", text)
    return {"SCRIPTED_KEY": "scripted"}


def gemini(place):
    """Prepares Gemini CLI: the kind of login, and trust in the workspace, as its first question would write it."""
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"disableAutoUpdate": True}}
    write(place.home / ".gemini/settings.json", json.dumps(settings, indent=2) + "\n")
    write(place.home / ".gemini/trustedFolders.json", json.dumps({str(place.workspace): "TRUST_FOLDER"}))
    return {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": place.model}


def opencode(place):
    """Prepares OpenCode: a provider."""
    options = {"baseURL": f"{place.model}/v1", "apiKey": "scripted"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"gpt-5": {}}}
    settings = {"model": "scripted/gpt-5", "autoupdate": False, "provider": {"scripted": provider}}
    write(place.home / ".config/opencode/opencode.json", json.dumps(settings, indent=2) + "\n")
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


def qwen(place):
    """Prepares Qwen Code: the kind of login."""
    settings = {"security": {"auth": {"selectedType": "openai"}}, "general": {"disableAutoUpdate": True}}
    write(place.home / ".qwen/settings.json", json.dumps(settings, indent=2) + "\n")
    return {"OPENAI_API_KEY": "scripted", "OPENAI_BASE_URL": f"{place.model}/v1", "OPENAI_MODEL": "scripted"}


def continue_dev(place):
    """Prepares Continue: a model."""
    text = f"""# Of this user.
name: Own
version: 1.0.0
schema: v1
models:
  - name: scripted
    provider: openai
    model: scripted
    apiKey: scripted
    apiBase: {place.model}/v1
    capabilities: [tool_use]
"""
    write(place.home / ".continue/config.yaml", text)
    return {"CONTINUE_TELEMETRY_ENABLED": "0"}


PATCH = "*** Begin Patch\n*** Add File: escaped-patch\n+x\n*** End Patch\n"
TOUCH = "touch WORKSPACE/escaped-shell"
WRITTEN = "WORKSPACE/escaped-write"

AGENTS = {
    "claude": Agent(
        program="claude",
        file="@anthropic-ai/claude-code-linux-x64/claude",
        prepare=claude,
        words=["-p", "work"],
        own={"Bash", "Edit", "Read", "Write"},
        harmless={
            "Agent", "DeferredToolPlaceholder", "ListAgents", "ReportFindings", "ScheduleWakeup", "Skill", "ToolSearch",
            "Workflow",
        },
        attempts=[("Bash", {"command": TOUCH}), ("Write", {"file_path": WRITTEN, "content": "x"})],
    ),
    "codex": Agent(
        program="codex",
        file="@openai/codex/bin/codex.js",
        prepare=codex,
        words=["exec", "work"],
        own={"apply_patch", "exec_command", "write_stdin"},
        # `apply_patch` stays, and is bound by the sandbox, which is read-only.
        harmless={
            "apply_patch", "clock__curr_time", "create_goal", "exec", "followup_task", "get_goal", "interrupt_agent",
            "list_agents", "list_mcp_resource_templates", "list_mcp_resources", "read_mcp_resource",
            "request_user_input", "request_user_input_async", "send_message", "send_message_to_user_async", "sleep",
            "spawn_agent", "update_goal", "view_image", "wait", "wait_agent", "web_search",
        },
        attempts=[("exec_command", {"cmd": TOUCH}), ("apply_patch", PATCH)],
    ),
    "gemini": Agent(
        program="gemini",
        file="@google/gemini-cli/bundle/gemini.js",
        prepare=gemini,
        words=["-p", "work"],
        # Without a terminal, it offers none of its tools that change something.
        own={"glob", "grep_search", "list_directory", "read_file"},
        harmless={
            "enter_plan_mode", "google_web_search", "invoke_agent", "list_mcp_resources", "read_mcp_resource",
            "update_topic",
        },
        attempts=[
            ("run_shell_command", {"command": TOUCH}),
            ("write_file", {"file_path": WRITTEN, "content": "x"}),
        ],
    ),
    "opencode": Agent(
        program="opencode",
        file="opencode-linux-x64/bin/opencode",
        prepare=opencode,
        words=["run", "work"],
        own={"apply_patch", "bash", "glob", "grep", "read"},
        harmless={
            "list_mcp_resource_templates", "list_mcp_resources", "read_mcp_resource", "skill", "task", "todowrite",
            "webfetch",
        },
        attempts=[
            ("bash", {"command": TOUCH, "description": "x"}),
            ("apply_patch", {"patchText": PATCH}),
            ("write", {"filePath": WRITTEN, "content": "x"}),
        ],
    ),
    "qwen": Agent(
        program="qwen",
        file="@qwen-code/qwen-code/cli-entry.js",
        prepare=qwen,
        words=["-p", "work"],
        # Without a terminal, it offers none of its tools that change something.
        own={"glob", "grep_search", "read_file"},
        harmless={"agent", "get_goal", "list_agents", "skill", "tool_call", "tool_search", "update_goal"},
        attempts=[
            ("tool_search", {"query": "select:monitor,notebook_edit,run_shell_command,write_file"}),
            ("tool_call", {"name": "monitor", "arguments": {"command": TOUCH, "description": "x"}}),
            ("run_shell_command", {"command": TOUCH, "is_background": False}),
            ("write_file", {"file_path": WRITTEN, "content": "x"}),
        ],
        approval=["mcp", "approve", "handfast"],
    ),
    "continue": Agent(
        program="cn",
        file="@continuedev/cli/dist/cn.js",
        prepare=continue_dev,
        words=["-p", "work"],
        own={"Bash", "List", "Read"},
        harmless={"AskQuestion", "CheckBackgroundJob", "Checklist", "Exit", "Fetch", "Skills"},
        attempts=[("Bash", {"command": TOUCH})],
        # `cn` reads no configuration of a project; Continue in an editor does.
        kinds=("stdio", "http", "only"),
        ends_when_refused=True,
    ),
}
